"""Texts for verbs that answer: typed, piped in, or in a file; a line each, read as they are needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

from qkv.cli.output import notes

CHUNK = 2**20


def whole(words: list[str], file: str | None, verb: str) -> list[str]:
    """All of them, for verbs that look at all at once; standard input is read where - asks for it."""
    from qkv.errors import InputError

    if not words and file is None:
        raise InputError(
            f'no text was given. Expected texts, --file FILE, or - for standard input: qkv {verb} MODEL "a text"'
        )
    return list(lines(words, file, verb))


def lines(words: list[str], file: str | None, verb: str) -> Iterator[str]:
    """The texts one by one; a file is never held whole."""
    from qkv.errors import InputError

    if file is not None and words:
        raise InputError(f"--file {file} and {len(words)} texts were given; expected one of them.")
    if file is None and words and words != ["-"]:
        yield from words
        return
    if file is None and not words and sys.stdin.isatty():
        raise InputError(
            f'no text was given. Expected texts, --file FILE, or - for standard input: qkv {verb} MODEL "a text"'
        )
    name = file or "standard input"
    try:
        with nullcontext(sys.stdin.buffer) if file is None else Path(file).open("rb") as stream:
            found = 0
            for line in _decoded(stream.read, name):
                found += 1
                yield line
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}. Check the name.") from None
    if not found:
        raise InputError(f"{name}: empty; expected one text a line.")


def _decoded(read: Callable[[int], bytes], name: str) -> Iterator[str]:
    from qkv.data.decoding import decode
    from qkv.data.findings import Findings

    findings, rest = Findings(), ""
    for text in decode(iter(lambda: read(CHUNK), b""), name, "utf-8", findings):
        *whole, rest = (rest + text).split("\n")
        yield from (line.rstrip("\r") for line in whole)
    if rest:
        yield rest.rstrip("\r")
    notes(findings.notes())
