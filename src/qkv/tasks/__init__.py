"""One folder for each task; `TASK_FILES` is the only list, `protocol.py` what every task answers.

To add a task, write its folder and add its line below. What is in a folder is imported when its task is chosen;
`claims` of the folder's `__init__.py` says which data and models are for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from qkv.ranges import ExampleTask

if TYPE_CHECKING:
    from qkv.data.detect import Detected

TASK_FILES: dict[str, str | type] = {  # a later task is asked first what it claims
    "language-modelling": "language_modelling.task:LanguageModellingTask",
    "masked-language-modelling": "masked_language_modelling.task:MaskedLanguageModellingTask",
    "classification": "classification.task:ClassificationTask",
    "tagging": "tagging.task:TaggingTask",
    "translation": "translation.task:TranslationTask",
}
if TYPE_CHECKING:
    TaskName = str
else:  # what --task takes: every task, and what can be learned of an example
    TaskName = Literal[tuple(dict.fromkeys((*get_args(ExampleTask), *TASK_FILES)))]


def named_task(corpus: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections [corpus] and [task], where the task of a corpus is none of examples; these share one reader."""
    if corpus.get("task") in (None, *get_args(ExampleTask)):
        return {**corpus}, {}
    return {key: value for key, value in corpus.items() if key != "task"}, {"kind": corpus["task"]}


def detected_as(corpus: Mapping[str, Any]) -> Detected:
    """What the files of a corpus hold, by its task where it has one."""
    from qkv.data.detect import CONFIGS, detect

    reading, task = named_task(corpus)
    detected = detect(reading)
    if not task:
        return detected
    from qkv.tasks.registry import TASKS

    config = TASKS[task["kind"]].corpus
    return replace(detected, content=next(content for content, own in CONFIGS.items() if own is config))
