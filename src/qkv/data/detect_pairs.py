"""Decides whether files are clearly parallel text: aligned files, or a table of texts with translations or answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from qkv.data.columns import looks_labelled
from qkv.data.corpus import ParallelConfig
from qkv.data.files.archives import is_archive
from qkv.data.files.discover import catalog_entry
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.aligned import file_pair_languages, read_aligned_lines
from qkv.data.formats.column_names import LABEL, PROMPT_PAIRS, TRANSLATION_PAIRS, normalize
from qkv.data.formats.delimited import is_number
from qkv.data.formats.kinds import FilePreviews
from qkv.data.formats.tabular import Table
from qkv.data.pair_columns import header_rule, nested_pair, pair_by_name
from qkv.data.pair_files import AmbiguousLanguagesError, find_pairs
from qkv.data.split_files import PairFiles
from qkv.errors import QkvError

READ_ERRORS = (QkvError, OSError, TypeError, ValueError, LookupError)
"""The exceptions of a file that cannot be read; they are ignored here, and reported when the file is read."""
COMPARED_LINES = 100
"""How many lines of two files are compared to decide whether they are aligned."""
MAX_UNMATCHED_SHARE = 0.1
"""The share of lines that may be blank in only one file, and of cells of a translation that may be numbers."""
MAX_LENGTH_RATIO = 4
"""The texts of one language may in total be this many times as long as those of the other."""
_ATTRIBUTION = "CC-BY"


def catalog_task(name: str) -> str | None:
    entry = catalog_entry(name)
    return entry.task if entry else None


def is_parallel(files: Sequence[str], previews: FilePreviews, pattern: str | None = None) -> bool:
    """Whether files are clearly parallel text, and neither plain text nor labelled examples."""
    if not files:
        return False
    paths = [Path(name) for name in files]
    try:
        if all(catalog_task(name) == "translation" for name in files):
            return True
        if len(paths) == 1 and (paths[0].is_dir() or is_archive(paths[0])):
            return _files_match(files, previews, pattern)
        if not all(path.is_file() for path in paths):
            return False
        pairs = list(zip(paths[::2], paths[1::2], strict=False))
        if len(paths) % 2 == 0 and all(file_pair_languages(first.name, second.name) for first, second in pairs):
            return _files_match(files, previews, pattern)
        return all(_is_table_of_pairs(Source(path), previews) for path in paths)
    except AmbiguousLanguagesError:  # of a folder; when it is read, the error asks for the languages
        return True
    except READ_ERRORS:
        return False


def _files_match(files: Sequence[str], previews: FilePreviews, pattern: str | None) -> bool:
    config = ParallelConfig(files=tuple(files), encoding=previews.encoding, filter=pattern)
    groups = find_pairs(config, Findings(), previews=previews).train
    return all(_looks_parallel(group, previews) for group in groups)


def _looks_parallel(group: PairFiles, previews: FilePreviews) -> bool:
    """Whether the first lines of two files match: few are blank in only one file, and the lengths are similar.

    The number of lines is not compared: a file that is cut short should be refused when it is read, and not read as
    plain text.
    """
    if group.second is None:
        return _is_table_of_pairs(group.first, previews)
    first_lines, second_lines = (
        list(islice(_read_preview_lines(source, previews), COMPARED_LINES)) for source in (group.first, group.second)
    )
    if not first_lines or not second_lines:
        return bool(first_lines or second_lines)
    pairs = list(zip(first_lines, second_lines, strict=False))
    unmatched = sum(bool(first.strip()) != bool(second.strip()) for first, second in pairs)
    return unmatched <= MAX_UNMATCHED_SHARE * len(pairs) and _similar_length(*zip(*pairs, strict=True))


def _read_preview_lines(source: Source, previews: FilePreviews) -> Iterator[str]:
    return read_aligned_lines(source, previews.encoding, Findings(), chunks=previews.chunks(source))


def _similar_length(first: Sequence[str], second: Sequence[str]) -> bool:
    shorter, longer = sorted(sum(map(len, texts)) for texts in (first, second))
    return longer <= MAX_LENGTH_RATIO * max(1, shorter)


def _is_table_of_pairs(source: Source, previews: FilePreviews) -> bool:
    """Whether a file is a table of texts and their translations, by the names of its columns or by its cells.

    The cells decide only for tables without a header that are not named .csv: the first two columns must look like
    translations, and a third may only hold attributions, as in sentence pairs from Tatoeba.
    """
    if previews.kind(source) != "table":
        return False
    if source.format == "tmx":
        return True
    config = ParallelConfig(files=(), encoding=previews.encoding)
    table = previews.table(source, header_rule(config))
    columns = table.columns
    if not table.sample:
        return False
    if nested_pair(table, config) is not None:
        return True
    if (pair := pair_by_name(columns, TRANSLATION_PAIRS)) is not None:
        return _look_translated(table, pair)
    if (pair := pair_by_name(columns, PROMPT_PAIRS)) is not None:
        return _look_answered(table, pair)
    if source.format not in ("table", "text") or source.suffix == ".csv":
        return False
    if not table.has_numbered_columns or looks_labelled(table):
        return False
    if len(columns) == 3 and not all(str(row[2]).startswith(_ATTRIBUTION) for _, row in table.sample):
        return False
    return 2 <= len(columns) <= 3 and _look_translated(table, (columns[0], columns[1]))


def _look_answered(table: Table, pair: tuple[str, str]) -> bool:
    """Whether two columns hold texts and their answers, and no other column is a label."""
    others = [column for column in table.columns if column not in (*pair, table.split_column)]
    if any(normalize(column) in LABEL for column in others):
        return False
    texts = [[str(cell or "").strip() for cell in table.sample_column(table.columns.index(name))] for name in pair]
    numbers = sum(map(is_number, texts[1])) > MAX_UNMATCHED_SHARE * len(texts[1])
    return not numbers and all(len(set(column)) >= len(column) / 2 for column in texts)


def _look_translated(table: Table, columns: tuple[str, str]) -> bool:
    """Whether two columns hold texts of similar length: neither labels nor numbers, and mostly several words."""
    texts = [[str(cell or "").strip() for cell in table.sample_column(table.columns.index(name))] for name in columns]
    for column in texts:
        if len(set(column)) < len(column) / 4 or sum(map(is_number, column)) > MAX_UNMATCHED_SHARE * len(column):
            return False
    with_blanks = max(sum(" " in text for text in column) for column in texts)
    return _similar_length(*texts) and with_blanks > len(table.sample) / 2
