"""A run from start to finish, for the command line and the library.

`start` resolves a recipe, builds the model and creates the run folder; `resume` continues a run with the recipe that it
saved; `finish` scores the best model, writes card.md and gives the report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from qkv.data import catalog, own_reader
from qkv.data.detect import Detected
from qkv.data.findings import Progress, no_progress
from qkv.data.prepare_examples import PreparedExamples
from qkv.data.prepare_pairs import PreparedPairs
from qkv.errors import InputError
from qkv.evaluation import own_metrics
from qkv.evaluation.own_metrics import OwnMetrics
from qkv.recipe import bundle, origin, time_budget
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import Recipe, Section
from qkv.storage import storage_errors, storage_remedy, verify_files
from qkv.tasks import registry
from qkv.tasks.protocol import Session, Task
from qkv.tasks.report import RunReport, with_own_scores, write_card
from qkv.text.tokenizer import Tokenizer
from qkv.time_limit import BUSY, ReadingLimit, reading_within
from qkv.training import devices, loop, metrics_log
from qkv.training.clock import Clock, ProcessorShare
from qkv.training.loop import TrainingState, train
from qkv.training.metrics_log import REMEDY
from qkv.training.run import Run, Scores, hold_folder
from qkv.training.run_folder import create_run_folder
from qkv.training.settings import TrainingConfig
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

MIN_MEMORY_BYTES = 4 * 2**20  # to read a recipe and report an error: libraries abort when they get no memory
PROBE_STEPS = 1_000_000  # length of the run whose first steps are timed; it is never trained to its end
ENCODING_SHARE = 0.2  # of the time, for turning training examples into tokens; a sample of them is encoded twice
PROBE_SHARE = 0.06  # of the time budget, about, that may be spent on timing steps before the run


def start(
    values: Mapping[str, Section],
    folder: Path,
    *,
    numbered: bool,
    model_name: str = "",
    minutes: float,
    started_at: float | None = None,
    progress: Progress | None = None,
    detected: Detected | None = None,
    own: OwnMetrics | None = None,
) -> Session:
    """Resolve `values` into a recipe and create a run in `folder`. If `numbered`, `model_name` (by default that of the
    model that was resolved) is added to the folder's name, and a number if the name is taken.

    The minutes count from `started_at`, a value of `time.perf_counter`, or from now. `detected` is what the files
    contain, if that is already known. `own`: metrics of the user's own.
    """
    devices.require_allocatable(MIN_MEMORY_BYTES)
    started_at = time.perf_counter() if started_at is None else started_at
    ends_at = started_at + 60 * minutes * (1 - time_budget.SPARE_FRACTION)
    if own is not None:
        values = {**values, "training": {**values.get("training", {}), "metrics": own.record}}
    draft = Draft.parse(values, "the recipe")
    steps = draft.training.steps
    limit = ReadingLimit(started_at, minutes)
    with reading_within(limit if steps is None else None):
        task = with_metrics(registry.open_task(draft, progress, detected), own)
    devices.trim_heap()
    if steps is None:
        recipe, clock = fit_into_time(task, draft, ends_at, limit)
    else:
        recipe, clock = with_steps(task, task.resolve(draft, None)[0], steps), None
    devices.trim_heap()
    if numbered:
        folder = folder.with_name(f"{folder.name}-{model_name or task.model_name(recipe)}")
    folder = create_run_folder(folder, numbered)
    with storage_remedy(REMEDY), storage_errors(folder):
        recipe.save(folder / "recipe.toml")
    return open_session(recipe, task, folder, clock)


def resume(folder: Path, progress: Progress | None = None, own: OwnMetrics | None = None) -> Session:
    """Continue the run of `folder` from its newest checkpoint, which is loaded when the training starts; with the
    metrics `own` of the user's own."""
    if not (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: no run to resume here (no recipe.toml). Start one without --resume.")
    with hold_folder(folder):  # first of all, because another process that trains the run would replace its files
        devices.require_allocatable(MIN_MEMORY_BYTES)
    recipe = registry.load_recipe(folder / "recipe.toml")
    own_reader.restore(recipe.corpus, str(folder / "recipe.toml"))
    require_same_place(folder, recipe)
    own_metrics.require(own or OwnMetrics(), recipe.training.metrics, str(folder / "recipe.toml"))
    with devices.enough_memory(recipe.training, recipe.model.context):
        registry.TASKS[recipe.task.kind].require_memory(recipe)
        tokenizer, tokenizer_file = None, folder / "best" / bundle.TOKENIZER
        if tokenizer_file.is_file():
            verify_files(tokenizer_file.parent, bundle.TOKENIZER)
            tokenizer = Tokenizer.load(tokenizer_file)
        task = with_metrics(registry.resume_task(recipe, tokenizer, folder, progress), own)
        for log in (folder / "metrics.jsonl", folder / "timings.jsonl"):
            if lines := metrics_log.count_damaged(log):
                task.add_note(f"{log}: {lines:,} damaged lines are left out of the report; training does not use them.")
        return open_session(recipe, task, folder)


def finish(session: Session, doctor: Doctor | None, progress: Progress = no_progress) -> RunReport:
    """Score the best model on the held-out data, write card.md, and give the report."""
    report = session.task.report(session, doctor, progress)
    if session.task.own.metrics:
        best = bundle.load(session.run.folder, session.recipe.training.device)
        report = with_own_scores(report, session.task.own.of_model(best))
    write_card(session, report.card)
    return report


def with_metrics(task: Task, own: OwnMetrics | None) -> Task:
    """The task, which reports these metrics as well; those that it cannot compute are refused."""
    if own is not None:
        if not task.gives_predictions:
            own.refuse_prediction_metrics(task.kind)
        task.own = own
    return task


def require_same_place(folder: Path, recipe: Recipe) -> None:
    """Refuse a run whose data has a relative path that does not exist from the current folder; name the one where it
    does."""
    corpus = recipe.corpus
    names = [*corpus.files, *corpus.valid, *getattr(corpus, "test", ()), recipe.training.start]
    for name in names:
        is_relative_path = name and name != "-" and not Path(name).is_absolute()
        if not is_relative_path or os.path.lexists(name) or catalog.find(name) is not None:
            continue
        parents = [parent for parent in folder.absolute().parents if os.path.lexists(parent / name)]
        advice = f"The file exists relative to {parents[0]}: resume" if parents else "Resume"
        raise InputError(
            f"{name}: no such file. The run was started with this relative path, not from {Path.cwd()}. {advice} from "
            "the folder in which the run was started."
        )


def open_session(recipe: Recipe, task: Task, folder: Path, clock: Clock | None = None) -> Session:
    """Build the model and the optimizers, and connect them with the run folder."""
    devices.set_threads(recipe.training.threads)
    state = fresh_state(recipe)
    task.prepare_model(recipe, state.model)

    def save_best(model: nn.Module, step: int) -> None:
        bundle.keep_best(folder, task.bundle(recipe, origin.merged_model(model, recipe.model, recipe.training), step))

    def scores(model: nn.Module) -> Scores:
        task_scores = task.scores(recipe, model)
        return (
            {**task_scores, **task.own.of_model(task.bundle(recipe, model, state.step))}
            if task.own.metrics
            else task_scores
        )

    def save_recipe(training: TrainingConfig) -> None:
        with storage_remedy(REMEDY), storage_errors(folder):
            replace(recipe, training=training).save(folder / "recipe.toml")

    run = Run(folder, recipe.training, scores, save_best, save_recipe, clock)
    return Session(recipe, task, task.objective(recipe), state, run)


def fresh_state(recipe: Recipe) -> TrainingState:
    """The state before the first step."""
    return loop.initial_state(build(recipe), recipe.training)


def build(recipe: Recipe) -> nn.Module:
    """The model before its first step, which depends only on the recipe and on the model that it starts from."""
    torch.manual_seed(recipe.training.seed)
    model: nn.Module = recipe.model.build()
    if recipe.training.start:
        origin.start_from(model, recipe.model, recipe.training)
    return model.to(recipe.training.device)


def with_steps(task: Task, draft: Draft, steps: int) -> Recipe:
    """The recipe of a resolved draft with so many steps; one that would not fit into memory is refused."""
    recipe = task.complete(task.resolve_steps(draft, steps, timed=draft.training.steps is None))
    with devices.enough_memory(recipe.training, recipe.model.context):
        task.require_memory(recipe)
    return recipe


@dataclass(frozen=True)
class StepPlan:
    """What fits into the time, as measured."""

    steps: int
    epoch_steps: float
    threads: int
    clock: Clock


def fit_into_time(task: Task, given: Draft, ends_at: float, limit: ReadingLimit) -> tuple[Recipe, Clock]:
    """The recipe with as many steps as fit into the time, and the clock of the run.

    Where these are less than an epoch and the user left the model open, a cheaper one is taken.
    """
    with reading_within(limit):
        if isinstance(task.prepared, PreparedExamples | PreparedPairs):
            task.prepared = task.prepared.within(ENCODING_SHARE * (ends_at - time.perf_counter()))
    notes, cheaper = list(task.added_notes), list(task.cheaper_models(given))
    while True:
        with reading_within(limit):
            draft, epochs = task.resolve(given, ends_at)
        recipe = with_steps(task, draft, PROBE_STEPS)
        with devices.enough_memory(recipe.training, recipe.model.context):
            plan = plan_steps(recipe, task, ends_at, threads_open=given.training.threads is None)
        plan.clock.longest, plan.clock.extends = (
            task.useful_steps(draft, epochs),
            task.extends and epochs > 0 and not task.solved,
        )
        if plan.steps >= plan.epoch_steps or not cheaper:
            break
        name, model = cheaper.pop(0)
        notes.append(
            f"model: {name}, because the time is enough for only {plan.steps / plan.epoch_steps:.2f} epochs of the "
            "usual one; --model takes another."
        )
        task.added_notes[:] = notes
        given = replace(given, model=model)
    if plan.clock.share < BUSY:
        task.add_note(f"the machine is busy: qkv got {plan.clock.share:.0%} of the processor.")
    longest = plan.clock.longest
    if plan.steps > longest and epochs and not plan.clock.extends:
        task.add_note(
            f"the run ends after {counted(longest, 'step')}, the default limit for these data, before its time is "
            "over; --steps sets another number."
        )
    draft = replace(draft, training=replace(draft.training, threads=plan.threads))
    return with_steps(task, draft, min(plan.steps, longest)), plan.clock


def plan_steps(recipe: Recipe, task: Task, ends_at: float, *, threads_open: bool) -> StepPlan:
    """The number of steps that fit into the time, measured on a copy of the run; and the clock of the run.

    On a busy machine one thread may be faster than several, which wait for each other: where their number is open, the
    faster way is taken.
    """
    probe = replace(recipe.training, steps=PROBE_STEPS, warmup=10, compile="off")
    devices.set_threads(probe.threads)
    state = loop.initial_state(build(recipe), probe)
    task.prepare_model(recipe, state.model)
    seconds_left = ends_at - time.perf_counter()
    objective = task.objective(recipe)
    time_steps = partial(
        time_budget.median_step_seconds,
        train(state, objective, probe),
        min_steps=3,
        seconds=0.0 if task.solved else min(6.0, 0.03 * seconds_left),
        patience=PROBE_SHARE * seconds_left,
    )
    share, threads = ProcessorShare(), probe.threads
    step_seconds = time_steps()
    got = share.value if probe.device == "cpu" else 1.0
    if got < BUSY and threads_open and threads > 1:
        devices.set_threads(1)
        with_one = time_steps()
        threads, step_seconds = (1, with_one) if with_one < step_seconds else (threads, step_seconds)
        devices.set_threads(threads)
    costs = task.costs(recipe, state.model, step_seconds, ends_at - time.perf_counter())
    clock = Clock(
        ends_at, closing=costs.closing / got, longest=1, scoring=costs.final_scoring, evaluation=costs.evaluation,
        share=got,
    )  # fmt: skip
    seconds_left = ends_at - time.perf_counter() - clock.reserve - costs.during_run
    steps = max(1, int(seconds_left / (step_seconds + costs.per_step)))
    return StepPlan(steps, objective.samples / recipe.training.batch, threads, clock)
