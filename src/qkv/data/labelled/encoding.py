"""Many texts in one run of bytes: a million of them cost their UTF-8 and eight bytes each, not a Python object each.

Examples as rows of ids, one after the other in one array: what batches are cut from. No text is kept twice.

A text is [*opening, ids, *closing]; a pair has its second text behind, with its own closing (BERT's [CLS] A [SEP] B
[SEP]). A text that is too long loses its end, of a pair the longer one loses first. A sentence of tagged words that is
too long becomes several rows, since each word is judged where it stands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.labelled.examples import TagExamples, TextExamples
from qkv.data.tokens import token_type
from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer

Keys = npt.NDArray[np.uint64]


TOGETHER = 4096  # texts that are encoded at once

Numbers = npt.NDArray[np.int64]
Pair = tuple[str, str | None]


@dataclass(frozen=True)
class Rows:
    """Row i is `ids[starts[i]:starts[i + 1]]`; where there are pairs, its second text begins `seconds[i]` ids into it.

    Of tagged words, word w has its first piece at `places[w]` of its row, and row i has the words `words[i]` to
    `words[i + 1]`.
    """

    ids: npt.NDArray[Any]
    starts: Numbers
    seconds: Numbers | None = None
    places: Numbers | None = None
    words: Numbers | None = None
    cut: int = 0  # texts that lost their end, sentences that became several rows
    unknown: int = 0  # tokens

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    def row(self, number: int) -> npt.NDArray[Any]:
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def notes(self, what: str, context: int) -> list[str]:
        """What was done to the texts, in words."""
        said = []
        if self.cut:
            done = "cut there" if self.places is None else "read in parts"
            some = f"{self.cut:,} {what} are" if self.cut > 1 else f"one of the {what} is"
            said.append(f"{some} longer than the context of {context:,} tokens; {done}.")
        if self.unknown:
            some = f"{self.unknown:,} tokens" if self.unknown > 1 else "one token"
            ends = (
                "are not in the vocabulary and become" if self.unknown > 1 else "is not in the vocabulary and becomes"
            )
            said.append(f"{some} of the {what} {ends} UNK.")
        return said


def room_for(tokenizer: Tokenizer, context: int, *, pairs: bool) -> int:
    """How many ids of text fit between those that go around."""
    around = len(tokenizer.opening) + len(tokenizer.closing) + (len(between(tokenizer)) if pairs else 0)
    if context - around < 1 + pairs:
        raise InputError(f"a context of {context} has no room for a text: {around} tokens go around it.")
    return context - around


def between(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What divides the texts of a pair: what closes every text, or the mark between documents."""
    return tokenizer.closing or (tokenizer.separator,)


def texts_of(examples: TextExamples) -> Iterator[Pair]:
    second = examples.second
    for row in examples.rows.tolist():
        yield examples.texts[row], None if second is None else second[row]


def encode_texts(tokenizer: Tokenizer, texts: Iterable[Pair], context: int, *, pairs: bool) -> Rows:
    """Texts, or pairs of texts, as rows of at most `context` ids."""
    room, opening = room_for(tokenizer, context, pairs=pairs), tokenizer.opening
    middle = between(tokenizer) if pairs else ()
    ids, starts, seconds = _ids(tokenizer), array("q", [0]), array("q")
    cut = unknown = 0
    for first, second in _encoded(tokenizer, texts, pairs):
        if len(first) + len(second) > room:
            cut += 1
            first, second = _shortened(first, second, room)
        unknown += (
            sum(each.count(tokenizer.unknown) for each in (first, second)) if tokenizer.unknown is not None else 0
        )
        ids.extend(opening)
        ids.extend(first)
        if pairs:
            ids.extend(middle)
            seconds.append(len(ids) - starts[-1])
            ids.extend(second)
        ids.extend(tokenizer.closing)
        if len(ids) == starts[-1]:  # a text without a token
            ids.append(tokenizer.separator)
        starts.append(len(ids))
    return Rows(_array(ids), _array(starts), _array(seconds) if pairs else None, cut=cut, unknown=unknown)


def _encoded(tokenizer: Tokenizer, texts: Iterable[Pair], pairs: bool) -> Iterator[tuple[list[int], list[int]]]:
    given = iter(texts)
    while part := list(islice(given, TOGETHER)):
        first = tokenizer.encode_batch([text for text, _ in part])
        second = tokenizer.encode_batch([text or "" for _, text in part]) if pairs else [[]] * len(part)
        yield from zip(first, second, strict=True)


def _shortened(first: list[int], second: list[int], room: int) -> tuple[list[int], list[int]]:
    """The longer of the two gives way until both fit."""
    short = min(len(first), len(second), room // 2)
    if len(first) <= len(second):
        return first[: max(short, room - len(second))], second[: room - short]
    return first[: room - short], second[: max(short, room - len(first))]


def sentences_of(examples: TagExamples) -> Iterator[Sequence[str]]:
    for number in range(len(examples)):
        yield examples[number].words


def encode_words(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]], context: int) -> Rows:
    """Sentences of words as rows of ids; the first piece of each word is remembered."""
    room, opening, closing = room_for(tokenizer, context, pairs=False), tokenizer.opening, tokenizer.closing
    ids, starts, places, words = _ids(tokenizer), array("q", [0]), array("q"), array("q", [0])
    cut = unknown = 0
    lead = " " if tokenizer.kind == "bpe" else ""  # a word of byte pairs begins with its space

    def close() -> None:
        ids.extend(closing)
        starts.append(len(ids))
        words.append(len(places))

    for pieces in _pieces(tokenizer, sentences, lead):
        ids.extend(opening)
        held = parts = 0
        for own in pieces:
            own = own[:room] or [tokenizer.separator if tokenizer.unknown is None else tokenizer.unknown]
            unknown += _unknown(tokenizer, own)
            if held + len(own) > room:
                close()
                ids.extend(opening)
                held, parts = 0, 1
            places.append(len(ids) - starts[-1])
            ids.extend(own)
            held += len(own)
        cut += parts
        close()
    return Rows(_array(ids), _array(starts), None, _array(places), _array(words), cut, unknown)


def _pieces(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]], lead: str) -> Iterator[list[list[int]]]:
    given = iter(sentences)
    while part := list(islice(given, TOGETHER // 16)):
        found = iter(tokenizer.encode_batch([lead + word for words in part for word in words]))
        for words in part:
            yield list(islice(found, len(words)))


def _unknown(tokenizer: Tokenizer, ids: list[int]) -> int:
    return 0 if tokenizer.unknown is None else ids.count(tokenizer.unknown)


def _ids(tokenizer: Tokenizer) -> array[int]:
    return array(np.dtype(token_type(tokenizer.vocabulary)).char)


def _array(values: array[int]) -> npt.NDArray[Any]:
    kind = np.dtype(np.dtype(values.typecode).str)  # by its size: C has two names for eight bytes
    return np.frombuffer(values, dtype=kind) if len(values) else np.zeros(0, dtype=kind)
