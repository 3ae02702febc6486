"""The list of tasks, and which of them a recipe is about: the task follows from the data, unless it is given.

To add a task, write its folder and add its line to `TASKS`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from qkv.data.detect import PAIRED, Detected, detect
from qkv.data.findings import Progress
from qkv.errors import ConfigError, InputError
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import Recipe, Section
from qkv.tasks.classification.systems import USUAL_TABLE
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.masked_language_modelling.task import MaskedLanguageModellingTask, fills
from qkv.tasks.protocol import Task
from qkv.tasks.tagging.task import TaggingTask
from qkv.tasks.translation.task import TranslationTask, translates
from qkv.text.tokenizer import Tokenizer

TASKS: dict[str, type[Task]] = {
    LanguageModellingTask.kind: LanguageModellingTask,
    MaskedLanguageModellingTask.kind: MaskedLanguageModellingTask,
    ClassificationTask.kind: ClassificationTask,
    TaggingTask.kind: TaggingTask,
    TranslationTask.kind: TranslationTask,
}

OPTIONS = {
    "documents": "plain text",
    "filter": "folders of plain text or of labelled examples",
    "test": "labelled examples and pairs of texts",
    "text": "plain text and labelled examples",
    **dict.fromkeys(("label", "text2", "id", "task", "header", "columns"), "labelled examples"),
    **dict.fromkeys(PAIRED, "pairs of texts"),
}
"""Keys of a corpus that not every kind of data has, and which data have them."""


def detected_of(values: Mapping[str, Section]) -> Detected:
    """What the files of a recipe hold."""
    return detect(dict(values.get("corpus", {})))


def task_of(draft: Draft, detected: Detected | None = None) -> type[Task]:
    """The task: as it is given, as the model asks for, or as the files show."""
    if (given := draft.task.get("kind")) is not None:
        if given not in TASKS:
            expected = ", ".join(TASKS)
            raise ConfigError(f"{draft.where}: task.kind = {given!r} is not known; expected one of {expected}.")
        return TASKS[given]
    detected = detected or detect(dict(draft.corpus))
    translation = translates(draft.model) or "metric" in draft.task
    if detected.content == "examples" and (detected.columns_given or not translation):
        return ClassificationTask
    if detected.content == "pairs" or translation:
        return TranslationTask
    return MaskedLanguageModellingTask if fills(draft.model) else LanguageModellingTask


def _require_fitting(draft: Draft, task: type[Task]) -> None:
    """Refuse options that are for other data than these, by the names that people typed."""
    corpus = draft.corpus
    own = {field.name for field in dataclasses.fields(task.corpus)}
    for key, purpose in OPTIONS.items():
        if key not in own and (given := corpus.get(key)) is not None:
            shown = " ".join(map(str, given)) if isinstance(given, list | tuple) else given
            files = corpus.get("files") or ("the data",)
            raise ConfigError(
                f"{draft.where}: --{key} {shown}: is for {purpose}, and {files[0]} is read as {task.data}. Leave it "
                "out, or say with --task what the data are."
            )
    if "weights" in draft.task and not task.labelled:
        raise ConfigError(
            f"{draft.where}: task.weights (--class-weights) is for labelled examples, and this is {task.kind}."
        )


def task_to_study(corpus: Section, verb: str) -> type[Task]:
    """The task of files that several models are to be tried on; translators are not."""
    draft = Draft.parse({"corpus": corpus}, "the options")
    task = task_of(draft)
    if task is TranslationTask:
        raise InputError(
            f"{', '.join(map(str, corpus.get('files', ())))}: texts and their translations, and qkv {verb} knows no "
            "translators. Train them one by one: qkv train SOURCE TARGET --model transformer, or rnn-translator."
        )
    _require_fitting(draft, task)
    return task


def default_model(values: Mapping[str, Section], detected: Detected) -> str:
    """The model that is trained by default, by what the files hold."""
    task = task_of(Draft.parse(values, "the recipe"), detected)
    return USUAL_TABLE if task.labelled and detected.numeric else task.default_model


def open_task(draft: Draft, progress: Progress | None, detected: Detected | None = None) -> Task:
    """Read what is to be learned from."""
    detected = detected or detect(dict(draft.corpus))
    task = task_of(draft, detected)
    _require_fitting(draft, task)
    opened = task.open(draft, progress, detected)
    return opened if opened.kind_of_data == opened.kind else TASKS[opened.kind_of_data](opened.prepared)


def resume_task(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
    """The task of a run that goes on."""
    return TASKS[recipe.task.kind].resume(recipe, tokenizer, folder, progress)
