"""The systems that classify texts, words, images and rows of numbers, by the names that `--model` takes. The figures
that suit each stand on the config of its model.

`--model lstm` on a table is an LSTM over the text, a pooling and a head: in the recipe a `classifier` (or `tagger`)
around an encoder of kind `recurrent-encoder`. What the user set is never touched. Decision 0013 has the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from qkv.config import LazyClasses, toml_values
from qkv.data.examples import Labelled, NumberExamples
from qkv.errors import ConfigError
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import (
    CLASSIFIERS,
    IMAGE_CLASSIFIERS,
    IMAGE_ENCODERS,
    LANGUAGE_MODELS,
    TABLE_MODELS,
    TEXT_ENCODERS,
    ModelConfig,
    is_recurrent,
    preset,
    presets,
)
from qkv.models.table import LinearTable, MLPTable
from qkv.objectives.classification import Problem
from qkv.recipe import origin, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import TrainingDraft
from qkv.recipe.recipe import NewSection, Section, unknown_model
from qkv.text.tokenizer import Tokenizer

SMALL = 8_000_000  # weights; fewer are taught faster
OF_WHOLE_TEXTS = ("linear", "mlp", "bag")  # that tell nothing of a single word
OUTSIDE = ("pooling", "head", "labels", "problem", "dropout")  # of a classifier; all else is its encoder's


class Systems(Mapping[str, ClassifierDefaults]):
    """Systems by name, with the kind of each one's encoder; a model is imported when its system is asked for."""

    def __init__(self, kinds: LazyClasses, names: Mapping[str, str], role: str = "classifiers") -> None:
        self.kinds, self.names, self.role = kinds, names, role

    def __getitem__(self, name: str) -> ClassifierDefaults:
        kind = self.names[name]
        system: ClassifierDefaults = getattr(self.kinds[kind], self.role)[name]
        return replace(system, encoder={"kind": kind, **system.encoder})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


TEXTS = Systems(TEXT_ENCODERS | LANGUAGE_MODELS, CLASSIFIERS)
TAGS = Systems(
    TEXT_ENCODERS, {name: kind for name, kind in CLASSIFIERS.items() if kind == "recurrent-encoder"}, "taggers"
)
PICTURES = Systems(IMAGE_ENCODERS, IMAGE_CLASSIFIERS)
TABLES = Systems(TABLE_MODELS, {kind.removesuffix("-table"): kind for kind in TABLE_MODELS})  # of numbers
DEFAULT_TABLE = "mlp"
DEFAULT = {"classification": "lstm", "regression": "lstm", "multi-label": "lstm", "tagging": "lstm", "images": "cnn"}
LONG = dict.fromkeys(("classification", "regression", "multi-label"), "bag")
"""The default where texts have hundreds of tokens: what reads them token by token is slow, and learns late."""


def names(task: str) -> list[str]:
    if task == "images":
        return list(PICTURES)
    return [*(name for name in TEXTS if task != "tagging" or name not in OF_WHOLE_TEXTS), *presets(TEXTS.kinds)]


def system(name: str, task: str, where: str) -> ClassifierDefaults:
    """By its name, or a preset's."""
    known: Mapping[str, ClassifierDefaults] = PICTURES if task == "images" else TEXTS
    if task == "tagging" and name in TAGS:
        known = TAGS
    elif task != "images" and name not in known and (sizes := preset(TEXTS.kinds, name)) is not None:
        around = known[sizes.kind]
        return ClassifierDefaults(
            {**toml_values(sizes), "dropout": 0.1}, around.pooling, around.dropout, learning_rate=5e-4
        )
    if name not in known or (task == "tagging" and name in OF_WHOLE_TEXTS):
        raise unknown_model(name, names(task), where, task)
    return known[name]


def of_numbers(model: Section, where: str) -> tuple[NewSection, ClassifierDefaults]:
    """The section of a model of a table of numbers, and the system it names."""
    name = str(model.get("kind", DEFAULT_TABLE)).removesuffix("-table")
    if name not in TABLES:
        raise unknown_model(name, list(TABLES), where, "a table of numbers")
    return {**model, "kind": f"{name}-table"}, TABLES[name]


def unfolded(model: Section, task: str, where: str) -> tuple[NewSection, ClassifierDefaults]:
    """A model section as people write it, as the section of a classifier or a tagger; and the system it names."""
    kind = "tagger" if task == "tagging" else "classifier"
    if model.get("kind") in ("classifier", "tagger"):  # as a resolved recipe has it
        encoder = model.get("encoder")
        if model["kind"] != kind or not isinstance(encoder, dict) or "kind" not in encoder:
            raise ConfigError(
                f"{where}: model.kind = {model['kind']!r} with model.encoder = {encoder!r} does not fit {task}; "
                f"expected {kind!r} around an encoder with its kind. Give --model one of {', '.join(names(task))}."
            )
        return {**model, "encoder": dict(encoder)}, _around(encoder)
    chosen = system(str(model.get("kind", DEFAULT[task])), task, where)
    given = {key: value for key, value in model.items() if key != "kind"}
    encoder = {**chosen.encoder, **{key: value for key, value in given.items() if key not in OUTSIDE}}
    if "dropout" in given and encoder["kind"] not in ("bag", "linear", "picture-cnn"):
        encoder["dropout"] = given["dropout"]
    section: NewSection = {"kind": kind, "dropout": chosen.dropout, "encoder": encoder}
    if kind == "classifier":
        section |= {"pooling": chosen.pooling, "head": chosen.head}
    elif "pooler" in encoder:
        encoder["pooler"] = "none"
    return {**section, **{key: value for key, value in given.items() if key in OUTSIDE}}, chosen


def tuned(
    source: Bundle, said: Section, training: TrainingDraft, found: Labelled
) -> tuple[NewSection, ClassifierDefaults]:
    """The section of a model around the encoder of another, and how it is taught."""
    task = found.task
    if task == "images":
        raise ConfigError("images are learned from scratch: qkv train FOLDER.")
    config, kind = origin.encoder_config(source), "tagger" if task == "tagging" else "classifier"
    dropout = said.get("dropout", 0.1)
    encoder = origin.section(source, dropout)
    section: NewSection = {"kind": kind, "dropout": dropout, "encoder": encoder}
    if kind == "classifier":
        # as their twins elsewhere: BERT has a pooler, DistilBERT (which knows no segments) two layers on [CLS]
        pooling, head = ("mean", "linear")
        if config.kind == "bert":
            pooling, head = ("pooler", "linear") if encoder["segments"] else ("first", "two-layer")
        section |= {"pooling": said.get("pooling") or pooling}
        section |= {"head": said.get("head") or (head if section["pooling"] == pooling else "linear")}
    if config.kind == "bert":
        encoder["pooler"] = "first" if section.get("pooling") == "pooler" else "none"
    unknown = [key for key in said if key not in (*OUTSIDE, "kind")]
    if unknown:
        raise ConfigError(f"model.{unknown[0]}: sizes are those of the model it starts from; leave it out.")
    part = training.frozen == "encoder" or bool(training.lora)
    small = sum(each.numel() for each in origin.encoder_weights(source).values()) < SMALL
    few = len(found.train) < 5000
    rate = 1e-3 if part else 5e-4 if small else 1e-4 if few else 2e-4
    if is_recurrent(config.kind):
        rate = origin.rate_of_recurrences(part)
    decay = None if part or small else 0.85  # lower layers know what they know from more text
    return section, ClassifierDefaults(
        encoder,
        learning_rate=rate,
        batch=32 if few else 64,
        epochs=10.0 if few else 3.0,
        weight_decay=0.01,
        layer_decay=decay,
    )


def known(model: ModelConfig) -> ClassifierDefaults:
    """The system that a finished recipe's model is one of."""
    if (encoder := getattr(model, "encoder", None)) is not None:
        return _around(toml_values(encoder))
    return TABLES[model.kind.removesuffix("-table")]


def _around(encoder: NewSection) -> ClassifierDefaults:
    fitting = [each[name] for each in (TEXTS, PICTURES) for name in each if each.names[name] == encoder.get("kind")]
    same = [each for each in fitting if each.encoder.get("cell") == encoder.get("cell")]
    return next(iter(same or fitting), ClassifierDefaults(encoder))


def spellings(tokenizer: Tokenizer | None) -> list[str]:
    """How each piece of a vocabulary is written; special ones are not."""
    assert tokenizer is not None
    numbers = range(tokenizer.vocabulary)
    return ["" if tokenizer.is_special(number) else tokenizer.piece(number) for number in numbers]


def patch_of(height: int, width: int, usual: int) -> int:
    """The side of a patch nearest to the usual one that divides the image."""
    sides = [side for side in range(1, math.gcd(height, width) + 1) if math.gcd(height, width) % side == 0]
    return min(sides, key=lambda side: (abs(side - usual), side))


SOLVED = 1e-7  # the rate of a model that is solved already


def solved(kind: str, problem: str) -> bool:
    """Whether a model is a linear regression, which needs no steps."""
    return kind == "linear-table" and problem == "regression"


def fit(model: nn.Module, problem: Problem, train: NumberExamples, device: str) -> None:
    """The columns come on one scale, and numbers to predict on theirs; a linear regression is solved at once."""
    assert isinstance(model, LinearTable | MLPTable)
    x, y = torch.from_numpy(train.values).to(device), None
    if problem == "regression":
        y = torch.from_numpy(train.targets.astype(np.float32)).unsqueeze(-1).to(device)
    if y is not None and isinstance(model, LinearTable):
        model.solve(x, y)
    else:
        model.fit_scale(x, y)


PROBLEMS: dict[str, Problem] = {
    "classification": "single",
    "images": "single",
    "tagging": "single",
    "multi-label": "multi",
    "regression": "regression",
}


def with_system(training: TrainingDraft, system: ClassifierDefaults, examples: int) -> TrainingDraft:
    """All of the training section but the steps, as suits the system and the number of examples."""
    decay = system.weight_decay if training.weight_decay is None else training.weight_decay
    training = replace(
        training,
        optimizer=training.optimizer or "adamw",
        learning_rate=training.learning_rate or system.learning_rate,
        batch=training.batch or resolve.whole_batch(min(system.batch, examples // 8), training.accumulate),
        weight_decay=decay,
        layer_decay=training.layer_decay or system.layer_decay,
        betas=training.betas or (0.9, 0.98),
        patience=training.patience or 0,  # a slow start is no end, and the best step is kept in any case
    )
    return resolve.on_machine(training)
