"""Pairs out of files, packed as they come; empty and absurdly unequal ones are left out, counted and said.

A pair is unequal when one text has more than nine times the characters of the other, and more than forty: a word that
takes a phrase to translate is none, half a page against two letters is. Such pairs are left out of training only: a
score must be that of the whole set. When more than a tenth of the pairs cannot be used, the files do not belong
together or have slipped, and are refused.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from qkv.data.findings import Caution, Findings
from qkv.data.formats.aligned import in_step
from qkv.data.identity import as_keys, key_of
from qkv.data.labelled.packed import PackedTexts
from qkv.data.parallel import columns as tables
from qkv.data.parallel.columns import Columns
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.finding import UNNAMED, Group
from qkv.data.parallel.pairs import Direction, Pairs
from qkv.data.progress import Watch
from qkv.errors import DataError

MOST_LEFT_OUT = 0.1
UNEQUAL_TIMES = 9
UNEQUAL_CHARACTERS = 40
MANY_IDENTICAL = 0.1


@dataclass
class _Count:
    """What was met in one group of files."""

    pairs: int = 0
    blank: int = 0
    identical: int = 0
    left: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By reason: the line of the first, and how many."""

    def leave(self, reason: str, line: int) -> None:
        first, count = self.left.get(reason, (line, 0))
        self.left[reason] = first, count + 1


class Gatherer:
    """Reads the sides of one set; the columns are those that the first table of the training side has."""

    def __init__(self, config: ParallelConfig, findings: Findings, watch: Watch) -> None:
        self.config, self.findings, self.watch = config, findings, watch
        self.columns: Columns | None = None

    def side(self, groups: Sequence[Group], learn: bool) -> Pairs:
        """All pairs of one side; `learn` says that unequal ones are left out."""
        source, target, starts = PackedTexts(), PackedTexts(), array("q")
        keys = array("Q"), array("Q")
        languages: list[Direction] = []
        for group in groups:
            starts.append(len(source))
            count = _Count()
            for line, first, second in self._read(group):
                count.pairs += 1
                if (reason := _reason(first, second, learn)) is not None:
                    count.leave(reason, line)
                    continue
                if not first.strip():
                    count.blank += 1
                    continue
                count.identical += first == second
                source.append(first)
                target.append(second)
                keys[0].append(key_of(first))
                keys[1].append(key_of(second))
            self._say(count, group)
            table = self.columns if group.second is None and group.languages == UNNAMED else None
            languages.append(group.languages if table is None else table.languages)
        rows = np.arange(len(source), dtype=np.int64)
        backward = np.zeros(len(rows), dtype=np.bool_)
        places = np.array(starts, dtype=np.int64)
        return Pairs(source, target, rows, backward, places, tuple(languages), as_keys(keys[0]), as_keys(keys[1]))

    def _read(self, group: Group) -> Iterator[tuple[int, str, str]]:
        if group.second is not None:
            both = in_step(group.first, group.second, self.config.encoding, self.findings, self.watch)
            for line, (first, second) in enumerate(both, 1):
                yield line, first, second
            return
        table = tables.open_parallel(group.first, self.config, self.findings, self.watch)
        if self.columns is None:
            self.columns = tables.choose(table, self.config)
            self.findings.say(self.columns.said(table))
        yield from tables.rows(table, self.columns)

    def _say(self, count: _Count, group: Group) -> None:
        where = group.first.shown
        unused = sum(number for _, number in count.left.values())
        if count.pairs == count.blank:
            problem = "holds nothing but blank lines" if count.pairs else "is empty"
            raise DataError(where, problem, "Give files with a sentence and its translation on each line.")
        solid = count.pairs - count.blank
        for reason, (line, number) in count.left.items():
            if unused > MOST_LEFT_OUT * solid:
                problem = f"{unused:,} of {solid:,} pairs cannot be used, the first here: {reason}"
                remedy = "Check that the texts are translations of each other, line by line."
                raise DataError(f"{where}:{line}", problem, remedy)
            said = f"{where}:{line}: {number:,} of {count.pairs:,} pairs left out, the first here: {reason}."
            self.findings.say(Caution(said))
        if count.blank:
            self.findings.say(f"{where}: {count.blank:,} pairs of blank lines left out.")
        if count.identical:
            said = f"{where}: in {count.identical:,} of {count.pairs:,} pairs source and target are the same."
            self.findings.say(Caution(said) if count.identical > MANY_IDENTICAL * solid else said)


def _reason(first: str, second: str, learn: bool) -> str | None:
    """Why a pair cannot be used, or None; two blank texts are told from these, since files may be parted by them."""
    some = bool(first.strip()), bool(second.strip())
    if some[0] != some[1]:
        return f"a {'source' if some[0] else 'target'} without a {'target' if some[0] else 'source'}"
    shorter, longer = sorted((len(first), len(second)))
    if learn and some[0] and longer > UNEQUAL_CHARACTERS and longer > UNEQUAL_TIMES * shorter:
        return f"one text is more than {UNEQUAL_TIMES} times as long as the other"
    return None
