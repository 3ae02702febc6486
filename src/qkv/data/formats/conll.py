"""Words with tags: CoNLL (word first, tag last on a line) and CoNLL-U (ten columns); blank lines separate sentences.

A line of nothing but white space is blank too. `-DOCSTART-` and comments are left out, as are CoNLL-U's tokens of
several words (1-2) and its empty nodes (8.1). The tags may be BIO, IO, IOBES or plain; which is found out and said.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import LabelMap, Mask, PackedTexts, TagExamples, Targets
from qkv.data.findings import Caution, Findings, Watch
from qkv.data.formats.rows import BadRows, decoded_lines
from qkv.data.identity import as_keys, key_of
from qkv.data.labels import Values
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError

UNIVERSAL = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LONG_SENTENCE = 1000
MOST_SENTENCE_WORDS = 20_000
_PREFIXED = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


@dataclass
class TaggedSentences:
    """The sentences of one split as they stand in the files."""

    words: PackedTexts = field(default_factory=PackedTexts)
    starts: array[int] = field(default_factory=lambda: array("q", [0]))
    values: Values = field(default_factory=Values)
    keys: array[int] = field(default_factory=lambda: array("Q"))

    def add(self, sentence: Sequence[tuple[int, str, str]], where: str) -> None:
        for line, word, tag in sentence:
            self.words.append(word)
            self.values.append(tag, where, line)
        self.starts.append(len(self.words))
        self.keys.append(key_of(*(word for _, word, _ in sentence)))

    def examples(self, labels: LabelMap, targets: Targets, good: Mask) -> TagExamples:
        starts = np.array(self.starts, dtype=np.int64)
        rows = np.flatnonzero(np.logical_and.reduceat(good, starts[:-1]))
        keys = as_keys(self.keys)
        return TagExamples(
            words=self.words, starts=starts, labels=labels, all_targets=targets, all_keys=keys, rows=rows
        )


def gather(files: Sequence[ExampleFile], config: ExamplesConfig, findings: Findings, watch: Watch) -> TaggedSentences:
    found = TaggedSentences()
    for file in files:
        before = len(found.keys)
        _ConllReader(file, config, findings).read(found, watch)
        if len(found.keys) == before:
            raise DataError(file.shown, "is empty: there is no sentence in it", "Give a file with words and tags.")
    return found


class _ConllReader:
    def __init__(self, file: ExampleFile, config: ExamplesConfig, findings: Findings) -> None:
        self.file, self.config, self.findings = file, config, findings
        self.where = file.shown
        self.universal = file.kind == "conllu"
        self.bad = BadRows(self.where, findings)  # counts sentences
        self.width = 0
        self.tabs = False

    def read(self, found: TaggedSentences, watch: Watch) -> None:
        for sentence in self._sentences(decoded_lines(self.file.source, self.config.encoding, self.findings, watch)):
            if sentence:
                found.add(sentence, self.where)
        self.bad.finish()
        if self.width:
            column, words = self._column(self.width), 2 if self.universal else 1
            name = f"column {column + 1}" + (f" ({UNIVERSAL[column]})" if self.universal else "")
            self.findings.say(f"{self.where}: tags: {name} of {self.width} columns, words: column {words}.")

    def _sentences(self, lines: Iterator[str]) -> Iterator[list[tuple[int, str, str]]]:
        sentence: list[tuple[int, str, str]] = []
        problem: tuple[int, str] | None = None
        begun = False
        for number, line in enumerate(lines, 1):
            if not line.strip():
                if begun:
                    yield self._finished(sentence, problem)
                sentence, problem, begun = [], None, False
                continue
            if line.startswith("-DOCSTART-") or (self.universal and line.startswith("#")):
                continue
            begun = True
            cells = self._cells(line)
            if self.universal and len(cells) == len(UNIVERSAL) and not cells[0].isdecimal():
                if not re.fullmatch(r"\d+[-.]\d+", cells[0]):
                    problem = problem or (number, f"expected the number of a word, found {cells[0][:20]!r}")
                continue
            if (wrong := self._wrong(cells)) is not None:
                problem = problem or (number, wrong)
                continue
            sentence.append((number, cells[1 if self.universal else 0], cells[self._column(len(cells))]))
            if len(sentence) > MOST_SENTENCE_WORDS:
                remedy = "Separate the sentences with blank lines."
                raise DataError(
                    f"{self.where}:{number}", f"a sentence of more than {MOST_SENTENCE_WORDS:,} words", remedy
                )
        if begun:
            yield self._finished(sentence, problem)

    def _finished(
        self, sentence: list[tuple[int, str, str]], problem: tuple[int, str] | None
    ) -> list[tuple[int, str, str]]:
        if not sentence and problem is None:
            return []
        self.bad.rows += 1
        if problem is None:
            return sentence
        self.bad.reject(*problem)
        return []

    def _cells(self, line: str) -> list[str]:
        if not self.width:
            self.tabs = "\t" in line
            self.width = len(line.split("\t") if self.tabs else line.split())
            if self.universal:
                self.tabs, self.width = True, len(UNIVERSAL)
            self._column(self.width)
        return [cell.strip() for cell in line.split("\t")] if self.tabs else line.split()

    def _wrong(self, cells: Sequence[str]) -> str | None:
        if len(cells) != self.width:
            return f"expected {self.width} columns, found {len(cells)}"
        if self.width < 2:
            return "a word without a tag: expected WORD and TAG, separated by a tab or a space"
        if not cells[1 if self.universal else 0]:
            return "a tag without a word"
        return None if cells[self._column(self.width)] else "a word without a tag"

    def _column(self, width: int) -> int:
        """The column to learn: the one said, else upos or the last."""
        wanted = self.config.label
        if wanted is None:
            return UNIVERSAL.index("upos") if self.universal else width - 1
        if self.universal and wanted.lower() in UNIVERSAL:
            return UNIVERSAL.index(wanted.lower())
        if wanted.isdecimal() and 1 <= int(wanted) <= width:
            return int(wanted) - 1
        known = f"{', '.join(UNIVERSAL)}, or a number" if self.universal else f"a number from 1 to {width}"
        raise DataError(self.where, f"no column {wanted!r} to learn", f"Expected {known}.")


def note_scheme(found: TaggedSentences, where: str, findings: Findings) -> None:
    """Say which scheme the tags follow, and what does not fit it."""
    names = found.values.names
    prefixes = {match[1] for name in names if (match := _PREFIXED.fullmatch(name))}
    outside = [name for name in names if not _PREFIXED.fullmatch(name)]
    if prefixes and outside in ([], ["O"]):
        scheme = "IOBES" if prefixes & set("ESLU") else "BIO" if "B" in prefixes else "IO"
        kinds = {name[2:] for name in names if _PREFIXED.fullmatch(name)}
        findings.say(f"{where}: {scheme} tags of {len(kinds)} kinds.")
        if scheme == "BIO" and (odd := _stray(found)):
            findings.say(
                f"{where}: {odd:,} tags I- do not follow a B- or I- of their kind; they begin a span all the same."
            )
    lengths = [after - before for before, after in zip(found.starts, found.starts[1:], strict=False)]
    if lengths and max(lengths) > LONG_SENTENCE:
        findings.say(Caution(f"{where}: a sentence of {max(lengths):,} words; blank lines should separate sentences."))


def _stray(found: TaggedSentences) -> int:
    names = found.values.names
    odd = 0
    for first, last in zip(found.starts, found.starts[1:], strict=False):
        before = "O"
        for code in found.values.codes[first:last]:
            tag = names[code]
            odd += tag.startswith("I-") and before[2:] != tag[2:]
            before = tag
    return odd
