"""Replacements of standard output and standard error that handle failed writes.

Standard output carries the answer. When it cannot be written, the command stops with exit code 4; when its reader has
gone (`qkv generate ... | head`), with 0. Standard error carries only messages and progress: what cannot be written
there is dropped, so a log on a full disk never stops a training run. All writers (`print`, rich, cyclopts, warnings)
use `sys.stdout` and `sys.stderr`, so this holds for all of them.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

# Windows reports EINVAL when the reader of a pipe has gone
_READER_GONE_CODES = {errno.EPIPE, errno.ECONNRESET, *([errno.EINVAL] if os.name == "nt" else [])}


class ReaderGone(Exception):  # noqa: N818  (not an error: the reader has seen enough)
    """Nobody reads standard output any more.

    It is not a BrokenPipeError, because rich turns that into exit code 1.
    """


class _RawStream(io.RawIOBase):
    """The raw bytes of a standard stream. After its first failure it accepts everything and writes nothing, so that
    the buffers above it can be flushed and closed without a second failure."""

    def __init__(self, inner: Any, name: str, *, optional: bool) -> None:
        self.inner, self.name, self.optional = inner, name, optional
        self.failed = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return int(self.inner.fileno())

    def isatty(self) -> bool:
        return bool(self.inner.isatty())

    def write(self, data: Any) -> int:
        try:
            while not self.failed:
                written = self.inner.write(data)
                if written is not None:
                    return int(written)
                select.select([], [self.fileno()], [])  # wait: this is a full, non-blocking pipe
        except OSError as error:
            self.failed = True
            if not self.optional:
                raise _write_error(self.name, error) from error
        return len(data)


def _write_error(name: str, error: OSError) -> Exception:
    from qkv.errors import OutputError

    if error.errno in _READER_GONE_CODES:
        return ReaderGone()
    if error.errno == errno.EBADF:
        return OutputError(f"{name}: closed, or not open for writing; the answer is lost. Send it to a file with >.")
    return OutputError(
        f"{name}: {error.strerror or error}; the answer is incomplete. Free some space, or send it to another place."
    )


def install() -> None:
    """Replace the interpreter's own streams; streams that a caller has substituted are kept."""
    _reserve_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    if sys.stdout is sys.__stdout__ or _is_replaced(sys.stdout):
        sys.stdout = _replacement(sys.stdout, 1, "standard output", optional=False)
    if sys.stderr is sys.__stderr__ or _is_replaced(sys.stderr):
        sys.stderr = _replacement(sys.stderr, 2, "standard error", optional=True)


def finish() -> None:
    """Flush standard output; a failure here does not change the exit code."""
    with suppress(Exception):
        sys.stdout.flush()


def _is_replaced(stream: Any) -> bool:
    return isinstance(getattr(getattr(stream, "buffer", None), "raw", None), _RawStream)


def _reserve_descriptors() -> None:
    """Open the null device for each closed standard stream; otherwise the next file would get its descriptor.

    Reading such an input gives nothing. Writing to such an output must fail, so it is opened for reading; standard
    error drops what is written.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)


def _replacement(stream: Any, descriptor: int, name: str, *, optional: bool) -> io.TextIOWrapper:
    if stream is None:
        inner: Any = io.FileIO(descriptor, "w", closefd=False)
        encoding, line_buffering, write_through = "utf-8", optional, False
    else:
        stream.flush()
        inner = getattr(stream.buffer, "raw", stream.buffer)  # with `python -u` there is no buffer
        inner = inner.inner if isinstance(inner, _RawStream) else inner
        encoding, line_buffering, write_through = stream.encoding, stream.line_buffering, stream.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(_RawStream(inner, name, optional=optional)),
        encoding=encoding,
        errors="backslashreplace",  # characters that the terminal cannot show
        line_buffering=line_buffering or write_through,
        write_through=write_through,
    )
