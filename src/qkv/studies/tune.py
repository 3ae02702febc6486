"""A search for the numbers and parts that suit the data, by development score, with Optuna.

runs/tune-NAME/   trials.journal (all trials)   best.toml (the winner, a recipe for `qkv train`)   trials/ (its run)

A trial is a run as `qkv train` makes it. Its evaluations are told to the store as they come, and a trial that is worse
than half of the others were at the same look is cut short (a median rule). The same command goes on where it was left:
trials that are over count, their minutes too.
"""

from __future__ import annotations

import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from qkv.config import parse
from qkv.data.corpus import CorpusConfig, ExamplesConfig
from qkv.data.examples import Labelled
from qkv.data.files.discover import expand
from qkv.data.findings import Findings
from qkv.data.read_examples import read_examples
from qkv.errors import InputError, InterruptedRun, QkvError, require_package, signal_of
from qkv.models.registry import LANGUAGE_MODELS
from qkv.recipe.recipe import language_model_section
from qkv.storage import locked, remove_folder, write_file
from qkv.studies import space
from qkv.studies.attempt import Scores, Search, Subject, attempt
from qkv.studies.comparison import NAMES
from qkv.tasks.classification import systems
from qkv.tasks.registry import task_to_study

__all__ = ["Found", "Search", "Subject", "tune"]

JOURNAL, BEST = "trials.journal", "best.toml"


@dataclass(frozen=True)
class Found:
    """The winner, and all trials in short."""

    folder: Path
    score: float | None
    number: int | None
    figures: dict[str, Any]
    trials: list[dict[str, Any]]
    recipe: Path | None

    def values(self) -> dict[str, Any]:
        """For JSON."""
        states = [each["state"] for each in self.trials]
        return {
            "folder": str(self.folder),
            "recipe": None if self.recipe is None else str(self.recipe),
            "best": {"trial": self.number, "score": self.score, "figures": self.figures},
            "finished": sum(state in ("complete", "pruned", "impossible") for state in states),
            "complete": states.count("complete"),
            "pruned": states.count("pruned"),
            "trials": self.trials,
        }


def tune(search: Search) -> Found:
    """Search until the trials or the minutes are over; what is over already counts."""
    require_package("optuna", "a search for numbers and parts")
    from qkv.studies import trials

    if search.trials is None and search.minutes is None:
        raise InputError("how long to search is open. Give --minutes or --trials.")
    subject = _subject(search)
    with locked(search.folder) as held, trials.quiet():
        if not held:
            raise InputError(f"{search.folder}: another search is going on here. Wait for it, or choose another --run.")
        asked = {"files": list(search.corpus["files"]), "model": search.model, "task": subject.task}
        address = search.store or str(search.folder / JOURNAL)
        name = f"qkv-{search.folder.name}"
        store = trials.Store(address, name, asked, search.folder, search.seed, lower=subject.lower)
        left = store.begin(subject.usual())
        if over := len(store.over):
            search.say(f"{over} trials are there already; {left} were left behind and are tried once more")
        while (seconds := _left(search, store)) is not None:
            _trial(search, subject, store, seconds)
            keep_best(search.folder, store)
        recipe = keep_best(search.folder, store)
        return _found(search.folder, store, recipe)


def _subject(search: Search) -> Subject:
    if not task_to_study(search.corpus, "tune").labelled:
        names: tuple[str, ...] = (search.model,) if search.model else space.WRITERS
        for name in names:
            language_model_section({"kind": name}, "--model")
            if name not in LANGUAGE_MODELS:
                known = ", ".join(LANGUAGE_MODELS)
                raise InputError(f"--model {name}: a search needs a model whose sizes are open: {known}.")
        corpus: CorpusConfig = parse(CorpusConfig, search.corpus, "the options")
        expand(corpus.files, corpus.filter, Findings())  # a file that is missing is said before the first trial
        return Subject("language-modelling", names, 0, lower=True)
    found = read_examples(parse(ExamplesConfig, search.corpus, "the options"))
    for note in found.notes:
        search.say(note)
    if found.numeric:
        return _of_numbers(search, found)
    names = (search.model,) if search.model else space.USUAL.get(found.task, space.OF_TEXTS)
    for name in names:
        systems.system(name, found.task, "--model")
    return Subject(found.task, names, len(found.train), lower=False)


def _of_numbers(search: Search, found: Labelled) -> Subject:
    names = tuple(systems.TABLES)
    if found.task == "regression":  # the least squares are known at once: nothing about them can be searched
        names = tuple(name for name in names if name != "linear")
        if search.model == "linear":
            raise InputError("--model linear: linear regression has one answer, the least squares. Use qkv train.")
    if search.model:
        systems.of_numbers({"kind": search.model}, "--model")
        names = (search.model,)
    return Subject(found.task, names, len(found.train), lower=False, numeric=True)


def _left(search: Search, store: Any) -> float | None:
    """Seconds that are left, infinitely many where trials are counted; None when the search is over."""
    if search.trials is not None and len(store.over) >= search.trials:
        return None
    if search.minutes is None:
        return float("inf")
    left = 60 * search.minutes - store.seconds
    return left if left > 0 else None


def _trial(search: Search, subject: Subject, store: Any, left: float) -> None:
    """Ask, train, tell."""
    from optuna.trial import TrialState

    from qkv.studies import trials

    trial = store.ask()
    run = search.folder / "trials" / f"{trial.number:04d}"
    mark, line = time.perf_counter(), f"trial {trial.number}"
    try:
        values = subject.values(trial)
        line += ": " + ", ".join(f"{key} {value}" for key, value in shown(trial.params).items())
        scores = Scores(subject.lower)
        pruned = attempt(search, subject, values, run, left if store.best else float("inf"), trial, scores)
        trial.set_user_attr(trials.RECIPE, (run / "recipe.toml").read_text(encoding="utf-8"))
        if scores.best is None:
            raise InputError("no score came out of it")
        state = TrialState.PRUNED if pruned else TrialState.COMPLETE
        store.study.tell(trial, None if pruned else scores.best, state=state)
        end = "cut short" if pruned else "done"
        search.say(f"{line}: {NAMES[scores.name]} {scores.best:.4f}, {end} in {time.perf_counter() - mark:.1f} s")
    except (InterruptedRun, KeyboardInterrupt) as stop:
        store.give_up(trial.number, next(each for each in store.study.trials if each.number == trial.number))
        number = stop.exit_code - 128 if isinstance(stop, InterruptedRun) else signal_of(stop)
        words = f"stopped in trial {trial.number}; {len(store.over)} trials are kept. The same command goes on."
        raise InterruptedRun(words, number) from None
    except QkvError as error:
        trial.set_user_attr(trials.REASON, str(error))
        store.study.tell(trial, state=TrialState.FAIL)
        search.say(f"{line}: {error}")


def keep_best(folder: Path, store: Any) -> Path | None:
    """The winner's recipe under its name; the runs of all others are not needed any more."""
    from qkv.studies import trials

    best = store.best
    runs = folder / "trials"
    for run in sorted(runs.iterdir()) if runs.is_dir() else ():
        if run.is_dir() and not run.name.startswith(".") and (best is None or run.name != f"{best.number:04d}"):
            remove_folder(run)
    if best is None:
        return None
    values = tomllib.loads(str(best.user_attrs[trials.RECIPE]))
    values["training"].pop("checkpoint_every")  # a trial has none but its last
    head = f"# Trial {best.number}, the best of {len(store.over)}: development score {best.value:.4f}.\n"
    write_file(folder / BEST, head + tomli_w.dumps(values))
    return folder / BEST


def shown(figures: dict[str, Any]) -> dict[str, Any]:
    """A trial's figures as people read them."""
    return {
        key.rpartition(".")[2]: float(f"{value:.3g}") if isinstance(value, float) else value
        for key, value in figures.items()
    }


def _found(folder: Path, store: Any, recipe: Path | None) -> Found:
    from qkv.studies import trials

    best = store.best
    listed = []
    for each in store.study.get_trials(deepcopy=False):
        state = each.state.name.lower()
        if trials.REASON in each.user_attrs:
            state = "impossible"
        scores = list(each.intermediate_values.values())
        last = each.value if each.value is not None else scores[-1] if scores else None
        seconds = each.duration.total_seconds() if each.duration is not None else None
        listed.append(
            {"trial": each.number, "state": state, "score": last, "figures": dict(each.params), "seconds": seconds}
        )
    if best is None:
        return Found(folder, None, None, {}, listed, recipe)
    return Found(folder, best.value, best.number, dict(best.params), listed, recipe)
