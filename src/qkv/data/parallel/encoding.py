"""Pairs as rows of ids: all sources in one array and all targets in another, which batches are cut from.

    source   [*opening, tag, ids, end]      the tag, <2de>, where there are several languages to translate to
    target   [ids, end]                     what the decoder begins with is the model's own affair

A pair with a text that is too long is left out and counted; no text is ever cut, since half a translation is wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.data.labelled.encoding import TOGETHER, Rows
from qkv.data.parallel.pairs import Numbers, Pairs
from qkv.data.tokens import token_type
from qkv.errors import ConfigError, InputError
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tags, written_tag


@dataclass(frozen=True)
class PairRows:
    """Row i of `sources` is translated by row i of `targets`; both are example `kept[i]` of the side."""

    sources: Rows
    targets: Rows
    kept: Numbers
    left_out: int = 0
    """Pairs that are too long."""

    def __len__(self) -> int:
        return len(self.kept)

    def notes(self, what: str, longest: int) -> list[str]:
        """What was done to the pairs, in words."""
        said = []
        if self.left_out:
            whole = len(self) + self.left_out
            said.append(f"{self.left_out:,} of {whole:,} {what} are longer than {longest:,} tokens and left out.")
        if unknown := self.sources.unknown + self.targets.unknown:
            said.append(f"{unknown:,} tokens of the {what} are not in the vocabulary and become UNK.")
        return said


def tag_of(language: str) -> str:
    """The special token that asks for a language."""
    return f"<2{language}>"


def end_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What closes a text: what the vocabulary closes texts with, or the mark between documents."""
    return tokenizer.closing or (tokenizer.separator,)


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
    side: Pairs,
    longest: int = 0,
    *,
    tagged: Sequence[str] = (),
    target_tokenizer: Tokenizer | None = None,
) -> PairRows:
    """A side as ids; `longest` bounds each text with what goes around it (0: no bound), `tagged` are the languages
    that a tag chooses from (`Parallel.tagged`), where a text does not ask for one itself; targets may be cut by a
    vocabulary of their own."""
    end, opening = end_of(tokenizer), tokenizer.opening
    around = len(opening) + bool(tagged) + len(end)
    if longest and longest <= around:
        raise InputError(f"a length of {longest} has no room for a text: {around} tokens go around it.")
    asked, into = tag_ids(tokenizer, tagged), side.into(tagged)
    made = _Rows(tokenizer), _Rows(tokenizer)
    kept, left_out = array("q"), 0
    for number, (own, source, target) in enumerate(_encoded(tokenizer, target_tokenizer or tokenizer, side)):
        if tagged and not own:
            if into[number] < 0:
                named = ", ".join(tagged)
                raise ConfigError(f"a target language is not among those with a tag: {named}. Name files of these.")
            own = [asked[into[number]]]
        before = [*opening, *own]
        if longest and max(len(before) + len(source), len(target)) + len(end) > longest:
            left_out += 1
            continue
        made[0].add(before, source, end)
        made[1].add((), target, end)
        kept.append(number)
    if left_out and not kept:
        raise InputError(f"all {left_out:,} pairs are longer than {longest:,} tokens. Allow more (corpus.longest).")
    return PairRows(made[0].rows(), made[1].rows(), np.array(kept, dtype=np.int64), left_out)


def _encoded(
    tokenizer: Tokenizer, of_targets: Tokenizer, side: Pairs
) -> Iterator[tuple[list[int], list[int], list[int]]]:
    """Of each pair the tag that its source itself begins with, its source and its target."""
    given = side.texts()
    while part := list(islice(given, TOGETHER)):
        split = [written_tag(tokenizer, source) for source, _ in part]
        own = [[] if language is None else tag_ids(tokenizer, [language]) for language, _ in split]
        sources = tokenizer.encode_batch([source for _, source in split])
        targets = of_targets.encode_batch([target for _, target in part])
        yield from zip(own, sources, targets, strict=True)


class _Rows:
    """Rows that grow, at as few bytes an id as the vocabulary allows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.kind = np.dtype(token_type(tokenizer.vocabulary))
        self.ids, self.starts = array(self.kind.char), array("q", [0])
        self.mark, self.unknown = tokenizer.unknown, 0

    def add(self, before: Sequence[int], ids: Sequence[int], after: Sequence[int]) -> None:
        for part in (before, ids, after):
            self.ids.extend(part)
        self.starts.append(len(self.ids))
        self.unknown += 0 if self.mark is None else ids.count(self.mark)

    def rows(self) -> Rows:
        ids: npt.NDArray[Any] = np.frombuffer(self.ids, dtype=self.kind) if self.ids else np.zeros(0, dtype=self.kind)
        return Rows(ids, np.array(self.starts, dtype=np.int64), unknown=self.unknown)
