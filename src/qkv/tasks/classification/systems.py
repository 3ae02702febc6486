"""The systems that classify texts, words, pictures and rows of numbers, by the names that `--model` takes, and the
figures that suit each.

`--model lstm` on a table is an LSTM over the text, a pooling and a head: in the recipe a `classifier` (or `tagger`)
around an encoder of kind `recurrent-encoder`. What the user set is never touched. Decision 0013 has the study.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from qkv.config import plain
from qkv.data.examples import Labelled, NumberExamples
from qkv.errors import ConfigError
from qkv.models import bert, gpt
from qkv.models.classifier import ClassifierConfig
from qkv.models.registry import ModelConfig, TableConfig
from qkv.models.table import LinearTable, MLPTable
from qkv.models.tagger import TaggerConfig
from qkv.objectives.classification import Problem
from qkv.recipe import origin, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import TrainingDraft
from qkv.recipe.recipe import NewSection, Section, unknown_model
from qkv.text.tokenizer import Tokenizer

SMALL = 8_000_000  # weights; fewer are taught faster
OF_WHOLE_TEXTS = ("linear", "mlp", "bag")  # that tell nothing of a single word
OUTSIDE = ("pooling", "head", "labels", "problem", "dropout")  # of a classifier; all else is its encoder's


@dataclass(frozen=True)
class System:
    """An encoder's section, what stands around it, and how it is trained."""

    encoder: NewSection
    pooling: str = "mean"
    dropout: float = 0.3
    head: str = "linear"
    rate: float = 2e-3
    batch: int = 64
    epochs: float = 8.0  # after which more would not help
    steps: int = 0  # which help even where they are more epochs
    weight_decay: float = 0.01
    layer_decay: float | None = None


def recurrent(cell: str) -> NewSection:
    """Two directions over pieces that know their spelling."""
    shape = {"width": 200, "embedding_width": 128, "letters": 20_000}
    return {"kind": "recurrent-encoder", "cell": cell, **shape, "dropout": 0.4}


TEXTS: dict[str, System] = {
    "linear": System({"kind": "linear", "ngrams": 2}, dropout=0.0, rate=0.02, epochs=6.0, steps=2000,
                     weight_decay=0.0),
    "bag": System({"kind": "bag", "width": 128, "ngrams": 2, "word_dropout": 0.3}, rate=3e-3, epochs=4.0, steps=700),
    "mlp": System({"kind": "bag", "width": 128, "ngrams": 2, "word_dropout": 0.3}, head="two-layer", epochs=4.0,
                  steps=700),  # hashed n-grams into a hidden layer
    "cnn": System({"kind": "text-cnn", "width": 384, "embedding_width": 128, "dropout": 0.3},
                  pooling="max", dropout=0.5),
    "rnn": System({"kind": "recurrent-encoder", "cell": "rnn", "width": 128, "dropout": 0.3}, pooling="max"),
    "gru": System(recurrent("gru"), pooling="max", dropout=0.5, rate=3e-3, batch=48, epochs=4.0, steps=700),
    "lstm": System(recurrent("lstm"), pooling="max", dropout=0.5, rate=4e-3, batch=48, epochs=4.0, steps=700),
    "encoder": System({"kind": "encoder", "layers": 2, "heads": 4, "width": 128, "dropout": 0.2}, rate=1e-3),
    "bert": System({"kind": "bert", "layers": 2, "heads": 4, "width": 128, "dropout": 0.1, "pooler": "first"},
                   pooling="pooler", dropout=0.1, rate=1e-3),
    "modern": System({"kind": "modern", "layers": 2, "heads": 4, "width": 128, "dropout": 0.2}, rate=1e-3),
    "gpt": System({"kind": "gpt", "layers": 2, "heads": 4, "width": 128, "dropout": 0.2}, pooling="last", rate=1e-3),
}  # fmt: skip
# words are judged by their spelling, too
TAGS: dict[str, System] = {
    cell: System(recurrent(cell) | {"dropout": 0.3}, dropout=0.3, rate=4e-3, batch=32, epochs=6.0)
    for cell in ("rnn", "gru", "lstm")
}  # fmt: skip
PICTURES: dict[str, System] = {
    "cnn": System({"kind": "picture-cnn"}, rate=3e-3, epochs=20.0, dropout=0.2),
    "vision": System({"kind": "patches", "patch": 7, "layers": 2}, rate=3e-3, epochs=40.0, dropout=0.1),
}
TABLES: dict[str, System] = {
    "linear": System({"kind": "linear-table"}, rate=0.02, batch=256, epochs=300.0, weight_decay=0.0),
    "mlp": System({"kind": "mlp-table"}, rate=3e-3, batch=64, epochs=100.0),
}  # of numbers
USUAL_TABLE = "mlp"
USUAL = {"classification": "lstm", "regression": "lstm", "multi-label": "lstm", "tagging": "lstm", "images": "cnn"}
LONG = dict.fromkeys(("classification", "regression", "multi-label"), "bag")
"""The usual system where texts are of hundreds of pieces: what reads them piece by piece is slow, and learns late."""


def names(task: str) -> list[str]:
    if task == "images":
        return list(PICTURES)
    return [*(name for name in TEXTS if task != "tagging" or name not in OF_WHOLE_TEXTS), *PRESETS]


PRESETS: NewSection = {**bert.PRESETS, **gpt.PRESETS}


def system(name: str, task: str, where: str) -> System:
    """By its name, or a preset's."""
    known = PICTURES if task == "images" else {**TEXTS, **TAGS} if task == "tagging" else TEXTS
    if task != "images" and name in PRESETS:
        around = known["bert" if name in bert.PRESETS else "gpt"]
        return System({**plain(PRESETS[name]), "dropout": 0.1}, around.pooling, around.dropout, rate=5e-4)
    if name not in known or name not in names(task):
        raise unknown_model(name, names(task), where, task)
    return known[name]


def of_numbers(model: Section, where: str) -> tuple[NewSection, System]:
    """The section of a model of a table of numbers, and the system it names."""
    name = str(model.get("kind", USUAL_TABLE)).removesuffix("-table")
    if name not in TABLES:
        raise unknown_model(name, list(TABLES), where, "a table of numbers")
    return {**model, "kind": f"{name}-table"}, TABLES[name]


def unfolded(model: Section, task: str, where: str) -> tuple[NewSection, System]:
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
    found = system(str(model.get("kind", USUAL[task])), task, where)
    said = {key: value for key, value in model.items() if key != "kind"}
    outside = {key: value for key, value in said.items() if key in OUTSIDE and key != "dropout"}
    inside = {key: value for key, value in said.items() if key not in OUTSIDE or key == "dropout"}
    encoder = {**found.encoder, **inside}
    if "dropout" in said and found.encoder["kind"] in ("bag", "linear", "picture-cnn"):
        encoder.pop("dropout")
    section: NewSection = {"kind": kind, "dropout": said.get("dropout", found.dropout), "encoder": encoder}
    if kind == "classifier":
        section |= {"pooling": found.pooling, "head": found.head}
    elif "pooler" in encoder:
        encoder["pooler"] = "none"
    return {**section, **outside}, found


def tuned(source: Bundle, said: Section, training: TrainingDraft, found: Labelled) -> tuple[NewSection, System]:
    """The section of a model around the encoder of another, and how it is taught."""
    task = found.task
    if task == "images":
        raise ConfigError("pictures are learned from scratch: qkv train FOLDER.")
    config, kind = origin.encoder_config(source), "tagger" if task == "tagging" else "classifier"
    dropout = said.get("dropout", 0.1)
    encoder = origin.section(source, dropout)
    section: NewSection = {"kind": kind, "dropout": dropout, "encoder": encoder}
    if kind == "classifier":
        # as their twins elsewhere: BERT has a pooler, DistilBERT (which knows no segments) two layers on [CLS]
        pooling, head = ("mean", "linear")
        if isinstance(config, bert.BertConfig):
            pooling, head = ("pooler", "linear") if config.segments else ("first", "two-layer")
        section |= {"pooling": said.get("pooling") or pooling}
        section |= {"head": said.get("head") or (head if section["pooling"] == pooling else "linear")}
    if isinstance(config, bert.BertConfig):
        encoder["pooler"] = "first" if section.get("pooling") == "pooler" else "none"
    unknown = [key for key in said if key not in (*OUTSIDE, "kind")]
    if unknown:
        raise ConfigError(f"model.{unknown[0]}: sizes are those of the model it starts from; leave it out.")
    part = training.frozen == "encoder" or bool(training.lora)
    small = sum(each.numel() for each in origin.encoder_weights(source).values()) < SMALL
    few = len(found.train) < 5000
    rate = 1e-3 if part else 5e-4 if small else 1e-4 if few else 2e-4
    if config.kind in origin.ENDLESS:
        rate = origin.rate_of_recurrences(part)
    decay = None if part or small else 0.85  # lower layers know what they know from more text
    return section, System(
        encoder, rate=rate, batch=32 if few else 64, epochs=10.0 if few else 3.0, weight_decay=0.01, layer_decay=decay
    )


def known(model: ModelConfig) -> System:
    """The system that a finished recipe's model is one of."""
    if isinstance(model, ClassifierConfig | TaggerConfig):
        return _around(plain(model.encoder))
    return next(system for system in TABLES.values() if system.encoder["kind"] == model.kind)


def _around(encoder: NewSection) -> System:
    fitting = [each for each in (*TEXTS.values(), *PICTURES.values()) if each.encoder["kind"] == encoder.get("kind")]
    same = [each for each in fitting if each.encoder.get("cell") == encoder.get("cell")]
    return next(iter(same or fitting), System(encoder))


def spellings(tokenizer: Tokenizer | None) -> list[str]:
    """How each piece of a vocabulary is written; special ones are not."""
    assert tokenizer is not None
    numbers = range(tokenizer.vocabulary)
    return ["" if tokenizer.is_special(number) else tokenizer.piece(number) for number in numbers]


def patch_of(height: int, width: int, usual: int) -> int:
    """The side of a patch nearest to the usual one that divides the picture."""
    sides = [side for side in range(1, math.gcd(height, width) + 1) if math.gcd(height, width) % side == 0]
    return min(sides, key=lambda side: (abs(side - usual), side))


SOLVED = 1e-7  # the rate of a model that is solved already


def solved(kind: str, problem: str) -> bool:
    """Whether a model is a linear regression, which needs no steps."""
    return kind == "linear-table" and problem == "regression"


def fit(model: nn.Module, config: TableConfig, train: NumberExamples, device: str) -> None:
    """The columns come on one scale, and numbers to predict on theirs; a linear regression is solved at once."""
    assert isinstance(model, LinearTable | MLPTable)
    x, y = torch.from_numpy(train.numbers).to(device), None
    if config.problem == "regression":
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


def with_system(training: TrainingDraft, system: System, examples: int) -> TrainingDraft:
    """All of the training section but the steps, as suits the system and the number of examples."""
    decay = system.weight_decay if training.weight_decay is None else training.weight_decay
    training = replace(
        training,
        optimizer=training.optimizer or "adamw",
        learning_rate=training.learning_rate or system.rate,
        batch=training.batch or resolve.whole_batch(min(system.batch, examples // 8), training.accumulate),
        weight_decay=decay,
        layer_decay=training.layer_decay or system.layer_decay,
        betas=training.betas or (0.9, 0.98),
        patience=training.patience or 0,  # a slow start is no end, and the best step is kept in any case
    )
    return resolve.on_machine(training)
