"""FASTA: biological sequences, each below a line `>ID description`, as the rows of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qkv.data.formats.rows import BadRows

SUFFIXES = (".fasta", ".fa", ".faa", ".fna", ".ffn")
COLUMNS = ["id", "sequence"]


def read_fasta(lines: Iterable[str], bad_rows: BadRows) -> Iterator[tuple[int, list[str]]]:
    """The line number, the id and the sequence of each record; a record without a sequence is a bad row."""
    start, identifier, parts = 0, "", list[str]()

    def record() -> Iterator[tuple[int, list[str]]]:
        bad_rows.row_count += 1
        if identifier and parts:
            yield start, [identifier, "".join(parts)]
        else:
            bad_rows.reject(start, "a record without a sequence" if identifier else "expected >ID before a sequence")

    for number, line in enumerate(lines, 1):
        if line.startswith(">"):
            if start:
                yield from record()
            start, identifier, parts = number, "".join(line[1:].split(maxsplit=1)[:1]), []
        elif line.strip() and not line.startswith(";"):
            start = start or number
            parts.append("".join(line.split()))
    if start:
        yield from record()
