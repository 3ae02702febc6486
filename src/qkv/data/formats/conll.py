"""Words with tags: CoNLL (word first, tag last on a line) and CoNLL-U (ten columns); blank lines separate sentences.

A line of nothing but white space is blank too. `-DOCSTART-` and comments are left out, as are CoNLL-U's tokens of
several words (1-2) and its empty nodes (8.1). The tags may be BIO, IO, IOBES or plain; which one is noted.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import PackedTexts, TagExamples
from qkv.data.findings import Caution, Findings, OnRead
from qkv.data.formats.rows import BadRows, decoded_lines
from qkv.data.identity import as_keys, text_key
from qkv.data.labels import RawLabels, RawSplit
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError

UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LONG_SENTENCE = 1000
MOST_SENTENCE_WORDS = 20_000
_PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


def gather(files: Sequence[ExampleFile], config: ExamplesConfig, findings: Findings, on_read: OnRead) -> RawSplit:
    words, values, starts, keys = PackedTexts(), RawLabels(), array("q", [0]), array("Q")
    for file in files:
        before = len(keys)
        for sentence in _ConllReader(file, config, findings).sentences(on_read):
            for line, word, tag in sentence:
                words.append(word)
                values.append(tag, file.display_name, line)
            starts.append(len(words))
            keys.append(text_key(*(word for _, word, _ in sentence)))
        if len(keys) == before:
            raise DataError(
                file.display_name, "is empty: there is no sentence in it", "Give a file with words and tags."
            )
    examples = TagExamples(words=words, starts=np.array(starts, dtype=np.int64), all_keys=as_keys(keys))
    return RawSplit(examples, values)


class _ConllReader:
    def __init__(self, file: ExampleFile, config: ExamplesConfig, findings: Findings) -> None:
        self.file, self.config, self.findings = file, config, findings
        self.where = file.display_name
        self.universal = file.kind == "conllu"
        self.form = 1 if self.universal else 0  # the column of the word
        self.width = self.tag = 0  # as the first line has them
        self.tabs = False

    def sentences(self, on_read: OnRead) -> Iterator[list[tuple[int, str, str]]]:
        """Line, word and tag of each word, sentence by sentence."""
        bad = BadRows(self.where, self.findings)  # counts sentences
        sentence: list[tuple[int, str, str]] = []
        problem: tuple[int, str] | None = None
        lines = decoded_lines(self.file.source, self.config.encoding, self.findings, on_read)
        for number, line in enumerate(chain(lines, [""]), 1):
            if not line.strip():
                bad.rows += bool(sentence or problem)
                if problem:
                    bad.reject(*problem)
                elif sentence:
                    yield sentence
                sentence, problem = [], None
            elif not line.startswith("-DOCSTART-") and not (self.universal and line.startswith("#")):
                word = self._word(line)
                if isinstance(word, str):
                    problem = problem or (number, word)
                elif word is not None:
                    sentence.append((number, *word))
                if len(sentence) > MOST_SENTENCE_WORDS:
                    where, remedy = f"{self.where}:{number}", "Separate the sentences with blank lines."
                    raise DataError(where, f"a sentence of more than {MOST_SENTENCE_WORDS:,} words", remedy)
        bad.finish()
        if self.width:
            name = f"column {self.tag + 1}" + (f" ({UNIVERSAL[self.tag]})" if self.universal else "")
            self.findings.add_note(
                f"{self.where}: tags: {name} of {self.width} columns, words: column {self.form + 1}."
            )

    def _word(self, line: str) -> tuple[str, str] | str | None:
        """Word and tag of a line, or what is wrong with it; None where it is left out."""
        if not self.width:
            self.tabs = self.universal or "\t" in line
            self.width = len(UNIVERSAL) if self.universal else len(line.split("\t" if self.tabs else None))
            self.tag = self._column()
        cells = [cell.strip() for cell in line.split("\t")] if self.tabs else line.split()
        if self.universal and len(cells) == self.width and not cells[0].isdecimal():
            words = re.fullmatch(r"\d+[-.]\d+", cells[0])
            return None if words else f"expected the number of a word, found {cells[0][:20]!r}"
        if len(cells) != self.width:
            return f"expected {self.width} columns, found {len(cells)}"
        if self.width < 2:
            return "a word without a tag: expected WORD and TAG, separated by a tab or a space"
        if not cells[self.form]:
            return "a tag without a word"
        return (cells[self.form], cells[self.tag]) if cells[self.tag] else "a word without a tag"

    def _column(self) -> int:
        """The column to learn: the given one, else upos or the last."""
        wanted = self.config.label
        if wanted is None:
            return UNIVERSAL.index("upos") if self.universal else self.width - 1
        if self.universal and wanted.lower() in UNIVERSAL:
            return UNIVERSAL.index(wanted.lower())
        if wanted.isdecimal() and 1 <= int(wanted) <= self.width:
            return int(wanted) - 1
        known = f"{', '.join(UNIVERSAL)}, or a number" if self.universal else f"a number from 1 to {self.width}"
        raise DataError(self.where, f"no column {wanted!r} to learn", f"Expected {known}.")


def note_scheme(found: RawSplit, where: str, findings: Findings) -> None:
    """Note which scheme the tags follow, and what does not fit it."""
    assert isinstance(found.examples, TagExamples)
    names, starts = found.values.names, found.examples.starts.tolist()
    prefixes = {match[1] for name in names if (match := _PREFIXED.fullmatch(name))}
    outside = [name for name in names if not _PREFIXED.fullmatch(name)]
    if prefixes and outside in ([], ["O"]):
        scheme = "IOBES" if prefixes & set("ESLU") else "BIO" if "B" in prefixes else "IO"
        kinds = {name[2:] for name in names if _PREFIXED.fullmatch(name)}
        findings.add_note(f"{where}: {scheme} tags of {len(kinds)} kinds.")
        if scheme == "BIO" and (stray := _stray(found.values, starts)):
            findings.add_note(
                f"{where}: {stray:,} tags I- do not follow a B- or I- of their kind; they begin a span nevertheless."
            )
    if (longest := int(np.diff(starts).max(initial=0))) > LONG_SENTENCE:
        findings.add_note(Caution(f"{where}: a sentence of {longest:,} words; blank lines should separate sentences."))


def _stray(values: RawLabels, starts: Sequence[int]) -> int:
    names = values.names
    tags = [names[code] for code in values.codes]
    before = ["O", *tags]
    for first in starts[:-1]:
        before[first] = "O"
    return sum(tag.startswith("I-") and last[2:] != tag[2:] for last, tag in zip(before, tags, strict=False))
