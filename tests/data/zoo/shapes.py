"""What a shape of the zoo is: a way to write real text to a folder, and what has to be found there.

A shape is a function that writes its files and returns what a person would find in them. `@shape` puts it on the list.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from data_at_hand import real

Rows = list[tuple[str, str]]
"""Texts and their labels; sources and targets; words and tags, each with blanks between."""
SHAPES: dict[str, Callable[[Path], Found]] = {}
NEWS_LABELS = {"World": "world", "Sports": "sports", "Business": "business", "Sci/Tech": "science"}
LICENSE = "Permission is granted to anyone to use this collection for any purpose, free of charge.\n" * 12
README = "# News\n\nShort news of four topics, collected for a course. Cite the authors where you use them.\n\n" * 8


@dataclass(frozen=True)
class Found:
    """What a person finds in the files."""

    task: str
    splits: dict[str, Rows] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    """The files that are named to qkv; none: the folder that holds them."""
    documents: Sequence[str] = ()
    """The text for a language model: what each document has to hold, its marks of headings and lists apart."""
    unlike: Sequence[str] = ()
    """Marks of a file format, which no text for a language model holds."""
    shape: tuple[int, ...] = ()
    """Of images and numbers: rows and columns of an image, or how many numbers a row has."""
    packages: tuple[str, ...] = ()
    """Optional packages without which it cannot be written or read."""

    @property
    def labels(self) -> set[str]:
        """The labels of classification and tagging; for several labels the cells are separated by blanks."""
        if self.task in ("regression", "translation"):
            return set()
        cells = {label for rows in self.splits.values() for _, label in rows}
        several = self.task in ("multi-label", "tagging")
        return {label for cell in cells for label in cell.split()} if several else cells


def shape(write: Callable[[Path], Found]) -> Callable[[Path], Found]:
    """Put a shape on the list, by the name of its function."""
    SHAPES[write.__name__] = write
    return write


def write(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))


def lines(rows: Iterable[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


def delimited(rows: Iterable[Sequence[object]], mark: str = ",", end: str = "\n") -> str:
    """The rows as a delimited table with quotes where they are needed."""
    output = io.StringIO(newline="")
    csv.writer(output, delimiter=mark, lineterminator=end).writerows(rows)
    return output.getvalue()


def records(rows: Rows, text: str = "text", label: str = "label") -> list[dict[str, str]]:
    return [{text: first, label: second} for first, second in rows]


def json_lines(rows: Iterable[object]) -> str:
    return lines(json.dumps(row, ensure_ascii=False) for row in rows)


def zipped(path: Path, members: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)


@cache
def _table(name: str, mark: str = "\t") -> list[list[str]]:
    """The first 4,000 rows of a table of the real data."""
    path = real(name)
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        return [line.rstrip("\r\n").split(mark) for _, line in zip(range(4000), file, strict=False)]


@cache
def _news() -> tuple[tuple[str, str], ...]:
    rows = [(text.strip(), NEWS_LABELS[label]) for text, label in _table("ag-news/dev.tsv.gz")]
    return tuple(dict(row for row in rows if '"' not in row[0] and 60 < len(row[0]) < 400).items())


def news(first: int = 0, last: int = 160) -> Rows:
    """Short news and their topics: world, sports, business, science."""
    return list(_news()[first:last])


def news_of(topic: str, count: int) -> list[str]:
    """Short news of one topic."""
    return [text for text, label in _news() if label == topic][:count]


def messages(count: int = 160) -> Rows:
    """Text messages: ham or spam."""
    rows = {text.strip(): label for label, text in _table("sms-spam/SMSSpamCollection") if len(text) > 30}
    return list(rows.items())[:count]


def reviews(count: int = 160) -> Rows:
    """Parts of film reviews: 0 (negative) or 1."""
    rows = {text.strip(): label for text, label in _table("sst2/train.tsv.gz")[1:] if len(text) > 30}
    return list(rows.items())[:count]


def long_reviews(count: int = 60) -> Rows:
    """Whole film reviews, some in several paragraphs: 0 (negative) or 1."""
    rows = _table("imdb-5k/movie_review.tsv.gz")[1 : count + 1]
    return [(text.replace('\\"', '"').replace("<br />", "\n").strip(), label) for _, label, text in rows]


def entailment(count: int = 120) -> list[tuple[str, str, str]]:
    """Two texts, and whether the second follows from the first."""
    return [(first, second, label) for _, first, second, label in _table("rte/train.tsv.gz")[1 : count + 1]]


def similarity(count: int = 120) -> list[tuple[str, str, str]]:
    """Two sentences and how similar they are, from 0 to 5."""
    return [(cells[7], cells[8], cells[9]) for cells in _table("stsb/train.tsv.gz")[1 : count + 1]]


def captions(language: str, count: int = 120) -> list[str]:
    """Descriptions of photographs in English (en), German (de) or Czech (cs), line by line the same."""
    return [cells[0].strip() for cells in _table(f"multi30k/train.{language}.gz")[:count]]


def languages(count: int = 60) -> Rows:
    """Captions and the language that they are written in."""
    english, german = captions("en", count), captions("de", 2 * count)[count:]
    return [row for pair in zip(english, german, strict=True) for row in ((pair[0], "english"), (pair[1], "german"))]


@cache
def _sentences() -> tuple[tuple[tuple[str, str], ...], ...]:
    sentences: list[list[tuple[str, str]]] = [[]]
    for cells in _table("wnut17/wnut17train.conll"):
        if len(cells) == 2 and cells[0].strip():
            sentences[-1].append((cells[0], cells[1]))
        elif sentences[-1]:
            sentences.append([])
    kept = {"O", "B-person", "I-person", "B-location", "I-location"}
    return tuple(tuple(sentence) for sentence in sentences[:-1] if {tag for _, tag in sentence} <= kept)


def tagged(first: int = 0, last: int = 60) -> Rows:
    """Words of sentences and their tags: names of persons and places."""
    return [(" ".join(word for word, _ in one), " ".join(tag for _, tag in one)) for one in _sentences()[first:last]]


def conll(rows: Rows, mark: str = " ", tag_column: int = 1) -> str:
    """A word and its tag on each line, a blank line after each sentence."""
    sentences = []
    for words, tags in rows:
        cells = [[word, *["_"] * (tag_column - 1), tag] for word, tag in zip(words.split(), tags.split(), strict=True)]
        sentences.append(lines(mark.join(line) for line in cells))
    return "\n".join(sentences)


def stories(count: int = 40) -> list[str]:
    """Short stories for children, of several paragraphs each."""
    with gzip.open(real("tinystories/tinystories_1000.json.gz"), "rt", encoding="utf-8") as file:
        found: list[str] = json.load(file)
    return [story.strip() for story in found[:count]]
