"""A search for the hyperparameters and parts with the best validation score, with Optuna.

runs/tune-NAME/   trials.journal (all trials)   best.toml (a recipe for `qkv train`)   trials/ (the best trial's run)

A trial is a run like one of `qkv train`. It reports its evaluations to the store, and is pruned when its best score is
worse than the median of the other trials at the same point. The same command continues a search: its finished trials
and their minutes count.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from qkv.errors import InputError, InterruptedRun, QkvError, require_package, signal_number_of
from qkv.evaluation.significance import METRIC_TITLES
from qkv.recipe.draft import Values
from qkv.session import fresh_state
from qkv.storage import remove_folder, try_lock, write_file
from qkv.studies.search_space import TuningTask, tuning_task
from qkv.studies.study import StudyPlan
from qkv.tasks.protocol import Session
from qkv.training.loop import train
from qkv.training.run import Evaluation
from qkv.visible import ShownResult, counted

if TYPE_CHECKING:
    import optuna

    from qkv.studies.trials import Store

JOURNAL, BEST = "trials.journal", "best.toml"
REPORTS = 12  # points of a run at which trials are compared
MIN_TRIALS = 8  # that fit into the minutes of a search
DEFAULT_TRIAL_MINUTES = 1.0  # for text
MIN_TIMED_STEPS, MIN_TIMED_SECONDS = 5, 1.0  # before the speed of a trial is known
NEVER = 1_000_000_000  # steps
MAX_OVERTIME = 1.15  # times the seconds of a trial; one that would take longer starts again with fewer steps


@dataclass(frozen=True)
class TuningPlan(StudyPlan):
    """A search: its data, and when it ends."""

    model: str | None = None
    trials: int | None = None
    minutes: float | None = None
    each: float | None = None  # minutes of a trial
    store: str | None = None

    def seconds_left(self, store: Store) -> float | None:
        """None when the search is finished; infinity if only the number of trials limits it."""
        if self.trials is not None and len(store.finished) >= self.trials:
            return None
        if self.minutes is None:
            return float("inf")
        seconds_left = 60 * self.minutes - store.seconds
        return seconds_left if seconds_left > 0 else None


@dataclass(frozen=True, repr=False)
class TuningResult(ShownResult):
    """The best trial, and a summary of all trials."""

    folder: Path
    score: float | None
    best_trial: int | None
    hyperparameters: dict[str, Any]
    trials: list[dict[str, Any]]
    recipe: Path | None

    def values(self) -> dict[str, Any]:
        """For JSON."""
        states = [trial["state"] for trial in self.trials]
        return {
            "folder": str(self.folder),
            "recipe": None if self.recipe is None else str(self.recipe),
            "best": {"trial": self.best_trial, "score": self.score, "figures": self.hyperparameters},
            "finished": sum(state in ("complete", "pruned", "impossible") for state in states),
            "complete": states.count("complete"),
            "pruned": states.count("pruned"),
            "trials": self.trials,
        }


def tune(plan: TuningPlan) -> TuningResult:
    """Search until the plan's trials or minutes are used up; those of an earlier call count."""
    require_package("optuna", "a search for hyperparameters")
    from qkv.studies import trials

    if plan.trials is None and plan.minutes is None:
        raise InputError("the length of the search is not given. Give --minutes or --trials.")
    task = tuning_task(plan, plan.model)
    with try_lock(plan.folder) as held, trials.quiet():
        if not held:
            raise InputError(f"{plan.folder}: another search is running here. Wait for it, or choose another --run.")
        subject = {"files": list(plan.corpus["files"]), "model": plan.model, "task": task.task}
        address = plan.store or str(plan.folder / JOURNAL)
        store = trials.Store(
            address, f"qkv-{plan.folder.name}", subject, plan.folder, plan.seed, lower_is_better=task.lower_is_better
        )
        abandoned = store.begin(task.defaults())
        if finished := len(store.finished):
            plan.note(f"{finished} trials are finished already; {abandoned} were abandoned and are tried once more")
        while (seconds := plan.seconds_left(store)) is not None:
            _run_trial(plan, task, store, seconds)
            keep_best(plan.folder, store)
        return _result(plan.folder, store, keep_best(plan.folder, store))


def _run_trial(plan: TuningPlan, task: TuningTask, store: Store, seconds_left: float) -> None:
    """Train one trial, and tell the store its result."""
    from optuna.trial import TrialState

    from qkv.studies import trials

    trial = store.ask()
    run = plan.folder / "trials" / f"{trial.number:04d}"
    started_at, description = time.perf_counter(), f"trial {trial.number}"
    try:
        values = task.draw(trial)
        description += ": " + ", ".join(f"{key} {value}" for key, value in readable(trial.params).items())
        scores = ValidationScores(task.lower_is_better)
        pruned = _train_trial(plan, task, values, run, seconds_left if store.best else float("inf"), trial, scores)
        trial.set_user_attr(trials.RECIPE, (run / "recipe.toml").read_text(encoding="utf-8"))
        if scores.best is None:
            raise InputError("the trial ended without a score")
        store.study.tell(
            trial, None if pruned else scores.best, state=TrialState.PRUNED if pruned else TrialState.COMPLETE
        )
        end = f"{'pruned' if pruned else 'done'} in {time.perf_counter() - started_at:.1f} s"
        plan.note(f"{description}: {METRIC_TITLES[scores.name]} {scores.best:.4f}, {end}")
    except (InterruptedRun, KeyboardInterrupt) as stop:
        store.give_up(trial.number, next(frozen for frozen in store.study.trials if frozen.number == trial.number))
        number = stop.exit_code - 128 if isinstance(stop, InterruptedRun) else signal_number_of(stop)
        message = f"stopped in trial {trial.number}; {len(store.finished)} trials are kept. The same command continues."
        raise InterruptedRun(message, number) from None
    except QkvError as error:
        trial.set_user_attr(trials.REASON, str(error))
        store.study.tell(trial, state=TrialState.FAIL)
        plan.note(f"{description}: {error}")


class ValidationScores:
    """Follows the validation scores of a run, and keeps the best."""

    def __init__(self, lower_is_better: bool) -> None:
        self.lower_is_better, self.name = lower_is_better, ""
        self.best: float | None = None

    def add(self, scores: Mapping[str, Any]) -> float:
        """Add an evaluation; return the score by which trials are compared."""
        if self.lower_is_better:
            self.name = "bits_per_byte"
        else:
            self.name = next(key for key in scores if key not in ("loss", "criterion"))
        value = float(scores[self.name])
        if self.best is None or (value < self.best if self.lower_is_better else value > self.best):
            self.best = value
        return value


def _train_trial(
    plan: TuningPlan,
    task: TuningTask,
    values: Values,
    run: Path,
    seconds_left: float,
    trial: optuna.Trial,
    scores: ValidationScores,
) -> bool:
    """Train until the end of the run or of the search's time, or until the trial should be pruned. Return
    whether the trial counts as pruned."""
    minutes = plan.each or (plan.minutes / MIN_TRIALS if plan.minutes else None)
    timed = minutes is not None or not task.labelled
    minutes = minutes or DEFAULT_TRIAL_MINUTES
    values["training"]["checkpoint_every"] = NEVER
    started_at = time.perf_counter()
    session = plan.start(values, run, minutes)
    if task.labelled and timed and (steps := _steps_that_fit(session, 60 * minutes)):
        remove_folder(run)
        values["training"]["steps"] = steps
        session = plan.start(values, run, minutes)
    reported_points: set[int] = set()
    events = session.run.events(session.state, session.objective)
    assert isinstance(events, Generator)
    try:
        for event in events:
            if not isinstance(event, Evaluation):
                continue
            value = scores.add(event.scores)
            point = max(1, round(REPORTS * event.step / session.run.config.length))
            if point not in reported_points:
                reported_points.add(point)
                trial.report(value, point)
                if trial.should_prune():
                    return True
            if time.perf_counter() - started_at > seconds_left:
                return event.step < session.run.config.length
    finally:
        events.close()
    return False


def _steps_that_fit(session: Session, seconds: float) -> int | None:
    """The number of steps that fit into the time, measured on a copy of the run; None if the run is short enough."""
    config = session.run.config
    times: list[float] = []
    last = time.perf_counter()
    for step in train(fresh_state(session.recipe), session.objective, config):
        now = time.perf_counter()
        times.append(now - last)
        last = now
        if (len(times) > MIN_TIMED_STEPS and sum(times) > MIN_TIMED_SECONDS) or step.number >= config.length:
            break
    median = sorted(times)[len(times) // 2]
    return max(1, int(seconds / median)) if median * config.length > MAX_OVERTIME * seconds else None


def keep_best(folder: Path, store: Store) -> Path | None:
    """Write the recipe of the best trial to best.toml, and delete the runs of all other trials."""
    from qkv.studies import trials

    best = store.best
    runs = folder / "trials"
    for run in sorted(runs.iterdir()) if runs.is_dir() else ():
        if run.is_dir() and not run.name.startswith(".") and (best is None or run.name != f"{best.number:04d}"):
            remove_folder(run)
    if best is None:
        return None
    values = tomllib.loads(str(best.user_attrs[trials.RECIPE]))
    values["training"].pop("checkpoint_every")  # a trial saves only its last checkpoint
    comment = f"# Trial {best.number}, the best of {len(store.finished)}: validation score {best.value:.4f}.\n"
    write_file(folder / BEST, comment + tomli_w.dumps(values))
    return folder / BEST


def readable(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's hyperparameters with short names and rounded numbers."""
    return {
        key.rpartition(".")[2]: float(f"{value:.3g}") if isinstance(value, float) else value
        for key, value in hyperparameters.items()
    }


def _result(folder: Path, store: Store, recipe: Path | None) -> TuningResult:
    from qkv.studies import trials

    all_trials = []
    for trial in store.study.get_trials(deepcopy=False):
        reports = list(trial.intermediate_values.values())
        all_trials.append(
            {
                "trial": trial.number,
                "state": "impossible" if trials.REASON in trial.user_attrs else trial.state.name.lower(),
                "score": trial.value if trial.value is not None else reports[-1] if reports else None,
                "figures": dict(trial.params),
                "seconds": trial.duration.total_seconds() if trial.duration is not None else None,
            }
        )
    best = store.best
    reasons = [trial.user_attrs.get(trials.REASON) for trial in store.finished]
    if best is None and reasons and all(reasons):
        tried = counted(len(reasons), "trial")
        raise InputError(f"{folder}: no model could be trained in {tried}. The last one failed: {reasons[-1]}")
    if best is None:
        return TuningResult(folder, None, None, {}, all_trials, recipe)
    return TuningResult(folder, best.value, best.number, dict(best.params), all_trials, recipe)
