"""What a description says about training is what training does, over all shapes of the zoo."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.zoo import zoo_inputs, zoo_labels, zoo_tables
from data.zoo.shapes import SHAPES
from qkv.data.descriptions import AnyDescription
from qkv.data.prepare import Prepared
from qkv.data.prepare_pairs import PreparedPairs
from qkv.errors import QkvError
from qkv.evaluation.labelled_evaluation import LABELLED_TITLES
from qkv.library import new_run
from qkv.tasks.described import describe
from qkv.tasks.protocol import Session

MODULES = (zoo_inputs, zoo_labels, zoo_tables)


def started(files: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """The run that `qkv train FILES --steps 1` starts, before its first step."""
    monkeypatch.chdir(folder)
    options = {"corpus.files": files, "training.steps": 1}
    return new_run.start(options, settings={}, minutes=None, run=None, names=("data", ""))


def described(files: list[str]) -> AnyDescription | QkvError:
    try:
        return describe({"files": files})
    except QkvError as error:
        return error


def sizes(session: Session) -> tuple[int, ...]:
    """How much each split of a run has."""
    prepared = session.task.prepared
    if isinstance(prepared, Prepared):
        return len(prepared.train.tokens), len(prepared.valid.tokens), 0
    data = prepared.parallel if isinstance(prepared, PreparedPairs) else prepared.labelled
    return len(data.train), len(data.valid), len(data.test or ())


def score_names(session: Session) -> set[str]:
    """What the evaluations of a run report; a translator would have to translate for it."""
    if session.task.kind == "translation":
        return {"BLEU"}
    titles = {**LABELLED_TITLES, "loss": "the validation loss"}
    return {titles.get(name, name) for name in session.task.scores(session.recipe, session.model)}


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_the_plan_is_that_of_the_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "zoo").mkdir()
    expected = SHAPES[name](tmp_path / "zoo")
    for package in expected.packages:
        pytest.importorskip(package)
    files = [str(tmp_path / "zoo" / given) for given in expected.given] or [str(tmp_path / "zoo")]
    found = described(files)
    if isinstance(found, QkvError) or found.plan is None:
        refusal = str(found) if isinstance(found, QkvError) else found.refusal
        with pytest.raises(QkvError) as refused:
            started(files, tmp_path, monkeypatch)
        assert str(refused.value) == refusal
        return
    session, plan = started(files, tmp_path, monkeypatch), found.plan
    recipe, task = session.recipe, session.task
    assert session.run.folder.name == f"data-{plan.model}"
    assert plan.task == (getattr(recipe.corpus, "task", None) or recipe.task.kind)
    if not isinstance(task.prepared, PreparedPairs):
        assert plan.max_tokens == (recipe.model.context if recipe.model.vocabulary else 0)
    assert (plan.train, plan.valid, plan.test) == sizes(session)
    assert plan.metric in score_names(session)
    assert set(task.notes) <= set(found.notes)
    assert 1 <= len(plan.examples) <= 5
