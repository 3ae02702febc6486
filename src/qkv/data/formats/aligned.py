"""The lines of a file as translators count them: only \\n ends a line.

Other readers make \\n of a lone \\r. Here that would shift one file against the other, so \\r, \\x0b, \\x85 and \\u2028
stay inside of their line; one \\r before \\n is taken off, and counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from qkv.data.files.decode import _Decoder, _with_head
from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings, Watch
from qkv.data.formats.rows import whole_lines
from qkv.data.formats.tabular import watched
from qkv.errors import DataError


class _Verbatim(_Decoder):
    """Bytes to text with the places of what cannot be read, line ends as they are."""

    def _line_ends(self, text: str, final: bool) -> str:
        self.line += text.count("\n")
        return text


def _texts(chunks: Iterable[bytes], decoder: _Verbatim) -> Iterator[str]:
    for chunk in _with_head(chunks):
        yield decoder.push(chunk)
    yield decoder.finish()


def lines(
    source: Source,
    encoding: str,
    findings: Findings,
    watch: Watch | None = None,
    chunks: Iterator[bytes] | None = None,
) -> Iterator[str]:
    """All lines; what follows the last \\n is one more, unless it is nothing."""
    where = source.shown
    texts = _texts(watched(chunks or read_bytes(source), watch), _Verbatim(where, encoding, findings))
    held: str | None = None
    ended = False  # whether there was a \n
    for line in whole_lines(texts, where):
        if held is not None:
            ended = True
            yield _without_return(held, findings)
        held = line
    if not ended and held is not None and held.count("\r") > 1:
        remedy = f"Write its lines with \\n, for example: tr '\\r' '\\n' < {where} > NEW"
        raise DataError(f"{where}:1", "its lines end with \\r alone, and here only \\n ends a line", remedy)
    if held:
        yield _without_return(held, findings)


def _without_return(line: str, findings: Findings) -> str:
    if not line.endswith("\r"):
        return line
    findings.crlf += 1
    return line[:-1]


def in_step(
    first: Source, second: Source, encoding: str, findings: Findings, watch: Watch
) -> Iterator[tuple[str, str]]:
    """The lines of two files side by side; DataError, with both counts, where one has more than the other."""
    one, other = lines(first, encoding, findings, watch), lines(second, encoding, findings, watch)
    count = 0
    while True:
        left, right = next(one, None), next(other, None)
        if left is None and right is None:
            return
        if left is None or right is None:
            break
        count += 1
        yield left, right
    counts = (count + (left is not None) + sum(1 for _ in one), count + (right is not None) + sum(1 for _ in other))
    raise DataError(
        f"{first.shown}:{count + 1}",
        f"{counts[0]:,} lines here, {counts[1]:,} in {second.shown}; expected one translation a line",
        "Find the line that was lost or split; only \\n ends a line.",
    )
