"""Encodes examples and pairs as rows of ids, one after the other in one array, from which batches are made.

A text is [*opening, ids, *closing]; in a pair of texts, the second text follows with its own closing (BERT's
[CLS] A [SEP] B [SEP]). A text that is too long is truncated, in a pair the longer one first. A sentence of tagged words
that is too long becomes several rows, because every word must be scored.

Sources and targets of translations are in two arrays:

    source   [*opening, tag, ids, end]      the tag, <2de>, only if there are several target languages
    target   [ids, end]                     the model itself adds the start token of the decoder

If either is too long, the pair is left out and counted: half a translation would be wrong.
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

ENCODING_BATCH = 4096
NOTABLE_CUT_SHARE = 0.1
"""If more than this share of the texts is truncated, the note is a caution."""
TextOrPair = tuple[str, str | None]
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

IdRow = list[int] | npt.NDArray[np.uint32]


@dataclass(frozen=True)
class EncodedRows:
    """Row i is `ids[starts[i]:starts[i + 1]]`. Of a pair, the second text begins at `second_starts[i]` in the row.

    The first token of tagged word w is at position `word_starts[w]` of its row; row i has the words from `words[i]` up
    to `words[i + 1]`.
    """

    ids: Ids
    starts: Numbers
    second_starts: Numbers | None = None
    word_starts: Numbers | None = None
    words: Numbers | None = None
    cut: int = 0  # truncated texts, or sentences that became several rows
    unknown: int = 0  # tokens that are not in the vocabulary

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)

    def row(self, number: int) -> Ids:
        return self.ids[self.starts[number] : self.starts[number + 1]]

    def notes(self, what: str, context: int) -> list[str]:
        """Notes on truncated texts and unknown tokens."""
        notes = list[str]()
        if self.cut:
            done = "truncated" if self.word_starts is None else "read in parts"
            subject = f"{self.cut:,} {what} are" if self.cut > 1 else f"one of the {what} is"
            note = f"{subject} longer than the context of {context:,} tokens; {done}."
            lost = self.word_starts is None and self.cut > NOTABLE_CUT_SHARE * len(self)
            notes.append(Caution(note) if lost else note)
        return [*notes, *_unknown(self.unknown, what)]


def _unknown(count: int, what: str) -> list[str]:
    if count == 1:
        return [f"one token of the {what} is not in the vocabulary and becomes UNK."]
    return [f"{count:,} tokens of the {what} are not in the vocabulary and become UNK."] if count else []


class _RowBuilder:
    """Collects rows, with as few bytes per id as the vocabulary allows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.ids = array(np.dtype(token_type(tokenizer.vocabulary)).char)
        self.starts = array("q", [0])
        self.unknown_id, self.unknown, self.cut = tokenizer.unknown, 0, 0

    def add(self, ids: IdRow) -> None:
        """Add ids of text to the current row."""
        if isinstance(ids, np.ndarray):  # of characters, which are many
            self.ids.frombytes(ids.astype(self.ids.typecode).tobytes())
            self.unknown += 0 if self.unknown_id is None else int((ids == self.unknown_id).sum())
            return
        self.ids.extend(ids)
        self.unknown += 0 if self.unknown_id is None else ids.count(self.unknown_id)

    @property
    def length(self) -> int:
        """The length of the current row."""
        return len(self.ids) - self.starts[-1]

    def end_row(self) -> None:
        self.starts.append(len(self.ids))

    def rows(self, **columns: array[int]) -> EncodedRows:
        """The collected rows, with other fields of `EncodedRows`."""
        ids = np.frombuffer(self.ids, dtype=self.ids.typecode) if self.ids else np.zeros(0, dtype=self.ids.typecode)
        more = {name: _int64(column) for name, column in columns.items()}
        return EncodedRows(ids, _int64(self.starts), **more, cut=self.cut, unknown=self.unknown)


def _int64(values: array[int]) -> Numbers:
    return np.array(values, dtype=np.int64)


def room_for(tokenizer: Tokenizer, context: int, *, pairs: bool) -> int:
    """How many ids of text fit into the context besides the special tokens."""
    around = len(tokenizer.opening) + len(tokenizer.closing) + (len(end_of(tokenizer)) if pairs else 0)
    if context - around < 1 + pairs:
        raise InputError(f"a context of {context} has no room for a text: special tokens take {around}.")
    return context - around


def end_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that end a text and separate the texts of a pair: the closing tokens, else the document separator."""
    return tokenizer.closing or (tokenizer.separator,)


def texts_of(examples: TextExamples) -> Iterator[TextOrPair]:
    second = examples.second
    for row in examples.rows.tolist():
        yield examples.texts[row], None if second is None else second[row]


def encode_texts(tokenizer: Tokenizer, texts: Iterable[TextOrPair], context: int, *, pairs: bool) -> EncodedRows:
    """Texts, or pairs of texts, as rows of at most `context` ids."""
    room = room_for(tokenizer, context, pairs=pairs)
    rows, second_starts = _RowBuilder(tokenizer), array("q")
    for first, second in _encoded(tokenizer, texts, pairs):
        if len(first) + len(second) > room:
            rows.cut += 1
            first, second = _truncated(first, second, room)
        rows.ids.extend(tokenizer.opening)
        rows.add(first)
        if pairs:
            rows.ids.extend(end_of(tokenizer))
            second_starts.append(rows.length)
            rows.add(second)
        rows.ids.extend(tokenizer.closing)
        if not rows.length:  # a text without a token
            rows.ids.append(tokenizer.separator)
        rows.end_row()
    return rows.rows(second_starts=second_starts) if pairs else rows.rows()


def _encoded(tokenizer: Tokenizer, texts: Iterable[TextOrPair], pairs: bool) -> Iterator[tuple[IdRow, IdRow]]:
    encode: Callable[[Sequence[str]], Sequence[IdRow]] = tokenizer.encode_batch
    if tokenizer.kind == "characters":
        encode = tokenizer.encode_array
    remaining = iter(texts)
    while part := list(islice(remaining, ENCODING_BATCH)):
        first = encode([text for text, _ in part])
        second = encode([text or "" for _, text in part]) if pairs else [[]] * len(part)
        yield from zip(first, second, strict=True)


def _truncated(first: IdRow, second: IdRow, room: int) -> tuple[IdRow, IdRow]:
    """Truncate the longer of two texts until both fit."""
    short = min(len(first), len(second), room // 2)
    sizes = (short, room - short) if len(first) <= len(second) else (room - short, short)
    return first[: sizes[0]], second[: sizes[1]]


def decoded(tokenizer: Tokenizer, ids: npt.NDArray[Any]) -> str:
    """The text that a model gets, without special tokens, and with UNK for tokens that are not in the vocabulary."""
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
    """Sentences of words as rows of ids, with the position of each word's first token."""
    room = room_for(tokenizer, context, pairs=False)
    rows, word_starts, words = _RowBuilder(tokenizer), array("q"), array("q", [0])
    substitute = [tokenizer.separator if tokenizer.unknown is None else tokenizer.unknown]  # for a word without tokens

    def close() -> None:
        rows.ids.extend(tokenizer.closing)
        rows.end_row()
        words.append(len(word_starts))

    for sentence in _encoded_words(tokenizer, sentences):
        rows.ids.extend(tokenizer.opening)
        held, cut = 0, False
        for ids in sentence:
            ids = ids[:room] or substitute
            if held + len(ids) > room:
                close()
                rows.ids.extend(tokenizer.opening)
                held, cut = 0, True
            word_starts.append(rows.length)
            rows.add(ids)
            held += len(ids)
        rows.cut += cut
        close()
    return rows.rows(word_starts=word_starts, words=words)


def _encoded_words(tokenizer: Tokenizer, sentences: Iterable[Sequence[str]]) -> Iterator[list[list[int]]]:
    lead = " " if tokenizer.kind == "bpe" else ""  # in BPE, a word begins with its space
    remaining = iter(sentences)
    while part := list(islice(remaining, ENCODING_BATCH // 16)):
        ids = iter(tokenizer.encode_batch([lead + word for words in part for word in words]))
        for words in part:
            yield list(islice(ids, len(words)))


@dataclass(frozen=True)
class PairRows:
    """Row i of `targets` is the translation of row i of `sources`; the pair is example `kept[i]` of the split."""

    sources: EncodedRows
    targets: EncodedRows
    kept: Numbers
    left_out: int = 0
    """The number of pairs that are too long."""

    def __len__(self) -> int:
        return len(self.kept)

    def notes(self, what: str, longest: int) -> list[str]:
        """Notes on pairs that were left out, and on unknown tokens."""
        notes = []
        if self.left_out:
            total = len(self) + self.left_out
            notes.append(f"{self.left_out:,} of {total:,} {what} are longer than {longest:,} tokens and left out.")
        return [*notes, *_unknown(self.sources.unknown + self.targets.unknown, what)]


def tag_of(language: str) -> str:
    """The special token that selects a target language."""
    return f"<2{language}>"


def tag_ids(tokenizer: Tokenizer, languages: Sequence[str]) -> list[int]:
    """The ids of the tags; ConfigError if one is not in the vocabulary."""
    known = tags(tokenizer)
    for language in languages:
        if language not in known:
            listed = ", ".join(known.values()) or "none"
            raise ConfigError(f"the vocabulary has no tag {tag_of(language)} (tags: {listed}). Train a new tokenizer.")
    return [tokenizer.named[known[language]] for language in languages]


def encode_pairs(
    tokenizer: Tokenizer,
    pairs: Pairs,
    longest: int = 0,
    *,
    tagged: Sequence[str] = (),
    target_tokenizer: Tokenizer | None = None,
) -> PairRows:
    """Encode pairs. `longest` is the largest length of a text with its special tokens (0: no limit), and `tagged` the
    languages that have tags (`Parallel.tagged`); a text that begins with a tag keeps it. Targets may have their own
    tokenizer."""
    end, opening = end_of(tokenizer), tokenizer.opening
    around = len(opening) + bool(tagged) + len(end)
    if longest and longest <= around:
        raise InputError(f"a length of {longest} has no room for a text: special tokens take {around}.")
    tag_of_language, target_languages = tag_ids(tokenizer, tagged), pairs.target_languages(tagged)
    sources, targets = _RowBuilder(tokenizer), _RowBuilder(tokenizer)
    kept, left_out = array("q"), 0
    for number, (tag, source, target) in enumerate(_encoded_pairs(tokenizer, target_tokenizer or tokenizer, pairs)):
        if tagged and not tag:
            if target_languages[number] < 0:
                named = ", ".join(tagged)
                raise ConfigError(f"a target language is not among those with tags: {named}. Name files of these.")
            tag = [tag_of_language[target_languages[number]]]
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
    tokenizer: Tokenizer, target_tokenizer: Tokenizer, pairs: Pairs
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """The tag with which the source of each pair begins, if any, the source and the target."""
    remaining = pairs.texts()
    while part := list(islice(remaining, ENCODING_BATCH)):
        split = [written_tag(tokenizer, source) for source, _ in part]
        tag = [[] if language is None else tag_ids(tokenizer, [language]) for language, _ in split]
        sources = tokenizer.encode_batch([source for _, source in split])
        targets = target_tokenizer.encode_batch([target for _, target in part])
        yield from zip(tag, sources, targets, strict=True)


def with_tags(tokenizer: Tokenizer, languages: Sequence[str]) -> Tokenizer:
    """The same tokenizer with the tags of these languages added after its tokens, if it lacks them."""
    new = [tag_of(language) for language in languages if tag_of(language) not in tokenizer.named]
    if not new:
        return tokenizer
    values = json.loads(tokenizer.json())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for number, name in enumerate(new, tokenizer.vocabulary):
        values["added_tokens"].append({"id": number, "content": name, **flags})
    return Tokenizer.parse(json.dumps(values, ensure_ascii=False), "tokenizer.json with tags", tokenizer.roles)
