"""The doctor on real runs: every verdict of the table, and what a report must hold whatever the run was like."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from qkv import session as sessions
from qkv.doctor.examination import Doctor, DoctorReport, text_bytes
from qkv.tasks.language_modelling.report import card_content
from qkv.tasks.protocol import Session
from qkv.tasks.report import write_card
from qkv.training import metrics_log
from qkv.training.early_warning import EarlyWarning
from recipe.runs_to_judge import Made, made

OPTION = re.compile(r"--(steps|minutes|valid) \S+|--set (\w+)\.(\w+)=(\S+)")


def trained(folder: Path, run: Made) -> Session:
    (folder / "text.txt").write_text(run.text(), encoding="utf-8")
    corpus: dict[str, Any] = {"files": [str(folder / "text.txt")]}
    if valid := run.valid():
        (folder / "valid.txt").write_text(valid, encoding="utf-8")
        corpus["valid"] = [str(folder / "valid.txt")]
    session = sessions.start({"corpus": corpus, **run.values()}, folder / "run", numbered=False, minutes=1.0)
    for _ in session.run.events(session.state, session.objective):
        pass
    return session


def warnings(session: Session, epoch: float) -> list[str]:
    """What would have been said while the run went on."""
    watch = EarlyWarning(epoch)
    lines = metrics_log.read(session.run.folder / "metrics.jsonl")
    return [warning for line in lines if (warning := watch.take(line))]


def sound(report: DoctorReport, session: Session) -> None:
    """Four sentences, every figure finite, options that the recipe has."""
    lines = report.lines()
    assert len(lines) == 4
    assert all(line and "nan" not in line and "None" not in line and "inf" not in line.split() for line in lines)
    assert "bits per byte" in report.comparison
    assert f"step {report.diagnosis.best:,}" in report.model
    json.dumps(report.values(), allow_nan=False)
    for _, section, name, _ in OPTION.findall(report.advice):
        assert not section or hasattr(getattr(session.recipe, section), name), report.advice


@pytest.mark.parametrize(
    "run", [pytest.param(run, marks=[pytest.mark.slow] if run.slow else [], id=run.name) for run in made()]
)
def test_the_verdict_is_true(tmp_path: Path, run: Made) -> None:
    session = trained(tmp_path, run)
    doctor = Doctor(session, session.task.prepared)
    score = session.task.final_score(session.recipe, session.run.folder)
    report = doctor.report(score)
    assert report.diagnosis.kind in run.verdicts, report.lines()
    sound(report, session)
    said = warnings(session, doctor.epoch_steps)
    assert len(said) <= 1
    if not {"overfitting", "memorised", "diverged", "unstable", "noise"} & set(run.verdicts):
        assert said == []
    text = write_card(session, card_content(session, session.task.prepared, score, report)).read_text(encoding="utf-8")
    assert report.verdict in text
    assert f"| 2-gram | {report.baselines.ngrams[0]:.4f} |" in text


def test_pieces_spell_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Ünïcødé 文字 and spaces  and\nlines. " * 200, encoding="utf-8")
    for kind in ("characters", "bpe"):
        values = {
            "corpus": {"files": [str(tmp_path / "a.txt")]},
            "tokenizer": {"kind": kind},
            "model": {"layers": 1, "heads": 1, "width": 8, "context": 16},
            "training": {"steps": 1, "threads": 1},
        }
        session = sessions.start(values, tmp_path / kind, numbered=False, minutes=1.0)
        train = session.task.prepared.train
        text = (tmp_path / "a.txt").read_text(encoding="utf-8")
        assert text.startswith(text_bytes(session.task.prepared.tokenizer, train.tokens).decode())
        assert len(text_bytes(session.task.prepared.tokenizer, train.tokens)) == train.bytes
