"""Which lesson a recipe is about. The task follows from the data, unless somebody says it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from qkv.data.corpus import CorpusConfig
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.labelled.describing import folders_of_texts, labelled, numeric
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.describing import parallel
from qkv.data.progress import Progress
from qkv.errors import ConfigError, InputError
from qkv.recipe.labelled import LabelledLesson
from qkv.recipe.language import LanguageLesson
from qkv.recipe.lesson import Lesson, Values
from qkv.recipe.masked import MaskedLesson, fills
from qkv.recipe.recipe import LABELLED, MASKED, TASKS, TRANSLATION, Recipe, sections
from qkv.recipe.systems import USUAL_TABLE
from qkv.recipe.translation import TranslationLesson, translates
from qkv.text.tokenizer import Tokenizer

PAIRED = ("source", "target", "languages", "directions")  # that only texts with translations have
COLUMNS = ("label", "text2", "id", "task", "header")  # that only labelled files have


OPTIONS = {
    "documents": "plain text",
    "filter": "folders of plain text or of labelled examples",
    "test": "labelled examples and pairs of texts",
    "text": "plain text and labelled examples",
    **dict.fromkeys(("label", "text2", "id", "task", "header", "columns"), "labelled examples"),
    **dict.fromkeys(PAIRED, "pairs of texts"),
}
"""Keys of a corpus that not every kind of data has, and which data have them."""


def task_of(values: Values, where: str) -> str:
    """The name of the task: as it is said, as the model asks for, or as the files show."""
    said = values.get("task", {}).get("kind") if isinstance(values.get("task", {}), dict) else None
    if said is not None:
        if said not in TASKS:
            raise ConfigError(f"{where}: task.kind = {said!r} is not known; expected one of {', '.join(TASKS)}.")
        return str(said)
    corpus: Any = values.get("corpus", {})
    if not isinstance(corpus, dict):
        return "language-modelling"  # whose sections say what is wrong
    if any(corpus.get(name) is not None for name in COLUMNS):
        return "classification"
    task: Any = values.get("task", {})
    if translates(values) or any(corpus.get(name) for name in PAIRED) or "metric" in task:
        return TRANSLATION
    documents, pattern = corpus.get("documents"), corpus.get("filter")
    files = list(corpus.get("files", ()))
    encoding = corpus.get("encoding") or "utf-8"
    if not documents and not pattern and files and parallel(files, encoding):
        return TRANSLATION
    if not documents and files and labelled(files, encoding, pattern):
        return "classification"
    if corpus.get("test") and files and all(folders_of_texts(name, encoding) for name in files):
        return "classification"  # only labelled examples are tested, so the folders are labels
    return MASKED if fills(values) else "language-modelling"


def _require_fitting(values: Values, task: str, where: str) -> None:
    """Refuse options that are for other data than these, by the names that people typed."""
    corpus: Any = values.get("corpus", {})
    if not isinstance(corpus, dict):
        return
    config = ExamplesConfig if task in LABELLED else ParallelConfig if task == TRANSLATION else CorpusConfig
    own = {field.name for field in dataclasses.fields(config)}
    here = "labelled examples" if task in LABELLED else "pairs of texts" if task == TRANSLATION else "plain text"
    for key, purpose in OPTIONS.items():
        if key not in own and corpus.get(key) is not None:
            given = corpus[key]
            shown = " ".join(map(str, given)) if isinstance(given, list | tuple) else given
            files = corpus.get("files") or ("the data",)
            raise ConfigError(
                f"{where}: --{key} {shown}: is for {purpose}, and {files[0]} is read as {here}. Leave it out, or say "
                "with --task what the data are."
            )


def task_to_study(corpus: dict[str, Any], verb: str) -> str:
    """The task of files that several models are to be tried on; translators are not."""
    task = task_of({"corpus": corpus}, "the options")
    if task == TRANSLATION:
        raise InputError(
            f"{', '.join(map(str, corpus.get('files', ())))}: texts and their translations, and qkv {verb} knows no "
            "translators. Train them one by one: qkv train SOURCE TARGET --model transformer, or rnn-translator."
        )
    return task


def usual_model(values: Values) -> str:
    """The model that is trained when nothing is said, by the looks of the files."""
    task = task_of(values, "the recipe")
    if task not in LABELLED:
        return "transformer" if task == TRANSLATION else "modern"
    corpus = {key: value for key, value in values.get("corpus", {}).items() if value is not None}
    return USUAL_TABLE if numeric(corpus) else "lstm"


def open_lesson(values: Values, where: str, progress: Progress | None) -> Lesson:
    """Read what is to be learned from; names of models and presets are unfolded in `values`."""
    task = task_of(values, where)
    _require_fitting(values, task, where)
    if task in LABELLED:
        return LabelledLesson.open(values, where, progress)
    if isinstance(values.get("task"), dict) and "weights" in values["task"]:
        raise ConfigError(f"{where}: task.weights (--class-weights) is for labelled examples, and this is {task}.")
    if task == MASKED:
        return MaskedLesson.open(values, where, progress)
    if task == TRANSLATION:
        return TranslationLesson.open(values, where, progress)
    unfolded = dict(sections(values, where))
    values.clear()
    values.update(unfolded)
    opened = LanguageLesson.open(values, where, progress)
    files = opened.prepared.corpus.files
    if len(files) == 1 and (names := folders_of_texts(files[0], opened.prepared.corpus.encoding)):
        opened.say(
            f"{files[0]}: texts in {len(names)} folders ({', '.join(names[:5])}{', ...' if names[5:] else ''}); "
            "if these are labels, say --task classification."
        )
    return opened


def again(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Lesson:
    """The lesson of a run that goes on."""
    if recipe.task.kind in LABELLED:
        return LabelledLesson.again(recipe, tokenizer, folder, progress)
    if recipe.task.kind == MASKED:
        return MaskedLesson.again(recipe, tokenizer, folder, progress)
    if recipe.task.kind == TRANSLATION:
        return TranslationLesson.again(recipe, tokenizer, folder, progress)
    return LanguageLesson.again(recipe, tokenizer, folder, progress)
