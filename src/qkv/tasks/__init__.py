"""The list of tasks, `TASK_FILES`, with a folder for each. Their interface is in `protocol.py`.

To add a task, write its folder and add its line below. The modules of a folder are imported when its task is chosen;
`claims` in the folder's `__init__.py` says which data and models the task is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from qkv.ranges import ExampleTask

if TYPE_CHECKING:
    from qkv.data.detect import Detected

TASK_FILES: dict[str, str | type] = {  # the last task is asked first whether it claims the data
    "language-modelling": "language_modelling.task:LanguageModellingTask",
    "masked-language-modelling": "masked_language_modelling.task:MaskedLanguageModellingTask",
    "classification": "classification.task:ClassificationTask",
    "tagging": "tagging.task:TaggingTask",
    "translation": "translation.task:TranslationTask",
}
if TYPE_CHECKING:
    TaskName = str
else:  # the values of --task: all tasks, and the kinds of examples
    TaskName = Literal[tuple(dict.fromkeys((*get_args(ExampleTask), *TASK_FILES)))]


def named_task(corpus: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections [corpus] and [task] for options in which --task may be among those of the corpus.

    The key `task` stays in [corpus] if it names a kind of examples; other tasks become the kind of [task].
    """
    if corpus.get("task") in (None, *get_args(ExampleTask)):
        return {**corpus}, {}
    return {key: value for key, value in corpus.items() if key != "task"}, {"kind": corpus["task"]}


def detected_as(corpus: Mapping[str, Any]) -> Detected:
    """What the files of a corpus hold; if a task is named, it decides."""
    from qkv.data.detect import CONFIGS, detect

    reading, task = named_task(corpus)
    detected = detect(reading)
    if not task:
        return detected
    from qkv.tasks.registry import TASKS

    config = TASKS[task["kind"]].corpus_config
    return replace(detected, content=next(content for content, own in CONFIGS.items() if own is config))
