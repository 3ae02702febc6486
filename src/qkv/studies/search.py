"""A search for the hyperparameters and parts that suit the data, by validation score, with Optuna.

runs/tune-NAME/   trials.journal (all trials)   best.toml (the winner, a recipe for `qkv train`)   trials/ (its run)

A trial is a run as `qkv train` makes it. Its evaluations are reported to the store as they come, and a trial that is
worse than half of the others were at the same point is pruned (the median rule). The same command continues a search:
trials that are over count, their minutes too.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from qkv.config import parse
from qkv.data.corpus import CorpusConfig, ExamplesConfig
from qkv.data.files.discover import find_text_files
from qkv.data.findings import Findings
from qkv.data.read_examples import read_examples
from qkv.errors import InputError, InterruptedRun, QkvError, require_package, signal_number_of
from qkv.models.registry import LANGUAGE_MODELS
from qkv.recipe.draft import Values
from qkv.recipe.recipe import language_model_section
from qkv.session import fresh_state
from qkv.storage import remove_folder, try_lock, write_file
from qkv.studies import search_space
from qkv.studies.significance import NAMES
from qkv.studies.study import Study, labelled_models
from qkv.tasks.protocol import Session
from qkv.tasks.registry import task_to_study
from qkv.training.loop import train
from qkv.training.run import Evaluation

if TYPE_CHECKING:
    import optuna

    from qkv.studies.trials import Store

JOURNAL, BEST = "trials.journal", "best.toml"
REPORTS = 12  # of a run, by which trials are compared
PARTS = 8  # of the minutes: a trial gets one at most
DEFAULT_MINUTES = 1.0  # of a trial on text
KNOWN_STEPS, KNOWN_SECONDS = 5, 1.0  # after which the speed of a trial is known
NEVER = 1_000_000_000  # steps
FAR = 1.15  # times the time of a trial: what takes longer starts again with fewer steps


@dataclass(frozen=True)
class TuningPlan(Study):
    """A search."""

    model: str | None = None
    trials: int | None = None
    minutes: float | None = None
    each: float | None = None  # minutes of a trial
    store: str | None = None

    def seconds_left(self, store: Store) -> float | None:
        """Infinitely many where trials are counted; None when the search is over."""
        if self.trials is not None and len(store.over) >= self.trials:
            return None
        if self.minutes is None:
            return float("inf")
        left = 60 * self.minutes - store.seconds
        return left if left > 0 else None


@dataclass(frozen=True)
class TuningTask:
    """What is searched over: the task, the systems with what is searched of each, whether a lower score is better."""

    task: str
    spaces: Mapping[str, search_space.Space]
    examples: int
    lower: bool

    @property
    def labelled(self) -> bool:
        return not self.lower

    def values(self, trial: search_space.Drawing) -> Values:
        names = tuple(self.spaces)
        name = names[0] if len(names) == 1 else trial.suggest_categorical("system", names)
        if self.labelled:
            return search_space.labelled(trial, name, self.spaces[name], self.examples)
        return search_space.language_model(trial, name)

    def defaults(self) -> list[dict[str, Any]]:
        """What `qkv train` would take, as trials: the first of each system."""
        several = len(self.spaces) > 1
        return [
            {**({"system": name} if several else {}), **search_space.default_trial(name, space)}
            for name, space in self.spaces.items()
            if self.labelled
        ]


@dataclass(frozen=True)
class TuningResult:
    """The winner, and all trials in short."""

    folder: Path
    score: float | None
    number: int | None
    figures: dict[str, Any]
    trials: list[dict[str, Any]]
    recipe: Path | None

    def values(self) -> dict[str, Any]:
        """For JSON."""
        states = [trial["state"] for trial in self.trials]
        return {
            "folder": str(self.folder),
            "recipe": None if self.recipe is None else str(self.recipe),
            "best": {"trial": self.number, "score": self.score, "figures": self.figures},
            "finished": sum(state in ("complete", "pruned", "impossible") for state in states),
            "complete": states.count("complete"),
            "pruned": states.count("pruned"),
            "trials": self.trials,
        }


def tune(plan: TuningPlan) -> TuningResult:
    """Search until the trials or the minutes are over; what is over already counts."""
    require_package("optuna", "a search for hyperparameters")
    from qkv.studies import trials

    if plan.trials is None and plan.minutes is None:
        raise InputError("how long to search is open. Give --minutes or --trials.")
    task = _task(plan)
    with try_lock(plan.folder) as held, trials.quiet():
        if not held:
            raise InputError(f"{plan.folder}: another search is going on here. Wait for it, or choose another --run.")
        asked = {"files": list(plan.corpus["files"]), "model": plan.model, "task": task.task}
        address = plan.store or str(plan.folder / JOURNAL)
        store = trials.Store(address, f"qkv-{plan.folder.name}", asked, plan.folder, plan.seed, lower=task.lower)
        left = store.begin(task.defaults())
        if over := len(store.over):
            plan.note(f"{over} trials are over already; {left} were left behind and are tried once more")
        while (seconds := plan.seconds_left(store)) is not None:
            _trial(plan, task, store, seconds)
            keep_best(plan.folder, store)
        return _result(plan.folder, store, keep_best(plan.folder, store))


def _task(plan: TuningPlan) -> TuningTask:
    model = (plan.model,) if plan.model else ()
    if not task_to_study(plan.corpus, plan.task, "tune").labelled:
        names: tuple[str, ...] = model or search_space.LANGUAGE_MODELS
        for name in names:
            language_model_section({"kind": name}, "--model")
            if name not in LANGUAGE_MODELS:
                known = ", ".join(LANGUAGE_MODELS)
                raise InputError(f"--model {name}: a search needs a model whose sizes are open: {known}.")
        corpus: CorpusConfig = parse(CorpusConfig, plan.corpus, "the options")
        find_text_files(
            corpus.files, corpus.filter, Findings()
        )  # a file that is missing is reported before the first trial
        return TuningTask("language-modelling", {name: {} for name in names}, 0, lower=True)
    data = read_examples(parse(ExamplesConfig, plan.corpus, "the options"))
    for note in data.notes:
        plan.note(note)
    names = labelled_models(data, plan, model, "--model")
    if data.numeric and data.task == "regression":  # least squares have a closed form: nothing can be searched
        if plan.model == "linear":
            raise InputError("--model linear: linear regression has one answer, the least squares. Use qkv train.")
        names = tuple(name for name in names if name != "linear")
    space = search_space.table_space if data.numeric else partial(search_space.labelled_space, task=data.task)
    return TuningTask(data.task, {name: space(name) for name in names}, len(data.train), lower=False)


def _trial(plan: TuningPlan, task: TuningTask, store: Store, left: float) -> None:
    """Ask the store, train, tell the store."""
    from optuna.trial import TrialState

    from qkv.studies import trials

    trial = store.ask()
    run = plan.folder / "trials" / f"{trial.number:04d}"
    began, line = time.perf_counter(), f"trial {trial.number}"
    try:
        values = task.values(trial)
        line += ": " + ", ".join(f"{key} {value}" for key, value in shown(trial.params).items())
        scores = ValidationScores(task.lower)
        pruned = attempt(plan, task, values, run, left if store.best else float("inf"), trial, scores)
        trial.set_user_attr(trials.RECIPE, (run / "recipe.toml").read_text(encoding="utf-8"))
        if scores.best is None:
            raise InputError("no score came out of it")
        store.study.tell(
            trial, None if pruned else scores.best, state=TrialState.PRUNED if pruned else TrialState.COMPLETE
        )
        end = "pruned" if pruned else "done"
        plan.note(f"{line}: {NAMES[scores.name]} {scores.best:.4f}, {end} in {time.perf_counter() - began:.1f} s")
    except (InterruptedRun, KeyboardInterrupt) as stop:
        store.give_up(trial.number, next(each for each in store.study.trials if each.number == trial.number))
        number = stop.exit_code - 128 if isinstance(stop, InterruptedRun) else signal_number_of(stop)
        words = f"stopped in trial {trial.number}; {len(store.over)} trials are kept. The same command continues."
        raise InterruptedRun(words, number) from None
    except QkvError as error:
        trial.set_user_attr(trials.REASON, str(error))
        store.study.tell(trial, state=TrialState.FAIL)
        plan.note(f"{line}: {error}")


class ValidationScores:
    """The validation scores of a run as they come."""

    def __init__(self, lower: bool) -> None:
        self.lower, self.name = lower, ""
        self.best: float | None = None

    def take(self, scores: Mapping[str, Any]) -> float:
        self.name = "bits_per_byte" if self.lower else next(key for key in scores if key not in ("loss", "criterion"))
        value = float(scores[self.name])
        if self.best is None or (value < self.best if self.lower else value > self.best):
            self.best = value
        return value


def attempt(
    plan: TuningPlan,
    task: TuningTask,
    values: Values,
    run: Path,
    left: float,
    trial: optuna.Trial,
    scores: ValidationScores,
) -> bool:
    """A run to its end, or until it is pruned: then True."""
    minutes = plan.each or (plan.minutes / PARTS if plan.minutes else None)
    timed = minutes is not None or not task.labelled
    minutes = minutes or DEFAULT_MINUTES
    values["training"]["checkpoint_every"] = NEVER
    began = time.perf_counter()
    session = plan.start(values, run, minutes)
    if task.labelled and timed and (steps := _steps_that_fit(session, 60 * minutes)):
        remove_folder(run)
        values["training"]["steps"] = steps
        session = plan.start(values, run, minutes)
    reported: set[int] = set()
    events = session.run.events(session.state, session.objective)
    assert isinstance(events, Generator)
    try:
        for event in events:
            if not isinstance(event, Evaluation):
                continue
            value = scores.take(event.scores)
            report = max(1, round(REPORTS * event.step / session.run.config.length))
            if report not in reported:
                reported.add(report)
                trial.report(value, report)
                if trial.should_prune():
                    return True
            if time.perf_counter() - began > left:
                return event.step < session.run.config.length
    finally:
        events.close()
    return False


def _steps_that_fit(session: Session, seconds: float) -> int | None:
    """How many steps fit into the time, where the run has far more: measured on a copy, which is then discarded."""
    config = session.run.config
    times: list[float] = []
    mark = time.perf_counter()
    for step in train(fresh_state(session.recipe), session.objective, config):
        now = time.perf_counter()
        times.append(now - mark)
        mark = now
        if (len(times) > KNOWN_STEPS and sum(times) > KNOWN_SECONDS) or step.number >= config.length:
            break
    a_step = sorted(times)[len(times) // 2]
    return max(1, int(seconds / a_step)) if a_step * config.length > FAR * seconds else None


def keep_best(folder: Path, store: Store) -> Path | None:
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
    head = f"# Trial {best.number}, the best of {len(store.over)}: validation score {best.value:.4f}.\n"
    write_file(folder / BEST, head + tomli_w.dumps(values))
    return folder / BEST


def shown(figures: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's hyperparameters as people read them."""
    return {
        key.rpartition(".")[2]: float(f"{value:.3g}") if isinstance(value, float) else value
        for key, value in figures.items()
    }


def _result(folder: Path, store: Store, recipe: Path | None) -> TuningResult:
    from qkv.studies import trials

    listed = []
    for trial in store.study.get_trials(deepcopy=False):
        reports = list(trial.intermediate_values.values())
        listed.append(
            {
                "trial": trial.number,
                "state": "impossible" if trials.REASON in trial.user_attrs else trial.state.name.lower(),
                "score": trial.value if trial.value is not None else reports[-1] if reports else None,
                "figures": dict(trial.params),
                "seconds": trial.duration.total_seconds() if trial.duration is not None else None,
            }
        )
    best = store.best
    if best is None:
        return TuningResult(folder, None, None, {}, listed, recipe)
    return TuningResult(folder, best.value, best.number, dict(best.params), listed, recipe)
