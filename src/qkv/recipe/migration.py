"""Recipes that older versions saved, converted to the present format, so that their runs still open and resume.

A saved recipe carries the number of its format. Format 1 carried none; it is recognised by the fingerprint of its data,
which only a resolved recipe has. A recipe that a person writes is never converted: an old key in it is refused by name.
"""

from __future__ import annotations

from typing import Any

from qkv.errors import ConfigError

TRAINING = {  # keys of [training] in format 1, and what they are called now
    "rate": "learning_rate",
    "matrix_rate": "matrix_learning_rate",
    "final": "final_fraction",
    "turns": "steps_changes",
    "evaluations": "evaluate_every_changes",
}
EVALUATED = {  # what an evaluation counts, by task
    "language-modelling": "tokens",
    "masked-language-modelling": "tokens",
    "classification": "examples",
    "tagging": "examples",
    "translation": "sentences",
}


def current(values: dict[str, Any], newest: int, where: str) -> dict[str, Any]:
    """The sections of a recipe in the present format, without the number."""
    values = dict(values)
    corpus = values.get("corpus")
    resolved = isinstance(corpus, dict) and "fingerprint" in corpus
    number = values.pop("format", 1 if resolved else newest)
    if type(number) is not int or not 1 <= number <= newest:
        newer = " A newer version of qkv wrote it: update qkv." if type(number) is int and number > newest else ""
        raise ConfigError(f"{where}: format = {number!r} does not fit; expected a number from 1 to {newest}.{newer}")
    return _from_format_1(values) if number == 1 else values


def _from_format_1(values: dict[str, Any]) -> dict[str, Any]:
    """Rename keys of [training], and move to [task] how much is evaluated, with its unit in the name."""
    training, task = values.get("training"), values.get("task", {})
    if not isinstance(training, dict) or not isinstance(task, dict):
        return values  # which is refused where the sections are checked
    training = {TRAINING.get(key, key): value for key, value in training.items()}
    unit = EVALUATED.get(str(task.get("kind", "language-modelling")), "tokens")
    during, final = training.pop("evaluate_tokens", 0), training.pop("evaluate_last", 0)
    task = dict(task)
    if during:
        task.setdefault(f"evaluation_{unit}", during)
    if final and unit != "examples":  # all examples are evaluated at the end
        task.setdefault(f"final_evaluation_{unit}", final)
    return {**values, "training": training, "task": task}
