"""What a loss can be compared with: models that do not learn, on the very tokens that the model is scored on.

    uniform     every piece equally likely: ln(vocabulary)
    unigram     how often each piece occurs
    n-gram      what followed the last few pieces (ngrams.py), orders 2 to 6
    gzip, xz    general compressors (compression.py), of the validation text alone and after the training text

Of a long text a sample is counted, in stretches spread over all of it; how much is told.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.tokens import TokenStream
from qkv.evaluation import compression, copies, ngrams

Array = NDArray[Any]

ORDER = 6
COUNTED = 1_000_000  # training tokens, at most: about half a second
COMPARED = 4_000_000  # training tokens among which the validation text is looked for
STRETCH = 8192  # tokens of a sample that stay together
KNOWN, PACKED = 2**20, 2**17  # bytes of training and of validation text that the compressors get


@dataclass(frozen=True)
class Baselines:
    """Nats per token, bits per byte for compressors; None where it was not measured."""

    vocabulary: int
    uniform: float
    unigram: float
    ngrams: tuple[float, ...]  # of the orders 2, 3, ...
    tokens_per_byte: float  # of the validation text: nats per token become bits per byte
    gzip: float | None  # after the training text
    gzip_alone: float | None
    xz: float | None
    xz_alone: float | None
    shared: float  # the share of the validation text that stands in the training text
    repeated: float  # the share of the training text that stands there twice
    counted: int  # training tokens
    of: int
    seconds: float

    @property
    def order(self) -> int:
        """The n-gram order that does best."""
        return 2 + int(np.argmin(self.ngrams))

    @property
    def ngram(self) -> float:
        return min(self.ngrams)

    def bits(self, nats: float) -> float:
        """Bits per byte."""
        return nats / math.log(2) * self.tokens_per_byte

    def values(self) -> dict[str, Any]:
        """For JSON: everything with its unit in its name."""
        nats = {"uniform": self.uniform, "unigram": self.unigram}
        nats |= {f"{order}-gram": value for order, value in enumerate(self.ngrams, 2)}
        packed = {name: value for name, value in asdict(self).items() if name.startswith(("gzip", "xz"))}
        return {
            "nats_per_token": nats,
            "bits_per_byte": {name: self.bits(value) for name, value in nats.items()} | packed,
            "share_of_validation_in_training": self.shared,
            "share_of_training_repeated": self.repeated,
            "training_tokens_counted": self.counted,
            "training_tokens": self.of,
            "seconds": self.seconds,
        }


def measure(
    train: TokenStream,
    valid: TokenStream,
    vocabulary: int,
    places: Array,
    reach: Array,
    *,
    spell: Callable[[Array], bytes] | None = None,
    most: int = COUNTED,
) -> Baselines:
    """Count `most` training tokens at most and score the validation tokens at `places`, as a model that sees `reach`.

    `spell` gives the text of tokens; without it there are no compressors.
    """
    began = time.perf_counter()
    known = spread(train.tokens, most)
    found = ngrams.probabilities(known, vocabulary, ORDER, *around(valid.tokens, places, ORDER - 1), reach)
    losses = -np.log(found).mean(axis=1)
    length = copies.stretch(valid.bytes / len(valid.tokens))
    compared = spread(train.tokens, COMPARED // COUNTED * most)
    packed: dict[str, float | None] = dict.fromkeys(("gzip", "gzip_alone", "xz", "xz_alone"))
    if spell:
        text = spell(valid.tokens[: PACKED * len(valid.tokens) // max(1, valid.bytes) + 1])
        size = KNOWN * most // COUNTED * len(train.tokens) // max(1, train.bytes)
        packed = compressed(text, spell(train.tokens[-max(1, size) :]))
    return Baselines(
        vocabulary=vocabulary,
        uniform=math.log(vocabulary),
        unigram=float(losses[0]),
        ngrams=tuple(losses[1:].tolist()),
        tokens_per_byte=(len(valid.tokens) - 1) / max(1, valid.bytes),
        shared=copies.shared(spread(valid.tokens, COUNTED), compared, length),
        repeated=copies.repeated(known, length),
        counted=len(known),
        of=len(train.tokens),
        seconds=time.perf_counter() - began,
        **packed,
    )


def around(tokens: Array, places: Array, before: int) -> tuple[Array, Array]:
    """Of a long text only the tokens at places and so many before each, and where the places are now."""
    if len(tokens) <= before * len(places):
        return np.asarray(tokens), places
    kept = np.unique(np.maximum(places[:, None] - np.arange(before + 1), 0))
    return np.asarray(tokens[kept]), np.searchsorted(kept, places)


def spread(tokens: Array, most: int) -> Array:
    """At most so many tokens, in stretches at even distances."""
    if len(tokens) <= most:
        return np.asarray(tokens)
    number = max(1, most // STRETCH)
    starts = np.linspace(0, len(tokens) - most // number, number).astype(np.int64)
    return np.concatenate([tokens[start : start + most // number] for start in starts])


def compressed(text: bytes, after: bytes) -> dict[str, float | None]:
    return {
        "gzip": compression.gzip_bits(text, after),
        "gzip_alone": compression.gzip_bits(text),
        "xz": compression.xz_bits(text, after),
        "xz_alone": compression.xz_bits(text),
    }
