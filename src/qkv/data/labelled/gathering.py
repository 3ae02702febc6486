"""From what the user names to files with a kind, a side and, where folders are labels, a label.

Several files, or those of a folder, are told apart by the words in their names: train, dev (valid, val), test. Files in
sub-folders carry the name of their folder as label, unless it is one of these words.

Texts and their labels out of tables, fastText files and folders of text: one side at a time, packed as they come.
"""

from __future__ import annotations

import os
import re
import stat
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Literal

from qkv.data import catalog
from qkv.data.corpus import ExamplesConfig
from qkv.data.files.decode import decode, with_plain_line_ends
from qkv.data.files.discover import matches, mode_of, walk
from qkv.data.files.unpack import Source, read_bytes, require_packages, zip_members
from qkv.data.findings import Caution, Findings, Progress, Watch, shown, silent
from qkv.data.formats.kinds import DATA_KINDS, FASTTEXT, Beginnings, Kind, kind_by_name
from qkv.data.formats.rows import LONGEST_ROW, Rows, whole_lines
from qkv.data.formats.tabular import Table, open_table, watched
from qkv.data.identity import key_of
from qkv.data.labelled.guessing import Columns, guess, missing
from qkv.data.labelled.targets import BETWEEN, Values, word
from qkv.data.packed_texts import PackedTexts
from qkv.errors import DataError
from qkv.safe_json import special

Side = Literal["train", "valid", "test"]
WORDS: dict[str, Side] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "val", "development"), "valid"),
    **dict.fromkeys(("test", "testing"), "test"),
}
UNLABELLED = ("unsup", "unlabelled", "unlabeled")


@dataclass(frozen=True)
class Item:
    """A file, what it is, and which side its name says."""

    source: Source
    kind: Kind
    side: Side | None = None
    label: str | None = None
    """The folder's name, where folders are labels."""
    found: bool = False
    """Whether it was found in a folder and not named."""


@dataclass
class Sides:
    train: list[Item] = field(default_factory=list)
    valid: list[Item] = field(default_factory=list)
    test: list[Item] = field(default_factory=list)

    def all(self) -> list[Item]:
        return [*self.train, *self.valid, *self.test]


def find(
    config: ExamplesConfig, findings: Findings, progress: Progress = silent, beginnings: Beginnings | None = None
) -> Sides:
    """Follow the names; DataError for one that leads nowhere."""
    beginnings = beginnings or Beginnings(config.encoding)
    if not config.files:
        raise DataError("the examples", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    items, valid, test = (
        [item for name in names for item in _named(name, config, findings, progress, beginnings)]
        for names in (config.files, config.valid, config.test)
    )
    sides = Sides(valid=valid, test=test)
    require_packages(item.source for item in (*items, *sides.valid, *sides.test))
    if len({item.side for item in items}) < 2 or config.valid or config.test:
        # one side, or sides that were said; of a folder or set only its training files are meant then
        named = [item for item in items if item.side in ("train", None) or not item.found]
        sides.train = named if named and (config.valid or config.test) else items
        return sides
    sides.train = [item for item in items if item.side in ("train", None)]
    sides.valid += [item for item in items if item.side == "valid"]
    sides.test += [item for item in items if item.side == "test"]
    if not sides.train:  # dev and test only: the larger part to learn from must be dev
        findings.say(f"no file is named train: {sides.valid[0].source.shown} is learned from.")
        sides.train, sides.valid = sides.valid, []
    return sides


def side_of(name: str) -> Side | None:
    """The side that a file's name says, as in wnut17train.conll or emerging.dev.conll."""
    if name.lower().startswith("t10k"):  # MNIST's test pictures
        return "test"
    return next((WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in WORDS), None)


def _named(
    name: str, config: ExamplesConfig, findings: Findings, progress: Progress, beginnings: Beginnings
) -> Iterator[Item]:
    entry = catalog.find(name)
    if entry is not None and not os.path.lexists(name):
        if entry.task in ("language modelling", "translation"):
            raise DataError(name, f"is a set for {entry.task}: it has no labels", "See `qkv data list`.")
        sides: tuple[tuple[Side, Sequence[catalog.CatalogFile]], ...] = (("train", entry.train), ("valid", entry.valid))
        for side, files in sides:
            for file in files:
                source = Source(file.obtain(progress))
                yield Item(source, beginnings.kind(source), side, found=True)
        return
    path, where = Path(name), shown(name)
    if name == "-":
        raise DataError("standard input", "examples are read from files", "Put it into a file.")
    mode = mode_of(path)
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(where, f"is {special(mode)}, not a file", "Put it into a file.")
    if stat.S_ISDIR(mode) or path.suffix.lower() == ".zip":
        inside = list(_inside(path, config, findings, beginnings, archive=not stat.S_ISDIR(mode)))
        if not inside:
            among = f"no file that matches {config.filter!r}" if config.filter else "nothing in it"
            problem = f"{among} looks like labelled data"
            remedy = "Expected tables, CoNLL, idx or npz files, or sub-folders named for the labels."
            raise DataError(where, problem, remedy)
        yield from inside
    else:
        source = Source(path)
        yield Item(source, beginnings.kind(source), side_of(path.name))


def _inside(
    folder: Path, config: ExamplesConfig, findings: Findings, beginnings: Beginnings, archive: bool
) -> Iterator[Item]:
    """The files of a folder or archive: those that hold examples, else those whose folder is their label."""
    paths = [folder] if archive else walk(folder, set(), findings)
    found = [each for path in paths for each in _unpacked(path, PurePath(path.relative_to(folder)), findings)]
    listed = [each for each in found if not _hidden(each[1]) and matches(each[1].as_posix(), config.filter)]
    data: list[Item] = []
    labelled: list[Item] = []
    for source, place in listed:
        sides = [WORDS[part.lower()] for part in place.parts[:-1] if part.lower() in WORDS]
        parents = [part for part in place.parts[:-1] if part.lower() not in WORDS]
        side = sides[0] if sides else side_of(place.name)
        kind = kind_by_name(source) if parents else beginnings.kind(source)
        if kind in DATA_KINDS:
            data.append(Item(source, kind, side, found=True))
        elif parents and parents[-1].lower() not in UNLABELLED:
            labelled.append(Item(source, kind or "text", sides[0] if sides else None, shown(parents[-1]), found=True))
    chosen = data or labelled
    if left := len(listed) - len(chosen):
        findings.skipped["without labels"] += left
    yield from chosen


def _unpacked(path: Path, place: PurePath, findings: Findings) -> list[tuple[Source, PurePath]]:
    """A file and its place in the folder that was named; of an archive, all that is in it."""
    if path.suffix.lower() != ".zip":
        return [(Source(path), place)]
    return [(Source(path, name), place.parent / name) for name in zip_members(path, shown(path), findings)]


def _hidden(place: PurePath) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in place.parts)


@dataclass
class Texts:
    """The examples of one side as they stand in the files."""

    texts: PackedTexts = field(default_factory=PackedTexts)
    second: PackedTexts | None = None
    ids: PackedTexts | None = None
    values: Values = field(default_factory=Values)
    keys: array[int] = field(default_factory=lambda: array("Q"))
    several: bool = False
    """Whether some example has several labels."""

    def add(self, texts: Sequence[str], label: str, where: str, line: int, id: str | None = None) -> None:
        self.texts.append(texts[0])
        if self.second is not None:
            self.second.append(texts[1])
        if self.ids is not None:
            self.ids.append(id or "")
        self.values.append(label, where, line)
        self.keys.append(key_of(*texts))


class Gatherer:
    """Reads the sides of one set; the columns are those that the first table of the training side has."""

    def __init__(self, config: ExamplesConfig, findings: Findings, watch: Watch | None = None) -> None:
        self.config, self.findings, self.watch = config, findings, watch
        self.columns: Columns | None = None

    def side(self, items: Sequence[Item]) -> Texts:
        found = Texts()
        folders = Rows("files in folders", None, self.findings)
        for item in items:
            if item.kind == "table":
                self._table(item, found)
            elif item.kind == "fasttext":
                self._fasttext(item, found)
            elif item.label is not None:
                self._file(item, item.label, found, folders)
            else:
                raise no_labels(item)
        folders.finish()
        return found

    def _table(self, item: Item, found: Texts) -> None:
        table = open_table(item.source, self.config.encoding, self.findings, self.config.header, self.watch)
        if not table.sample:
            table.bad.finish()
            raise DataError(
                table.where, "the table has a header and no rows", "Give a file with rows of text and label."
            )
        if self.columns is None:
            self.columns = guess(table, self.config)
            self.findings.say(self.columns.said(table))
        elif self.columns.label not in table.columns and item.found and item.side == "test":
            self.findings.say(Caution(f"{table.where}: has no column {self.columns.label!r} and is not used."))
            return
        if not len(found.texts):
            found.second = PackedTexts() if self.columns.second else None
            found.ids = PackedTexts() if self.columns.id else None
        _Reader(table, self.columns, found, self.findings).read()

    def _fasttext(self, item: Item, found: Texts) -> None:
        where = item.source.shown
        rows = Rows(where, None, self.findings)
        chunks = watched(read_bytes(item.source), self.watch)
        lines = whole_lines(decode(chunks, where, self.config.encoding, self.findings), where)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            rows.rows += 1
            labels = []
            text = line.strip()
            while text.startswith(FASTTEXT):
                label, _, text = text.partition(" ") if " " in text else (text, "", "")
                labels.append(label.removeprefix(FASTTEXT))
                text = text.lstrip()
            if not labels or not all(labels):
                rows.reject(number, f"expected {FASTTEXT}NAME at the start of the line")
            elif not text:
                rows.reject(number, "no text")
            else:
                found.several |= len(labels) > 1
                found.add([text], BETWEEN.join(labels), where, number)
        rows.finish()

    def _file(self, item: Item, label: str, found: Texts, rows: Rows) -> None:
        where = item.source.shown
        if item.kind == "picture":
            raise DataError(where, "is a picture among texts", "Keep pictures and texts in folders of their own.")
        pieces: list[str] = []
        held = 0
        for text in decode(watched(read_bytes(item.source), self.watch), where, self.config.encoding, self.findings):
            pieces.append(text)
            held += len(text)
            if held > LONGEST_ROW:
                raise DataError(where, f"a text of more than {LONGEST_ROW:,} characters", "Cut it into smaller files.")
        whole = "".join(pieces)
        rows.rows += 1
        if whole.strip():
            found.add([whole], label, where, 0)
        else:
            rows.bad += 1
            rows.first = rows.first or (rows.rows, f"{where} is empty")


class _Reader:
    """Takes the examples out of the rows of one table."""

    def __init__(self, table: Table, columns: Columns, found: Texts, findings: Findings) -> None:
        self.table, self.found, self.findings = table, found, findings
        roles = {"text": columns.text, "text2": columns.second, "label": columns.label}
        for role, name in roles.items():
            if name is not None and name not in table.columns:
                raise missing(table, name, role)
        self.where = table.where
        place = table.columns.index
        self.texts = [place(name) for name in (columns.text, columns.second) if name is not None]
        self.label = place(columns.label)
        self.id = place(columns.id) if columns.id in table.columns else None

    def read(self) -> None:
        for line, row in self.table.rows:
            if (problem := self._add(row, line)) is not None:
                self.table.bad.reject(line, problem)
        self.table.bad.finish()

    def _add(self, row: Sequence[Any], line: int) -> str | None:
        """Take in a row, or say what is wrong with it."""
        texts = [row[index] for index in self.texts]
        for index, text in zip(self.texts, texts, strict=True):
            name = self.table.columns[index]
            if text is not None and not isinstance(text, str):
                return f"expected text in {name!r}, found {type(text).__name__}"
            if text is None or not text.strip():
                return f"no text in {name!r}"
        label = self._spelled(row[self.label])
        if label is None:
            return f"no label in {self.table.columns[self.label]!r}"
        named = None if self.id is None or row[self.id] is None else str(row[self.id])
        try:
            "".join((*texts, label, named or "")).encode()
        except UnicodeEncodeError:
            return "half of a surrogate pair, which is no character"
        if any("\r" in text for text in texts):  # of JSON; elsewhere it was seen to before
            texts = [with_plain_line_ends(text, self.findings) for text in texts]
        self.found.add(texts, label, self.where, line, named)
        return None

    def _spelled(self, value: Any) -> str | None:
        """A label as text; several are put together. None where there is none."""
        if isinstance(value, list | tuple):
            self.found.several = True
            spelled = [word(each) for each in value]
            return None if None in spelled else BETWEEN.join(each for each in spelled if each)
        return word(value)


def no_labels(item: Item) -> DataError:
    remedy = (
        "Expected a table, LABEL and TAB before the text, __label__NAME, CoNLL, or sub-folders named for the labels."
    )
    return DataError(item.source.shown, "is text without labels", remedy)
