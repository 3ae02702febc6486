"""Reads files as `Parallel` data; blank and very unequal pairs are left out and counted.

A pair is unequal if one text has more than forty characters, and more than nine times as many as the other: a word may
need a phrase as its translation, but not half a page. Such pairs are left out only of training, because scores must be
those of the whole set. If more than a tenth of the pairs cannot be used, the files do not belong together or their
lines have shifted, and they are refused.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np

from qkv.data.corpus import ParallelConfig, refuse_idle_filter, refuse_unused
from qkv.data.examples import Direction, PackedTexts, Pairs, Parallel
from qkv.data.files.archives import is_archive
from qkv.data.files.decode import require_encoding
from qkv.data.files.unpack import Source, archive_members, unreadable_error
from qkv.data.findings import Caution, Findings, OnRead, Progress, TaskNote, byte_counter, display_name, no_progress
from qkv.data.formats.aligned import parse_file_name, read_line_pairs
from qkv.data.formats.column_names import split_of
from qkv.data.formats.kinds import FilePreviews
from qkv.data.formats.tabular import Table, open_table
from qkv.data.hold_out import pair_notes, split_pairs
from qkv.data.identity import keys_array, text_key
from qkv.data.pair_columns import PairColumns, guess_pair, header_rule
from qkv.data.pair_files import find_pairs
from qkv.data.read_examples import Purpose
from qkv.data.split_files import UNKNOWN_LANGUAGES, PairFiles, SplitFiles, split_tables
from qkv.errors import ConfigError, DataError

MAX_LEFT_OUT_SHARE = 0.1
UNEQUAL_TIMES = 9
UNEQUAL_CHARACTERS = 40
MAX_IDENTICAL_SHARE = 0.1


@dataclass
class _Count:
    """Counts of the pairs in one group of files."""

    pairs: int = 0
    blank: int = 0
    identical: int = 0
    left_out: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By reason: the line of the first such pair, and their number."""

    def leave_out(self, reason: str, line: int) -> None:
        first, count = self.left_out.get(reason, (line, 0))
        self.left_out[reason] = first, count + 1


class PairReader:
    """Reads the splits of one data set; the columns are those of the first training table."""

    def __init__(self, config: ParallelConfig, findings: Findings, on_read: OnRead) -> None:
        self.config, self.findings, self.on_read = config, findings, on_read
        self.columns: PairColumns | None = None

    def read(self, groups: Sequence[PairFiles], learn: bool) -> Pairs:
        """All pairs of one split; if `learn` is true, unequal pairs are left out."""
        source, target, starts = PackedTexts(), PackedTexts(), array("q")
        keys = array("Q"), array("Q")
        languages: list[Direction] = []
        for group in groups:
            starts.append(len(source))
            count = _Count()
            for line, first, second in self._lines(group):
                count.pairs += 1
                if (reason := _reason(first, second, learn)) is not None:
                    count.leave_out(reason, line)
                    continue
                if not first.strip():
                    count.blank += 1
                    continue
                count.identical += first == second
                source.append(first)
                target.append(second)
                keys[0].append(text_key(first))
                keys[1].append(text_key(second))
            self._note(count, group)
            table = self.columns if group.second is None and group.languages == UNKNOWN_LANGUAGES else None
            languages.append(group.languages if table is None else table.languages)
        return Pairs(
            source=source,
            target=target,
            rows=np.arange(len(source), dtype=np.int64),
            backward=np.zeros(len(source), dtype=np.bool_),
            starts=np.array(starts, dtype=np.int64),
            languages=tuple(languages),
            source_keys=keys_array(keys[0]),
            target_keys=keys_array(keys[1]),
        )

    def _lines(self, group: PairFiles) -> Iterator[tuple[int, str, str]]:
        if group.second is not None:
            refuse_unused(self.config, ("source", "target"), f"{group.first.display_name} has no columns")
            both = read_line_pairs(group.first, group.second, self.config.encoding, self.findings, self.on_read)
            return ((line, first, second) for line, (first, second) in enumerate(both, 1))
        table = open_table(group.first, self.config.encoding, self.findings, header_rule(self.config), self.on_read)
        table.require_rows()
        if self.columns is None:
            self.columns = guess_pair(table, self.config)
            self.findings.add_note(self.columns.note(table))
        return self.columns.rows(table)

    def _note(self, count: _Count, group: PairFiles) -> None:
        where = group.first.display_name
        unused = sum(number for _, number in count.left_out.values())
        if count.pairs == count.blank:
            problem = "contains only blank lines" if count.pairs else "is empty"
            raise DataError(where, problem, "Give files with a sentence and its translation on each line.")
        filled = count.pairs - count.blank
        for reason, (line, number) in count.left_out.items():
            if unused > MAX_LEFT_OUT_SHARE * filled:
                problem = f"{unused:,} of {filled:,} pairs cannot be used, the first here: {reason}"
                remedy = "Check that the texts are translations of each other, line by line."
                raise DataError(f"{where}:{line}", problem, remedy)
            note = f"{where}:{line}: {number:,} of {count.pairs:,} pairs left out, the first here: {reason}."
            self.findings.add_note(Caution(note))
        if count.blank:
            self.findings.add_note(f"{where}: {count.blank:,} pairs of blank lines left out.")
        if count.identical:
            note = f"{where}: in {count.identical:,} of {count.pairs:,} pairs source and target are the same."
            self.findings.add_note(Caution(note) if count.identical > MAX_IDENTICAL_SHARE * filled else note)


def _reason(first: str, second: str, learn: bool) -> str | None:
    """Why a pair cannot be used, or None. Two blank lines are allowed, because they may separate parts of files."""
    has_source, has_target = bool(first.strip()), bool(second.strip())
    if has_source != has_target:
        return "a source without a target" if has_source else "a target without a source"
    shorter, longer = sorted((len(first), len(second)))
    if learn and has_source and longer > UNEQUAL_CHARACTERS and longer > UNEQUAL_TIMES * shorter:
        return f"one text is more than {UNEQUAL_TIMES} times as long as the other"
    return None


PAIRS_VERSION = 1
"""Increase it when the same files would be read as different pairs or split differently."""


def read_parallel(
    config: ParallelConfig,
    progress: Progress = no_progress,
    purpose: Purpose = "train",
    previews: FilePreviews | None = None,
) -> Parallel:
    """Read and split the pairs. Only training holds out a part; pairs for evaluation are in `train`, unfiltered.

    `previews` are those of files that have been opened before.
    """
    learn = purpose != "evaluate"
    require_encoding(config.encoding)
    findings = Findings()
    files = find_pairs(config, findings, progress, previews)
    refuse_idle_filter(config)
    previews = previews or FilePreviews(config.encoding)

    def open_rows(group: PairFiles) -> Table | None:
        preview = previews.table(group.first, header_rule(config)) if group.second is None else None
        has_splits = preview is not None and preview.split_column is not None
        return open_table(group.first, config.encoding, Findings(), header_rule(config)) if has_splits else None

    files = split_tables(files, open_rows, bool(config.valid or config.test), findings)
    if learn:
        add_neighbours(files, findings)
    else:
        files = files.to_score(findings)
    reader = PairReader(config, findings, byte_counter(progress, "reading"))
    train = reader.read(files.train, learn)
    train = replace(train, languages=_languages(train.languages, files.train))
    reverse = [(second, first) for first, second in train.languages] if config.directions == "both" else []
    directions = tuple(dict.fromkeys([*train.languages, *reverse]))
    valid, test = (_read_other(reader, part, train, directions) if part else None for part in (files.valid, files.test))
    if valid is None:
        valid = train.select(slice(0))
        if purpose == "train":
            train, valid = split_pairs(train, config)
            findings.add_note(f"{len(valid):,} of {len(valid) + len(train):,} pairs are held out for validation.")
    if config.directions == "both":
        train, valid = train.both_ways(), valid.both_ways()
        test = None if test is None else test.both_ways()
    columns = reader.columns
    named = {} if columns is None or columns.nested else {"source": columns.source, "target": columns.target}
    result = Parallel(train=train, valid=valid, test=test, directions=directions, columns=named)
    findings.add_note(TaskNote(_task_in_words(result)))
    return replace(
        result,
        notes=(*findings.notes(), *pair_notes(result, "training" if learn else "evaluation")),
        fingerprint=_fingerprint(result),
    )


def _languages(languages: tuple[Direction, ...], groups: Sequence[PairFiles]) -> tuple[Direction, ...]:
    """Check the languages of each group of files: if one is known, all must be."""
    known = [pair for pair in languages if pair != UNKNOWN_LANGUAGES]
    if known and len(known) < len(languages):
        unknown = next(group for group, pair in zip(groups, languages, strict=True) if pair == UNKNOWN_LANGUAGES)
        raise ConfigError(
            f"{unknown.display_name}: no language is in the names. Give all of them: --languages en de en cs."
        )
    for group, (first, second) in zip(groups, languages, strict=True):
        if first == second:
            raise ConfigError(
                f"{group.display_name}: source and target language are both {first!r}. Give two languages."
            )
    return languages


def _read_other(
    reader: PairReader, groups: Sequence[PairFiles], train: Pairs, directions: Sequence[Direction]
) -> Pairs:
    """Read the validation or test split; its languages must be among those that are learned."""
    parallel = reader.read(groups, learn=False)
    only = train.languages[0] if len(set(train.languages)) == 1 else None
    languages = tuple(only if pair == UNKNOWN_LANGUAGES and only else pair for pair in parallel.languages)
    targets = {target for _, target in directions}
    for group, direction in zip(groups, languages, strict=True):
        if only == UNKNOWN_LANGUAGES or direction in directions or (len(targets) > 1 and direction[1] in targets):
            continue
        if direction == UNKNOWN_LANGUAGES:
            raise ConfigError(
                f"{group.display_name}: no language is in the names, and several are learned. Rename the files."
            )
        learned = ", ".join(f"{source} to {target}" for source, target in directions)
        problem = f"translates {direction[0]} to {direction[1]}, but the model learns {learned}"
        raise DataError(group.first.display_name, problem, "Name files of these languages, source first.")
    return replace(parallel, languages=languages if only != UNKNOWN_LANGUAGES else (UNKNOWN_LANGUAGES,) * len(groups))


def _task_in_words(parallel: Parallel) -> str:
    directions = ", ".join(f"{source} to {target}" for source, target in parallel.directions)
    sizes = ", ".join(f"{len(split):,} {name}" for name, split in parallel.splits if len(split))
    return f"task: translation ({directions}); {sizes} pairs."


def _fingerprint(parallel: Parallel) -> str:
    digest = hashlib.sha256(json.dumps([PAIRS_VERSION, parallel.directions]).encode())
    for name, split in parallel.splits:
        digest.update(json.dumps([name, len(split), split.languages, split.starts.tolist()]).encode())
        for part in (split.rows, split.backward):
            digest.update(np.ascontiguousarray(part).data)
        for texts in (split.source, split.target):
            texts.add_to(digest)
    return digest.hexdigest()


def add_neighbours(groups: SplitFiles[PairFiles], findings: Findings) -> None:
    """Fill the splits that were not given with files next to the training files that are named for these splits."""
    for split, files, use in (("valid", groups.valid, "validated on"), ("test", groups.test, "tested on")):
        if not files:
            files += [other for group in groups.train if (other := _neighbour(group, split, findings)) is not None]
            if files:
                findings.add_note(
                    f"{use} {'; '.join(group.display_name for group in files)}; choose others with --{split}."
                )


def _neighbour(group: PairFiles, split: str, findings: Findings) -> PairFiles | None:
    """The first pair of files next to a group that is named for a split; None unless the group is named train."""
    if group.second is None or group.split != "train":
        return None
    first, second = (_of_language(source, split) for source in (group.first, group.second))
    both = sorted(first.keys() & second.keys())
    if len(both) > 1:
        findings.add_note(
            f"{len(both)} sets of files next to {group.first.display_name} are named {split}; the first is taken."
        )
    return replace(group, first=first[both[0]], second=second[both[0]]) if both else None


def _of_language(source: Source, split: str) -> dict[str, Source]:
    """Files next to one in the same language that are named for a split, by the rest of their names."""
    if (own := parse_file_name(source.file_name)) is None:
        return {}
    if source.member:
        folder = PurePath(source.member).parent
        members = archive_members(source.path, display_name(source.path), Findings())
        files = [Source(source.path, member.name) for member in members if PurePath(member.name).parent == folder]
    else:
        try:
            paths = sorted(source.path.parent.iterdir())
        except OSError as error:
            raise unreadable_error(display_name(source.path.parent), error) from None
        files = [Source(path) for path in paths if path.is_file() and not is_archive(path)]
    others: dict[str, Source] = {}
    for file in files:
        parts = parse_file_name(file.file_name)
        if parts is not None and parts.language == own.language and split_of(file.file_name) == split:
            others.setdefault(parts.pattern, file)
    return others
