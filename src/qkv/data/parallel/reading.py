"""The way in: from the names of files to `Parallel`, with everything said that a person should know before training."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from qkv.data.files.decode import require_encoding
from qkv.data.findings import Findings
from qkv.data.formats.beginnings import Beginnings
from qkv.data.parallel.beside import look_beside
from qkv.data.parallel.config import ParallelConfig
from qkv.data.parallel.finding import UNNAMED, Group, find
from qkv.data.parallel.gathering import Gatherer
from qkv.data.parallel.pairs import Direction, Pairs, Parallel
from qkv.data.parallel.splitting import notes, split
from qkv.data.progress import Progress, Watch, silent
from qkv.errors import ConfigError, DataError

READING_VERSION = 1
"""Raise when the same files would be read as other pairs or split otherwise."""

Purpose = Literal["train", "describe", "judge"]


def read_parallel(
    config: ParallelConfig,
    progress: Progress = silent,
    purpose: Purpose = "train",
    beginnings: Beginnings | None = None,
) -> Parallel:
    """Read, split, compare. Only to train a part is held out; pairs to judge by are read as they are, in `train`.

    `beginnings` are those of the files, where they have been looked at before.
    """
    learn = purpose != "judge"
    require_encoding(config.encoding)
    findings = Findings()
    groups = find(config, findings, progress, beginnings)
    if learn:
        look_beside(groups, findings)
    gatherer = Gatherer(config, findings, _watch(progress))
    train = gatherer.side(groups.train, learn)
    train = replace(train, languages=_languages(train.languages, groups.train))
    directions = _directions(train.languages, config)
    others = {name: _other(gatherer, getattr(groups, name), train, directions) for name in ("valid", "test")}
    valid, test = others["valid"], others["test"]
    if valid is None:
        valid = train.chosen(np.zeros(len(train), dtype=np.bool_))
        if purpose == "train":
            train, valid = split(train, config)
            findings.say(f"{len(valid):,} of {len(valid) + len(train):,} pairs are held out for validation.")
    if config.directions == "both":
        train, valid = train.both_ways(), valid.both_ways()
        test = None if test is None else test.both_ways()
    columns = gatherer.columns
    named = {} if columns is None or columns.nested else {"source": columns.source, "target": columns.target}
    result = Parallel(train, valid, test, directions, (), "", named)
    findings.say(_what(result))
    return replace(result, notes=(*findings.notes(), *notes(result)), fingerprint=_fingerprint(result))


def _watch(progress: Progress) -> Watch:
    done = 0

    def watch(count: int) -> None:
        nonlocal done
        done += count
        progress("reading", done, None)

    return watch


def _languages(languages: tuple[Direction, ...], groups: Sequence[Group]) -> tuple[Direction, ...]:
    """Of each group; where there are several of different files, all must be known."""
    known = [each for each in languages if each != UNNAMED]
    if known and len(known) < len(languages):
        unknown = next(group for group, each in zip(groups, languages, strict=True) if each == UNNAMED)
        raise ConfigError(f"{unknown.shown}: no language is in the names. Say all of them: --languages en de en cs.")
    for group, (first, second) in zip(groups, languages, strict=True):
        if first == second:
            raise ConfigError(f"{group.shown}: source and target language are both {first!r}. Say two languages.")
    return languages


def _directions(languages: tuple[Direction, ...], config: ParallelConfig) -> tuple[Direction, ...]:
    turned = [(second, first) for first, second in languages] if config.directions == "both" else []
    return tuple(dict.fromkeys([*languages, *turned]))


def _other(gatherer: Gatherer, groups: Sequence[Group], train: Pairs, directions: Sequence[Direction]) -> Pairs | None:
    """The validation or test side; its languages must be such as are learned."""
    if not groups:
        return None
    found = gatherer.side(groups, learn=False)
    only = train.languages[0] if len(set(train.languages)) == 1 else None
    languages = tuple(only if each == UNNAMED and only else each for each in found.languages)
    targets = {target for _, target in directions}
    for group, direction in zip(groups, languages, strict=True):
        if only == UNNAMED or direction in directions or (len(targets) > 1 and direction[1] in targets):
            continue
        if direction == UNNAMED:
            raise ConfigError(f"{group.shown}: no language is in the names, and several are learned. Rename the files.")
        learned = ", ".join(f"{source} to {target}" for source, target in directions)
        problem = f"translates {direction[0]} to {direction[1]}; learned is {learned}"
        raise DataError(group.first.shown, problem, "Name files of these languages, source first.")
    return replace(found, languages=languages if only != UNNAMED else (UNNAMED,) * len(groups))


def _what(found: Parallel) -> str:
    """The task in words."""
    ways = ", ".join(f"{source} to {target}" for source, target in found.directions)
    sizes = ", ".join(f"{len(side):,} {name}" for name, side in found.sides if len(side))
    return f"task: translation ({ways}); {sizes} pairs."


def _fingerprint(found: Parallel) -> str:
    digest = hashlib.sha256(json.dumps([READING_VERSION, found.directions]).encode())
    for name, side in found.sides:
        digest.update(json.dumps([name, len(side), side.languages, side.starts.tolist()]).encode())
        for part in (side.rows, side.backward):
            digest.update(np.ascontiguousarray(part).data)
        for texts in (side.source, side.target):
            texts.add_to(digest)
    return digest.hexdigest()
