"""Words with tags: CoNLL (word in the first column, tag in the last), CoNLL-U (ten columns), and spans of characters.

Blank lines, and lines of white space alone, separate sentences. `-DOCSTART-` lines are skipped; in CoNLL-U so are
comments, multiword tokens (1-2) and empty nodes (8.1). Tags may be BIO, IO, IOBES or plain; a note says which of
the first three it is.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import PackedTexts, TagExamples
from qkv.data.findings import Assumption, Caution, Findings, OnRead
from qkv.data.formats.character_spans import tagged_sentences
from qkv.data.formats.rows import BadRows, read_lines
from qkv.data.formats.tabular import open_table
from qkv.data.identity import keys_array, text_key
from qkv.data.labels import RawLabels, RawSplit
from qkv.data.split_files import ExampleFile
from qkv.errors import DataError
from qkv.visible import counted

CONLLU_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
LONG_SENTENCE_WORDS = 1000
MAX_LONG_SHARE = 0.3
"""Where more of the words are in long sentences, these are not a few odd ones: blank lines are missing."""
MAX_SENTENCE_WORDS = 20_000
_PREFIXED_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)


def read_split(files: Sequence[ExampleFile], config: ExamplesConfig, findings: Findings, on_read: OnRead) -> RawSplit:
    """Read the sentences of one split; DataError for a file that has none."""
    words, tags, starts, keys = PackedTexts(), RawLabels(), array("q", [0]), array("Q")
    for file in files:
        sentences_before = len(keys)
        if file.kind == "spans":
            sentences = tagged_sentences(open_table(file.source, config.encoding, findings, on_read=on_read), findings)
        else:
            sentences = _ConllReader(file, config, findings).sentences(on_read)
        for sentence in sentences:
            for line, word, tag in sentence:
                words.append(word)
                tags.append(tag, file.display_name, line)
            starts.append(len(words))
            keys.append(text_key(*(word for _, word, _ in sentence)))
        if len(keys) == sentences_before:
            raise DataError(
                file.display_name, "is empty: there is no sentence in it", "Give a file with words and tags."
            )
    examples = TagExamples(words=words, starts=np.array(starts, dtype=np.int64), all_keys=keys_array(keys))
    return RawSplit(examples, tags)


class _ConllReader:
    def __init__(self, file: ExampleFile, config: ExamplesConfig, findings: Findings) -> None:
        self.file, self.config, self.findings = file, config, findings
        self.where = file.display_name
        self.is_conllu = file.kind == "conllu"
        self.word_column = 1 if self.is_conllu else 0
        # these are set by the first line that is not skipped
        self.column_count = self.tag_column = 0
        self.tab_separated = False

    def sentences(self, on_read: OnRead) -> Iterator[list[tuple[int, str, str]]]:
        """The sentences, each as a list of line number, word and tag."""
        bad_sentences = BadRows(self.where, self.findings)
        sentence: list[tuple[int, str, str]] = []
        problem: tuple[int, str] | None = None
        lines = read_lines(self.file.source, self.config.encoding, self.findings, on_read)
        for number, line in enumerate(chain(lines, [""]), 1):
            if not line.strip():
                bad_sentences.row_count += bool(sentence or problem)
                if problem:
                    bad_sentences.reject(*problem)
                elif sentence:
                    yield sentence
                sentence, problem = [], None
            elif not line.startswith("-DOCSTART-") and not (self.is_conllu and line.startswith("#")):
                word_and_tag = self._parse_line(line)
                if isinstance(word_and_tag, str):
                    problem = problem or (number, word_and_tag)
                elif word_and_tag is not None:
                    sentence.append((number, *word_and_tag))
                if len(sentence) > MAX_SENTENCE_WORDS:
                    where, remedy = f"{self.where}:{number}", "Separate the sentences with blank lines."
                    raise DataError(where, f"a sentence of more than {MAX_SENTENCE_WORDS:,} words", remedy)
        bad_sentences.finish()
        if self.column_count:
            name = f"column {self.tag_column + 1}"
            if self.is_conllu:
                name += f" ({CONLLU_COLUMNS[self.tag_column]})"
            words = f"words: column {self.word_column + 1}"
            self.findings.add_note(Assumption(f"{self.where}: tags: {name} of {self.column_count} columns, {words}."))

    def _parse_line(self, line: str) -> tuple[str, str] | str | None:
        """The word and the tag of a line, or a message about what is wrong; None for a line to skip."""
        if not self.column_count:
            self.tab_separated = self.is_conllu or "\t" in line
            first_cells = line.split("\t" if self.tab_separated else None)
            self.column_count = len(CONLLU_COLUMNS) if self.is_conllu else len(first_cells)
            self.tag_column = self._find_tag_column()
        cells = [cell.strip() for cell in line.split("\t")] if self.tab_separated else line.split()
        if self.is_conllu and len(cells) == self.column_count and not cells[0].isdecimal():
            skipped = re.fullmatch(r"\d+[-.]\d+", cells[0])
            return None if skipped else f"expected the number of a word, found {cells[0][:20]!r}"
        if len(cells) != self.column_count:
            return f"expected {self.column_count} columns, found {len(cells)}"
        if self.column_count < 2:
            return "a word without a tag: expected WORD and TAG, separated by a tab or a space"
        word, tag = cells[self.word_column], cells[self.tag_column]
        if not word:
            return "a tag without a word"
        return (word, tag) if tag else "a word without a tag"

    def _find_tag_column(self) -> int:
        """The column of --label; by default upos in CoNLL-U, the last column in CoNLL."""
        label = self.config.label
        if label is None:
            return CONLLU_COLUMNS.index("upos") if self.is_conllu else self.column_count - 1
        if self.is_conllu and label.lower() in CONLLU_COLUMNS:
            return CONLLU_COLUMNS.index(label.lower())
        if label.isdecimal() and 1 <= int(label) <= self.column_count:
            return int(label) - 1
        expected = f"a number from 1 to {self.column_count}"
        if self.is_conllu:
            expected = f"{', '.join(CONLLU_COLUMNS)}, or a number"
        raise DataError(self.where, f"no column {label!r} to learn", f"Expected {expected}.")


def note_tag_scheme(split: RawSplit, where: str, findings: Findings) -> None:
    """Note the scheme of the tags, I- tags that continue no span, and missing blank lines."""
    assert isinstance(split.examples, TagExamples)
    tags, starts = split.labels.names, split.examples.starts.tolist()
    prefixed = [match for tag in tags if (match := _PREFIXED_TAG.fullmatch(tag))]
    unprefixed = [tag for tag in tags if not _PREFIXED_TAG.fullmatch(tag)]
    if prefixed and unprefixed in ([], ["O"]):
        prefixes = {match[1] for match in prefixed}
        scheme = "IOBES" if prefixes & set("ESLU") else "BIO" if "B" in prefixes else "IO"
        findings.add_note(f"{where}: {scheme} tags of {counted(len({match[2] for match in prefixed}), 'kind')}.")
        if scheme == "BIO" and (count := _count_stray_tags(split.labels, starts)):
            follow = "1 I- tag does not follow a B- or I- tag of its kind; it begins"
            if count > 1:
                follow = f"{count:,} I- tags do not follow a B- or I- tag of their kind; each begins"
            findings.add_note(f"{where}: {follow} a span nevertheless.")
    lengths = np.diff(starts)
    long = lengths[lengths > LONG_SENTENCE_WORDS]
    if long.sum() > MAX_LONG_SHARE * lengths.sum():
        most = f"{long.sum():,} of {lengths.sum():,} words are in sentences of more than {LONG_SENTENCE_WORDS:,}"
        findings.add_note(Caution(f"{where}: {most}; blank lines should separate sentences."))


def _count_stray_tags(labels: RawLabels, starts: Sequence[int]) -> int:
    """How many I- tags do not follow a B- or I- tag of their kind in the same sentence."""
    names = labels.names
    tags = [names[code] for code in labels.codes]
    previous_tags = ["O", *tags]
    for start in starts[:-1]:
        previous_tags[start] = "O"
    return sum(
        tag.startswith("I-") and previous[2:] != tag[2:] for previous, tag in zip(previous_tags, tags, strict=False)
    )
