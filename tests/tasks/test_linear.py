"""The linear model on texts: what held-out training rows choose, a fit that is resumed, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from qkv import session as sessions
from qkv.errors import ConfigError
from qkv.objectives.classification import ClassificationConfig
from qkv.objectives.whole_data import WholeData
from qkv.tasks.classification.ngrams import best_nearby
from small_tasks import begun, trained, write
from training.test_run import fingerprint

LINEAR = {"model": {"kind": "linear"}, "training": {"steps": 200}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    return {task: write(folder / task, task) for task in ("classification", "pairs")}


def test_a_fit_ends_at_the_optimum_and_the_recipe_says_where(data: dict[str, Path], tmp_path: Path) -> None:
    session = trained(data["classification"], tmp_path / "run", "classification", **LINEAR)
    assert session.state.optimizers["lbfgs"].converged  # type: ignore[attr-defined]
    assert session.recipe.training.length == session.state.step < 200
    again = sessions.resume(tmp_path / "run")
    assert [event for event in again.run.events(again.state, again.objective) if hasattr(event, "loss")] == []


@pytest.mark.parametrize("stopped_after", [1, 4])
def test_resumed_it_has_the_same_bits(stopped_after: int, data: dict[str, Path], tmp_path: Path) -> None:
    training = {**LINEAR["training"], "checkpoint_every": 2}
    for name in ("whole", "cut"):
        session = begun(data["pairs"], tmp_path / name, "pairs", model={"kind": "linear"}, training=training)
        for event in session.run.events(session.state, session.objective):
            if name == "cut" and getattr(event, "number", 0) == stopped_after:
                break
    again = sessions.resume(tmp_path / "cut")
    for _ in again.run.events(again.state, again.objective):
        pass
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_validation_rows_choose_nothing(data: dict[str, Path], tmp_path: Path) -> None:
    """With other labels on the held-out rows everything that is chosen stays."""
    session = begun(data["classification"], tmp_path / "run", "classification", **LINEAR)
    task: Any = session.task
    labelled = task.prepared.labelled
    turned = replace(labelled.valid, all_targets=1 - labelled.valid.all_targets)
    other = replace(task, prepared=replace(task.prepared, labelled=replace(labelled, valid=turned)), _rows={})
    draft = sessions.Draft.parse({"corpus": {}, **LINEAR}, "here")
    chosen = [each.resolve(draft, None)[0] for each in (task, other)]
    assert chosen[0].model == chosen[1].model
    assert chosen[0].training == chosen[1].training
    assert session.recipe.training.weight_decay > 0


def test_what_is_given_is_not_chosen(data: dict[str, Path], tmp_path: Path) -> None:
    given = {"model": {"kind": "linear", "letters": 3}, "training": {"steps": 2, "weight_decay": 0.125}}
    session = begun(data["classification"], tmp_path / "run", "classification", **given)
    encoder: Any = session.recipe.model
    assert (encoder.encoder.letters, session.recipe.training.weight_decay) == (3, 0.125)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"tokenizer": {"kind": "words"}}, "finds words and letters itself"),
        ({"training": {"batch": 7}}, "examples at once"),
        ({"training": {"optimizer": "adamw"}}, "expected 'lbfgs'"),
    ],
)
def test_what_does_not_fit_is_refused(
    values: dict[str, Any], words: str, data: dict[str, Path], tmp_path: Path
) -> None:
    sections: dict[str, Any] = {
        "corpus": {"files": [str(data["classification"])]},
        "model": {"kind": "linear"},
        **values,
    }
    with pytest.raises(ConfigError, match=words):
        sessions.start(sections, tmp_path / "run", numbered=False, minutes=1.0)


def test_a_solver_is_for_a_model_with_one_optimum(data: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="for --model linear"):
        begun(data["classification"], tmp_path / "run", "classification", model={"kind": "bag"},
              training={"optimizer": "lbfgs"})  # fmt: skip


def test_whole_texts_are_read(tmp_path: Path) -> None:
    """What decides stands behind thousands of words."""
    rows = ["text,label", *(f"{'so it goes ' * 900}{word} {n},{word}" for n in range(40) for word in ("good", "bad"))]
    (tmp_path / "long.csv").write_text("\n".join(rows) + "\n")
    trained(tmp_path / "long.csv", tmp_path / "run", "classification", **LINEAR)
    model = qkv.load(tmp_path / "run")
    found = model.classify([f"{'so it goes ' * 2000}{word}" for word in ("good", "bad")])
    assert [each.label for each in found] == ["good", "bad"]
    assert model.notes == []


def test_a_batch_in_parts_has_the_same_loss(data: dict[str, Path], tmp_path: Path) -> None:
    session = begun(data["classification"], tmp_path / "run", "classification", **LINEAR)
    objective = session.objective
    assert isinstance(objective, WholeData)
    assert isinstance(objective.config, ClassificationConfig)
    whole = objective.batch(0, 0)
    parts = [objective.loss(session.model, part).item() for part in whole.split(3)]
    assert len(parts) == 3
    np.testing.assert_allclose(sum(parts), objective.loss(session.model, whole).item(), rtol=1e-5)


def test_the_best_strength_is_one_whose_neighbours_are_worse() -> None:
    strengths = (1.0, 4.0, 16.0, 64.0)
    for best in strengths:
        found = best_nearby(lambda c: abs(np.log(c / best)), strengths, 16.0)  # noqa: B023
        assert min(found, key=found.__getitem__) == best
        assert len(found) <= 4
