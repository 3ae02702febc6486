"""Every kind of model on every kind of data it fits, from the project's own lists: the words that train it, tiny."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from qkv.models import registry
from qkv.models.classifier import ClassifierConfig
from qkv.models.masked import MaskedConfig
from qkv.tasks.classification import systems

LABELLED = ("classification", "pairs", "regression", "multi-label", "tagging", "images")
MODES: dict[str, list[str]] = {"full": [], "freeze": ["--freeze"], "lora": ["--lora", "2"]}
SMALL = {
    "layers": 1, "heads": 2, "width": 24, "hidden": 32, "embedding_width": 16, "letters": 300, "context": 32,
    "window": 4, "kernel": 3, "buckets": 512, "patch": 4,
}  # fmt: skip
EVERY = ["training.threads=1", "training.device=cpu", "training.dtype=f32"]


@dataclasses.dataclass(frozen=True)
class Family:
    """One kind of model on one kind of data: the words that train it, without --run and --steps."""

    name: str
    words: tuple[str, ...]
    configs: tuple[Any, ...] = ()  # of the sections of its recipe: model, task

    def train(self, run: Path | str, steps: int, *settings: str) -> list[str]:
        sets = (word for each in (*EVERY, *settings) for word in ("--set", each))
        return [*self.words, "--steps", str(steps), "--run", str(run), *sets]


def small(config: Any, without: Collection[str] = ()) -> list[str]:
    """--set words that make a model tiny, as far as it has such numbers."""
    names = {field.name for field in dataclasses.fields(config)}.difference(without)
    return [word for key, value in SMALL.items() if key in names for word in ("--set", f"model.{key}={value}")]


def families() -> list[Family]:
    """From the project's own lists, so that a model or task that is added is attacked, too."""
    return [*_writers(), *_labelled(), *_tables(), *_translators(), *_finetuned()]


def _writers() -> Iterator[Family]:
    for kind, config in registry.LANGUAGE_MODELS.items():
        words = ("train", "{stage}/book.txt", "--model", kind, "--tokenizer", "characters", "--set", "training.batch=4")
        yield Family(f"text {kind}", (*words, *small(config)), (config,))
    words = ("train", "{stage}/book.txt", "--model", "bert-tiny", "--set", "training.batch=4", "--set")
    encoder = ("model.width=24", "--set", "model.hidden=32")
    yield Family("masked bert", (*words, "tokenizer.size=300", "--set", *encoder), (MaskedConfig,))


def _labelled() -> Iterator[Family]:
    encoders = registry.TEXT_ENCODERS | registry.LANGUAGE_MODELS | registry.IMAGE_ENCODERS
    for task in LABELLED:
        of = "classification" if task == "pairs" else task
        for name in systems.system_names(of):
            if name in registry.presets(systems.TEXT_SYSTEMS.kinds):
                continue
            config = encoders[systems.find_system(name, of, "trials").encoder["kind"]]
            kind = ("--task", of, "--model", name, "--set", "training.batch=16")
            pieces = () if task == "images" else ("--tokenizer", "wordpiece", "--set", "tokenizer.size=300")
            sizes = small(config, without=["width"] if name == "linear" else [])  # which is as wide as its labels
            words = ("train", table_of(task), *kind, *pieces, *sizes)
            yield Family(f"{task} {name}", words, (config, ClassifierConfig))


def _tables() -> Iterator[Family]:
    for name in systems.NUMBER_SYSTEMS:
        config = registry.READING_MODELS[f"{name}-table"]
        for label in ("class", "amount"):
            words = ("train", "{stage}/numbers.csv", "--label", label, "--model", name, "--set", "training.batch=16")
            yield Family(f"numbers {name} {label}", (*words, *small(config)), (config,))


def _translators() -> Iterator[Family]:
    for kind, config in registry.TRANSLATORS.items():
        for directions in ("forward", "both"):
            words = ["train", "{stage}/train.en", "{stage}/train.de", "--model", kind, "--directions", directions]
            words += ["--tokenizer", "bpe", "--set", "tokenizer.size=300", "--set", "task.tokens=256"]
            yield Family(f"translation {kind} {directions}", (*words, *small(config, without=["context"])), (config,))


def _finetuned() -> Iterator[Family]:
    tasks = ("classification", "tagging", "regression")
    for number, start in enumerate((*registry.LANGUAGE_MODELS, "bert", "classifier")):
        for shift, (mode, words) in enumerate(MODES.items()):
            task = tasks[(number + shift) % len(tasks)]
            data = table_of(task)
            yield Family(f"finetune {start} {mode} {task}", ("finetune", f"{{stage}}/{start}", data, *words))
        if start in registry.LANGUAGE_MODELS:
            yield Family(f"finetune {start} text", ("finetune", f"{{stage}}/{start}", "{stage}/short.txt"))


def table_of(task: str) -> str:
    names = {"tagging": "words.conll", "multi-label": "table.tsv", "images": "pictures.npz"}
    return f"{{stage}}/{task}/{names.get(task, 'table.csv')}"


def numeric(config: Any) -> list[str]:
    """The fields of a config that hold a number."""
    hints = typing.get_type_hints(config)
    return [name for name, hint in hints.items() if hint in (int, float) or {int, float} & set(typing.get_args(hint))]
