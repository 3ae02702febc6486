"""The validation and test files that stand beside training files and are plainly theirs: val.en and val.de by train.en
and train.de, in the same folder or archive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from qkv.data.files.unpack import Source, unreadable, zip_members
from qkv.data.findings import Findings, shown
from qkv.data.labelled.finding import Side, side_of
from qkv.data.parallel.finding import Group, Groups, name_of
from qkv.data.parallel.languages import named


def look_beside(groups: Groups, findings: Findings) -> None:
    """Fill the sides that were not named."""
    sides: tuple[Side, ...] = ("valid", "test")
    for side in sides:
        if getattr(groups, side):
            continue
        found = [other for group in groups.train if (other := _beside(group, side, findings)) is not None]
        if found:
            what = "validated on" if side == "valid" else "tested on"
            findings.say(f"{what} {'; '.join(group.shown for group in found)}; --{side} says otherwise.")
        getattr(groups, side).extend(found)


def _beside(group: Group, side: Side, findings: Findings) -> Group | None:
    """The first, by name, of what there is for a side; a group whose own name does not say train has none."""
    if group.second is None or group.side != "train":
        return None
    first, second = (_of_language(source, side) for source in (group.first, group.second))
    both = sorted(first.keys() & second.keys())
    if len(both) > 1:
        findings.say(f"{len(both)} sets of files beside {group.first.shown} are named {side}; the first is taken.")
    return replace(group, first=first[both[0]], second=second[both[0]]) if both else None


def _of_language(source: Source, side: Side) -> dict[str, Source]:
    """Files beside one that are of its language and of a side, by the rest of their names."""
    own = named(name_of(source))
    if own is None:
        return {}
    found: dict[str, Source] = {}
    for other in _neighbours(source):
        parts = named(name_of(other))
        if parts is not None and parts.language == own.language and side_of(name_of(other)) == side:
            found.setdefault(parts.rest, other)
    return found


def _neighbours(source: Source) -> Sequence[Source]:
    if source.member:
        folder = PurePath(source.member).parent
        members = zip_members(source.path, shown(source.path), Findings())
        return [Source(source.path, each) for each in members if PurePath(each).parent == folder]
    try:
        return [Source(path) for path in sorted(source.path.parent.iterdir()) if path.is_file() and not _zip(path.name)]
    except OSError as error:
        raise unreadable(shown(source.path.parent), error) from None


def _zip(name: str) -> bool:
    return name.lower().endswith(".zip")
