"""Examples as the tasks want them: columns underneath, one frozen example at a time on top.

Every set of examples has `targets`, an array with one row an example: class numbers (int32), numbers (float32), or for
multi-label a table of true and false. A tagger's targets are the tags of all words, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from qkv.data.corpus import Task
from qkv.data.identity import Keys
from qkv.data.packed_texts import PackedTexts

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LabelMap:
    """The classes and their numbers; stored with the model, so that number 3 means the same for ever."""

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
    label: str | float | tuple[str, ...]
    id: str | None = None


@dataclass(frozen=True)
class TagExample:
    words: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True)
class ImageExample:
    pixels: npt.NDArray[np.uint8]
    """Rows, columns, and channels where there are colours."""
    label: str


@dataclass(frozen=True)
class NumberExample:
    numbers: npt.NDArray[np.float32]
    """NaN where one is missing."""
    label: str | float | tuple[str, ...]


def label_of(target: Any, labels: LabelMap) -> str | float | tuple[str, ...]:
    """What a target means: a number, a label or several."""
    if np.ndim(target):
        return tuple(labels[int(number)] for number in np.flatnonzero(target))
    return labels[int(target)] if labels.names else float(str(target))  # 3.8, not the 3.7999999 of its few bits


@dataclass(frozen=True)
class TextExamples:
    """Texts, or pairs of texts, with what to learn of them; `rows` are those of this side."""

    texts: PackedTexts
    second: PackedTexts | None
    ids: PackedTexts | None
    labels: LabelMap
    all_targets: Array
    all_keys: Keys
    rows: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> TextExample:
        row = int(self.rows[number])
        second = None if self.second is None else self.second[row]
        label = label_of(self.all_targets[row], self.labels)
        return TextExample(self.texts[row], second, label, None if self.ids is None else self.ids[row])

    def __iter__(self) -> Iterator[TextExample]:
        return (self[number] for number in range(len(self)))

    @property
    def targets(self) -> Array:
        return self.all_targets[self.rows]

    @property
    def keys(self) -> Keys:
        return self.all_keys[self.rows]

    @cached_property
    def lengths(self) -> Numbers:
        """Characters of each example, both texts together."""
        parts = [self.texts] if self.second is None else [self.texts, self.second]
        return np.array([sum(len(part[int(row)]) for part in parts) for row in self.rows], dtype=np.int64)


@dataclass(frozen=True)
class TagExamples:
    """Sentences with a tag for each word; word i of sentence s is number `starts[s] + i`."""

    words: PackedTexts
    starts: Numbers
    labels: LabelMap
    all_tags: npt.NDArray[np.int32]
    all_keys: Keys
    rows: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> TagExample:
        row = int(self.rows[number])
        places = range(int(self.starts[row]), int(self.starts[row + 1]))
        names = tuple(self.labels[int(self.all_tags[place])] for place in places)
        return TagExample(tuple(self.words[place] for place in places), names)

    def __iter__(self) -> Iterator[TagExample]:
        return (self[number] for number in range(len(self)))

    @property
    def targets(self) -> Array:
        parts = [self.all_tags[self.starts[row] : self.starts[row + 1]] for row in self.rows]
        return np.concatenate(parts) if parts else self.all_tags[:0]

    @property
    def keys(self) -> Keys:
        return self.all_keys[self.rows]

    @property
    def lengths(self) -> Numbers:
        """Words of each sentence."""
        return (self.starts[1:] - self.starts[:-1])[self.rows]


@dataclass(frozen=True)
class ImageExamples:
    all_pixels: npt.NDArray[np.uint8]
    """Pictures, rows, columns, and channels where there are colours."""
    labels: LabelMap
    all_targets: npt.NDArray[np.int32]
    all_keys: Keys
    rows: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> ImageExample:
        row = int(self.rows[number])
        return ImageExample(self.all_pixels[row], self.labels[int(self.all_targets[row])])

    def __iter__(self) -> Iterator[ImageExample]:
        return (self[number] for number in range(len(self)))

    @property
    def pixels(self) -> npt.NDArray[np.uint8]:
        return self.all_pixels[self.rows]

    @property
    def targets(self) -> Array:
        return self.all_targets[self.rows]

    @property
    def keys(self) -> Keys:
        return self.all_keys[self.rows]

    @property
    def lengths(self) -> Numbers:
        """Values of each picture."""
        return np.full(len(self), int(np.prod(self.all_pixels.shape[1:])), dtype=np.int64)


@dataclass(frozen=True)
class NumberExamples:
    """Rows of numbers, with what to learn of them."""

    all_numbers: npt.NDArray[np.float32]
    """A row an example, a column each; NaN where a number is missing."""
    columns: tuple[str, ...]
    labels: LabelMap
    all_targets: Array
    all_keys: Keys
    rows: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> NumberExample:
        row = int(self.rows[number])
        return NumberExample(self.all_numbers[row], label_of(self.all_targets[row], self.labels))

    def __iter__(self) -> Iterator[NumberExample]:
        return (self[number] for number in range(len(self)))

    @property
    def numbers(self) -> npt.NDArray[np.float32]:
        return self.all_numbers[self.rows]

    @property
    def targets(self) -> Array:
        return self.all_targets[self.rows]

    @property
    def keys(self) -> Keys:
        return self.all_keys[self.rows]

    @property
    def lengths(self) -> Numbers:
        """Numbers of each row."""
        return np.full(len(self), len(self.columns), dtype=np.int64)


Examples: TypeAlias = TextExamples | TagExamples | ImageExamples | NumberExamples


@dataclass(frozen=True)
class Labelled:
    """What was read: the examples of each side, the label map, the task, what was noticed, and the data's identity."""

    task: Task
    labels: LabelMap
    """No names when numbers are learned."""
    train: Examples
    valid: Examples
    test: Examples | None
    notes: tuple[str, ...]
    fingerprint: str
    """sha256 of the examples, their labels and their sides; names of files do not count."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Which column served as text, second text, label and id."""

    @property
    def pairs(self) -> bool:
        return isinstance(self.train, TextExamples) and self.train.second is not None

    @property
    def numeric(self) -> bool:
        """Whether what is read are numbers."""
        return isinstance(self.train, NumberExamples)

    @property
    def sides(self) -> Sequence[tuple[str, Examples]]:
        found: list[tuple[str, Examples]] = [("train", self.train), ("valid", self.valid)]
        return found if self.test is None else [*found, ("test", self.test)]
