"""From what the user names to files with a kind, a side and, where folders are labels, a label.

Several files, or those of a folder, are told apart by the words in their names: train, dev (valid, val), test. Files in
sub-folders carry the name of their folder as label, unless it is one of these words.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal

from qkv.data import catalog
from qkv.data.files.discover import matches, mode_of, walk
from qkv.data.files.unpack import Source, require_packages, zip_members
from qkv.data.findings import Findings, shown
from qkv.data.formats.beginnings import Beginnings
from qkv.data.formats.kinds import DATA_KINDS, Kind, kind_by_name
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.progress import Progress, silent
from qkv.errors import DataError
from qkv.reading import special

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
