"""Examples and pairs of texts: stored as packed columns, and read one frozen example at a time.

Every split of examples has `targets`, an array with one row per example: class numbers (int32), numbers (float32) or,
for multi-label, a boolean matrix. A tagger's targets are the tags of all words, one after the other.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from qkv.data.identity import Keys, fmix64
from qkv.ranges import ExampleTask

if TYPE_CHECKING:
    from hashlib import _Hash

Targets = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Array = npt.NDArray[np.uint8] | npt.NDArray[np.float32]
Label = str | float | tuple[str, ...]
Direction = tuple[str, str]
"""The source and the target language."""


class PackedTexts:
    """Many texts in one byte array: each takes its UTF-8 and eight bytes, and no Python object."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ends = array("Q", [0])

    def append(self, text: str) -> None:
        self._bytes += text.encode()
        self._ends.append(len(self._bytes))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> str:
        return self._bytes[self._ends[number] : self._ends[number + 1]].decode()

    @property
    def bytes(self) -> int:
        return len(self._bytes) + self._ends.itemsize * len(self._ends)

    def add_to(self, digest: _Hash) -> None:
        """Add the texts and their boundaries to a hash."""
        digest.update(self._ends)
        digest.update(self._bytes)


@dataclass(frozen=True)
class LabelMap:
    """The classes and their numbers; stored with the model, so that a number always means the same class."""

    names: tuple[str, ...]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> str:
        return self.names[number]


@dataclass(frozen=True)
class TextExample:
    text: str
    second: str | None
    label: Label
    id: str | None = None


@dataclass(frozen=True)
class TagExample:
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class ArrayExample:
    values: Array
    """Pixels: rows, columns and, for colours, channels; or numbers, with NaN for missing ones."""
    label: Label


@dataclass(frozen=True)
class Pair:
    source: str
    target: str
    language: str
    """The language of the target."""


Example = TypeVar("Example", covariant=True)
Selected = TypeVar("Selected", bound="ExampleSet[object]")
Labels = TypeVar("Labels", bound="LabelledSet[object]")


@dataclass(frozen=True, kw_only=True)
class ExampleSet(Generic[Example]):
    """One split of data; `rows` are the indices of its examples among all rows that were read."""

    rows: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Example:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Example]:
        return (self[number] for number in range(len(self)))

    def select(self: Selected, which: Mask | Numbers | slice) -> Selected:
        """The selected examples of this split."""
        return replace(self, rows=self.rows[which])

    def joined(self: Selected, other: Selected) -> Selected:
        """These examples and those of another part of the same rows, in the order of the rows."""
        whole = replace(self, rows=np.concatenate((self.rows, other.rows)))
        return whole.select(np.argsort(whole.rows, kind="stable"))


@dataclass(frozen=True, kw_only=True)
class LabelledSet(ExampleSet[Example]):
    all_keys: Keys
    labels: LabelMap = LabelMap(())
    all_targets: Targets = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def with_targets(self: Labels, labels: LabelMap, targets: Targets, usable: Mask) -> Labels:
        """The same examples with their targets; those that are not usable are left out."""
        return replace(self, labels=labels, all_targets=targets, rows=np.flatnonzero(usable))

    @property
    def targets(self) -> Targets:
        return self.all_targets[self.rows]

    @property
    def keys(self) -> Keys:
        return self.all_keys[self.rows]

    @property
    def lengths(self) -> Numbers:
        """The length of each example: characters of all its texts, words, pixel values or numbers."""
        raise NotImplementedError

    def _label(self, row: int) -> Label:
        """The target of a row as a number, a label or several labels."""
        target = self.all_targets[row]
        if np.ndim(target):
            return tuple(self.labels[int(number)] for number in np.flatnonzero(target))
        return self.labels[int(target)] if self.labels.names else float(str(target))  # 3.8, not its 3.7999999


@dataclass(frozen=True, kw_only=True)
class TextExamples(LabelledSet[TextExample]):
    """Texts, or pairs of texts, with their targets."""

    texts: PackedTexts
    second: PackedTexts | None
    ids: PackedTexts | None

    def __getitem__(self, number: int) -> TextExample:
        row = int(self.rows[number])
        second, key = (None if texts is None else texts[row] for texts in (self.second, self.ids))
        return TextExample(self.texts[row], second, self._label(row), key)

    @cached_property
    def lengths(self) -> Numbers:
        parts = [self.texts] if self.second is None else [self.texts, self.second]
        return np.array([sum(len(part[int(row)]) for part in parts) for row in self.rows], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class TagExamples(LabelledSet[TagExample]):
    """Sentences with a tag for each word; word i of sentence s is number `starts[s] + i`."""

    words: PackedTexts
    starts: Numbers

    def with_targets(self, labels: LabelMap, targets: Targets, usable: Mask) -> TagExamples:
        """A sentence is left out if one of its words is not usable."""
        return super().with_targets(labels, targets, np.logical_and.reduceat(usable, self.starts[:-1]))

    def __getitem__(self, number: int) -> TagExample:
        row = int(self.rows[number])
        places = range(int(self.starts[row]), int(self.starts[row + 1]))
        names = tuple(self.labels[int(self.all_targets[place])] for place in places)
        return TagExample(tuple(self.words[place] for place in places), names)

    @property
    def targets(self) -> Targets:
        parts = [self.all_targets[self.starts[row] : self.starts[row + 1]] for row in self.rows]
        return np.concatenate(parts) if parts else self.all_targets[:0]

    @property
    def lengths(self) -> Numbers:
        return np.diff(self.starts)[self.rows]


@dataclass(frozen=True, kw_only=True)
class ArrayExamples(LabelledSet[ArrayExample]):
    all_values: Array
    """The values of all rows that were read; `rows` selects those of this split."""

    def __getitem__(self, number: int) -> ArrayExample:
        row = int(self.rows[number])
        return ArrayExample(self.all_values[row], self._label(row))

    @property
    def values(self) -> Array:
        return self.all_values[self.rows]

    @property
    def lengths(self) -> Numbers:
        return np.full(len(self), int(np.prod(self.all_values.shape[1:])), dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ImageExamples(ArrayExamples):
    """Images with a label each."""


@dataclass(frozen=True, kw_only=True)
class NumberExamples(ArrayExamples):
    """Rows of numbers with their targets."""

    columns: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Pairs(ExampleSet[Pair]):
    """Texts and their translations; `backward` pairs are read from target to source."""

    source: PackedTexts
    target: PackedTexts
    backward: Mask
    starts: Numbers
    """The index of the first pair of each group of files."""
    languages: tuple[Direction, ...]
    """The languages of each group of files."""
    source_keys: Keys
    target_keys: Keys

    def __getitem__(self, number: int) -> Pair:
        row = int(self.rows[number])
        source, target = self.source[row], self.target[row]
        names = self.languages[int(np.searchsorted(self.starts, row, "right")) - 1]
        return Pair(target, source, names[0]) if self.backward[number] else Pair(source, target, names[1])

    def texts(self) -> Iterator[tuple[str, str]]:
        """Source and target of each example."""
        for row, backward in zip(self.rows.tolist(), self.backward.tolist(), strict=True):
            source, target = self.source[row], self.target[row]
            yield (target, source) if backward else (source, target)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The distinct directions of the examples of this split."""
        group = self._groups()
        directions = [
            (second, first) if backward else (first, second)
            for backward in (False, True)
            for number, (first, second) in enumerate(self.languages)
            if bool((self.backward == backward)[group == number].any())
        ]
        return tuple(dict.fromkeys(directions))

    def target_languages(self, languages: Sequence[str]) -> npt.NDArray[np.int16]:
        """The target language of each example, as its index in a list of languages; -1 if it is not in the list."""
        indices = {name: index for index, name in enumerate(languages)}
        table = np.array([[indices.get(name, -1) for name in names] for names in self.languages], dtype=np.int16)
        return table[self._groups(), np.where(self.backward, 0, 1)]

    def _groups(self) -> Numbers:
        return np.searchsorted(self.starts, self.rows, "right") - 1

    @property
    def keys(self) -> Keys:
        """Keys that are equal for pairs whose texts differ only in case and white space."""
        return fmix64(self.source_keys[self.rows]) + self.target_keys[self.rows]

    def select(self, which: Mask | Numbers | slice) -> Pairs:
        return replace(self, rows=self.rows[which], backward=self.backward[which])

    def joined(self, other: Pairs) -> Pairs:
        backward = np.concatenate((self.backward, other.backward))
        whole = replace(self, rows=np.concatenate((self.rows, other.rows)), backward=backward)
        return whole.select(np.argsort(whole.rows, kind="stable"))

    def both_ways(self) -> Pairs:
        rows, backward = np.concatenate([self.rows, self.rows]), np.concatenate([self.backward, ~self.backward])
        return replace(self, rows=rows, backward=backward)


Examples: TypeAlias = TextExamples | TagExamples | ImageExamples | NumberExamples
Data = TypeVar("Data", Examples, Pairs)
Whole = TypeVar("Whole", bound="SplitData[Any]")


@dataclass(frozen=True, kw_only=True)
class SplitData(Generic[Data]):
    """The data that were read: the examples of each split, notes, and a fingerprint."""

    train: Data
    valid: Data
    test: Data | None
    notes: tuple[str, ...] = ()
    fingerprint: str = ""
    """sha256 of the examples, their labels or languages, and their splits; it does not depend on file names."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The columns of a table by their roles."""

    @property
    def splits_from_train(self) -> list[str]:
        """The splits that were held out of the rows given for training."""
        raise NotImplementedError

    @property
    def held_out(self) -> bool:
        """Whether the validation set was held out of the rows given for training."""
        return "valid" in self.splits_from_train

    def undivided(self: Whole) -> Whole:
        """The same data with the held-out examples moved back to the training split, in the order of the files."""
        if not self.held_out:
            return self
        return replace(self, train=self.train.joined(self.valid), valid=self.valid.select(slice(0)))

    @property
    def splits(self) -> Sequence[tuple[str, Data]]:
        return [
            (name, split)
            for name, split in (("train", self.train), ("valid", self.valid), ("test", self.test))
            if split is not None
        ]


@dataclass(frozen=True, kw_only=True)
class Labelled(SplitData[Examples]):
    task: ExampleTask
    labels: LabelMap
    """Empty for regression."""

    @property
    def splits_from_train(self) -> list[str]:
        return [name for name, split in self.splits[1:] if split.all_keys is self.train.all_keys]

    @property
    def pairs(self) -> bool:
        return isinstance(self.train, TextExamples) and self.train.second is not None

    @property
    def numeric(self) -> bool:
        """Whether the examples are rows of numbers."""
        return isinstance(self.train, NumberExamples)


@dataclass(frozen=True, kw_only=True)
class Parallel(SplitData[Pairs]):
    directions: tuple[Direction, ...]
    """The directions that are learned."""

    @property
    def splits_from_train(self) -> list[str]:
        return [name for name, split in self.splits[1:] if split.source_keys is self.train.source_keys]

    @property
    def languages(self) -> Direction:
        return self.directions[0]

    @property
    def tagged(self) -> tuple[str, ...]:
        """The target languages, which a tag before the source selects; empty if there is only one."""
        names = sorted({target for _, target in self.directions})
        return tuple(names) if len(names) > 1 else ()
