"""A run from start to finish, for the command line and the library alike.

`start` resolves a recipe, builds the model and claims a folder; `resume` takes a run up and decides nothing again;
`finish` scores the best model, writes card.md and gives the report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from qkv.data import catalog
from qkv.data.detect import Detected
from qkv.data.findings import Progress, no_progress
from qkv.errors import InputError, UnusablePathError
from qkv.recipe import bundle, origin, time_budget
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import Recipe, Section
from qkv.storage import PARTIAL_SUFFIX, flush, storage_errors, storage_remedy, verify_files
from qkv.tasks import registry
from qkv.tasks.protocol import Session, Task
from qkv.tasks.report import RunReport, write_card
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices, loop, metrics_log
from qkv.training.clock import Clock
from qkv.training.loop import TrainingState, train
from qkv.training.metrics_log import REMEDY
from qkv.training.run import Run, Scores, hold_folder
from qkv.training.settings import TrainingConfig

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

LEAST = 4 * 2**20  # bytes to read a recipe and report what is missing: libraries end the program where they get none
PROBED = 1_000_000  # steps of the copy that is timed, which never ends
PROBING = 0.06  # of the time at most, about, goes into timing steps before the run


def start(
    values: Mapping[str, Section],
    folder: Path,
    *,
    numbered: bool,
    minutes: float,
    began: float | None = None,
    progress: Progress | None = None,
    detected: Detected | None = None,
) -> Session:
    """Resolve `values` into a recipe and start a run in `folder` (or in `folder-2` and so on when `numbered`).

    The minutes count from `began` on (a moment of `time.perf_counter`), or from now. `detected` says what the files
    hold, where that is known already.
    """
    devices.require_allocatable(LEAST)
    began = time.perf_counter() if began is None else began
    ends_at = began + 60 * minutes * (1 - time_budget.SPARE_FRACTION)
    draft = Draft.parse(values, "the recipe")
    task = registry.open_task(draft, progress, detected)
    devices.trim_heap()
    timed = draft.training.steps is None
    draft, epochs = task.resolve(draft, ends_at if timed else None)
    recipe, clock = task.complete(task.resolve_steps(draft, PROBED, timed=timed)), None
    with devices.enough_memory(recipe.training, recipe.model.context):
        task.require_memory(recipe)
        if timed:
            steps, clock = plan(recipe, task, ends_at, task.useful_steps(draft, epochs))
            if steps > clock.longest and epochs:
                task.add_note(f"more than {clock.longest:,} steps would not help: the run will be over before its time")
            recipe = task.complete(task.resolve_steps(draft, min(steps, clock.longest), timed=True))
    devices.trim_heap()
    folder = claim(folder, numbered)
    with storage_remedy(REMEDY), storage_errors(folder):
        recipe.save(folder / "recipe.toml")
    return session(recipe, task, folder, clock)


def resume(folder: Path, progress: Progress | None = None) -> Session:
    """Take up the run of `folder` where its newest checkpoint left it."""
    if not (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: no run to resume here (no recipe.toml). Start one without --resume.")
    with hold_folder(folder):  # before anything of it is read: a training that goes on replaces files meanwhile
        devices.require_allocatable(LEAST)
    recipe = registry.load_recipe(folder / "recipe.toml")
    require_same_place(folder, recipe)
    with devices.enough_memory(recipe.training, recipe.model.context):
        registry.TASKS[recipe.task.kind].require_memory(recipe)
        known = folder / "best" / bundle.TOKENIZER
        if known.is_file():
            verify_files(known.parent, bundle.TOKENIZER)
        tokenizer = Tokenizer.load(known) if known.is_file() else None
        task = registry.resume_task(recipe, tokenizer, folder, progress)
        for log in (folder / "metrics.jsonl", folder / "timings.jsonl"):
            if lines := metrics_log.count_damaged(log):
                task.add_note(f"{log}: {lines:,} damaged lines are left out of the report; training does not use them.")
        return session(recipe, task, folder)


def finish(session: Session, doctor: Doctor | None, progress: Progress = no_progress) -> RunReport:
    """Score the best model on what was held out, write the card, and report."""
    report = session.task.report(session, doctor, progress)
    write_card(session, report.card)
    return report


def require_same_place(folder: Path, recipe: Recipe) -> None:
    """Refuse a run whose data has a relative path that leads nowhere from here; name the folder from which it does."""
    corpus = recipe.corpus
    names = [*corpus.files, *corpus.valid, *getattr(corpus, "test", ()), recipe.training.start]
    for name in names:
        relative = name and name != "-" and not Path(name).is_absolute()
        if not relative or os.path.lexists(name) or catalog.find(name) is not None:
            continue
        places = [place for place in folder.absolute().parents if os.path.lexists(place / name)]
        where = f"It is there as seen from {places[0]}: resume" if places else "Resume"
        raise InputError(
            f"{name}: no such file. The run was started on this relative path, from another folder than {Path.cwd()}. "
            f"{where} from the folder in which the run was started."
        )


def session(recipe: Recipe, task: Task, folder: Path, clock: Clock | None = None) -> Session:
    devices.set_threads(recipe.training.threads)
    state = fresh_state(recipe)
    task.prepare_model(recipe, state.model)

    def keep(model: nn.Module, step: int) -> None:
        bundle.keep_best(folder, task.bundle(recipe, origin.merged_model(model, recipe.model, recipe.training), step))

    def scores(model: nn.Module) -> Scores:
        return task.scores(recipe, model)

    def save_config(changed: TrainingConfig) -> None:
        with storage_remedy(REMEDY), storage_errors(folder):
            replace(recipe, training=changed).save(folder / "recipe.toml")

    run = Run(folder, recipe.training, scores, keep, save_config, clock)
    return Session(recipe, task, task.objective(recipe), state, run)


def fresh_state(recipe: Recipe) -> TrainingState:
    """The state before the first step."""
    return loop.initial_state(build(recipe), recipe.training)


def build(recipe: Recipe) -> nn.Module:
    """The model before its first step: a function of the recipe alone, and of the model it starts from."""
    torch.manual_seed(recipe.training.seed)
    model: nn.Module = recipe.model.build()
    if recipe.training.start:
        origin.start_from(model, recipe.model, recipe.training)
    return model.to(recipe.training.device)


def plan(recipe: Recipe, task: Task, ends_at: float, longest: int) -> tuple[int, Clock]:
    """How many steps fit into the time: measured on a copy of the run, which is then forgotten; and the run's clock."""
    probe = replace(recipe.training, steps=PROBED, warmup=10, compile="off")
    devices.set_threads(probe.threads)
    state = loop.initial_state(build(recipe), probe)
    task.prepare_model(recipe, state.model)
    left = ends_at - time.perf_counter()
    steps = train(state, task.objective(recipe), probe)
    a_step = time_budget.median_step_seconds(steps, min_steps=3, seconds=min(6.0, 0.03 * left), patience=PROBING * left)
    costs = task.costs(recipe, state.model, a_step, ends_at - time.perf_counter())
    clock = Clock(
        ends_at, closing=costs.closing, longest=longest, scoring=costs.final_scoring, evaluation=costs.evaluation
    )
    left = ends_at - time.perf_counter() - clock.reserve - costs.during_run
    return max(1, int(left / (a_step + costs.per_step))), clock


def claim(folder: Path, numbered: bool) -> Path:
    """Make the run's folder, under a name that no other run has."""
    try:
        os.fspath(folder).encode("utf-8")
        return _claimed(folder, numbered)
    except UnicodeEncodeError:  # weights are written by a library that takes no other names
        raise InputError(f"{os.fspath(folder)!r}: the name is not UTF-8. Choose another --run.") from None
    except (
        OSError,
        ValueError,
        UnusablePathError,
    ) as error:  # too long, a link to nowhere, a NUL byte
        reason = getattr(error, "strerror", None) or getattr(error, "reason", error)
        raise InputError(f"{folder}: cannot be a run's folder ({reason}). Choose another --run.") from None


def _claimed(folder: Path, numbered: bool) -> Path:
    with storage_remedy(REMEDY), storage_errors(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{folder}: a file is in the way of this folder. Choose another --run.") from None
        if not numbered:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder}: a file of this name is in the way. Choose another --run.")
            if (folder / "recipe.toml").exists():
                raise InputError(f"{folder}: a run is there. Continue it with --resume, or choose another --run.")
            # a run that was killed before it had a recipe leaves only what it had put aside
            if folder.is_dir() and any(path.suffix != PARTIAL_SUFFIX for path in folder.iterdir()):
                raise InputError(f"{folder}: not empty, and not a run. Choose another --run.")
            folder.mkdir(exist_ok=True)
            flush(folder.parent)
            return folder
        for number in range(1, 100_000):
            candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                candidate.mkdir()
            except FileExistsError:
                continue
            flush(folder.parent)
            return candidate
    raise InputError(f"{folder}: too many runs of this name. Choose another with --run.")
