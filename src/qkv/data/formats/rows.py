"""Rows of files, whatever they are in: lines, JSON values, batches of Parquet; and a count of those that are broken.

A few broken rows are left out and counted; when more than one in a hundred is broken, the file is refused instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes, require_packages, unreadable
from qkv.data.findings import Findings, OnRead
from qkv.errors import DataError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

LONGEST_ROW = 64 * 2**20
BAD_SHARE = 0.01
HALF_A_PAIR = "half of a surrogate pair, which is no character"


class BadRows:
    """Counts the rows of one file, and those that cannot be used."""

    def __init__(self, where: str, findings: Findings) -> None:
        self.where, self.findings = where, findings
        self.rows = self.bad = 0
        self.first: tuple[int, str] | None = None

    def reject(self, number: int, problem: str) -> None:
        self.bad += 1
        self.first = self.first or (number, problem)
        if self.bad > 100 and self.bad > 10 * BAD_SHARE * self.rows:
            self.finish()

    def finish(self) -> None:
        """Note what was left out, or refuse the file when that is too much."""
        if self.first is None:
            return
        number, problem = self.first
        if self.bad > BAD_SHARE * self.rows:
            raise DataError(
                f"{self.where}:{number}",
                f"{self.bad:,} of {self.rows:,} rows cannot be used, the first here: {problem}",
                "Repair the rows; up to one in a hundred is left out with a count.",
            )
        self.findings.bad_rows.append((f"{self.where}:{number}", self.bad, self.rows, problem))


def encodable(*texts: str) -> bool:
    """Whether there is no half of a surrogate pair in the texts, as JSON may have."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def report_reads(chunks: Iterator[bytes], on_read: OnRead | None) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk
        if on_read is not None:
            on_read(len(chunk))


def decoded_lines(source: Source, encoding: str, findings: Findings, on_read: OnRead | None) -> Iterator[str]:
    texts = decode(report_reads(read_bytes(source), on_read), source.display_name, encoding, findings)
    return whole_lines(texts, source.display_name)


def whole_lines(texts: Iterable[str], where: str) -> Iterator[str]:
    """The lines of a text that comes in pieces; one that is too long to hold is refused."""
    parts: list[str] = []
    held = number = 0
    for text in texts:
        first, *more = text.split("\n")
        parts.append(first)
        held += len(first)
        if held > LONGEST_ROW:
            raise DataError(f"{where}:{number + 1}", f"a row of more than {LONGEST_ROW:,} characters", "Split the row.")
        for line in more:
            yield "".join(parts)
            number += 1
            parts, held = [line], len(line)
    yield "".join(parts)


class JsonReader:
    """Reads the values of a JSON list, or of lines, one after the other, holding only the one at hand."""

    def __init__(self, texts: Iterable[str], where: str) -> None:
        self.texts, self.where = iter(texts), where
        self.text, self.place, self.line = "", 0, 1

    def _more(self) -> bool:
        piece = next(self.texts, None)
        if piece is None:
            return False
        self.line = self._line()
        self.text, self.place = self.text[self.place :] + piece, 0
        return True

    def _line(self) -> int:
        return self.line + self.text.count("\n", 0, self.place)

    def peek(self) -> str:
        """The next character that is not white space, or nothing at the end."""
        while True:
            while self.place < len(self.text):
                if not self.text[self.place].isspace():
                    return self.text[self.place]
                self.place += 1
            if not self._more():
                return ""

    def _rest(self) -> Iterator[str]:
        yield self.text[self.place :]
        yield from self.texts

    def lines(self, bad: BadRows) -> Iterator[tuple[int, object]]:
        """The value of each line with its number; blank lines are skipped, those that are not JSON are bad rows."""
        for number, line in enumerate(whole_lines(self._rest(), self.where), self._line()):
            if line.strip():
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError) as error:
                    bad.rows += 1
                    bad.reject(number, f"not JSON ({error})")
                else:
                    yield number, value

    def elements(self) -> Iterator[tuple[int, object]]:
        """The elements of a list, numbered from 1."""
        decoder = json.JSONDecoder()
        self.place += 1
        if self.peek() == "]":
            return
        number = 0
        while True:
            number += 1
            yield number, self._element(decoder)
            mark = self.peek()
            if mark not in (",", "]"):
                raise self._broken("expected , or ] after an element")
            self.place += 1
            if mark == "]":
                return
            self.peek()

    def _element(self, decoder: json.JSONDecoder) -> object:
        while True:
            try:
                value, self.place = decoder.raw_decode(self.text, self.place)
                return value
            except RecursionError:
                raise self._broken("nested too deeply") from None
            except ValueError as error:
                held = len(self.text) - self.place
                if held > LONGEST_ROW:
                    raise self._broken("an element is too long or broken") from None
                # read on until the buffer has doubled, so that a long element costs no more than twice its length
                while len(self.text) - self.place < 2 * held + 1 and self._more():
                    pass
                if len(self.text) - self.place == held:
                    raise self._broken(str(error)) from None

    def _broken(self, problem: str) -> DataError:
        return DataError(f"{self.where}:{self._line()}", f"not JSON: {problem}", "Repair the file, or give .jsonl.")


@contextmanager
def open_parquet(source: Source) -> Iterator[ParquetFile]:
    """A Parquet file; what pyarrow cannot read ends in a DataError."""
    require_packages([source])
    import pyarrow
    import pyarrow.parquet

    where = source.display_name
    if source.member or source.packing != "plain":
        raise DataError(where, "a Parquet file inside an archive", "Unpack it and give the .parquet file.")
    try:
        with source.path.open("rb") as file, pyarrow.parquet.ParquetFile(file) as table:
            yield table
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # pyarrow also calls damage an OSError, without one
            raise unreadable(where, error) from None
        problem = " ".join(str(error).split())[:200]
        raise DataError(where, f"not a sound Parquet file ({problem})", "Copy or download it again.") from None
