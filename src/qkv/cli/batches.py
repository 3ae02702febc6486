"""Batches of texts, from the command, from standard input or from a file, and the answers to them.

Input is read one line per text, only when it is needed. A batch from a pipe ends early when no more input is ready,
so that a program that writes one line and waits gets its answer.
"""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qkv.cli.options import positionals, refuse
from qkv.cli.output import StreamedJson, print_notes
from qkv.data.files.decode import decode
from qkv.data.findings import Findings
from qkv.errors import DataError, InputError
from qkv.safe_json import require_regular_file

if TYPE_CHECKING:
    from qkv.api import Model

Query = TypeVar("Query")  # a text, a pair of texts or a row of numbers
Answer = TypeVar("Answer")
CHUNK_BYTES = 2**20
BATCH_TEXTS = 2048  # texts that are read and answered together; models sort a batch by length


def answer_batches(
    model: Model,
    batches: Iterable[list[Query]],
    answer: Callable[[list[Query]], Sequence[Answer]],
    json_item: Callable[[Query, Answer], Mapping[str, Any]],
    print_batch: Callable[[list[Query], Sequence[Answer]], None],
    json_header: Mapping[str, Any] | None,
    findings: Findings | None = None,
) -> None:
    """Answer each batch and print the answers: with `print_batch` or, if there is a `json_header`, as items of one JSON
    document. Notes of the model, and findings about the file, are printed as well."""
    document = StreamedJson(json_header, "texts") if json_header is not None else None
    model_notes: set[str] = set()
    for batch in batches:
        answers = answer(batch)
        if document is None:
            print_notes(*model.notes)
            print_batch(batch, answers)
        else:
            model_notes.update(model.notes)
            document.add(map(json_item, batch, answers))
    file_notes = findings.notes() if findings is not None else ()
    if document is None:
        print_notes(*file_notes)
    else:
        document.end({"notes": sorted(model_notes.union(file_notes))})


def read_texts(file: str, verb: str) -> Iterator[str]:
    """The texts of a file, one per line."""
    return (text for batch in text_batches([], file, verb) for text in batch)


def text_batches(
    texts: Sequence[str], file: str | None, verb: str, batch_size: int = BATCH_TEXTS, *, piped: bool = True
) -> Iterator[list[str]]:
    """The texts of the command, of the file or of standard input, in their order and in batches of at most this size.
    Standard input is read if the only text is -, or if there are no texts, no file and `piped` is true."""
    words = positionals(tuple(texts), verb)
    if file is not None and words:
        raise InputError(f"--file {file} and {len(words)} texts were given; expected one of them.")
    if file is None and words and words != ["-"]:
        return (words[first : first + batch_size] for first in range(0, len(words), batch_size))
    if file is None and not words and (not piped or sys.stdin.isatty()):
        raise InputError(
            f'no text was given. Expected texts, --file FILE, or - for standard input: qkv {verb} MODEL "a text"'
        )
    return _file_batches(file, verb, batch_size)


def column_batches(
    texts: Sequence[str],
    file: str | None,
    verb: str,
    findings: Findings,
    option: dict[str, str | None],
    trained: Callable[[], Sequence[str]],
    batch_size: int = BATCH_TEXTS,
) -> Iterator[list[str]]:
    """The same batches; of a table, those of one column: that of the option, one of those that the model was trained
    on, or one that looks like text."""
    from qkv.tasks.text_column import column_texts

    (column,) = option.values()
    rows = column_texts(file, findings, column, trained()) if file is not None and not texts else None
    if rows is None:
        refuse({**option}, "only a table that --file names has columns")
        return text_batches(texts, file, verb, batch_size)
    return _batches(rows, batch_size)


def _batches(rows: Iterator[str], size: int) -> Iterator[list[str]]:
    while batch := list(islice(rows, size)):
        yield batch


def _file_batches(file: str | None, verb: str, batch_size: int) -> Iterator[list[str]]:
    name = file or "standard input"
    empty = True
    try:
        if file is not None:
            require_regular_file(Path(file), f"Pipe it in instead: `... | qkv {verb} MODEL -`.")
        with nullcontext(sys.stdin.buffer) if file is None else Path(file).open("rb") as stream:
            for batch in _stream_batches(stream, name, batch_size):
                empty = False
                yield batch
    except DataError as error:  # these verbs have no --encoding
        raise DataError(error.where, error.problem, "Give text in UTF-8, one per line.") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}. Check the name.") from None
    if empty:
        raise InputError(f"{name}: empty; expected one text per line.")


def _stream_batches(stream: Any, name: str, batch_size: int) -> Iterator[list[str]]:
    from qkv.data.formats.rows import MAX_ROW_CHARACTERS

    findings, unfinished_line = Findings(), ""
    lines: list[str] = []
    for chunk in decode(iter(lambda: stream.read1(CHUNK_BYTES), b""), name, None, findings, head_size=1):
        *complete_lines, unfinished_line = (unfinished_line + chunk).split("\n")
        if len(unfinished_line) > MAX_ROW_CHARACTERS:
            raise DataError(name, f"a line of more than {MAX_ROW_CHARACTERS:,} characters", "")
        lines += complete_lines
        while len(lines) >= batch_size:
            yield lines[:batch_size]
            del lines[:batch_size]
        if lines and not _is_ready(stream):
            yield lines
            lines = []
    if unfinished_line:
        lines.append(unfinished_line)
    if lines:
        yield lines
    print_notes(*findings.notes())


def _is_ready(stream: Any) -> bool:
    """Whether the stream can be read, or has ended, without waiting."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # on Windows, select does not work with pipes
        return False
