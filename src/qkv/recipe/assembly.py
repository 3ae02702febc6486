"""From a recipe to a run: read the data, fill the gaps, build the model, claim the folder.

`begin` starts a new run and writes `recipe.toml`; `resume` takes one up and decides nothing again.
"""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path
from typing import Any

from qkv.data import catalog
from qkv.data.progress import Progress
from qkv.errors import InputError
from qkv.recipe import bundle, dial, lessons
from qkv.recipe.language import evaluate
from qkv.recipe.memory import require_room
from qkv.recipe.recipe import Recipe, load
from qkv.recipe.starting import Session, claim, fresh_state, plan, session
from qkv.storage import advised, verify, writing
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices, journal
from qkv.training.journal import REMEDY
from qkv.training.run import alone

__all__ = ["Session", "begin", "evaluate", "fresh_state", "resume"]

LEAST = 4 * 2**20  # bytes to read a recipe and say what is missing: libraries end the program where they get none


def begin(
    values: dict[str, Any],
    folder: Path,
    *,
    numbered: bool,
    minutes: float,
    began: float | None = None,
    progress: Progress | None = None,
) -> Session:
    """Resolve `values` into a recipe and start a run in `folder` (or in `folder-2` and so on when `numbered`).

    The minutes count from `began` on (a moment of `time.perf_counter`), or from now.
    """
    devices.ask_for(LEAST)
    began = time.perf_counter() if began is None else began
    ends_at = began + 60 * minutes * (1 - dial.SPARE)
    values = copy.deepcopy(values)
    lesson = lessons.open_lesson(values, "the recipe", progress)
    devices.give_back()
    timed = not values.get("training", {}).get("steps", 0)
    epochs = lesson.choose(values, ends_at if timed else None)
    recipe = lesson.complete(values)
    clock = None
    with devices.enough_memory(recipe.training, recipe.model.context):
        require_room(recipe)
        if timed:
            steps, clock = plan(recipe, lesson, ends_at, lesson.steps_worth(values, epochs))
    if clock:
        lesson.choose_steps(values, min(steps, clock.longest), timed=True)
        if steps > clock.longest and epochs:
            lesson.say(f"more than {clock.longest:,} steps would not help: the run will be over before its time")
    else:
        lesson.choose_steps(values, recipe.training.steps, timed=False)
    recipe = lesson.complete(values)
    devices.give_back()
    folder = claim(folder, numbered)
    with advised(REMEDY), writing(folder):
        recipe.save(folder / "recipe.toml")
    return session(recipe, lesson, folder, clock)


def resume(folder: Path, progress: Progress | None = None) -> Session:
    """Take up the run of `folder` where its newest checkpoint left it."""
    if not (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: no run to resume here (no recipe.toml). Start one without --resume.")
    with alone(folder):  # before anything of it is read: a training that goes on replaces files meanwhile
        devices.ask_for(LEAST)
    recipe = load(folder / "recipe.toml")
    require_same_place(folder, recipe)
    with devices.enough_memory(recipe.training, recipe.model.context):
        require_room(recipe)
        known = folder / "best" / bundle.TOKENIZER
        if known.is_file():
            verify(known.parent, bundle.TOKENIZER)
        tokenizer = Tokenizer.load(known) if known.is_file() else None
        lesson = lessons.again(recipe, tokenizer, folder, progress)
        for log in (folder / "metrics.jsonl", folder / "timings.jsonl"):
            if lines := journal.unreadable(log):
                lesson.say(f"{log}: {lines:,} damaged lines are left out of the report; training does not use them.")
        return session(recipe, lesson, folder)


def require_same_place(folder: Path, recipe: Recipe) -> None:
    """Refuse a run whose data was named by a relative path that leads nowhere from here, and say from where it does."""
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
