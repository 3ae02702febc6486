"""The first pass over a corpus: what there is, what `auto` needs to know, and where the sides part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from qkv.data import catalog
from qkv.data.corpus import CorpusConfig
from qkv.data.files.discover import expand
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Caution, Findings, Progress, silent
from qkv.data.formats.text import Piece, read
from qkv.data.split import Border, Census, Side
from qkv.data.tokens import Cutter
from qkv.text.statistics import Counting, Statistics


@dataclass(frozen=True)
class Parts:
    """A corpus with its names followed to the files: those to split or to learn from, and those to validate on."""

    corpus: CorpusConfig
    files: tuple[Source | Builtin, ...]
    valid: tuple[Source | Builtin, ...]
    findings: Findings

    @classmethod
    def of(
        cls, corpus: CorpusConfig, spool: Path | None = None, whole: bool = False, progress: Progress = silent
    ) -> Parts:
        """Follow the names; `whole` when nothing is to be held out or validated on."""
        findings = Findings()
        if spool is not None:
            files: Sequence[Source | Builtin] = [Source(spool, name="standard input")]
        else:
            files = expand(corpus.files, corpus.filter, findings, progress)
        valid: Sequence[Source | Builtin] = [] if whole else catalog.own_validation(corpus, findings, progress)
        if corpus.valid and not whole:
            valid = expand(corpus.valid, corpus.filter, findings, progress)
        return cls(corpus, tuple(files), tuple(valid), findings)

    @property
    def sources(self) -> tuple[Source | Builtin, ...]:
        return (*self.files, *self.valid)

    def moved(self, path: Path) -> Parts:
        """The same, standard input having found its place in the cache."""
        return replace(self, files=(Source(path, name="standard input"),))


@dataclass(frozen=True)
class Survey:
    parts: Parts
    statistics: Statistics
    """Of all the text, held out or not: `auto` must not depend on the split."""
    census: Census
    findings: Findings

    @property
    def characters(self) -> int:
        return self.statistics.characters

    def pieces(self) -> Iterator[Piece]:
        """All documents again, for another pass; what is noticed was noticed already."""
        return read(self.parts.files, self.parts.corpus, Findings())

    def sides(self) -> Iterator[Side]:
        """All documents again, each piece with its side."""
        if self.parts.valid:
            yield from (Side(False, text, ends) for text, ends in self.pieces())
            held_out = read(self.parts.valid, self.parts.corpus, Findings())
            yield from (Side(True, text, ends) for text, ends in held_out)
        else:
            yield from self.border.sides(self.pieces())

    @cached_property
    def border(self) -> Border:
        return self.census.border(self.parts.corpus.valid_fraction)

    def notes(self) -> Iterator[str]:
        yield from self.findings.notes()
        documents = self.census.documents
        twins = documents - self.census.distinct()
        if twins:
            yield Caution(f"exact copies: {twins:,} of {documents:,} documents stand there twice or more.")

    def held_out(self, train: Mapping[str, int], valid: Mapping[str, int]) -> Iterator[str]:
        """What the split came to, from the facts of the two streams."""
        if self.parts.valid:
            return
        share = f"{valid['characters'] / (train['characters'] + valid['characters']):.1%}"
        documents, whole = self.census.documents, int(self.border.valid.sum())
        if documents == 1:
            yield f"one document: its last {share} is held out for validation."
        elif self.border.cut.any():
            held = f"{whole:,} of them and the end of the longest" if whole else "the end of the longest"
            yield f"{documents:,} documents: {held} ({share} of the text) is held out for validation."
        else:
            verb = "is" if whole == 1 else "are"
            yield f"{documents:,} documents: {whole:,} of them ({share} of the text) {verb} held out for validation."


def survey(parts: Parts, progress: Progress) -> Survey:
    findings = Findings()
    counting = Counting()
    census = Census()
    cutter = Cutter()
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, None)

    def count(piece: str, ends: bool) -> None:
        counting.add(piece, ends)
        census.add(piece, ends)

    for text, ends in read(parts.files, parts.corpus, findings, watch):
        for piece in cutter.push(text):
            count(piece, False)
        if ends:
            count(cutter.finish(), True)
    if parts.valid:  # found out now rather than after the tokenizer was learned
        for text, _ends in read(parts.valid, parts.corpus, findings, watch):
            counting.characters += len(text)
    return Survey(parts, counting.statistics(), census, findings)
