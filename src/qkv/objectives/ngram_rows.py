"""Texts as rows of n-gram counts, for a model that is linear in them: every text at once, whole, and counted once.

A million characters are counted at a time, by sorting numbers. The n-grams of letters follow from the words, so they
are found once for each distinct word and then counted by how often a text has the word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.blocks.ngrams import LETTER, Alphabet, Characters, letter_ngrams, word_ngrams, words_in
from qkv.blocks.sparse_rows import SparseRows
from qkv.data.encode import EncodedRows
from qkv.models.linear import weighted

AT_ONCE = 1_000_000  # characters
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class NgramCounts:
    """How often each of the n-grams `keys`, in order, is in each text: entry by entry, ordered by row and column."""

    keys: Integers
    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    counts: NDArray[np.int32]
    texts: int

    @property
    def texts_with(self) -> Integers:
        """How many texts have each n-gram."""
        return np.bincount(self.columns, minlength=len(self.keys))

    def kept(self, least: int, most: int) -> NgramCounts:
        """The n-grams that are in enough texts; of too many, those that the most texts have."""
        found = self.texts_with
        if (found >= least).sum() > most:
            least = int(np.partition(found, len(found) - most)[len(found) - most]) + 1
        kept = found >= least
        number, entries = (np.cumsum(kept) - 1).astype(np.int32), kept[self.columns]
        columns = number[self.columns[entries]]
        return NgramCounts(self.keys[kept], self.rows[entries], columns, self.counts[entries], self.texts)

    def select(self, which: Integers) -> NgramCounts:
        """These texts, whose numbers ascend; the n-grams stay."""
        place = np.full(self.texts, -1, dtype=np.int32)
        place[which] = np.arange(len(which), dtype=np.int32)
        rows = place[self.rows]
        entries = np.flatnonzero(rows >= 0)
        return NgramCounts(self.keys, rows[entries], self.columns[entries], self.counts[entries], len(which))

    @property
    def of_words(self) -> NgramCounts:
        """Without the n-grams of letters, whose keys are odd."""
        return self.only(self.keys[self.keys & 1 == 0])

    def only(self, keys: Integers) -> NgramCounts:
        """The n-grams among `keys`, which are in order, by their places there."""
        place = np.minimum(np.searchsorted(keys, self.keys), max(0, len(keys) - 1)).astype(np.int32)
        known = keys[place] == self.keys if len(keys) else np.zeros(len(self.keys), dtype=bool)
        entries = known[self.columns]
        return NgramCounts(keys, self.rows[entries], place[self.columns[entries]], self.counts[entries], self.texts)

    def weighted(self, idf: NDArray[np.float32]) -> SparseRows:
        """The rows that the model multiplies with its weights."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=self.texts))]).astype(np.int32)
        columns = torch.from_numpy(self.columns)
        values = weighted(
            torch.from_numpy(self.rows).long(), torch.from_numpy(self.counts), torch.from_numpy(idf)[columns],
            torch.from_numpy(self.keys)[columns], self.texts,
        )  # fmt: skip
        return SparseRows(torch.from_numpy(starts), columns, values, len(self.keys))


def count_ngrams(rows: EncodedRows, alphabet: Alphabet, words: int, letters: int) -> NgramCounts:
    """The n-grams of every text, up to a number of words and of letters (0: none)."""
    parts = [_count(rows, first, end, alphabet, words, letters) for first, end in _chunks(rows)]
    keys = np.unique(np.concatenate([part.keys for part in parts]))
    places = [np.searchsorted(keys, part.keys).astype(np.int32)[part.columns] for part in parts]
    whole, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "counts"))
    return NgramCounts(keys, whole, np.concatenate(places), counts, len(rows))


def _chunks(rows: EncodedRows) -> Iterator[tuple[int, int]]:
    first = 0
    while first < len(rows):
        end = int(np.searchsorted(rows.starts, rows.starts[first] + AT_ONCE, side="right")) - 1
        end = min(len(rows), max(first + 1, end))
        yield first, end
        first = end


def _count(rows: EncodedRows, first: int, end: int, alphabet: Alphabet, words: int, letters: int) -> NgramCounts:
    characters = _characters(rows, first, end, alphabet)
    grams = word_ngrams(characters, words)
    parts = [_distinct(grams.keys.numpy(), grams.rows.numpy())]
    if letters:
        parts.append(_of_words(characters, letters))
    keys, found, columns, counts = (np.concatenate(list(part)) for part in zip(*parts, strict=True))
    if len(parts) > 1:  # keys of words are even, keys of letters odd: no key is in both
        order = np.argsort(keys)
        place = np.empty(len(keys), dtype=np.int64)
        place[order] = np.arange(len(keys))
        columns[len(parts[0][2]) :] += len(parts[0][0])
        keys, columns = keys[order], place[columns]
        order = np.argsort(found * max(1, len(keys)) + columns)
        found, columns, counts = found[order], columns[order], counts[order]
    return NgramCounts(
        keys, (found + first).astype(np.int32), columns.astype(np.int32), counts.astype(np.int32), end - first
    )


def _characters(rows: EncodedRows, first: int, end: int, alphabet: Alphabet) -> Characters:
    borders = rows.starts[first : end + 1]
    ids = torch.from_numpy(rows.ids[borders[0] : borders[-1]].astype(np.int64))
    lengths = np.diff(borders)
    second = None
    if rows.second_starts is not None:
        within = np.arange(len(ids)) - np.repeat(borders[:-1] - borders[0], lengths)
        second = torch.from_numpy(within >= np.repeat(rows.second_starts[first:end], lengths))
    return alphabet.read(ids, torch.from_numpy(np.repeat(np.arange(end - first), lengths)), second)


Entries = tuple[Integers, Integers, Integers, Integers]  # keys in order, and of each entry its row, column and count


def _distinct(keys: Integers, rows: Integers) -> Entries:
    """Of every occurrence of a key in a row: the keys, and how often each is in each row."""
    order = np.argsort(keys)
    in_order = keys[order]
    first = np.concatenate([[True], in_order[1:] != in_order[:-1]])[: len(keys)]
    unique = in_order[first]
    codes = np.sort(rows[order] * max(1, len(unique)) + np.cumsum(first) - 1)
    return unique, *_entries(codes, np.ones(len(codes), dtype=np.int64), len(unique))


def _entries(codes: Integers, counts: Integers, width: int) -> tuple[Integers, Integers, Integers]:
    """Of sorted codes, row · width + column, with counts: the row, the column and the total of each distinct one."""
    at = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])[: len(codes)])
    found, columns = np.divmod(codes[at], max(1, width))
    return found, columns, np.add.reduceat(counts, at) if len(at) else counts


MOST_OFTEN = 255  # times that a word counts in a text for its letters


def _of_words(characters: Characters, letters: int) -> Entries:
    """The n-grams of letters in each row, by way of the distinct words."""
    words = words_in(characters)
    chosen = (characters.kinds[words.first] == LETTER).numpy()
    first, last, hashes = (part.numpy()[chosen] for part in (words.first, words.last, words.hashes))
    rows = characters.rows.numpy()[first]
    second = np.zeros(len(first), dtype=bool) if characters.second is None else characters.second.numpy()[first]
    distinct, example, number = np.unique(hashes ^ second, return_index=True, return_inverse=True)
    lengths = last[example] - first[example] + 1
    ends = np.cumsum(lengths)
    inside = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - lengths, lengths)
    places = torch.from_numpy(np.repeat(first[example], lengths) + inside)
    spelled = characters.select(places, torch.from_numpy(np.repeat(np.arange(len(distinct)), lengths)))
    grams = letter_ngrams(spelled, letters)
    unique, word, gram, times = _distinct(grams.keys.numpy(), grams.rows.numpy())
    codes = np.sort(rows * max(1, len(distinct)) + number)
    row, held, often = _entries(codes, np.ones(len(codes), dtype=np.int64), len(distinct))
    sizes = np.bincount(word, minlength=len(distinct))
    begins = np.concatenate([[0], np.cumsum(sizes)])
    repeats = sizes[held]
    total = np.cumsum(repeats)
    entry = np.repeat(begins[held] - (total - repeats), repeats) + np.arange(int(total[-1]) if len(total) else 0)
    counts = np.minimum(np.repeat(often, repeats) * times[entry], MOST_OFTEN)
    codes = (np.repeat(row, repeats) * max(1, len(unique)) + gram[entry]) * (MOST_OFTEN + 1) + counts
    codes.sort()  # the count is in the lowest byte, so that one sort of numbers does
    return unique, *_entries(codes >> 8, codes & MOST_OFTEN, len(unique))
