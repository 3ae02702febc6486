"""Standard output and standard error that fail in the right way.

Whatever is written to standard output is what was asked for: when it cannot be written, the command stops with exit
code 4, and when its reader has gone (`qkv generate ... | head`) it stops with 0. Standard error holds messages and
progress only: what cannot be written there is dropped, so a full log never ends a training. All writers (`print`,
rich, cyclopts, warnings) go through `sys.stdout` and `sys.stderr`, so this one place serves them all.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

# EINVAL is what Windows answers when the reader of a pipe has gone
_GONE = {errno.EPIPE, errno.ECONNRESET, *([errno.EINVAL] if os.name == "nt" else [])}


class ReaderGone(Exception):  # noqa: N818  (no error: the reader has seen enough)
    """Nobody reads standard output any more.

    It is not a BrokenPipeError because rich answers that one with exit code 1.
    """


class _Raw(io.RawIOBase):
    """The bytes of a standard stream. After its first failure it takes everything and writes nothing.

    So the buffers above it can be flushed and closed without failing once more.
    """

    def __init__(self, inner: Any, name: str, *, optional: bool) -> None:
        self.inner, self.name, self.optional = inner, name, optional
        self.dead = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self.inner.fileno())

    def isatty(self) -> bool:
        return bool(self.inner.isatty())

    def write(self, data: Any) -> int:
        try:
            while not self.dead:
                written = self.inner.write(data)
                if written is not None:
                    return int(written)
                select.select([], [self.fileno()], [])  # a pipe that does not block, and is full for now
        except OSError as error:
            self.dead = True
            if not self.optional:
                raise _failure(self.name, error) from error
        return len(data)


def _failure(name: str, error: OSError) -> Exception:
    from qkv.errors import OutputError

    if error.errno in _GONE:
        return ReaderGone()
    if error.errno == errno.EBADF:
        return OutputError(f"{name}: closed, or not open for writing; the answer is lost. Send it to a file with >.")
    return OutputError(
        f"{name}: {error.strerror or error}; the answer is not whole. Make room, or send it to another place."
    )


def install() -> None:
    """Put the safe streams in the place of the interpreter's own; streams that a caller has put there stay."""
    _occupy()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    if sys.stdout is sys.__stdout__ or _ours(sys.stdout):
        sys.stdout = _wrapped(sys.stdout, 1, "standard output", optional=False)
    if sys.stderr is sys.__stderr__ or _ours(sys.stderr):
        sys.stderr = _wrapped(sys.stderr, 2, "standard error", optional=True)


def finish() -> None:
    """Write out what is left after a failure, whose exit code stands whether or not this can be written."""
    with suppress(Exception):
        sys.stdout.flush()


def _ours(stream: Any) -> bool:
    return isinstance(getattr(getattr(stream, "buffer", None), "raw", None), _Raw)


def _occupy() -> None:
    """Where a standard stream is closed, take its number: else the next file that is opened would get it.

    Reading such an input gives nothing. Writing to such an output must fail, so it is opened for reading.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)


def _wrapped(stream: Any, number: int, name: str, *, optional: bool) -> io.TextIOWrapper:
    if stream is None:
        inner: Any = io.FileIO(number, "w", closefd=False)
        encoding, by_line, at_once = "utf-8", optional, False
    else:
        stream.flush()
        inner = getattr(stream.buffer, "raw", stream.buffer)  # with -u there is no buffer
        inner = inner.inner if isinstance(inner, _Raw) else inner
        encoding, by_line, at_once = stream.encoding, stream.line_buffering, stream.write_through
    # a character that the terminal cannot show is no reason to stop
    return io.TextIOWrapper(
        io.BufferedWriter(_Raw(inner, name, optional=optional)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=by_line or at_once,
        write_through=at_once,
    )
