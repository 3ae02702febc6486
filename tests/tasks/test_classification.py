"""Every system of the list learns every task that is for it; what is said is kept; a run that is taken up is the same.

A few steps on small tables: whether they learn well is the studies' business, that they run from end to end is this
file's.
"""

from __future__ import annotations

import contextlib
import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv import session as sessions
from qkv.cli.output import print_message
from qkv.cli.train import finish
from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import detect
from qkv.errors import ConfigError
from qkv.recipe.draft import Draft
from qkv.tasks import registry
from qkv.tasks.classification import systems
from qkv.tasks.classification.report import model_summary
from qkv.tasks.protocol import Session
from qkv.tasks.registry import load_recipe
from qkv.training import metrics_log
from qkv.training.checkpoints import read_tensors
from small_tasks import begun, sentences, trained, write
from training.test_run import fingerprint

SMALL: dict[str, dict[str, Any]] = {
    "linear": {}, "mlp": {"width": 16}, "bag": {"width": 16}, "cnn": {"width": 12, "embedding_width": 8},
    "rnn": {"width": 16}, "gru": {"width": 16}, "lstm": {"width": 16},
    **{name: {"layers": 1, "heads": 2, "width": 16} for name in ("encoder", "bert", "modern", "gpt")},
}  # fmt: skip
TASKS = ("classification", "pairs", "regression", "multi-label", "tagging")
SOME = ("linear", "lstm", "bert")  # of each task; the others of the first one, and all with the slow tests
CASES = [
    pytest.param(task, name, marks=[] if task == TASKS[0] or name in SOME else [pytest.mark.slow])
    for task in TASKS
    for name in systems.TEXT_SYSTEMS
    if name in systems.system_names(task)
]
FIGURES = {"regression": "pearson", "multi-label": "micro_f1"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    return {task: write(folder / task, task) for task in (*TASKS, "images")}


def told(session: Session) -> tuple[dict[str, Any], str]:
    """What a run says in the end: as values, and to people."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        print_message(*session.task.plan(session, None))
        found = finish(session, None, quiet=False)
    return found, shown.getvalue()


@pytest.mark.parametrize(("task", "name"), CASES)
def test_every_system_learns(task: str, name: str, data: dict[str, Path], tmp_path: Path) -> None:
    session = trained(data[task], tmp_path / "run", task, model={"kind": name, **SMALL[name]})
    found, shown = told(session)
    assert found["validation"]["metric"] == FIGURES.get(task, "accuracy")
    looks = [line for line in metrics_log.read(tmp_path / "run" / "metrics.jsonl") if "validation_loss" in line]
    assert all(("validation_macro_f1" in line) == (task not in FIGURES) for line in looks)
    assert "The model is in" in shown
    opened = qkv.load(tmp_path / "run")
    assert sum(each.numel() for each in opened.module.parameters()) == opened.parameters
    texts = [text for text, _ in sentences(20)]
    if task == "tagging":
        assert [len(row) for row in opened.tag([text.split() for text in texts])] == [len(t.split()) for t in texts]
    else:
        given: Any = [(text, text) for text in texts] if task == "pairs" else texts
        assert len(opened.classify(given)) == 20
        assert opened.pairs == (task == "pairs")
    # the same figure from the outside: all of the file, not only what was held out
    config = ExamplesConfig(
        files=(str(data[task]),), task=None if task == "tagging" else session.task.prepared.config.task
    )
    again = opened.evaluate(replace(config, task=session.task.prepared.config.task))
    assert np.isfinite(again.loss)
    assert load_recipe(tmp_path / "run" / "recipe.toml") == session.recipe


def test_in_words(data: dict[str, Path], tmp_path: Path) -> None:
    """What a model is, for people: a linear one has no layers, an MLP has a hidden one."""
    parts = {"linear": "linear classifier on n-grams of 1 to 2 words", "mlp": "mlp 1/16 classifier, mean poolin"}
    for name, expected in parts.items():
        session = begun(data["classification"], tmp_path / name, "classification", model={"kind": name, **SMALL[name]})
        assert model_summary(session.recipe.model).startswith(expected)
    assert ", two-layer head," in model_summary(session.recipe.model)


def test_folders_may_be_labels(tmp_path: Path) -> None:
    """A folder of texts is for a language model, and it is said what else it may be; train and test tell."""
    for number in range(18):
        path = tmp_path / "data" / ("north" if number % 2 else "south") / f"{number}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"The river number {number} keeps the stone and nobody knows why it does so.\n")
    values: dict[str, Any] = {"corpus": {"files": [str(tmp_path / "data")]}}
    assert registry.task_class(Draft.parse(values, "here")).kind == "language-modelling"
    notes = registry.open_task(Draft.parse(values, "here"), None).notes
    assert any("texts in 2 folders (north, south); if these are labels, give --task classification" in n for n in notes)
    assert detect({"files": [str(tmp_path / "data" / "north")]}).label_folders == ()
    for side in ("train", "test"):
        (tmp_path / "sides").mkdir(exist_ok=True)
        shutil.copytree(tmp_path / "data", tmp_path / "sides" / side)
    assert (
        registry.task_class(Draft.parse({"corpus": {"files": [str(tmp_path / "sides")]}}, "here")).kind
        == "classification"
    )


def test_strings_without_blanks_are_read_by_characters(tmp_path: Path) -> None:
    rows = [("MKT" + "ACDEFGHIKL"[n % 10] * (n % 7 + 9), "ab"[n % 2]) for n in range(60)]
    (tmp_path / "proteins.csv").write_text(
        "protein,family\n" + "".join(f"{text}{n},{f}\n" for n, (text, f) in enumerate(rows))
    )
    for named, expected in (({}, "characters"), ({"kind": "words"}, "words")):
        values: dict[str, Any] = {"corpus": {"files": [str(tmp_path / "proteins.csv")]}, "tokenizer": named}
        task = registry.open_task(Draft.parse(values, "here"), None)
        assert task.prepared.tokenizer_config.kind == expected


@pytest.mark.parametrize("name", systems.IMAGE_SYSTEMS)
def test_pictures(name: str, data: dict[str, Path], tmp_path: Path) -> None:
    session = trained(data["images"], tmp_path / "run", "images", model={"kind": name})
    found, _ = told(session)
    assert found["validation"]["accuracy"] > 0.9
    opened = qkv.load(tmp_path / "run")
    assert opened.evaluate(ExamplesConfig(files=(str(data["images"]),))).value > 0.9


def test_numbers_are_predicted_in_their_own_size(data: dict[str, Path], tmp_path: Path) -> None:
    """Targets are 1.25 and 3.5: an untrained model already says about their mean."""
    session = begun(data["regression"], tmp_path / "run", "regression", model={"kind": "gru", **SMALL["gru"]})
    config: Any = session.recipe.model
    assert config.center == pytest.approx(2.375, abs=0.1)
    assert config.spread == pytest.approx(1.125, abs=0.1)
    found = session.task.score_split(session.recipe, session.model, "valid")
    assert found.predictions.mean() == pytest.approx(2.375, abs=0.5)


@pytest.mark.parametrize("name", ["gru", "bag", "encoder"])
def test_large_numbers_are_not_rounded_under_bf16(name: str, tmp_path: Path) -> None:
    """Of years around 2000, bf16 can write only each eighth."""
    table = tmp_path / "years.csv"
    rows = [
        f"the film number {row} was made by {'an old' if row % 3 else 'a young'} man,{1900 + row}" for row in range(120)
    ]
    table.write_text("\n".join(["text,year", *rows]), encoding="utf-8")
    session = begun(table, tmp_path / "run", "regression", model={"kind": name}, training={"dtype": "bf16"})
    predictions = session.task.score_split(session.recipe, session.model, "valid").predictions
    assert predictions.dtype == np.float32
    assert np.ptp(predictions) < 8  # an untrained model: near the mean
    assert len(np.unique(predictions)) > 1
    assert np.abs(predictions / 8 - np.round(predictions / 8)).max() > 1e-3


def test_what_is_said_is_kept(data: dict[str, Path], tmp_path: Path) -> None:
    said = {"kind": "bert", "layers": 1, "heads": 2, "width": 8, "pooling": "first", "pooler": "none", "dropout": 0.0}
    session = begun(
        data["classification"], tmp_path / "run", "classification", model=said,
        training={"learning_rate": 0.5, "steps": 7, "patience": 1}, corpus={"max_tokens": 9},
        task={"weights": "balanced"},
    )  # fmt: skip
    recipe: Any = session.recipe
    assert (recipe.model.pooling, recipe.model.dropout, recipe.model.encoder.dropout) == ("first", 0.0, 0.0)
    assert (recipe.training.learning_rate, recipe.training.steps, recipe.training.patience) == (0.5, 7, 1)
    assert recipe.model.context == recipe.corpus.max_tokens == 9
    assert session.objective.batch(0, 16).read.tokens.size(1) <= 9
    assert session.objective.weights is not None
    assert any("longer than the context of 9 tokens" in note for note in session.task.notes)


def test_mistakes_are_named(data: dict[str, Path], tmp_path: Path) -> None:
    for task, kind, message in (
        ("classification", "lsmt", "unknown model 'lsmt' for classification; did you mean 'lstm'"),
        ("tagging", "bag", "unknown model 'bag' for tagging"),
        ("images", "lstm", "unknown model 'lstm' for images; known here: cnn, vision"),
    ):
        with pytest.raises(ConfigError, match=message):
            begun(data[task], tmp_path / "run", task, model={"kind": kind})
    with pytest.raises(ConfigError, match="did you mean 'layers'"):
        begun(data["pairs"], tmp_path / "run", "pairs", model={"kind": "bert", "layer": 2})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["classification", "tagging", "images"])
def test_a_resumed_run_reaches_the_same_bits(task: str, data: dict[str, Path], tmp_path: Path) -> None:
    model = {"kind": "cnn"} if task == "images" else {"kind": "bert", **SMALL["bert"]}
    said = {"steps": 12, "checkpoint_every": 4, "evaluate_every": 4, "accumulate": 2}
    trained(data[task], tmp_path / "whole", task, model=model, training=said)
    cut = begun(data[task], tmp_path / "cut", task, model=model, training=said)
    for event in cut.run.events(cut.state, cut.objective):
        if getattr(event, "number", 0) == 6:
            break
    again = sessions.resume(tmp_path / "cut")
    for _ in again.run.events(again.state, again.objective):
        pass
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")
    one, other = (read_tensors(tmp_path / name / "best" / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    told(again)


def test_one_that_stopped_before_it_had_a_model(data: dict[str, Path], tmp_path: Path) -> None:
    """The vocabulary is learned again, and is the same."""
    said = {"model": {"kind": "gru", **SMALL["gru"]}, "training": {"steps": 4}}
    session = begun(data["classification"], tmp_path / "run", "classification", **said)
    again = sessions.resume(tmp_path / "run")
    assert again.task.prepared.tokenizer.json() == session.task.prepared.tokenizer.json()
    assert again.task.system == session.task.system


def test_a_masked_run_that_is_taken_up_is_the_same(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(f"{one}. {one[::2]}." for one, _ in sentences(300)))

    def session(name: str) -> Session:
        values = {
            "model": {"kind": "bert", "layers": 1, "heads": 2, "width": 16, "context": 32},
            "tokenizer": {"kind": "wordpiece", "size": 300},
            "corpus": {"files": [str(text)], "documents": "paragraphs"},
            "training": {"steps": 8, "batch": 4, "threads": 1, "checkpoint_every": 2, "evaluate_every": 4},
        }
        return sessions.start(values, tmp_path / name, numbered=False, minutes=5.0)

    whole = session("whole")
    for _ in whole.run.events(whole.state, whole.objective):
        pass
    assert np.isfinite(whole.task.final_score(whole.recipe, whole.run.folder).loss)
    cut = session("cut")
    for event in cut.run.events(cut.state, cut.objective):
        if getattr(event, "number", 0) == 5:
            break
    again = sessions.resume(tmp_path / "cut")
    for _ in again.run.events(again.state, again.objective):
        pass
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_time_is_kept_for_the_test_side(data: dict[str, Path], tmp_path: Path) -> None:
    """Both held-out sides are judged as a whole in the end, and a run on time knows what that takes."""
    session = begun(data["classification"], tmp_path / "run", "classification", model={"kind": "linear"})
    opened: Any = session.task
    sides = opened.prepared.labelled
    sides = replace(sides, test=replace(sides.train, rows=np.tile(sides.train.rows, 2000)))
    with_test = replace(opened, prepared=replace(opened.prepared, labelled=sides))
    scoring = [each.costs(session.recipe, session.state.model, 0.1, 60.0).final_scoring for each in (opened, with_test)]
    assert scoring[1] > 10 * scoring[0]
