"""The card of a run: what it promises, and lines that hold no number."""

from __future__ import annotations

from dataclasses import replace

import pytest

from qkv import session as sessions
from qkv.evaluation.perplexity import Score
from qkv.tasks import report
from qkv.tasks.language_modelling.report import card_content
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.protocol import Session, expect


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("card")
    (folder / "a.txt").write_text("the cat sat on the mat and the dog sat on the log\n" * 40)
    values = {
        "corpus": {"files": [str(folder / "a.txt")]},
        "model": {"layers": 1, "heads": 1, "width": 8, "context": 16},
        "training": {"steps": 2, "batch": 4, "threads": 1, "device": "cpu"},
    }
    made = sessions.start(values, folder / "run", numbered=False, minutes=1.0)
    for _ in made.run.events(made.state, made.objective):
        pass
    return made


def final_score(session: Session) -> Score:
    task = expect(session.task, LanguageModellingTask)
    return task.final_score(session.recipe, session.run.folder)


def test_a_loss_that_is_no_number_is_left_out(session: Session) -> None:
    with (session.run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "validation_loss": null}\n{"step": 3, "loss": null}\n')
    text = report.write_card(session, card_content(session, session.task.prepared, final_score(session))).read_text()
    assert "| best model | after step" in text


def test_the_same_bits_are_promised_only_where_sums_have_an_order(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = final_score(session)
    assert (
        "gives the same bits"
        in report.write_card(session, card_content(session, session.task.prepared, score)).read_text()
    )
    monkeypatch.setattr("qkv.training.devices.describe", lambda device: "a graphics card")
    recipe = replace(session.recipe, training=replace(session.recipe.training, device="cuda"))
    moved = replace(session, planned=recipe, run=replace(session.run, config=recipe.training))
    text = report.write_card(moved, card_content(moved, session.task.prepared, score)).read_text()
    assert "same bits" not in text
    assert "within rounding" in text
