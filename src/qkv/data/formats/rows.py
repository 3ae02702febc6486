"""Rows of files in any format: lines, JSON values, batches of Parquet; and a count of those that cannot be used.

A few bad rows are left out with a note; if more than one in a hundred is bad, the file is refused. Rows that only lack
a label are left out, too, as long as most rows have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import NoReturn, TypeVar

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.errors import DataError

MAX_ROW_CHARACTERS = 64 * 2**20
MAX_BAD_SHARE = 0.01
MIN_LABELLED_SHARE = 0.5
"""If fewer rows have a label, the column is hardly that of the labels."""
MAX_FIRST_LINE = 2**22
"""The largest first line, in characters, of a file with a JSON value on each line."""
MAX_NESTED_OBJECTS = 20
LONE_SURROGATE = "half of a surrogate pair, which is not a character"


Keys = tuple[str, ...]
Element = TypeVar("Element")
_DECODER = json.JSONDecoder()


class ObjectKey(str):
    """A cell that is a key of a JSON object, such as {"train": [...]}: the file has no column for it."""


class BadRows:
    """Counts the rows of one file, and those that cannot be used."""

    def __init__(self, where: str, findings: Findings) -> None:
        self.where, self.findings = where, findings
        self.row_count = self.bad_count = 0
        self.first_bad: tuple[int, str] | None = None
        """The line of the first bad row, and what is wrong with it."""
        self.unlabelled_count = 0
        self.first_unlabelled: tuple[int, str] | None = None
        """The line of the first row without a label, and the column that lacks it."""

    def reject(self, line: int, problem: str) -> None:
        """Count a bad row; DataError as soon as so many are bad that the file will be refused."""
        self.bad_count += 1
        self.first_bad = self.first_bad or (line, problem)
        if self.bad_count > 100 and self.bad_count > 10 * MAX_BAD_SHARE * self.row_count:
            self._refuse(f"more than {self.bad_count - 1:,} of the first {self.row_count:,}", self.first_bad)

    def lacks_label(self, line: int, column: str) -> None:
        """Count a row that has no label."""
        self.unlabelled_count += 1
        self.first_unlabelled = self.first_unlabelled or (line, f"no label in {column!r}")

    def finish(self) -> None:
        """Note the rows that are left out; DataError if they are too many."""
        counts = (
            (self.first_bad, self.bad_count, self.bad_count > MAX_BAD_SHARE * self.row_count),
            (
                self.first_unlabelled,
                self.unlabelled_count,
                self.row_count - self.unlabelled_count <= MIN_LABELLED_SHARE * self.row_count,
            ),
        )
        for first, number, too_many in counts:
            if first is not None:
                if too_many:
                    self._refuse(f"{number:,} of {self.row_count:,}", first)
                line, problem = first
                self.findings.bad_rows.append((f"{self.where}:{line}", number, self.row_count, problem))

    def _refuse(self, rows: str, first: tuple[int, str]) -> NoReturn:
        line, problem = first
        remedy = "Repair the rows; up to one in a hundred is left out with a count."
        if first == self.first_unlabelled:
            remedy = "Name another column with --label NAME, or leave these rows out."
        raise DataError(f"{self.where}:{line}", f"{rows} rows cannot be used, the first here: {problem}", remedy)


def report_reads(chunks: Iterator[bytes], on_read: OnRead | None) -> Iterator[bytes]:
    """The same chunks; `on_read` is called with the size of each."""
    for chunk in chunks:
        yield chunk
        if on_read is not None:
            on_read(len(chunk))


def read_lines(source: Source, encoding: str | None, findings: Findings, on_read: OnRead | None) -> Iterator[str]:
    texts = decode(report_reads(read_bytes(source), on_read), source.display_name, encoding, findings)
    return split_lines(texts, source.display_name)


def split_lines(texts: Iterable[str], where: str) -> Iterator[str]:
    """The lines of a text that comes in chunks; DataError for a line that is too long to hold in memory."""
    parts: list[str] = []
    characters = line_number = 0
    for text in texts:
        end_of_line, *next_lines = text.split("\n")
        parts.append(end_of_line)
        characters += len(end_of_line)
        if characters > MAX_ROW_CHARACTERS:
            problem = f"a row of more than {MAX_ROW_CHARACTERS:,} characters"
            raise DataError(f"{where}:{line_number + 1}", problem, "Split the row.")
        for line in next_lines:
            yield "".join(parts)
            line_number += 1
            parts, characters = [line], len(line)
    yield "".join(parts)


class JsonReader:
    """Reads the elements of a JSON list, or JSON values in lines, and holds one of them at a time."""

    def __init__(self, texts: Iterable[str], where: str) -> None:
        self._texts, self._where = iter(texts), where
        self._buffer, self._position = "", 0
        self._buffer_line = 1  # the line in which the buffer begins

    def _read_more(self) -> bool:
        """Append the next chunk of text to the unread part of the buffer; false at the end."""
        text = next(self._texts, None)
        if text is None:
            return False
        self._buffer_line = self._line_number()
        self._buffer, self._position = self._buffer[self._position :] + text, 0
        return True

    def _line_number(self) -> int:
        return self._buffer_line + self._buffer.count("\n", 0, self._position)

    def peek(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            while self._position < len(self._buffer):
                if not self._buffer[self._position].isspace():
                    return self._buffer[self._position]
                self._position += 1
            if not self._read_more():
                return ""

    def has_one_value_per_line(self) -> bool:
        """Whether the first line is a JSON value and others follow it, unlike a single value for the whole file."""
        while "\n" not in self._buffer[self._position :] and len(self._buffer) < MAX_FIRST_LINE and self._read_more():
            pass
        line, _, rest = self._buffer[self._position :].partition("\n")
        try:
            json.loads(line)
        except (ValueError, RecursionError):
            return False
        while not rest.strip() and self._read_more():
            rest = self._buffer[self._position :].partition("\n")[2]
        return bool(rest.strip())

    def members(self, keys: Keys = ()) -> Iterator[tuple[Keys, bool, object]]:
        """Read the object that begins at the next character, with nested objects. Each value is yielded with its keys
        and with whether it is an element of a list; lists are yielded element by element."""
        if len(keys) > MAX_NESTED_OBJECTS:
            raise self._error("nested too deeply")
        self._position += 1
        while self.peek() != "}":
            key = self._read_element() if self.peek() == '"' else None
            if not isinstance(key, str) or self.peek() != ":":
                raise self._error("expected a key in double quotes, and a colon after it")
            self._position += 1
            first_character = self.peek()
            if first_character == "{":
                yield from self.members((*keys, key))
            elif first_character == "[":
                for _, value in self.elements():
                    yield (*keys, key), True, value
            else:
                yield (*keys, key), False, self._read_element()
            if self.peek() == ",":
                self._position += 1
                if self.peek() == "}":
                    raise self._error("expected a key after a comma")
            elif self.peek() != "}":
                raise self._error("expected , or } after a value")
        self._position += 1

    def lines(self, bad_rows: BadRows) -> Iterator[tuple[int, object]]:
        """The JSON value of each line, with its line number. Blank lines are skipped; other text is a bad row."""
        unread = chain([self._buffer[self._position :]], self._texts)
        for number, line in enumerate(split_lines(unread, self._where), self._line_number()):
            if line.strip():
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    bad_rows.row_count += 1
                    bad_rows.reject(number, f"not JSON ({error})")
                else:
                    yield number, value

    def elements(self) -> Iterator[tuple[int, object]]:
        """The elements of the list that begins at the next character, numbered from 1."""
        self._position += 1
        if self.peek() == "]":
            self._position += 1
            return
        for number in count(1):
            yield number, self._read_element()
            separator = self.peek()
            if separator not in (",", "]"):
                raise self._error("expected , or ] after an element")
            self._position += 1
            if separator == "]":
                return
            self.peek()

    def to_the_end(self, values: Iterator[Element]) -> Iterator[Element]:
        """The values of the list or object that makes up the file; DataError for text after it."""
        yield from values
        if self.peek():
            raise self._error("text after the end of the list or object")

    def _read_element(self) -> object:
        while True:
            try:
                value, end = _DECODER.raw_decode(self._buffer, self._position)
                if end < len(self._buffer) or not isinstance(value, int | float) or not self._read_more():
                    self._position = end
                    return value
            except RecursionError:
                raise self._error("nested too deeply") from None
            except ValueError as error:
                unread = len(self._buffer) - self._position
                if unread > MAX_ROW_CHARACTERS:
                    raise self._error("an element is too long or broken") from None
                # doubling the buffer before each attempt makes the cost of a long element linear in its length
                while len(self._buffer) - self._position < 2 * unread + 1 and self._read_more():
                    pass
                if len(self._buffer) - self._position == unread:
                    raise self._error(str(error)) from None

    def _error(self, problem: str) -> DataError:
        where = f"{self._where}:{self._line_number()}"
        return DataError(where, f"not JSON: {problem}", "Repair the file, or give .jsonl.")
