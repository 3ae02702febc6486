"""Which task a recipe is about, and which a model: the task follows from the data, unless it is given."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.config import LazyClasses
from qkv.data.detect import Detected, detect, naming_deciding_options
from qkv.data.findings import Progress
from qkv.errors import ConfigError, InputError, QkvError
from qkv.recipe import recipe as recipes
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import Recipe, Section
from qkv.tasks import TASK_FILES
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.tasks.protocol import Task

TASKS: Mapping[str, type[Task]] = LazyClasses("qkv.tasks", TASK_FILES)


def detected_of(values: Mapping[str, Section]) -> Detected:
    """What the files of a recipe hold."""
    return detect(dict(values.get("corpus", {})))


def task_of(draft: Draft, detected: Detected | None = None) -> type[Task]:
    """The task: as it is given, as the model asks for, or as the files show."""
    if (given := draft.task.get("kind")) is not None:
        return _named(str(given), draft.where)
    detected = detected or detect(dict(draft.corpus))
    folders = {kind: import_module(f"qkv.tasks.{kind.replace('-', '_')}") for kind in reversed([*TASKS])}
    return TASKS[next(kind for kind, folder in folders.items() if folder.claims(draft, detected))]


def _named(kind: str, where: str) -> type[Task]:
    if kind not in TASKS:
        raise ConfigError(f"{where}: task.kind = {kind!r} is not known; expected one of {', '.join(TASKS)}.")
    return TASKS[kind]


def _require_fitting(draft: Draft, task: type[Task]) -> None:
    """Refuse options that are for other data than these, by the names that people typed."""
    corpus = draft.corpus
    own = {field.name for field in fields(task.corpus)}
    if others := [key for key, value in corpus.items() if key not in own and value is not None]:
        data = {each.data: each.options for each in TASKS.values()}
        for key in others:
            if purposes := [name for name, options in data.items() if key in options]:
                given = corpus[key]
                shown = " ".join(map(str, given)) if isinstance(given, list | tuple) else given
                files = corpus.get("files") or ("the data",)
                raise ConfigError(
                    f"{draft.where}: --{key} {shown}: is for {' and '.join(purposes)}, and {files[0]} is read as "
                    f"{task.data}. Leave it out, or give --task, which says what the data are."
                )
    if "weights" in draft.task and not task.labelled:
        raise ConfigError(
            f"{draft.where}: task.weights (--class-weights) is for labelled examples, and this is {task.kind}."
        )


def task_to_study(corpus: Section, task_section: Section, verb: str) -> type[Task]:
    """The task of files that several models are to be tried on, where it is one that can be compared and tuned."""
    draft = Draft.parse({"corpus": corpus, "task": task_section}, "the options")
    task = task_of(draft)
    if task.not_studied:
        raise InputError(f"{', '.join(map(str, corpus.get('files', ())))}: {task.not_studied.format(verb=verb)}")
    _require_fitting(draft, task)
    return task


def default_model(values: Mapping[str, Section], detected: Detected) -> str:
    """The model that is trained by default, by what the files hold."""
    return task_of(Draft.parse(values, "the recipe"), detected).default_model_for(detected)


def open_task(draft: Draft, progress: Progress | None, detected: Detected | None = None) -> Task:
    """Read what is to be learned from."""
    detected = detected or detect(dict(draft.corpus))
    task = task_of(draft, detected)
    _require_fitting(draft, task)
    with naming_deciding_options({**draft.corpus, **draft.task}):
        opened = task.open(draft, progress, detected)
    return opened if opened.kind_of_data == opened.kind else TASKS[opened.kind_of_data](opened.prepared)


def resume_task(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
    """The task of a run that goes on."""
    return TASKS[recipe.task.kind].resume(recipe, tokenizer, folder, progress)


def load_recipe(path: Path) -> Recipe:
    """A complete recipe, as a run folder holds it."""
    values = recipes.read(path)
    task = _named(str(values.get("task", {}).get("kind", "language-modelling")), str(path))
    return recipes.complete(values, task.models, task.corpus, task.config, str(path))


def task_of_model(bundle: Bundle) -> type[Task]:
    """The task that a model is for: that of its run, else the first whose models are of its kind."""
    kind, recipe = bundle.config.kind, recipe_of(bundle)
    if recipe is not None and kind in TASKS[recipe.task.kind].models:
        return TASKS[recipe.task.kind]
    return next((task for task in TASKS.values() if kind in task.models), next(iter(TASKS.values())))


def recipe_of(bundle: Bundle) -> Recipe | None:
    """The recipe of the run that a model comes from; None where it has left its run, or that cannot be read."""
    path = None if bundle.folder is None else bundle.folder.parent / "recipe.toml"
    if path is not None and path.is_file():
        with suppress(QkvError):
            return load_recipe(path)
    return None
