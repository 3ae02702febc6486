"""The beginnings of files, each opened once: what a file is, and the first rows of a table.

Detection and reading share one object of this class, so that nothing is opened again to be recognised again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings
from qkv.data.formats.kinds import Kind, kind_of
from qkv.data.formats.tabular import Header, Table, open_table

MOST_HELD = 20
"""Files whose first bytes are held; of a folder with more, some may be opened again."""


class _Beginning:
    """The first bytes of a file, given again from memory as often as they are asked for."""

    def __init__(self, source: Source) -> None:
        self._unread = read_bytes(source)
        self._held: list[bytes] = []
        self._failure: Exception | None = None

    def chunks(self) -> Iterator[bytes]:
        place = 0
        while place < len(self._held) or self._more():
            yield self._held[place]
            place += 1

    def _more(self) -> bool:
        if self._failure is not None:
            raise self._failure
        try:
            chunk = next(self._unread, None)
        except Exception as error:  # said again to whoever asks again
            self._failure = error
            raise
        if chunk is None:
            return False
        self._held.append(chunk)
        return True


class Beginnings:
    """The beginnings of the files of one set of data."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._held: dict[Source, _Beginning] = {}
        self._kinds: dict[Source, Kind] = {}
        self._parquet: dict[Source, Table] = {}

    def kind(self, source: Source) -> Kind:
        """What a file holds, by its name, else by its first lines."""
        if source not in self._kinds:
            self._kinds[source] = kind_of(source, self.encoding, self.chunks(source))
        return self._kinds[source]

    def table(self, source: Source, header: Header = None) -> Table:
        """The first rows of a table; the others are left to whoever opens it to read them."""
        if source in self._parquet:
            return self._parquet[source]
        chunks = None if source.format == "parquet" else self.chunks(source)
        table = open_table(source, self.encoding, Findings(), header, chunks=chunks)
        table = replace(table, rows=iter(table.sample))
        if source.format == "parquet":
            self._parquet[source] = table
        return table

    def chunks(self, source: Source) -> Iterator[bytes]:
        """The bytes of a file, the first of them from memory."""
        if source not in self._held:
            while len(self._held) >= MOST_HELD:
                del self._held[next(iter(self._held))]
            self._held[source] = _Beginning(source)
        return self._held[source].chunks()
