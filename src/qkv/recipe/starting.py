"""How every run starts, whatever it learns: its folder, its model, its clock, and the session that holds all."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.blocks import low_rank
from qkv.data.progress import Progress, silent
from qkv.errors import InputError, UnusablePathError
from qkv.evaluation.pace import Pace
from qkv.models.language_model import count, learning
from qkv.recipe import bundle, dial, origin
from qkv.recipe.lesson import Lesson
from qkv.recipe.recipe import Recipe
from qkv.storage import PARTIAL, advised, flush, writing
from qkv.tasks.task import Task
from qkv.training import devices
from qkv.training.clock import Clock
from qkv.training.journal import REMEDY
from qkv.training.loop import TrainingState, start, train
from qkv.training.run import Run, Scores
from qkv.training.settings import TrainingConfig

PROBING = 0.06  # of the time at most, about, goes into timing steps before the run


@dataclass(frozen=True)
class Session:
    """A run that is ready to go on."""

    planned: Recipe
    lesson: Any
    task: Task
    state: TrainingState
    run: Run

    @property
    def recipe(self) -> Recipe:
        """As it stands now: a clock may have moved the end."""
        return replace(self.planned, training=self.run.config)

    @property
    def prepared(self) -> Any:
        return self.lesson.prepared

    @property
    def model(self) -> Any:
        return self.state.model

    @property
    def parameters(self) -> int:
        """Of the model as it is kept: what LoRA puts beside it goes into its weights."""
        return count(self.model) - sum(learning(each) for each in low_rank.beside(self.model).values())

    def pace(self, progress: Progress = silent) -> Pace:
        """The time that is left for the last scores."""
        clock = self.run.clock
        if clock is None:
            return Pace(progress=progress)
        return Pace(clock.ends_at - clock.after_scoring, progress, now=clock.now)

    def final_score(self, progress: Progress = silent) -> Any:
        """The best model on what was held out."""
        return self.lesson.final_score(self.recipe, self.run.folder, self.pace(progress))


def session(recipe: Recipe, lesson: Lesson, folder: Path, clock: Clock | None = None) -> Session:
    devices.set_threads(recipe.training.threads)
    state = fresh_state(recipe)
    lesson.begin(recipe, state.model)

    def keep(model: nn.Module, step: int) -> None:
        bundle.keep_best(folder, lesson.made(recipe, origin.plainly(model, recipe.model, recipe.training), step))

    def scores(model: nn.Module) -> Scores:
        return lesson.scores(recipe, model)

    def keep_plan(changed: TrainingConfig) -> None:
        with advised(REMEDY), writing(folder):
            replace(recipe, training=changed).save(folder / "recipe.toml")

    run = Run(folder, recipe.training, scores, keep, keep_plan, clock)
    return Session(recipe, lesson, lesson.task(recipe), state, run)


def fresh_state(recipe: Recipe) -> TrainingState:
    """The state before the first step."""
    return start(build(recipe), recipe.training)


def build(recipe: Recipe) -> nn.Module:
    """The model before its first step: a function of the recipe alone, and of the model it starts from."""
    torch.manual_seed(recipe.training.seed)
    model: nn.Module = recipe.model.build()
    if recipe.training.start:
        origin.start_from(model, recipe.model, recipe.training)
    return model.to(recipe.training.device)


def plan(recipe: Recipe, lesson: Lesson, ends_at: float, longest: int) -> tuple[int, Clock]:
    """How many steps fit into the time: measured on a copy of the run, which is then forgotten; and the run's clock."""
    probe = replace(recipe.training, steps=1_000_000, warmup=10, compile="off")
    devices.set_threads(probe.threads)
    state = start(build(recipe), probe)
    lesson.begin(recipe, state.model)
    left = ends_at - time.perf_counter()
    steps = train(state, lesson.task(recipe), probe)
    a_step = dial.typical(steps, least=3, seconds=min(6.0, 0.03 * left), patience=PROBING * left)
    costs = lesson.costs(recipe, state.model, a_step, ends_at - time.perf_counter())
    clock = Clock(ends_at, closing=costs.closing, longest=longest, scoring=costs.scoring, evaluation=costs.evaluation)
    left = ends_at - time.perf_counter() - clock.reserve - costs.in_all
    return max(1, int(left / (a_step + costs.a_step))), clock


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
    with advised(REMEDY), writing(folder):
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
            if folder.is_dir() and any(path.suffix != PARTIAL for path in folder.iterdir()):
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
