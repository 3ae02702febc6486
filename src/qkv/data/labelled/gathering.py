"""Texts and their labels out of tables, fastText files and folders of text: one side at a time, packed as they come."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from qkv.data.files.decode import decode, with_plain_line_ends
from qkv.data.files.unpack import read_bytes
from qkv.data.findings import Caution, Findings
from qkv.data.formats.kinds import FASTTEXT
from qkv.data.formats.rows import LONGEST_ROW, Rows, whole_lines
from qkv.data.formats.tabular import Table, open_table, watched
from qkv.data.identity import key_of
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.labelled.finding import Item
from qkv.data.labelled.guessing import Columns, guess, missing
from qkv.data.labelled.packed import PackedTexts
from qkv.data.labelled.targets import BETWEEN, Values, word
from qkv.data.progress import Watch
from qkv.errors import DataError


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
