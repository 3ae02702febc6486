"""Rows that hold a text: .jsonl, .json with a list, .parquet.

A few broken rows are left out and counted; when more than one in a hundred is broken, the file is refused instead.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from qkv.data.files.decode import with_plain_line_ends
from qkv.data.files.unpack import Source, require_packages, unreadable
from qkv.data.findings import Findings, Watch
from qkv.data.formats.column_names import DOCUMENT
from qkv.errors import DataError

LONGEST_ROW = 64 * 2**20
BAD_SHARE = 0.01


class Rows:
    """Takes the text out of each row of one file and keeps count of those that cannot be used."""

    def __init__(self, where: str, column: str | None, findings: Findings) -> None:
        self.where, self.column, self.findings = where, column, findings
        self.guess = column is None
        self.rows = self.bad = 0
        self.first: tuple[int, str] | None = None

    def text(self, row: Any, number: int) -> str | None:
        """The text of a row, or None when the row is counted as bad."""
        self.rows += 1
        if isinstance(row, dict):
            if self.column is None or (self.rows == 1 and not self.guess):
                self.column = self._column(row, number)
            row = row.get(self.column)
        if not isinstance(row, str):
            kind = "nothing" if row is None else type(row).__name__
            wanted = f"expected text in {self.column!r}" if self.column else "expected text"
            self.reject(number, f"{wanted}, found {kind}")
            return None
        try:
            row.encode()
        except UnicodeEncodeError:
            self.reject(number, "half of a surrogate pair, which is no character")
            return None
        return with_plain_line_ends(row, self.findings)

    def reject(self, number: int, problem: str) -> None:
        self.bad += 1
        self.first = self.first or (number, problem)
        if self.bad > 100 and self.bad > 10 * BAD_SHARE * self.rows:
            self.finish()

    def _column(self, row: dict[str, Any], number: int) -> str:
        where = f"{self.where}:{number}"
        if self.column is not None:
            if self.column not in row:
                raise missing_column(where, self.column, list(row))
            return self.column
        return guess_column(where, {name for name, value in row.items() if isinstance(value, str)}, list(row))

    def finish(self) -> None:
        """Say what was left out, or refuse the file when that is too much."""
        if self.guess and self.column is not None:
            self.findings.columns[self.where] = self.column
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


def guess_column(where: str, texts: set[str], all_columns: Sequence[str]) -> str:
    for name in DOCUMENT:
        for column in all_columns:
            if column in texts and column.lower() == name:
                return column
    if len(texts) == 1:
        return next(iter(texts))
    listed = ", ".join(all_columns[:20]) or "none"
    raise DataError(where, f"which column holds the text? There are: {listed}", "Say which with --text NAME.")


def missing_column(where: str, column: str, columns: Sequence[str]) -> DataError:
    near = difflib.get_close_matches(column, columns, 1)
    hint = f"Did you mean --text {near[0]}?" if near else "Say which with --text NAME."
    return DataError(where, f"no column {column!r}; there are: {', '.join(columns[:20]) or 'none'}", hint)


def json_lines(texts: Iterable[str], where: str, column: str | None, findings: Findings) -> Iterator[str]:
    """One JSON value a line: an object with a text, or a bare string. Blank lines are skipped."""
    rows = Rows(where, column, findings)
    for number, line in enumerate(whole_lines(texts, where), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            rows.rows += 1
            rows.reject(number, f"not JSON ({error})")
            continue
        if (text := rows.text(value, number)) is not None:
            yield text
    rows.finish()


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


def json_rows(texts: Iterable[str], where: str, column: str | None, findings: Findings) -> Iterator[str]:
    """A .json file: a list of texts or of objects; one object a line is read as .jsonl."""
    buffer = Buffer(texts, where)
    first = buffer.peek()
    if first == "{":
        yield from json_lines(buffer.rest(), where, column, findings)
        return
    if first != "[":
        raise DataError(f"{where}:1", "not a JSON list of texts", 'Expected ["...", "..."] or one object a line.')
    rows = Rows(where, column, findings)
    for number, value in enumerate(buffer.elements(), 1):
        if (text := rows.text(value, number)) is not None:
            yield text
    rows.finish()


class Buffer:
    """Reads the elements of a JSON list one after the other, holding only the one at hand."""

    def __init__(self, texts: Iterable[str], where: str) -> None:
        self.texts, self.where = iter(texts), where
        self.text, self.place, self.line = "", 0, 1

    def more(self) -> bool:
        piece = next(self.texts, None)
        if piece is None:
            return False
        self.line += self.text.count("\n", 0, self.place)
        self.text, self.place = self.text[self.place :] + piece, 0
        return True

    def peek(self) -> str:
        """The next character that is not white space, or nothing at the end."""
        while True:
            while self.place < len(self.text):
                if not self.text[self.place].isspace():
                    return self.text[self.place]
                self.place += 1
            if not self.more():
                return ""

    def rest(self) -> Iterator[str]:
        yield self.text[self.place :]
        yield from self.texts

    def elements(self) -> Iterator[Any]:
        decoder = json.JSONDecoder()
        self.place += 1
        if self.peek() == "]":
            return
        while True:
            yield self._element(decoder)
            mark = self.peek()
            if mark not in (",", "]"):
                raise self._broken("expected , or ] after an element")
            self.place += 1
            if mark == "]":
                return
            self.peek()

    def _element(self, decoder: json.JSONDecoder) -> Any:
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
                while len(self.text) - self.place < 2 * held + 1 and self.more():
                    pass
                if len(self.text) - self.place == held:
                    raise self._broken(str(error)) from None

    def _broken(self, problem: str) -> DataError:
        line = self.line + self.text.count("\n", 0, self.place)
        return DataError(f"{self.where}:{line}", f"not JSON: {problem}", "Repair the file, or give .jsonl.")


def parquet(source: Source, column: str | None, findings: Findings, watch: Watch | None = None) -> Iterator[str]:
    """The text column of a Parquet file, batch by batch."""
    require_packages([source])
    import pyarrow
    import pyarrow.parquet

    where = source.shown
    if source.member or source.packing != "plain":
        raise DataError(where, "a Parquet file inside an archive", "Unpack it and give the .parquet file.")
    rows = Rows(where, column, findings)
    try:
        with source.path.open("rb") as file, pyarrow.parquet.ParquetFile(file) as table:
            types = {field.name: field.type for field in table.schema_arrow}
            texts = {name for name, kind in types.items() if _is_text(pyarrow, kind)}
            if column is not None and column not in types:
                raise missing_column(where, column, list(types))
            chosen = column or guess_column(where, texts, list(types))
            if chosen not in texts:
                raise DataError(
                    where, f"column {chosen!r} holds {types[chosen]}, not text", "Say which with --text NAME."
                )
            rows.column = chosen
            number = 0
            for batch in table.iter_batches(batch_size=1024, columns=[chosen]):
                for value in batch.column(0).to_pylist():
                    number += 1
                    if (text := rows.text(value, number)) is not None:
                        yield text
                if watch is not None:
                    watch(batch.nbytes)
    except (pyarrow.ArrowException, ValueError, OverflowError, OSError) as error:
        raise unsound_parquet(where, error) from None
    rows.finish()


def unsound_parquet(where: str, error: Exception) -> DataError:
    """What pyarrow could not read; it also calls damage an OSError, one that no system gave a number."""
    if isinstance(error, OSError) and error.errno is not None:
        return unreadable(where, error)
    problem = " ".join(str(error).split())[:200]
    return DataError(where, f"not a sound Parquet file ({problem})", "Copy or download it again.")


def _is_text(pyarrow: Any, kind: Any) -> bool:
    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))
