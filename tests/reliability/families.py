"""Every model on every kind of data that it learns from, by the project's own tables; and tiny data of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import small_pairs
import small_tasks
from qkv.models.registry import LANGUAGE_MODELS, TRANSLATORS, presets
from qkv.tasks.classification import systems

LABELLED = ("classification", "regression", "multi-label", "tagging", "images")
ORIGINS = ("modern", "gpt", "lstm", "bert", "distil", "masked")  # that small_tasks makes
WRITERS = ("modern", "gpt", "lstm")  # of those, language models
NUMBERS = {"numbers": "class", "numbers, regression": "amount"}  # the kind of data, and its label
DATA = ("text", *LABELLED, "two texts", *NUMBERS, "translation")
EVALUATED = {  # keys of [task] that say how much is evaluated; of labelled data, examples
    "text": ("evaluation_tokens", "final_evaluation_tokens"),
    "translation": ("evaluation_sentences", "final_evaluation_sentences"),
}


class Family(NamedTuple):
    """What is trained on what: a model's name, or a model to start from."""

    data: str
    model: str
    start: str = ""
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        start = f" from {self.start}" if self.start else ""
        return " ".join(["on", self.data + ",", self.model + start, *self.more])


def models(data: str) -> list[str]:
    """The names that `--model` takes for a kind of data, without presets, which differ in size only."""
    match data:
        case "text":
            return [*LANGUAGE_MODELS, "bert", "masked"]
        case "translation":
            return list(TRANSLATORS)
        case "numbers" | "numbers, regression":
            return list(systems.NUMBER_SYSTEMS)
        case "two texts":
            return models("classification")
        case _:
            return [name for name in systems.system_names(data) if name not in presets(systems.TEXT_SYSTEMS.kinds)]


def families() -> list[Family]:
    """Every model on every kind of data."""
    return [Family(data, model) for data in DATA for model in models(data)]


def tuned() -> Iterator[Family]:
    """Every kind of model to start from, on labelled texts; language models on text; with parts frozen, with LoRA."""
    for start in ORIGINS:
        yield Family("classification", "finetune", start)
    for start in WRITERS:
        yield Family("text", "finetune", start)
    yield Family("tagging", "finetune", "bert")
    yield Family("classification", "finetune", "bert", ("--freeze",))
    yield Family("classification", "finetune", "modern", ("--lora", "2"))


def one_of_each() -> list[Family]:
    """Every model once, and every kind of data once: a small part of `families`."""
    chosen: dict[Family, None] = {}
    for family in families():
        new_model = not any(each.model == family.model and _room(each) == _room(family) for each in chosen)
        if new_model or all(each.data != family.data for each in chosen):
            chosen[family] = None
    return list(chosen)


def _room(family: Family) -> str:
    """Names that mean another model in another room: an LSTM that writes, one that judges, one that tags."""
    return {"regression": "classification", "multi-label": "classification", "two texts": "classification"}.get(
        family.data, family.data
    )


def write(folder: Path, data: str) -> list[str]:
    """Tiny data of a kind: the words that name them in a command."""
    folder.mkdir(parents=True, exist_ok=True)
    if data == "translation":
        return small_pairs.write(folder, count=60)
    if data == "text":
        path = folder / "text.txt"
        path.write_text("".join(f"{text}.\n" for text, _ in small_tasks.sentences()), encoding="utf-8")
        return [str(path)]
    if data in NUMBERS:
        path = folder / "numbers.csv"
        rows = np.random.default_rng(4).normal(size=(80, 3)).round(3)
        lines = [f"{a},{b},{c},{'high' if a > b else 'low'},{2 * a - c:.4f}" for a, b, c in rows]
        wanted = list(NUMBERS.values()).index(NUMBERS[data]) + 3
        kept = [",".join([*line.split(",")[:3], line.split(",")[wanted]]) for line in lines]
        path.write_text(f"a,b,c,{NUMBERS[data]}\n" + "".join(f"{line}\n" for line in kept), encoding="utf-8")
        return [str(path), "--label", NUMBERS[data]]
    task = "pairs" if data == "two texts" else data
    return [str(small_tasks.write(folder, task)), "--task", "classification" if data == "two texts" else data]


def command(family: Family, data: list[str], run: Path, *, start: Path | None = None, steps: int = 6) -> list[str]:
    """`qkv train`, or `qkv finetune`, in a few steps with checkpoints between."""
    verb = ["train", *data, "--model", family.model] if start is None else ["finetune", str(start), *data]
    settings = ["threads=1", "checkpoint_every=2", "evaluate_every=3"]
    texts = ("classification", "multi-label", "regression", "two texts")
    has_optimum = family.model == "linear" and family.data in texts  # it is fitted to all examples at once
    settings += [] if family.data == "translation" or has_optimum else ["batch=4"]
    sets = [word for each in settings for word in ("--set", f"training.{each}")]
    sets += [
        word for key in EVALUATED.get(family.data, ("evaluation_examples",)) for word in ("--set", f"task.{key}=40")
    ]
    return [*verb, *family.more, "--run", str(run), "--steps", str(steps), "--json", *sets]
