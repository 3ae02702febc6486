"""Pairs of texts as translation wants them: packed underneath, one frozen pair at a time on top."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from qkv.data.identity import Keys, mixed
from qkv.data.packed_texts import PackedTexts

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Direction = tuple[str, str]
"""The language that is translated from, and the one that is translated to."""


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    language: str
    """Of the target."""


@dataclass(frozen=True)
class Pairs:
    """One side. The examples are the pairs `rows`; those marked `backward` are read from target to source."""

    source: PackedTexts
    target: PackedTexts
    rows: Numbers
    backward: Mask
    starts: Numbers
    """Where the pairs of each group of files begin, among all pairs."""
    languages: tuple[Direction, ...]
    """Of each group of files."""
    source_keys: Keys
    target_keys: Keys

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Pair:
        row = int(self.rows[number])
        source, target = self.source[row], self.target[row]
        names = self.languages[int(np.searchsorted(self.starts, row, "right")) - 1]
        return Pair(target, source, names[0]) if self.backward[number] else Pair(source, target, names[1])

    def __iter__(self) -> Iterator[Pair]:
        return (self[number] for number in range(len(self)))

    def texts(self) -> Iterator[tuple[str, str]]:
        """Source and target of each example."""
        for row, turned in zip(self.rows.tolist(), self.backward.tolist(), strict=True):
            source, target = self.source[row], self.target[row]
            yield (target, source) if turned else (source, target)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Those that examples of this side have, each once."""
        group = self._groups()
        found = [
            (second, first) if turned else (first, second)
            for turned in (False, True)
            for number, (first, second) in enumerate(self.languages)
            if bool((self.backward == turned)[group == number].any())
        ]
        return tuple(dict.fromkeys(found))

    def into(self, languages: Sequence[str]) -> npt.NDArray[np.int16]:
        """The target language of each example, as its place in a list of languages."""
        places = {name: place for place, name in enumerate(languages)}
        forward = np.array([places.get(second, -1) for _, second in self.languages], dtype=np.int16)
        turned = np.array([places.get(first, -1) for first, _ in self.languages], dtype=np.int16)
        group = self._groups()
        return np.where(self.backward, turned[group], forward[group])

    def _groups(self) -> Numbers:
        return np.searchsorted(self.starts, self.rows, "right") - 1

    @property
    def keys(self) -> Keys:
        """Equal for pairs whose texts are equal, but for case and white space."""
        return mixed(self.source_keys[self.rows]) + self.target_keys[self.rows]

    def chosen(self, mask: Mask) -> Pairs:
        return replace(self, rows=self.rows[mask], backward=self.backward[mask])

    def both_ways(self) -> Pairs:
        return replace(
            self,
            rows=np.concatenate([self.rows, self.rows]),
            backward=np.concatenate([self.backward, ~self.backward]),
        )


@dataclass(frozen=True)
class Parallel:
    """What was read: the pairs of each side, what was noticed, and the data's identity."""

    train: Pairs
    valid: Pairs
    test: Pairs | None
    directions: tuple[Direction, ...]
    """Those that are learned."""
    notes: tuple[str, ...]
    fingerprint: str
    """sha256 of the pairs, their languages and their sides; names of files do not count."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which columns of a table served as source and target."""

    @property
    def languages(self) -> Direction:
        return self.directions[0]

    @property
    def tagged(self) -> tuple[str, ...]:
        """The languages to choose from by a tag before the source; none where there is but one."""
        names = sorted({target for _, target in self.directions})
        return tuple(names) if len(names) > 1 else ()

    @property
    def sides(self) -> Sequence[tuple[str, Pairs]]:
        found = [("train", self.train), ("valid", self.valid)]
        return found if self.test is None else [*found, ("test", self.test)]
