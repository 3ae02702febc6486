"""Examples and pairs as rows of ids, one after the other in one array: what batches are cut from.

A text is [*opening, ids, *closing]; a pair of texts that are read together has its second text behind, with its own
closing (BERT's [CLS] A [SEP] B [SEP]). A text that is too long loses its end, of a pair the longer one loses first. A
sentence of tagged words that is too long becomes several rows, since each word is scored where it stands.

Of a text and its translation all sources are in one array and all targets in another:

    source   [*opening, tag, ids, end]      the tag, <2de>, where there are several languages to translate to
    target   [ids, end]                     the model itself knows what the decoder begins with

Where one of the two is too long, the pair is left out and counted: half a translation would be wrong.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.examples import Numbers, Pairs, TagExamples, TextExamples
from qkv.data.findings import Caution
from qkv.data.tokens import token_type
from qkv.errors import ConfigError, InputError
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tags, written_tag

TEXTS_AT_ONCE = 4096
MANY_CUT = 0.1
"""The share of the texts from which on it matters that they lost their end."""
TextOrPair = tuple[str, str | None]
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]


@dataclass(frozen=True)
class EncodedRows:
    """Row i is `ids[starts[i]:starts[i + 1]]`; where there are pairs, its second text begins `seconds[i]` ids into it.

    Of tagged words, word w has its first token at `places[w]` of its row, and row i has the words `words[i]` to
    `words[i + 1]`.
    """

    ids: Ids
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

    def row(self, number: int) -> Ids:
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def notes(self, what: str, context: int) -> list[str]:
        """What was done to the texts, in words."""
        notes = list[str]()
        if self.cut:
            done = "cut there" if self.places is None else "read in parts"
            some = f"{self.cut:,} {what} are" if self.cut > 1 else f"one of the {what} is"
            note = f"{some} longer than the context of {context:,} tokens; {done}."
            lost = self.places is None and self.cut > MANY_CUT * len(self)
            notes.append(Caution(note) if lost else note)
        return [*notes, *_unknown(self.unknown, what)]


def _unknown(count: int, what: str) -> list[str]:
    if count == 1:
        return [f"one token of the {what} is not in the vocabulary and becomes UNK."]
    return [f"{count:,} tokens of the {what} are not in the vocabulary and become UNK."] if count else []


class _RowBuilder:
    """Rows that grow, at as few bytes an id as the vocabulary allows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.ids = array(np.dtype(token_type(tokenizer.vocabulary)).char)
        self.starts = array("q", [0])
        self.mark, self.unknown, self.cut = tokenizer.unknown, 0, 0

    def add(self, ids: Sequence[int] | npt.NDArray[np.uint32]) -> None:
        """Ids of the row at hand that come from text."""
        if isinstance(ids, np.ndarray):  # of characters, which are many
            self.ids.frombytes(ids.astype(self.ids.typecode).tobytes())
            self.unknown += 0 if self.mark is None else int((ids == self.mark).sum())
            return
        self.ids.extend(ids)
        self.unknown += 0 if self.mark is None else ids.count(self.mark)

    @property
    def length(self) -> int:
        """Of the row at hand."""
        return len(self.ids) - self.starts[-1]

    def end_row(self) -> None:
        self.starts.append(len(self.ids))

    def rows(self, **columns: array[int]) -> EncodedRows:
        """The rows, with further columns of `EncodedRows`."""
        ids = np.frombuffer(self.ids, dtype=self.ids.typecode) if self.ids else np.zeros(0, dtype=self.ids.typecode)
        more = {name: _int64(column) for name, column in columns.items()}
        return EncodedRows(ids, _int64(self.starts), **more, cut=self.cut, unknown=self.unknown)


def _int64(values: array[int]) -> Numbers:
    return np.array(values, dtype=np.int64)


def room_for(tokenizer: Tokenizer, context: int, *, pairs: bool) -> int:
    """How many ids of text fit between those that go around."""
    around = len(tokenizer.opening) + len(tokenizer.closing) + (len(end_of(tokenizer)) if pairs else 0)
    if context - around < 1 + pairs:
        raise InputError(f"a context of {context} has no room for a text: {around} tokens go around it.")
    return context - around


def end_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends a text, and divides the texts of a pair: the closing tokens, else the mark between documents."""
    return tokenizer.closing or (tokenizer.separator,)


def texts_of(examples: TextExamples) -> Iterator[TextOrPair]:
    second = examples.second
    for row in examples.rows.tolist():
        yield examples.texts[row], None if second is None else second[row]


def encode_texts(tokenizer: Tokenizer, texts: Iterable[TextOrPair], context: int, *, pairs: bool) -> EncodedRows:
    """Texts, or pairs of texts, as rows of at most `context` ids."""
    room = room_for(tokenizer, context, pairs=pairs)
    rows, seconds = _RowBuilder(tokenizer), array("q")
    for first, second in _encoded(tokenizer, texts, pairs):
        if len(first) + len(second) > room:
            rows.cut += 1
            first, second = _shortened(first, second, room)
        rows.ids.extend(tokenizer.opening)
        rows.add(first)
        if pairs:
            rows.ids.extend(end_of(tokenizer))
            seconds.append(rows.length)
            rows.add(second)
        rows.ids.extend(tokenizer.closing)
        if not rows.length:  # a text without a token
            rows.ids.append(tokenizer.separator)
        rows.end_row()
    return rows.rows(seconds=seconds) if pairs else rows.rows()


IdRow = list[int] | npt.NDArray[np.uint32]


def _encoded(tokenizer: Tokenizer, texts: Iterable[TextOrPair], pairs: bool) -> Iterator[tuple[IdRow, IdRow]]:
    encode: Callable[[Sequence[str]], Sequence[IdRow]] = tokenizer.encode_batch
    if tokenizer.kind == "characters":
        encode = tokenizer.encode_array
    remaining = iter(texts)
    while part := list(islice(remaining, TEXTS_AT_ONCE)):
        first = encode([text for text, _ in part])
        second = encode([text or "" for _, text in part]) if pairs else [[]] * len(part)
        yield from zip(first, second, strict=True)


def _shortened(first: IdRow, second: IdRow, room: int) -> tuple[IdRow, IdRow]:
    """The longer of the two gives way until both fit."""
    short = min(len(first), len(second), room // 2)
    sizes = (short, room - short) if len(first) <= len(second) else (room - short, short)
    return first[: sizes[0]], second[: sizes[1]]


def decoded(tokenizer: Tokenizer, ids: npt.NDArray[Any]) -> str:
    """The text that a model gets: without special tokens, and with UNK for what the vocabulary lacks."""
    known, parts = list[int](), list[str]()
    for number in ids.tolist():
        if number == tokenizer.unknown:
            parts += [tokenizer.decode(known), "UNK"]
            known = []
        else:
            known.append(number)
    if not parts:
        return tokenizer.decode(known)
    return " ".join(part for part in (*parts, tokenizer.decode(known)) if part)


def sentences_of(examples: TagExamples) -> Iterator[Sequence[str]]:
    return (example.words for example in examples)


def encode_words(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]], context: int) -> EncodedRows:
    """Sentences of words as rows of ids; the place of each word's first token is kept."""
    room = room_for(tokenizer, context, pairs=False)
    rows, places, words = _RowBuilder(tokenizer), array("q"), array("q", [0])
    none = [tokenizer.separator if tokenizer.unknown is None else tokenizer.unknown]  # for a word without a token

    def close() -> None:
        rows.ids.extend(tokenizer.closing)
        rows.end_row()
        words.append(len(places))

    for sentence in _encoded_words(tokenizer, sentences):
        rows.ids.extend(tokenizer.opening)
        held, cut = 0, False
        for ids in sentence:
            ids = ids[:room] or none
            if held + len(ids) > room:
                close()
                rows.ids.extend(tokenizer.opening)
                held, cut = 0, True
            places.append(rows.length)
            rows.add(ids)
            held += len(ids)
        rows.cut += cut
        close()
    return rows.rows(places=places, words=words)


def _encoded_words(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]]) -> Iterator[list[list[int]]]:
    lead = " " if tokenizer.kind == "bpe" else ""  # a word of byte pairs begins with its space
    remaining = iter(sentences)
    while part := list(islice(remaining, TEXTS_AT_ONCE // 16)):
        ids = iter(tokenizer.encode_batch([lead + word for words in part for word in words]))
        for words in part:
            yield list(islice(ids, len(words)))


@dataclass(frozen=True)
class PairRows:
    """Row i of `sources` is translated by row i of `targets`; both are example `kept[i]` of the split."""

    sources: EncodedRows
    targets: EncodedRows
    kept: Numbers
    left_out: int = 0
    """Pairs that are too long."""

    def __len__(self) -> int:
        return len(self.kept)

    def notes(self, what: str, longest: int) -> list[str]:
        """What was done to the pairs, in words."""
        notes = []
        if self.left_out:
            whole = len(self) + self.left_out
            notes.append(f"{self.left_out:,} of {whole:,} {what} are longer than {longest:,} tokens and left out.")
        return [*notes, *_unknown(self.sources.unknown + self.targets.unknown, what)]


def tag_of(language: str) -> str:
    """The special token that asks for a language."""
    return f"<2{language}>"


def tag_ids(tokenizer: Tokenizer, languages: Sequence[str]) -> list[int]:
    """The ids of the tags; ConfigError where the vocabulary lacks one."""
    known = tags(tokenizer)
    for language in languages:
        if language not in known:
            listed = ", ".join(known.values()) or "none"
            raise ConfigError(f"the vocabulary has no tag {tag_of(language)} (tags: {listed}). Learn a new vocabulary.")
    return [tokenizer.named[known[language]] for language in languages]


def encode_pairs(
    tokenizer: Tokenizer,
    pairs: Pairs,
    longest: int = 0,
    *,
    tagged: Sequence[str] = (),
    target_tokenizer: Tokenizer | None = None,
) -> PairRows:
    """Pairs as ids; `longest` bounds each text with what goes around it (0: no bound), `tagged` are the languages
    that a tag chooses from (`Parallel.tagged`), where a text does not ask for one itself; targets may have a
    vocabulary of their own."""
    end, opening = end_of(tokenizer), tokenizer.opening
    around = len(opening) + bool(tagged) + len(end)
    if longest and longest <= around:
        raise InputError(f"a length of {longest} has no room for a text: {around} tokens go around it.")
    asked, wanted = tag_ids(tokenizer, tagged), pairs.target_languages(tagged)
    sources, targets = _RowBuilder(tokenizer), _RowBuilder(tokenizer)
    kept, left_out = array("q"), 0
    for number, (tag, source, target) in enumerate(_encoded_pairs(tokenizer, target_tokenizer or tokenizer, pairs)):
        if tagged and not tag:
            if wanted[number] < 0:
                named = ", ".join(tagged)
                raise ConfigError(f"a target language is not among those with a tag: {named}. Name files of these.")
            tag = [asked[wanted[number]]]
        if longest and max(len(opening) + len(tag) + len(source), len(target)) + len(end) > longest:
            left_out += 1
            continue
        for rows, before, ids in ((sources, (*opening, *tag), source), (targets, (), target)):
            rows.ids.extend(before)
            rows.add(ids)
            rows.ids.extend(end)
            rows.end_row()
        kept.append(number)
    if left_out and not kept:
        raise InputError(
            f"all {left_out:,} pairs are longer than {longest:,} tokens. Allow more with --set corpus.max_tokens=N."
        )
    return PairRows(sources.rows(), targets.rows(), _int64(kept), left_out)


def _encoded_pairs(
    tokenizer: Tokenizer, of_targets: Tokenizer, pairs: Pairs
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Of each pair the tag that its source itself begins with, its source and its target."""
    remaining = pairs.texts()
    while part := list(islice(remaining, TEXTS_AT_ONCE)):
        split = [written_tag(tokenizer, source) for source, _ in part]
        tag = [[] if language is None else tag_ids(tokenizer, [language]) for language, _ in split]
        sources = tokenizer.encode_batch([source for _, source in split])
        targets = of_targets.encode_batch([target for _, target in part])
        yield from zip(tag, sources, targets, strict=True)


def with_tags(tokenizer: Tokenizer, languages: Sequence[str]) -> Tokenizer:
    """The same vocabulary with the tags of languages behind it, those that it has left as they are."""
    new = [tag_of(language) for language in languages if tag_of(language) not in tokenizer.named]
    if not new:
        return tokenizer
    values = json.loads(tokenizer.json())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for number, name in enumerate(new, tokenizer.vocabulary):
        values["added_tokens"].append({"id": number, "content": name, **flags})
    return Tokenizer.parse(json.dumps(values, ensure_ascii=False), "tokenizer.json with tags", tokenizer.roles)
