"""Decisions in words: the label of a text with its probabilities, the tag of every word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from qkv.data.labelled.encoding import Pair, encode_texts, encode_words
from qkv.errors import InputError
from qkv.evaluation import decisions
from qkv.evaluation.unpadded_bert import Precision
from qkv.text.tokenizer import Tokenizer

SURE = 0.5  # above which one of several labels is given
WORDS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Decision:
    """What was decided about a text, and how sure: a label, several, or a number."""

    label: str | float | tuple[str, ...]
    probabilities: Mapping[str, float]  # none where a number is predicted

    @property
    def sure(self) -> float | None:
        """The probability of the label, where there is one."""
        return self.probabilities[self.label] if isinstance(self.label, str) else None

    def values(self) -> dict[str, Any]:
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        return {"label": label, "probabilities": dict(self.probabilities)}


@dataclass(frozen=True)
class TaggedWord:
    word: str
    tag: str
    probability: float


def require(config: Any, kind: str, verb: str) -> None:
    """Refuse a model that gives no such answers."""
    if config.kind != kind:
        known = {"classifier": "a table with a label for each text", "tagger": "words with tags (CoNLL)"}
        raise InputError(
            f"this model is of kind {config.kind}; `qkv {verb}` needs a {kind}. Train one on {known[kind]}: "
            "qkv train FILE, or qkv finetune MODEL FILE."
        )


def classify(
    model: nn.Module, config: Any, tokenizer: Tokenizer, texts: Sequence[Pair], precision: Precision = "f32"
) -> tuple[list[Decision], list[str]]:
    """A decision for each text or pair, in their order, and what was done to the texts, in words."""
    require(config, "classifier", "classify")
    pairs = config.texts == 2 or any(second is not None for _, second in texts)
    alone = next((first for first, second in texts if second is None), None) if pairs else None
    if alone is not None:
        raise InputError(f"{alone[:60]!r}: pairs are judged here; expected two texts, as in classify([(one, other)]).")
    rows = encode_texts(tokenizer, texts, config.context, pairs=pairs)
    found = decisions.answers(model, rows, config.problem, precision=precision)
    return [decided(config, row) for row in found], rows.notes("texts", config.context)


def classify_numbers(model: nn.Module, config: Any, rows: Sequence[Sequence[float]]) -> list[Decision]:
    """A decision for each row of a table of numbers, in their order; NaN where a number is missing."""
    numbers = np.array(rows, dtype=np.float32).reshape(-1, len(config.columns))
    return [decided(config, row) for row in decisions.answers(model, numbers, config.problem)]


def decided(config: Any, row: npt.NDArray[np.float32]) -> Decision:
    if config.problem == "regression":
        return Decision(float(row[0]), {})
    shares = {name: float(share) for name, share in zip(config.labels, row, strict=True)}
    if config.problem == "multi":
        return Decision(tuple(name for name, share in shares.items() if share > SURE), shares)
    return Decision(config.labels[int(row.argmax())], shares)


def cut_words(text: str) -> list[str]:
    """Words and single marks, as tagged corpora mostly have them."""
    return WORDS.findall(text)


def tag(
    model: nn.Module, config: Any, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]
) -> tuple[list[list[TaggedWord]], list[str]]:
    """A tag for every word of every sentence."""
    require(config, "tagger", "tag")
    rows = encode_words(tokenizer, sentences, config.context)
    shares = decisions.tags(model, rows)
    found, place = [], 0
    for words in sentences:
        own = shares[place : place + len(words)]
        place += len(words)
        best = own.argmax(-1) if len(words) else []
        found.append(
            [
                TaggedWord(word, config.labels[int(at)], float(row[at]))
                for word, at, row in zip(words, best, own, strict=True)
            ]
        )
    return found, rows.notes("sentences", config.context)
