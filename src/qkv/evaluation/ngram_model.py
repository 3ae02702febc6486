"""An n-gram model of tokens: what counting alone knows of a text. Interpolated, with modified Kneser-Ney smoothing.

    p(w | h) = max(c(h w) - D, 0) / c(h) + γ(h) p(w | h'),    h' = h without its oldest token

c counts how often at the highest order; below it, after how many different tokens (Kneser and Ney 1995). The discount
D depends on whether c is 1, 2 or more (Chen and Goodman 1999), γ(h) is what the discounts have saved, and below single
tokens every token is equally likely. Single tokens alone, order 1, are smoothed as by Witten and Bell (1991).

Lengths are counted and asked one after the other, so that only one of them is held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qkv.evaluation.intervals import Array

NEW = np.array([0.0, 0.5, 0.75, 0.75])  # discounts where there is too little to estimate them from


@dataclass(frozen=True)
class Counts:
    """How often each n-gram of one length was counted, and sums over those that share all but the last token."""

    counts: Array
    totals: Array  # by context
    saved: Array  # by context: what the discounts take away
    discounts: Array  # of the counts 0, 1, 2, and 3 or more

    @classmethod
    def of(cls, counts: Array, contexts: Array, number: int) -> Counts:
        """`contexts` says for each n-gram which of a `number` of contexts it continues."""
        discounts = discounts_of(counts)
        totals = np.bincount(contexts, counts, number)
        saved = np.bincount(contexts, discounts[np.minimum(counts, 3)], number)
        return cls(counts, totals, saved, discounts)

    def probabilities(self, known: Array, contexts: Array, lower: Array) -> Array:
        """p(w | h), where `known` is the number of h w and `contexts` that of h, or -1; `lower` is p(w | h')."""
        counts = np.where(known >= 0, self.counts[known], 0)
        kept = counts - self.discounts[np.minimum(counts, 3)]
        totals = self.totals[contexts]
        seen = (contexts >= 0) & (totals > 0)
        return np.where(seen, (kept + self.saved[contexts] * lower) / np.where(seen, totals, 1.0), lower)


@dataclass(frozen=True)
class Level:
    """All n-grams of one length. A key is the number of the context times the vocabulary, plus the last token."""

    length: int
    vocabulary: int
    keys: Array  # sorted: its place is the number of an n-gram
    plain: Counts
    preceded: Counts | None  # after how many different tokens the n-grams one shorter come

    def numbers(self, contexts: Array, tokens: Array) -> Array:
        """The number of the n-gram that starts at each place, or -1, from those of its context."""
        last = tokens[self.length - 1 :]
        contexts = contexts[: len(last)]
        wanted = contexts * self.vocabulary + last
        spots = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        numbers = np.full(len(tokens) + 1, -1, dtype=np.int64)
        numbers[: len(last)] = np.where((contexts >= 0) & (self.keys[spots] == wanted), spots, -1)
        return numbers


def levels(tokens: Array, vocabulary: int, order: int) -> Iterator[Level]:
    """Count a text, one length after the other."""
    tokens = np.asarray(tokens, dtype=np.int64)
    numbers = np.zeros(len(tokens) + 1, dtype=np.int64)  # of the context that starts at each place
    shorter, contexts = np.zeros(1, dtype=np.int64), 1
    for length in range(1, min(order, len(tokens)) + 1):
        starts = len(tokens) - length + 1
        keys, inverse, counts = ranked(numbers[:starts] * vocabulary + tokens[length - 1 :])
        preceded = None
        if length > 1:
            rests = np.empty(len(keys), dtype=np.int64)  # the number of each n-gram without its oldest token
            rests[inverse] = numbers[1 : starts + 1]
            before = np.bincount(rests, minlength=len(shorter))
            preceded = Counts.of(before, shorter // vocabulary, contexts)
        contexts = len(shorter)
        yield Level(length, vocabulary, keys, Counts.of(counts, keys // vocabulary, contexts), preceded)
        numbers, shorter = inverse, keys


def probabilities(known: Array, vocabulary: int, order: int, tokens: Array, places: Array, reach: Array) -> Array:
    """p(tokens[place]) by the counts of the text `known`, for each order and place: (order, places).

    At a place no more than `reach` tokens before it are looked at.
    """
    tokens = np.asarray(tokens, dtype=np.int64)
    reach = np.minimum(reach, places)
    lower = np.full(len(places), 1 / vocabulary)
    numbers = np.zeros(len(tokens) + 1, dtype=np.int64)
    own = context = np.empty(0, dtype=np.int64)
    by_order: list[Array] = []
    for level in levels(known, vocabulary, order):
        if level.preceded:
            lower = level.preceded.probabilities(own, context, lower)
        before, numbers = numbers, level.numbers(numbers, tokens)
        starts = np.maximum(places - level.length + 1, 0)
        own, context = numbers[starts], before[starts]
        if level.length == 1:
            by_order.append(single(level.plain.counts, own, vocabulary))
        else:
            by_count = level.plain.probabilities(own, context, lower)
            by_order.append(np.where(reach >= level.length - 1, by_count, by_order[-1]))
    return np.stack(by_order + by_order[-1:] * (order - len(by_order)))


def single(counts: Array, known: Array, vocabulary: int) -> Array:
    """p(w) alone: as often as a token was new so far, a new one will come."""
    new = int(np.count_nonzero(counts))
    return (np.where(known >= 0, counts[known], 0) + new / vocabulary) / (counts.sum() + new)


def ranked(keys: Array) -> tuple[Array, Array, Array]:
    """The distinct keys, sorted; for every key the place of its like among them; how often each occurs.

    What `np.unique` gives, several times faster: key and place are sorted as one number.
    """
    bits = len(keys).bit_length()
    if int(keys.max()).bit_length() + bits > 62:
        return np.unique(keys, return_inverse=True, return_counts=True)
    both = np.sort(keys << bits | np.arange(len(keys)))
    order, both = both & (1 << bits) - 1, both >> bits
    new = np.concatenate([[True], both[1:] != both[:-1]])
    numbers = np.empty(len(keys), dtype=np.int64)
    numbers[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    return both[starts], numbers, np.diff(starts, append=len(keys))


def discounts_of(counts: Array) -> Array:
    """The discounts of the counts 0 to 3, by how many n-grams were counted once, twice, thrice and four times."""
    once, twice, thrice, four = (float(np.count_nonzero(counts == number)) for number in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return NEW
    share = once / (once + 2 * twice)
    raw = [1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice]
    return np.array([0.0, *(min(max(value, 0.05), number) for number, value in enumerate(raw, 1))])
