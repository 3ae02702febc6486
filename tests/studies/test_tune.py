"""Searches: what is drawn, what is kept, what a kill leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import small_pairs
from qkv.errors import ConfigError, InputError, StorageError
from qkv.recipe.recipe import read_sections
from qkv.studies import search_space, trials
from qkv.studies.search import BEST, JOURNAL, TuningPlan, tune
from qkv.studies.search_space import TuningTask
from qkv.studies.study import LABELLED_MODELS, TEXT_CLASSIFIERS
from studies import tables

optuna = pytest.importorskip("optuna")


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    torch.set_num_threads(1)


def search(tmp_path: Path, **more: object) -> TuningPlan:
    asked = {"model": "linear", "trials": 2, "folder": tmp_path / "search", **more}
    return TuningPlan(corpus={"files": [tables.table(tmp_path / "reviews.csv", 120)]}, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("task", ["classification", "tagging", "images", "regression"])
def test_the_defaults_can_be_drawn(task: str) -> None:
    """Whatever the systems' own figures are, they lie within what is searched."""
    for name in LABELLED_MODELS.get(task, TEXT_CLASSIFIERS):
        space = search_space.labelled_space(name, task)
        figures = search_space.default_hyperparameters(name, space)
        fixed = optuna.trial.FixedTrial(figures)
        values = search_space.draw_labelled(fixed, name, space, 1000)
        assert fixed.params == figures
        assert values["training"]["steps"] > 0
    for name in search_space.DEFAULT_LANGUAGE_MODELS:
        with trials.quiet():
            values = search_space.draw_language_model(optuna.create_study().ask(), name)
        assert values["model"]["kind"] == name


def test_a_table_of_numbers(tmp_path: Path) -> None:
    """Its systems, the defaults first; linear regression is solved and not searched."""
    for name in search_space.systems.NUMBER_SYSTEMS:
        space = search_space.table_space(name)
        fixed = optuna.trial.FixedTrial(search_space.default_hyperparameters(name, space))
        search_space.draw_labelled(fixed, name, space, 1000)
        assert fixed.params == search_space.default_hyperparameters(name, space)
    for task, target in (("class", lambda n: "ab"[n % 3 == 0]), ("size", lambda n: n / 7)):
        rows = "".join(f"{n % 3},{n % 5},{target(n)}\n" for n in range(90))
        (tmp_path / f"{task}.csv").write_text(f"x,y,{task}\n{rows}")
    asked = TuningPlan(
        {"files": [str(tmp_path / "class.csv")], "label": "class"}, tmp_path / "search", trials=2, each=0.05
    )
    found = tune(asked)
    assert [each["figures"]["system"] for each in found.trials] == ["linear", "mlp"]
    assert found.recipe is not None
    assert read_sections(found.recipe)["model"]["kind"] in ("linear-table", "mlp-table")
    regression = TuningPlan(
        {"files": [str(tmp_path / "size.csv")], "label": "size"}, tmp_path / "other", trials=1, each=0.05
    )
    assert "mlp.activation" in tune(regression).trials[0]["figures"]
    with pytest.raises(InputError, match="the least squares"):
        tune(replace(regression, model="linear"))


def test_a_search_ends_in_a_recipe_and_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    found = tune(search(tmp_path, note=said.append))
    assert found.recipe == tmp_path / "search" / BEST
    assert [each["state"] for each in found.trials] == ["complete", "complete"]
    assert found.trials[0]["figures"]["linear.strength"] == 16.0
    values = read_sections(found.recipe)
    assert values["model"]["encoder"]["kind"] == "linear"
    assert values["training"]["steps"] > 0
    assert "checkpoint_every" not in values["training"]
    kept = [path.name for path in (tmp_path / "search" / "trials").iterdir()]
    assert kept == [f"{found.best_trial:04d}"]
    again = tune(search(tmp_path))
    assert again.trials == found.trials
    longer = tune(search(tmp_path, trials=3))
    assert longer.trials[:2] == found.trials
    assert len(longer.trials) == 3
    with pytest.raises(InputError, match="another model"):
        tune(search(tmp_path, model="bag"))


def test_the_winner_is_trained_by_its_recipe(tmp_path: Path) -> None:
    from qkv import session as sessions

    found = tune(search(tmp_path, trials=1))
    assert found.recipe is not None
    session = sessions.start(read_sections(found.recipe), tmp_path / "run", numbered=False, minutes=1.0)
    assert session.recipe.training.steps == read_sections(found.recipe)["training"]["steps"]


def drawn(path: Path, stops: int) -> list[dict[str, object]]:
    """Figures of six trials in a store that is opened anew so many times."""
    with trials.quiet():
        for _ in range(stops):
            store = trials.Store(str(path), "s", {}, path.parent, 3, lower_is_better=False)
            for _ in range(6 // stops):
                trial = store.ask()
                rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
                store.study.tell(trial, -rate)
        return [each.params for each in store.study.trials]


def test_the_same_seed_draws_the_same_trials_however_often_it_stops(tmp_path: Path) -> None:
    straight = drawn(tmp_path / "a", 1)
    assert straight == drawn(tmp_path / "b", 3)
    assert len({figures["rate"] for figures in straight}) == 6


def test_an_sql_store(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'study.db'}"
    found = tune(search(tmp_path, trials=1, store=address))
    assert not (tmp_path / "search" / JOURNAL).exists()
    assert tune(search(tmp_path, trials=1, store=address)).trials == found.trials
    with pytest.raises(StorageError, match="Expected an address"):
        tune(search(tmp_path, trials=1, store="nothing://here", folder=tmp_path / "c"))


def test_half_a_line_at_the_end_of_the_journal_is_cut_off(tmp_path: Path) -> None:
    found = tune(search(tmp_path, trials=1))
    with (tmp_path / "search" / JOURNAL).open("ab") as file:
        file.write(b'{"op_code": 4, "wor')
    assert tune(search(tmp_path, trials=2)).trials[0] == found.trials[0]


def test_bad_wishes_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--minutes or --trials"):
        tune(search(tmp_path, trials=None))
    with pytest.raises(ConfigError, match="unknown model"):
        tune(search(tmp_path, model="lineer"))


def test_a_trial_that_lags_is_cut_short(tmp_path: Path) -> None:
    with trials.quiet():
        store = trials.Store(str(tmp_path / "j"), "s", {}, tmp_path, 0, lower_is_better=False)
        for number in range(trials.UNPRUNED_TRIALS + 1):
            trial = store.ask()
            for look in range(1, 6):
                trial.report(0.9 if number < trials.UNPRUNED_TRIALS else 0.1, look)
                cut = trial.should_prune()
            store.study.tell(trial, 0.9)
    assert cut


CHILD = """
import sys, torch
from pathlib import Path
from qkv.studies.search import TuningPlan, tune
torch.set_num_threads(1)
def say(line):
    print(line, flush=True)
tune(TuningPlan(corpus={"files": [sys.argv[1]]}, folder=Path(sys.argv[2]), model="linear", trials=50, note=say))
"""


def test_a_killed_search_loses_no_finished_trial(tmp_path: Path) -> None:
    path = tables.table(tmp_path / "reviews.csv", 120)
    folder = tmp_path / "search"
    command = [sys.executable, "-c", CHILD, path, str(folder)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=dict(os.environ, OMP_NUM_THREADS="1")
    ) as child:
        assert child.stdout is not None
        done = 0
        for line in child.stdout:
            done += " done in " in line or " cut short in " in line
            if done == 2:
                break
        time.sleep(0.05)  # into the next trial
        child.send_signal(signal.SIGKILL)
    journal = [json.loads(line) for line in (folder / JOURNAL).read_bytes().split(b"\n") if line.endswith(b"}")]
    assert journal
    with trials.quiet():
        study = optuna.load_study(study_name="qkv-search", storage=trials.open_store(str(folder / JOURNAL)))
        before = {each.number: each.value for each in study.trials if each.state.is_finished()}
        running = [each.number for each in study.trials if each.state == optuna.trial.TrialState.RUNNING]
    assert len(before) >= 2
    found = tune(search(tmp_path, trials=len(before) + 1))
    states = {each["trial"]: each["state"] for each in found.trials}
    after = {each["trial"]: each["score"] for each in found.trials}
    assert all(after[number] == value for number, value in before.items() if value is not None)
    assert all(states[number] == "fail" for number in running)
    finished = [state for state in states.values() if state in ("complete", "pruned", "impossible")]
    assert len(finished) == len(before) + 1
    assert found.recipe is not None


def test_a_search_on_text_draws_language_models() -> None:
    subject = TuningTask(
        "language-modelling", {name: {} for name in search_space.DEFAULT_LANGUAGE_MODELS}, 0, lower_is_better=True
    )
    trial = optuna.create_study().ask()
    assert subject.draw(trial)["model"]["kind"] in search_space.DEFAULT_LANGUAGE_MODELS
    assert subject.defaults() == []


def test_pairs_are_refused_before_the_first_trial(tmp_path: Path) -> None:
    asked = replace(search(tmp_path, model=None), corpus={"files": small_pairs.write(tmp_path / "pairs")})
    with pytest.raises(InputError, match="knows no translators"):
        tune(asked)
