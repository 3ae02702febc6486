"""Meaning moves: one word's vectors in several texts, layer by layer, in two dimensions (decks 000 and 004, "bank").

Vectors are normalized, so that distance means direction; the mean of each layer is subtracted, because from layer to
layer all texts move together, much further than from each other; the rest is drawn on its first two principal axes. At
layer 0 the vectors of the word differ only by position; later differences come from the context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from qkv.evaluation.decisions import split_words
from qkv.evaluation.vectors import CONTEXTS, locate_word, vectors_of_words
from qkv.inspection.subject import Subject
from qkv.visible import html_table


@dataclass(frozen=True)
class Point:
    text: str
    layer: int
    x: float
    y: float


@dataclass(frozen=True)
class WordInContexts:
    word: str
    points: list[Point]
    alike: list[float]  # by layer, the mean cosine between the word's vectors in every two texts

    def _repr_html_(self) -> str:
        """For notebooks: how alike the word's vectors are, layer by layer."""
        rows = [(str(layer), f"{similarity:.3f}") for layer, similarity in enumerate(self.alike)]
        return html_table(rows, ("layer", f"mean cosine of “{self.word}” between every two texts"))

    def values(self) -> dict[str, Any]:
        return asdict(self)


def word_of(subject: Subject) -> str:
    """A word of the decks that occurs in the text, else the first of theirs."""
    here = {word.lower() for word in split_words(subject.text)}
    return next((word for word in CONTEXTS if word in here), next(iter(CONTEXTS)))


def has_word_vectors(subject: Subject) -> bool:
    """Whether words have a vector in every layer: models of blocks that read one text."""
    inside = subject.inside
    return bool(getattr(inside, "blocks", None)) and hasattr(inside, "embedded") and subject.inputs.source is None


def meaning(subject: Subject, word: str | None = None, texts: Sequence[str] = ()) -> WordInContexts:
    """The word in each text; without texts, in the decks' own, and in the subject's if it occurs there."""
    chosen = word or word_of(subject)
    own = [subject.text] if chosen in {word.lower() for word in split_words(subject.text)} else []
    given = list(texts) or list(dict.fromkeys([*CONTEXTS.get(chosen, ()), *own]))
    layers = vectors_of_words(subject.model, subject.tokenizer, [locate_word(text, chosen) for text in given])
    normalized = [F.normalize(layer) for layer in layers]
    widest = max(
        layer.size(1) for layer in normalized
    )  # a recurrence may be wider than its embedding: zeros fill it up
    centred = torch.cat([F.pad(layer - layer.mean(0), (0, widest - layer.size(1))) for layer in normalized])
    flat = two_dimensions(centred).view(len(layers), len(given), 2).tolist()
    points = [Point(text, n, *flat[n][row]) for n in range(len(layers)) for row, text in enumerate(given)]
    return WordInContexts(chosen, points, [_alike(layer) for layer in normalized])


def _alike(layer: Float[Tensor, "N D"]) -> float:
    cosines = layer @ layer.T
    pairs = len(layer) * (len(layer) - 1)
    return float((cosines.sum() - cosines.diagonal().sum()) / max(1, pairs))


def two_dimensions(x: Float[Tensor, "N D"]) -> Float[Tensor, "N 2"]:
    """The first two principal axes; each points so that its largest value is positive, the same on every machine."""
    centred = x - x.mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    flat = F.pad((u * s)[:, :2], (0, max(0, 2 - min(centred.shape))))
    largest = flat.abs().argmax(0)
    return flat * flat.gather(0, largest.unsqueeze(0)).sign().where(
        flat.abs().amax(0, keepdim=True) > 0, torch.ones(())
    )
