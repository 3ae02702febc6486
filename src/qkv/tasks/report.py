"""A report is data: sections that a terminal shows, the content of card.md, and the values of a JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LinesSection:
    lines: tuple[str, ...]


@dataclass(frozen=True)
class TableSection:
    """A table; the first column and those of `words` read left, numbers read right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[str, ...] = ()


Section = LinesSection | TableSection


@dataclass(frozen=True)
class NextCommand:
    """A command to try next: the words after the program's name, and what it is for."""

    words: tuple[str, ...]
    purpose: str = ""


@dataclass(frozen=True)
class CardContent:
    """What is particular in card.md: a sentence, rows of a table, and the doctor's section in Markdown."""

    sentence: str
    rows: Mapping[str, str]
    doctor: str


@dataclass(frozen=True)
class RunReport:
    """The end of a run."""

    sections: tuple[Section, ...]
    commands: tuple[NextCommand, ...]
    card: CardContent
    values: dict[str, Any]
    writes: bool = False  # the model writes text: samples belong to the report


def lines(*texts: str) -> LinesSection:
    return LinesSection(texts)


def indented(label: str, texts: list[str]) -> LinesSection:
    """The label before the first line, the others beneath it."""
    return LinesSection(
        tuple(f"{label if not number else '':<{len(label)}}  {line}" for number, line in enumerate(texts))
    )
