"""The list of tasks, and which of them a recipe is about: the task follows from the data, unless somebody says it.

To add a task, write its folder and add its line to `TASKS`.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from qkv.data.detect import PAIRED, Detected, detect
from qkv.data.findings import Progress
from qkv.errors import ConfigError, InputError
from qkv.recipe.recipe import Recipe
from qkv.tasks.classification.systems import USUAL_TABLE
from qkv.tasks.classification.task import ClassificationTask, LabelledTask
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.masked_language_modelling.task import MaskedLanguageModellingTask, fills
from qkv.tasks.protocol import Task, TaskClass, Values
from qkv.tasks.tagging.task import TaggingTask
from qkv.tasks.translation.task import TranslationTask, translates
from qkv.text.tokenizer import Tokenizer

TASKS: dict[str, TaskClass] = {
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


def detected_of(values: Values) -> Detected:
    """What the files of a recipe hold."""
    corpus: Any = values.get("corpus", {})
    return detect(corpus if isinstance(corpus, dict) else {})  # whose sections say what is wrong


def task_of(values: Values, where: str, detected: Detected | None = None) -> str:
    """The name of the task: as it is given, as the model asks for, or as the files show."""
    given = values.get("task", {}).get("kind") if isinstance(values.get("task", {}), dict) else None
    if given is not None:
        if given not in TASKS:
            raise ConfigError(f"{where}: task.kind = {given!r} is not known; expected one of {', '.join(TASKS)}.")
        return str(given)
    if not isinstance(values.get("corpus", {}), dict):
        return LanguageModellingTask.kind  # whose sections say what is wrong
    detected = detected or detected_of(values)
    task: Any = values.get("task", {})
    if detected.content == "examples" and (detected.columns_given or not (translates(values) or "metric" in task)):
        return ClassificationTask.kind
    if detected.content == "pairs" or translates(values) or "metric" in task:
        return TranslationTask.kind
    return MaskedLanguageModellingTask.kind if fills(values) else LanguageModellingTask.kind


def _require_fitting(values: Values, task: TaskClass, where: str) -> None:
    """Refuse options that are for other data than these, by the names that people typed."""
    corpus: Any = values.get("corpus", {})
    if not isinstance(corpus, dict):
        return
    own = {field.name for field in dataclasses.fields(task.corpus)}
    for key, purpose in OPTIONS.items():
        if key not in own and corpus.get(key) is not None:
            given = corpus[key]
            shown = " ".join(map(str, given)) if isinstance(given, list | tuple) else given
            files = corpus.get("files") or ("the data",)
            raise ConfigError(
                f"{where}: --{key} {shown}: is for {purpose}, and {files[0]} is read as {task.data}. Leave it out, or "
                "say with --task what the data are."
            )


def task_to_study(corpus: dict[str, Any], verb: str) -> TaskClass:
    """The task of files that several models are to be tried on; translators are not."""
    task = TASKS[task_of({"corpus": corpus}, "the options")]
    if task is TranslationTask:
        raise InputError(
            f"{', '.join(map(str, corpus.get('files', ())))}: texts and their translations, and qkv {verb} knows no "
            "translators. Train them one by one: qkv train SOURCE TARGET --model transformer, or rnn-translator."
        )
    _require_fitting({"corpus": corpus}, task, "the options")
    return task


def usual_model(values: Values, detected: Detected) -> str:
    """The model that is trained by default, by what the files hold."""
    task = TASKS[task_of(values, "the recipe", detected)]
    if not issubclass(task, LabelledTask):
        return "transformer" if task is TranslationTask else "modern"
    return USUAL_TABLE if detected.numeric else "lstm"


def open_task(values: Values, where: str, progress: Progress | None, detected: Detected | None = None) -> Task:
    """Read what is to be learned from; names of models and presets are unfolded in `values`."""
    detected = detected or detected_of(values)
    task = TASKS[task_of(values, where, detected)]
    _require_fitting(values, task, where)
    if issubclass(task, LabelledTask):
        opened = ClassificationTask.open(values, where, progress, detected)
        return TaggingTask(opened.prepared) if opened.prepared.labelled.task == TaggingTask.kind else opened
    if isinstance(values.get("task"), dict) and "weights" in values["task"]:
        raise ConfigError(f"{where}: task.weights (--class-weights) is for labelled examples, and this is {task.kind}.")
    return task.open(values, where, progress, detected)


def resume_task(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
    """The task of a run that goes on."""
    return TASKS[recipe.task.kind].resume(recipe, tokenizer, folder, progress)
