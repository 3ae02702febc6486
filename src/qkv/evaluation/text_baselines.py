"""Baselines for the loss of a language model: counts and compressors, scored on the same tokens as the model.

    uniform     every token equally likely: ln(vocabulary)
    unigram     how often each token occurs
    n-gram      what followed the last few tokens (ngram_model.py), orders 2 to 6
    gzip, xz    general compressors, on the validation text alone and after the training text:
                bits after = 8 (C(other + text) - C(other)) / bytes of text

gzip (LZ77, Ziv and Lempel 1977, with Huffman codes) looks back 32 kB and no further; xz (LZMA) looks back to the start.

Unigrams are counted in all of the training text. So are longer n-grams, up to MAX_COUNTED tokens; if there are more, or
if time is short, they are counted in evenly spread samples of it. The compressors see only the end of a long training
text. With more text these baselines would be stronger: `counted_all` and `compressed_after_all` say if they saw it all.

How much of a text also occurs in another one is measured by shingles, runs of a fixed number of tokens that occur in
both. They are compared by a rolling hash, h = Σ r(token) bʲ modulo 2⁶⁴, where r is a random number for each token (Karp
and Rabin 1987). Edits between shingles do not hide a copy, as they do if whole lines are compared.
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
MAX_COUNTED = 4_000_000  # training tokens; counting them takes about three seconds
COUNTED_PER_SECOND = 1_000_000  # tokens, at least
SEARCH_FACTOR = 4  # times as many training tokens are searched for the validation text as are counted
CHUNK = 2**22  # tokens counted at once
SAMPLE_TOKENS = 8192  # consecutive tokens in a sample
MAX_PRIMING_BYTES, MAX_COMPRESSED_BYTES = 2**20, 2**20  # of training and of validation text, for the compressors

COMPRESSORS = ("gzip", "gzip_alone", "xz", "xz_alone")


@dataclass(frozen=True)
class Baselines:
    """Losses in nats per token, and bits per byte for compressors; None if not measured."""

    vocabulary: int
    uniform: float
    unigram: float
    ngrams: tuple[float, ...]  # of the orders 2, 3, ...
    tokens_per_byte: float  # of the validation text: nats per token become bits per byte
    gzip: float | None  # after training text, unlike `gzip_alone`
    gzip_alone: float | None
    xz: float | None
    xz_alone: float | None
    shared: float  # the share of the validation text that also occurs in the training text
    repeated: float  # the share of the training text that occurs there at least twice
    counted: int  # training tokens whose n-grams were counted
    training_tokens: int
    seconds: float
    priming_bytes: int = 0  # of training text that the compressors saw
    training_bytes: int = 0
    searched: int | None = None  # training tokens that were searched for the validation text; None: all
    sums: Array | None = field(default=None, repr=False, compare=False)  # nats by order and group of positions
    sizes: Array | None = field(default=None, repr=False, compare=False)  # positions in each group

    @property
    def counted_all(self) -> bool:
        """Whether n-grams were counted in all of the training text."""
        return self.counted >= self.training_tokens

    @property
    def compressed_after_all(self) -> bool:
        """Whether the compressors saw all of the training text."""
        return self.priming_bytes >= self.training_bytes

    @property
    def order(self) -> int:
        """The n-gram order with the lowest loss."""
        return 2 + int(np.argmin(self.ngrams))

    @property
    def ngram(self) -> float:
        return min(self.ngrams)

    def bits(self, nats: float) -> float:
        """A loss in bits per byte."""
        return nats / math.log(2) * self.tokens_per_byte

    def for_groups(self, groups: Array) -> Baselines:
        """The baselines on some groups of positions only; those of compressors, which need a whole text, stay."""
        assert self.sums is not None
        assert self.sizes is not None
        losses = self.sums[:, groups].sum(axis=1) / self.sizes[groups].sum()
        return replace(self, unigram=float(losses[0]), ngrams=tuple(losses[1:].tolist()))

    def values(self) -> dict[str, Any]:
        """For JSON, with units in the names."""
        nats = {"uniform": self.uniform, "unigram": self.unigram}
        nats |= {f"{order}-gram": value for order, value in enumerate(self.ngrams, 2)}
        compressed = {name: getattr(self, name) for name in COMPRESSORS}
        return {
            "nats_per_token": nats,
            "bits_per_byte": {name: self.bits(value) for name, value in nats.items()} | compressed,
            "share_of_validation_in_training": self.shared,
            "share_of_training_repeated": self.repeated,
            "training_tokens_counted": self.counted,
            "training_tokens": self.training_tokens,
            "training_bytes_before_compressors": self.priming_bytes,
            "seconds": self.seconds,
        }


def measure(
    train: TokenStream,
    valid: TokenStream,
    vocabulary: int,
    positions: Array,
    reach: Array,
    *,
    decode: Callable[[Array], bytes] | None = None,
    max_tokens: int = MAX_COUNTED,
    groups: Array | None = None,
    compressed: Array | None = None,
) -> Baselines:
    """Score the validation tokens at `positions`, like a model that sees `reach` tokens before each. The n-grams of at
    most `max_tokens` training tokens are counted.

    `decode` gives the bytes of tokens; without it there are no compressors. `groups` has the number of each position's
    group (`Baselines.for_groups`), and `compressed` the positions whose text is compressed, by default all.
    """
    started_at = time.perf_counter()
    known = spread(train.tokens, max_tokens)
    probabilities = ngram_model.probabilities(
        known, vocabulary, ORDER, *around(valid.tokens, positions, ORDER - 1), reach
    )
    if len(known) < len(train.tokens):
        counts = occurrences(train.tokens, vocabulary)
        probabilities[0] = ngram_model.unigram_probabilities(counts, valid.tokens[positions], vocabulary)
    nats = -np.log(probabilities)
    numbers = np.zeros(len(positions), dtype=np.int64) if groups is None else groups
    losses = nats.mean(axis=1)
    length = shingle_length(valid.bytes / len(valid.tokens))
    searched = spread(train.tokens, SEARCH_FACTOR * max_tokens)
    bits = compressors(train, valid, positions if compressed is None else compressed, decode, max_tokens)
    return Baselines(
        vocabulary=vocabulary,
        uniform=math.log(vocabulary),
        unigram=float(losses[0]),
        ngrams=tuple(losses[1:].tolist()),
        tokens_per_byte=(len(valid.tokens) - 1) / max(1, valid.bytes),
        shared=shared(spread(valid.tokens, MAX_COUNTED), searched, length),
        repeated=repeated(known, length),
        counted=len(known),
        training_tokens=len(train.tokens),
        seconds=time.perf_counter() - started_at,
        training_bytes=train.bytes,
        searched=len(searched),
        sums=np.stack([np.bincount(numbers, row) for row in nats]),
        sizes=np.bincount(numbers),
        **bits,
    )


def occurrences(tokens: Array, vocabulary: int) -> Array:
    """The number of occurrences of each token in a text of any length."""
    counts = np.zeros(vocabulary, dtype=np.int64)
    for start in range(0, len(tokens), CHUNK):
        counts += np.bincount(tokens[start : start + CHUNK], minlength=vocabulary)
    return counts


def around(tokens: Array, positions: Array, before: int) -> tuple[Array, Array]:
    """Of a long text, only the tokens at some positions and `before` tokens before each; and the new positions."""
    if len(tokens) <= before * len(positions):
        return np.asarray(tokens), positions
    kept = np.unique(np.maximum(positions[:, None] - np.arange(before + 1), 0))
    return np.asarray(tokens[kept]), np.searchsorted(kept, positions)


def spread(tokens: Array, max_tokens: int) -> Array:
    """At most `max_tokens` tokens, in evenly spaced samples."""
    if len(tokens) <= max_tokens:
        return np.asarray(tokens)
    number = max(1, max_tokens // SAMPLE_TOKENS)
    starts = np.linspace(0, len(tokens) - max_tokens // number, number).astype(np.int64)
    return np.concatenate([tokens[start : start + max_tokens // number] for start in starts])


def compressors(
    train: TokenStream,
    valid: TokenStream,
    positions: Array,
    decode: Callable[[Array], bytes] | None,
    max_tokens: int = MAX_COUNTED,
) -> dict[str, Any]:
    """Bits per byte of the text at `positions`, alone and after the end of the training text; None if it is too long.

    As for a model, bits per token are multiplied by the tokens per byte of all the validation text, because a sample
    may have more or fewer tokens per byte.
    """
    text = b"" if decode is None else decode(valid.tokens[positions])
    if decode is None or len(text) > MAX_COMPRESSED_BYTES:
        return {**dict.fromkeys(COMPRESSORS), "priming_bytes": 0}
    room = MAX_PRIMING_BYTES * min(max_tokens, MAX_COUNTED) // MAX_COUNTED
    size = min(len(train.tokens), max(1, room * len(train.tokens) // max(1, train.bytes)))
    known = decode(train.tokens[-size:])
    bits = (gzip_bits(text, known), gzip_bits(text), xz_bits(text, known), xz_bits(text))
    scale = len(text) / max(1, len(positions)) * (len(valid.tokens) - 1) / max(1, valid.bytes)
    seen = train.bytes if size == len(train.tokens) else len(known)
    return {**{name: scale * value for name, value in zip(COMPRESSORS, bits, strict=True)}, "priming_bytes": seen}


WINDOW = 2**15  # bytes that gzip looks back


def gzip_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte. gzip gets the end of the other text as a preset dictionary, which adds no bits."""
    compressor = zlib.compressobj(9, wbits=-15, memLevel=9, zdict=after[-WINDOW:])
    return 8 * len(compressor.compress(text) + compressor.flush()) / max(1, len(text))


def xz_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte: the size of both texts together, minus that of the other one alone."""
    size = max(2**12, len(after) + len(text))
    known = _xz(after, size) if after else 0
    return 8 * (_xz(after + text, size) - known) / max(1, len(text))


def _xz(text: bytes, dictionary: int) -> int:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": dictionary}]
    return len(lzma.compress(text, format=lzma.FORMAT_RAW, filters=filters))


SHINGLE_BYTES = 40  # about; some seven words, which rarely occur twice by chance
MIN_SHINGLE_TOKENS = 4
HASHED = 2**20  # tokens hashed at once
FILTER_BITS = 22
BASE = np.uint64(0x9E3779B97F4A7C15)
INVERSE = np.uint64(pow(int(BASE), -1, 2**64))


def shingle_length(bytes_per_token: float) -> int:
    """The number of tokens in a shingle."""
    return max(MIN_SHINGLE_TOKENS, round(SHINGLE_BYTES / max(bytes_per_token, 1e-9)))


def hashes(tokens: Array, length: int) -> Array:
    """The hash of every shingle of `length` tokens."""
    if len(tokens) < length:
        return np.empty(0, dtype=np.uint64)
    table = np.random.default_rng(0).integers(0, 2**64, size=int(tokens.max()) + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        forward, back = (np.cumprod(np.full(len(tokens), base)) for base in (BASE, INVERSE))
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(table[tokens] * forward)])
        return (sums[length:] - sums[:-length]) * back[
            : len(tokens) - length + 1
        ]  # shifted, so that equal shingles have equal hashes


def shared(text: Array, other: Array, length: int) -> float:
    """The share of the text's tokens that are in a shingle that `other` contains, too."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    ordered = np.unique(own)
    filled = np.zeros(2**FILTER_BITS, dtype=bool)
    shift = np.uint64(64 - FILTER_BITS)
    filled[ordered >> shift] = True
    both = np.zeros(len(ordered), dtype=bool)
    for start in range(0, len(other), HASHED):
        theirs = hashes(other[start : start + HASHED + length - 1], length)
        likely = theirs[filled[theirs >> shift]]
        spots = np.minimum(np.searchsorted(ordered, likely), len(ordered) - 1)
        both[spots[ordered[spots] == likely]] = True
    return _covered(both[np.searchsorted(ordered, own)], length)


def repeated(text: Array, length: int) -> float:
    """The share of the text's tokens that are in a shingle that occurs in the text at least twice."""
    own = hashes(text, length)
    if not len(own):
        return 0.0
    _, numbers, counts = np.unique(own, return_inverse=True, return_counts=True)
    return _covered(counts[numbers] > 1, length)


def _covered(starts: Array, length: int) -> float:
    """The share of tokens that are in one of the shingles whose `starts` are true."""
    change = np.zeros(len(starts) + length, dtype=np.int64)
    change[: len(starts)] += starts
    change[length:] -= starts
    return float(np.mean(np.cumsum(change)[: len(starts) + length - 1] > 0))
