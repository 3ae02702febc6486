"""Texts for verbs that answer: typed, piped in, or in a file; a line each, read as they are needed.

They come in batches, which are answered together. A batch ends early where a pipe has no more for now: who writes one
line and waits gets its answer.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qkv.cli.options import positionals
from qkv.cli.output import Growing, notes
from qkv.data.files.decode import decode
from qkv.data.findings import Findings
from qkv.errors import DataError, InputError
from qkv.safe_json import require_regular_file

if TYPE_CHECKING:
    from qkv.api import Model

T = TypeVar("T")
Answer = TypeVar("Answer")
CHUNK = 2**20
TOGETHER = 2048  # texts that are read, sorted by length and answered before the next


def answer(
    model: Model,
    batches: Iterable[list[T]],
    respond: Callable[[list[T]], Sequence[Answer]],
    values: Callable[[T, Answer], Mapping[str, Any]],
    show: Callable[[list[T], Sequence[Answer]], None],
    about: Mapping[str, Any] | None,
    findings: Findings | None = None,
) -> None:
    """Answer batch by batch, each printed by `show`; or, where `about` is given, all as one growing JSON document that
    begins with it. Notes of the model, and findings about the file, are printed or end the document."""
    document = Growing(about, "texts") if about is not None else None
    noted: set[str] = set()
    for batch in batches:
        answers = respond(batch)
        if document is None:
            notes(model.notes)
            show(batch, answers)
        else:
            noted.update(model.notes)
            document.add(map(values, batch, answers))
    ending = findings.notes() if findings is not None else ()
    if document is None:
        notes(ending)
    else:
        document.end({"notes": sorted(noted.union(ending))})


def lines(texts: Sequence[str], file: str | None, verb: str) -> Iterator[str]:
    """The texts one by one; a file is never held whole."""
    return (text for batch in batches(texts, file, verb) for text in batch)


def batches(
    texts: Sequence[str], file: str | None, verb: str, most: int = TOGETHER, *, piped: bool = True
) -> Iterator[list[str]]:
    """The texts in batches of at most `most`, in their order: those of the command, of a file, or of standard input,
    where - asks for it or, with `piped`, where no text is given."""
    words = positionals(tuple(texts), verb)
    if file is not None and words:
        raise InputError(f"--file {file} and {len(words)} texts were given; expected one of them.")
    if file is None and words and words != ["-"]:
        return (words[begin : begin + most] for begin in range(0, len(words), most))
    if file is None and not words and (not piped or sys.stdin.isatty()):
        raise InputError(
            f'no text was given. Expected texts, --file FILE, or - for standard input: qkv {verb} MODEL "a text"'
        )
    return _read(file, verb, most)


def _read(file: str | None, verb: str, most: int) -> Iterator[list[str]]:
    name = file or "standard input"
    empty = True
    try:
        if file is not None:
            require_regular_file(Path(file), f"Pipe it in instead: `... | qkv {verb} MODEL -`.")
        with nullcontext(sys.stdin.buffer) if file is None else Path(file).open("rb") as stream:
            for batch in _batched(stream, name, most):
                empty = False
                yield batch
    except DataError as error:  # these verbs have no --encoding
        raise DataError(error.where, error.problem, "Give text in UTF-8, one a line.") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}. Check the name.") from None
    if empty:
        raise InputError(f"{name}: empty; expected one text a line.")


def _batched(stream: Any, name: str, most: int) -> Iterator[list[str]]:
    from qkv.data.formats.rows import MAX_ROW_CHARACTERS

    findings, rest = Findings(), ""
    held: list[str] = []
    for text in decode(iter(lambda: stream.read1(CHUNK), b""), name, "utf-8", findings, head_size=1):
        *whole, rest = (rest + text).split("\n")
        if len(rest) > MAX_ROW_CHARACTERS:
            raise DataError(name, f"a line of more than {MAX_ROW_CHARACTERS:,} characters", "")
        held += whole
        while len(held) >= most:
            yield held[:most]
            del held[:most]
        if held and not _more(stream):
            yield held
            held = []
    if rest:
        held.append(rest)
    if held:
        yield held
    notes(findings.notes())


def _more(stream: Any) -> bool:
    """Whether something can be read, or the end is reached, without waiting."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # Windows cannot tell of pipes
        return False
