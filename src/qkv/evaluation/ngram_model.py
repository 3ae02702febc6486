"""An n-gram model of tokens, interpolated, with modified Kneser-Ney smoothing: a baseline that only counts.

    p(w | h) = max(c(h w) - D, 0) / c(h) + γ(h) p(w | h'),    h' = h without its oldest token

At the highest order, c counts the occurrences; at lower orders, the different tokens that come before (Kneser and Ney
1995). The discount D depends on whether c is 1, 2 or more (Chen and Goodman 1999), γ(h) is the probability that the
discounts have freed, and below unigrams every token is equally likely. Order 1 alone is smoothed as by Witten and Bell
(1991).

The n-grams of each length are counted and looked up before those of the next, so that only one length is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qkv.evaluation.intervals import Array

DEFAULT_DISCOUNTS = np.array([0.0, 0.5, 0.75, 0.75])  # if there are too few n-grams to estimate them from


@dataclass(frozen=True)
class Counts:
    """The counts of all n-grams of one length, and their sums by context: all tokens of an n-gram but the last."""

    counts: Array
    totals: Array  # by context
    freed: Array  # by context: the sum of the discounts
    discounts: Array  # of the counts 0, 1, 2, and 3 or more

    @classmethod
    def of(cls, counts: Array, contexts: Array, context_count: int) -> Counts:
        """`contexts` has the index of each n-gram's context, of which there are `context_count`."""
        discounts = estimate_discounts(counts)
        totals = np.bincount(contexts, counts, context_count)
        freed = np.bincount(contexts, discounts[np.minimum(counts, 3)], context_count)
        return cls(counts, totals, freed, discounts)

    def probabilities(self, indices: Array, contexts: Array, lower: Array) -> Array:
        """p(w | h), where `indices` are those of the n-grams h w and `contexts` those of h, -1 if unseen; `lower` is
        p(w | h')."""
        counts = np.where(indices >= 0, self.counts[indices], 0)
        kept = counts - self.discounts[np.minimum(counts, 3)]
        totals = self.totals[contexts]
        seen = (contexts >= 0) & (totals > 0)
        return np.where(seen, (kept + self.freed[contexts] * lower) / np.where(seen, totals, 1.0), lower)


@dataclass(frozen=True)
class NGrams:
    """All n-grams of one length. A key is the index of the context times the vocabulary, plus the last token."""

    length: int
    vocabulary: int
    keys: Array  # sorted; the position of a key is the index of its n-gram
    occurrences: Counts
    continuations: Counts | None  # of the n-grams that are one token shorter: the different tokens before each

    def indices(self, contexts: Array, tokens: Array) -> Array:
        """The index of the n-gram that starts at each position, or -1; `contexts` has the indices of its context."""
        last = tokens[self.length - 1 :]
        contexts = contexts[: len(last)]
        wanted = contexts * self.vocabulary + last
        found = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        indices = np.full(len(tokens) + 1, -1, dtype=np.int64)
        indices[: len(last)] = np.where((contexts >= 0) & (self.keys[found] == wanted), found, -1)
        return indices


def count_ngrams(tokens: Array, vocabulary: int, order: int) -> Iterator[NGrams]:
    """Count the n-grams of a text, one length after the other."""
    tokens = np.asarray(tokens, dtype=np.int64)
    indices = np.zeros(len(tokens) + 1, dtype=np.int64)  # of the context that starts at each position
    shorter, contexts = np.zeros(1, dtype=np.int64), 1
    for length in range(1, min(order, len(tokens)) + 1):
        starts = len(tokens) - length + 1
        keys, inverse, counts = sorted_unique(indices[:starts] * vocabulary + tokens[length - 1 :])
        continuations = None
        if length > 1:
            suffixes = np.empty(len(keys), dtype=np.int64)  # the index of each n-gram without its oldest token
            suffixes[inverse] = indices[1 : starts + 1]
            before = np.bincount(suffixes, minlength=len(shorter))
            continuations = Counts.of(before, shorter // vocabulary, contexts)
        contexts = len(shorter)
        yield NGrams(length, vocabulary, keys, Counts.of(counts, keys // vocabulary, contexts), continuations)
        indices, shorter = inverse, keys


def probabilities(train: Array, vocabulary: int, order: int, tokens: Array, positions: Array, reach: Array) -> Array:
    """The probabilities of the tokens at `positions` by each order, (order, positions), counted in the text `train`.

    `reach` is the number of tokens before each position that may be used.
    """
    tokens = np.asarray(tokens, dtype=np.int64)
    reach = np.minimum(reach, positions)
    lower = np.full(len(positions), 1 / vocabulary)
    indices = np.zeros(len(tokens) + 1, dtype=np.int64)
    ngrams = contexts = np.empty(0, dtype=np.int64)  # the indices at the positions
    by_order: list[Array] = []
    for level in count_ngrams(train, vocabulary, order):
        if level.continuations:
            lower = level.continuations.probabilities(ngrams, contexts, lower)
        before, indices = indices, level.indices(indices, tokens)
        starts = np.maximum(positions - level.length + 1, 0)
        ngrams, contexts = indices[starts], before[starts]
        if level.length == 1:
            by_order.append(unigram_probabilities(level.occurrences.counts, ngrams, vocabulary))
        else:
            by_count = level.occurrences.probabilities(ngrams, contexts, lower)
            by_order.append(np.where(reach >= level.length - 1, by_count, by_order[-1]))
    return np.stack(by_order + by_order[-1:] * (order - len(by_order)))


def unigram_probabilities(counts: Array, indices: Array, vocabulary: int) -> Array:
    """p(w) without a context. New tokens are as likely in the future as they were in the text (Witten and Bell)."""
    new = int(np.count_nonzero(counts))
    return (np.where(indices >= 0, counts[indices], 0) + new / vocabulary) / (counts.sum() + new)


def sorted_unique(keys: Array) -> tuple[Array, Array, Array]:
    """The sorted distinct keys, the index of each key among them, and the count of each distinct key.

    `np.unique` gives the same several times more slowly: here key and position are sorted as one number.
    """
    bits = len(keys).bit_length()
    if int(keys.max()).bit_length() + bits > 62:
        return np.unique(keys, return_inverse=True, return_counts=True)
    both = np.sort(keys << bits | np.arange(len(keys)))
    order, both = both & (1 << bits) - 1, both >> bits
    new = np.concatenate([[True], both[1:] != both[:-1]])
    inverse = np.empty(len(keys), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    return both[starts], inverse, np.diff(starts, append=len(keys))


def estimate_discounts(counts: Array) -> Array:
    """The discounts of the counts 0, 1, 2, and 3 or more, from how many n-grams occur one to four times."""
    once, twice, thrice, four = (float(np.count_nonzero(counts == number)) for number in (1, 2, 3, 4))
    if not (once and twice and thrice and four):
        return DEFAULT_DISCOUNTS
    share = once / (once + 2 * twice)
    raw = [1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * four / thrice]
    return np.array([0.0, *(min(max(value, 0.05), number) for number, value in enumerate(raw, 1))])
