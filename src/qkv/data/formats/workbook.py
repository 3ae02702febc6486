"""Reads workbooks (.xlsx): the rows of the first sheet that has any, or of several sheets named for splits."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time
from typing import Any
from xml.etree.ElementTree import ParseError

from qkv.data.files.decompress import COPY_AGAIN
from qkv.data.files.unpack import ZIP_ERRORS, Source, require_packages, unreadable_error
from qkv.data.findings import Assumption, Findings
from qkv.data.formats.column_names import split_of
from qkv.errors import DataError

MAX_UNPACKED = 2**29
"""A workbook with a larger unpacked size is refused: the texts of its cells are held in memory."""
MAX_SHEETS = 100


def workbook_rows(source: Source, findings: Findings) -> Iterator[tuple[int, list[object]]]:
    """The number and the cells of each row that has some. If several sheets are named for splits, a column named
    split comes first."""
    require_packages([source])
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    where = source.display_name
    if source.member or source.compression != "plain":
        raise DataError(where, "a workbook inside an archive", "Unpack it and give the .xlsx file.")
    try:
        with source.path.open("rb") as file:
            _require_small(file, where)
            book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
            yield from _sheet_rows(book.worksheets[:MAX_SHEETS], where, findings)
    except (*ZIP_ERRORS, InvalidFileException, ParseError, KeyError, TypeError, AttributeError, IndexError) as error:
        if isinstance(error, DataError):
            raise
        problem = " ".join(str(error).split())[:200]
        raise DataError(where, f"not a valid workbook ({problem})", COPY_AGAIN) from None
    except OSError as error:
        raise unreadable_error(where, error) from None


def _require_small(file: Any, where: str) -> None:
    with zipfile.ZipFile(file) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
    file.seek(0)
    if unpacked > MAX_UNPACKED:
        problem = f"a workbook of {unpacked:,} bytes when unpacked; {MAX_UNPACKED:,} at most are read"
        raise DataError(where, problem, "Save the sheet as .csv.")


def _sheet_rows(sheets: list[Any], where: str, findings: Findings) -> Iterator[tuple[int, list[object]]]:
    filled = [sheet for sheet in sheets if next(_rows(sheet), None) is not None]
    if not filled:
        return
    of_splits = [sheet for sheet in filled if split_of(sheet.title)]
    if len(of_splits) > 1:
        findings.add_note(f"{where}: the sheets {', '.join(sheet.title for sheet in of_splits)} are its splits.")
        header = next(_rows(of_splits[0]))[1]
        yield 1, ["split", *header]
        for sheet in of_splits:
            yield from ((number, [sheet.title, *cells]) for number, cells in _rows(sheet) if cells != header)
        return
    if len(filled) > 1:
        titles = ", ".join(sheet.title for sheet in filled[1:6])
        note = f"{where}: the sheet {filled[0].title!r} is read; others have rows, too: {titles}"
        findings.add_note(Assumption(f"{note}. Save one as .csv to read it."))
    yield from _rows(filled[0])


def _rows(sheet: Any) -> Iterator[tuple[int, list[object]]]:
    sheet.reset_dimensions()  # what the file says about its size may be wrong
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        cells = [cell.isoformat() if isinstance(cell, datetime | date | time) else cell for cell in row]
        while cells and cells[-1] in (None, ""):
            cells.pop()
        if cells:
            yield number, cells
