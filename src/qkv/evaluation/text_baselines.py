"""Baselines of a language model's loss: models that do not learn, on the very tokens that the model is scored on.

    uniform     every token equally likely: ln(vocabulary)
    unigram     how often each token occurs
    n-gram      what followed the last few tokens (ngram_model.py), orders 2 to 6
    gzip, xz    general compressors, of the validation text alone and after the training text:
                bits after = 8 (C(other + text) - C(other)) / bytes of text

gzip (LZ77, Ziv and Lempel 1977, with Huffman codes) looks back 32 kB and no further; xz (LZMA) looks back to the start.

Single tokens are counted in all of the training text. n-grams are too, up to COUNTED tokens; beyond that, or where time
is short, in a sample, in stretches spread over all of it. Likewise the compressors see only the end of a long training
text. A count of a part tells only how good counting is at least: see `whole` and `packed_after_all` before comparing.

How much of a text stands in another one is measured by stretches of some length that both have, compared by a rolling
hash, h = Σ r(token) bʲ modulo 2⁶⁴, where r is a random number of each token (Karp and Rabin 1987). Edits between
stretches do not hide a copy, as they do where whole lines are compared.
"""

from __future__ import annotations

import lzma
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from qkv.data.tokens import TokenStream
from qkv.evaluation import ngram_model
from qkv.evaluation.intervals import Array

ORDER = 6
COUNTED = 4_000_000  # training tokens, at most: about three seconds
A_SECOND = 1_000_000  # tokens are counted in it, at least
COMPARED = 4  # times as many training tokens are searched for the validation text as are counted
CHUNK = 2**22  # tokens counted at once
STRETCH = 8192  # tokens of a sample that stay together
KNOWN, PACKED = 2**20, 2**20  # bytes of training and of validation text that the compressors get, at most

COMPRESSORS = ("gzip", "gzip_alone", "xz", "xz_alone")


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
    counted: int  # training tokens whose n-grams were counted
    of: int
    seconds: float
    packed_after: int = 0  # bytes of training text that the compressors saw
    packed_of: int = 0
    searched: int | None = None  # training tokens that were searched for the validation text; None: all
    sums: Array | None = field(default=None, repr=False, compare=False)  # nats by order and group of places
    sizes: Array | None = field(default=None, repr=False, compare=False)  # places of each group

    @property
    def whole(self) -> bool:
        """Whether n-grams were counted in all of the training text."""
        return self.counted >= self.of

    @property
    def packed_after_all(self) -> bool:
        return self.packed_after >= self.packed_of

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

    def on(self, groups: Array) -> Baselines:
        """The same on some of the groups of places only; compressors, which take a text as a whole, stay as
        they are."""
        assert self.sums is not None
        assert self.sizes is not None
        losses = self.sums[:, groups].sum(axis=1) / self.sizes[groups].sum()
        return replace(self, unigram=float(losses[0]), ngrams=tuple(losses[1:].tolist()))

    def values(self) -> dict[str, Any]:
        """For JSON: everything with its unit in its name."""
        nats = {"uniform": self.uniform, "unigram": self.unigram}
        nats |= {f"{order}-gram": value for order, value in enumerate(self.ngrams, 2)}
        packed = {name: getattr(self, name) for name in COMPRESSORS}
        return {
            "nats_per_token": nats,
            "bits_per_byte": {name: self.bits(value) for name, value in nats.items()} | packed,
            "share_of_validation_in_training": self.shared,
            "share_of_training_repeated": self.repeated,
            "training_tokens_counted": self.counted,
            "training_tokens": self.of,
            "training_bytes_before_compressors": self.packed_after,
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
    max_tokens: int = COUNTED,
    groups: Array | None = None,
    packed: Array | None = None,
) -> Baselines:
    """Score the validation tokens at `places`, as a model that sees `reach` tokens before each; n-grams of `most`
    training tokens at most are counted.

    `spell` gives the text of tokens; without it there are no compressors. `groups` has the number of each place's
    group (`Baselines.on`), and `packed` the places whose text is compressed, where these are not all.
    """
    began = time.perf_counter()
    known = spread(train.tokens, max_tokens)
    shares = ngram_model.probabilities(known, vocabulary, ORDER, *around(valid.tokens, places, ORDER - 1), reach)
    if len(known) < len(train.tokens):
        shares[0] = ngram_model.single(occurrences(train.tokens, vocabulary), valid.tokens[places], vocabulary)
    nats = -np.log(shares)
    numbers = np.zeros(len(places), dtype=np.int64) if groups is None else groups
    losses = nats.mean(axis=1)
    length = stretch(valid.bytes / len(valid.tokens))
    compared = spread(train.tokens, COMPARED * max_tokens)
    bits = compressors(train, valid, places if packed is None else packed, spell, max_tokens)
    return Baselines(
        vocabulary=vocabulary,
        uniform=math.log(vocabulary),
        unigram=float(losses[0]),
        ngrams=tuple(losses[1:].tolist()),
        tokens_per_byte=(len(valid.tokens) - 1) / max(1, valid.bytes),
        shared=shared(spread(valid.tokens, COUNTED), compared, length),
        repeated=repeated(known, length),
        counted=len(known),
        of=len(train.tokens),
        seconds=time.perf_counter() - began,
        packed_of=train.bytes,
        searched=len(compared),
        sums=np.stack([np.bincount(numbers, row) for row in nats]),
        sizes=np.bincount(numbers),
        **bits,
    )


def occurrences(tokens: Array, vocabulary: int) -> Array:
    """How often each token stands in a text of any length."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for start in range(0, len(tokens), CHUNK):
        counts += np.bincount(tokens[start : start + CHUNK], minlength=vocabulary)
    return counts


def around(tokens: Array, places: Array, before: int) -> tuple[Array, Array]:
    """Of a long text only the tokens at places and some before each, and where the places are now."""
    if len(tokens) <= before * len(places):
        return np.asarray(tokens), places
    kept = np.unique(np.maximum(places[:, None] - np.arange(before + 1), 0))
    return np.asarray(tokens[kept]), np.searchsorted(kept, places)


def spread(tokens: Array, max_tokens: int) -> Array:
    """At most `most` tokens, in stretches at even distances."""
    if len(tokens) <= max_tokens:
        return np.asarray(tokens)
    number = max(1, max_tokens // STRETCH)
    starts = np.linspace(0, len(tokens) - max_tokens // number, number).astype(np.int64)
    return np.concatenate([tokens[start : start + max_tokens // number] for start in starts])


def compressors(
    train: TokenStream,
    valid: TokenStream,
    places: Array,
    spell: Callable[[Array], bytes] | None,
    max_tokens: int = COUNTED,
) -> dict[str, Any]:
    """Bits per byte of the text at `places`, alone and after the end of the training text; None where it is too long.

    As with a model's bits, those of a token are multiplied by the tokens in a byte of all the validation text: a sample
    of it may have other bytes to a token.
    """
    text = b"" if spell is None else spell(valid.tokens[places])
    if spell is None or len(text) > PACKED:
        return {**dict.fromkeys(COMPRESSORS), "packed_after": 0}
    room = KNOWN * min(max_tokens, COUNTED) // COUNTED
    size = min(len(train.tokens), max(1, room * len(train.tokens) // max(1, train.bytes)))
    known = spell(train.tokens[-size:])
    bits = (gzip_bits(text, known), gzip_bits(text), xz_bits(text, known), xz_bits(text))
    scale = len(text) / max(1, len(places)) * (len(valid.tokens) - 1) / max(1, valid.bytes)
    seen = train.bytes if size == len(train.tokens) else len(known)
    return {**{name: scale * own for name, own in zip(COMPRESSORS, bits, strict=True)}, "packed_after": seen}


WINDOW = 2**15  # bytes that gzip looks back


def gzip_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte. What gzip sees of the other text is its end; given as a dictionary, it costs nothing."""
    compressor = zlib.compressobj(9, wbits=-15, memLevel=9, zdict=after[-WINDOW:])
    return 8 * len(compressor.compress(text) + compressor.flush()) / max(1, len(text))


def xz_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte. There is no half-way: both are compressed, then the other one alone."""
    size = max(2**12, len(after) + len(text))
    known = _xz(after, size) if after else 0
    return 8 * (_xz(after + text, size) - known) / max(1, len(text))


def _xz(text: bytes, dictionary: int) -> int:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": dictionary}]
    return len(lzma.compress(text, format=lzma.FORMAT_RAW, filters=filters))


BYTES = 40  # about as long is a stretch: some seven words, that rarely come twice by chance
FEWEST = 4  # tokens
HASHED = 2**20  # tokens hashed at once
FILTER = 22  # bits
BASE = np.uint64(0x9E3779B97F4A7C15)
INVERSE = np.uint64(pow(int(BASE), -1, 2**64))


def stretch(bytes_per_token: float) -> int:
    """How many tokens make a stretch."""
    return max(FEWEST, round(BYTES / max(bytes_per_token, 1e-9)))


def hashes(tokens: Array, length: int) -> Array:
    """One number for every stretch of `length` tokens."""
    if len(tokens) < length:
        return np.empty(0, dtype=np.uint64)
    table = np.random.default_rng(0).integers(0, 2**64, size=int(tokens.max()) + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        forward, back = (np.cumprod(np.full(len(tokens), base)) for base in (BASE, INVERSE))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(table[tokens] * forward)])
        return (sums[length:] - sums[:-length]) * back[: len(tokens) - length + 1]  # moved to the power of the first


def shared(text: Array, other: Array, length: int) -> float:
    """The share of the text's tokens that stand in a stretch which `other` has as well."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    ordered = np.unique(own)
    filled = np.zeros(2**FILTER, dtype=bool)
    shift = np.uint64(64 - FILTER)
    filled[ordered >> shift] = True
    both = np.zeros(len(ordered), dtype=bool)
    for start in range(0, len(other), HASHED):
        theirs = hashes(other[start : start + HASHED + length - 1], length)
        likely = theirs[filled[theirs >> shift]]
        spots = np.minimum(np.searchsorted(ordered, likely), len(ordered) - 1)
        both[spots[ordered[spots] == likely]] = True
    return _covered(both[np.searchsorted(ordered, own)], length)


def repeated(text: Array, length: int) -> float:
    """The share of the text's tokens that stand in a stretch which the text has twice or more."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    _, numbers, counts = np.unique(own, return_inverse=True, return_counts=True)
    return _covered(counts[numbers] > 1, length)


def _covered(starts: Array, length: int) -> float:
    """The share of places that lie in a stretch, by which stretches count."""
    change = np.zeros(len(starts) + length, dtype=np.int64)
    change[: len(starts)] += starts
    change[length:] -= starts
    return float(np.mean(np.cumsum(change)[: len(starts) + length - 1] > 0))
