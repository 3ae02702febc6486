"""Data as a call from Python gives them: names of files, or an object of any form; and how they are read.

Messages name arguments, not options of the command line, and the object, not the file of the cache that holds its rows.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from qkv.data import catalog, object_names, objects, own_reader
from qkv.data.corpus import Documents
from qkv.errors import InputError, QkvError, WrongTypeError
from qkv.tasks import TaskName
from qkv.visible import shortened

Options = TypeVar("Options")


class DataKeywords(TypedDict, total=False):
    """How data are read: the options of the command line, by the same names."""

    task: TaskName | None
    text: str | None
    text2: str | None
    label: str | None
    labels: Mapping[str, str] | None
    id: str | None
    source: str | None
    target: str | None
    languages: Sequence[str] | None
    documents: Documents | None
    filter: str | None
    encoding: str | None
    reader: str | Path | None


class ReadingOptions(DataKeywords, total=False):
    """The same, with the validation and the test set."""

    valid: object
    test: object


@dataclass(frozen=True)
class GivenData:
    """The files of data: named, or written for an object."""

    files: list[str]
    options: Mapping[str, str]  # of the section [corpus], which follow from the object's type
    object_name: str = ""  # for the name of a run; none where files were named


def files_of(data: object, argument: str) -> GivenData:
    """The files of data, which names them or is an object."""
    if isinstance(data, str | Path):
        return GivenData([str(data)], {})
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | Path) for item in data):
        names = [str(item) for item in data]
        exist = [isinstance(item, Path) or _is_name(str(item)) for item in data]
        if all(exist):
            return GivenData(names, {})
        if any(exist):
            raise InputError(
                f"{argument}: {names[exist.index(True)]!r} is a file and "
                f"{shortened(names[exist.index(False)], 300)!r} is not. "
                "Give names of files, or texts."
            )
    stored = objects.store(data, argument)
    object_names.keep(stored.file, object_names.described(data))
    return GivenData([str(stored.file)], stored.options, stored.name)


def section_of(data: object, options: Mapping[str, object]) -> tuple[dict[str, object], GivenData]:
    """The section [corpus] that data and options describe."""
    given = files_of(data, "data")
    if options.get("reader") is not None and given.object_name:
        raise InputError(f"reader={options['reader']}: reads files, and data is {object_names.described(data)}.")
    values: dict[str, object] = {"files": given.files, **given.options}
    for key, value in options.items():
        if key in ("valid", "test") and value is not None:
            values[key] = files_of(value, key).files
        elif key == "labels" and isinstance(value, Mapping):
            values[key] = [f"{old}={new}" for old, new in value.items()]
        elif key in ReadingOptions.__annotations__ and value is not None:
            values[key] = list(value) if isinstance(value, tuple) else value
    return own_reader.through(values), given


def _is_name(text: str) -> bool:
    try:
        return len(text) < 4096 and "\n" not in text and (Path(text).exists() or catalog.find(text) is not None)
    except (OSError, ValueError):  # a name that no system takes
        return False


def checked(kind: type[Options], given: Mapping[str, object], call: str) -> Options:
    """The options of a call, of the types that are asked for; others are refused by name."""
    known = {name: value for name, value in given.items() if name in kind.__annotations__}
    try:
        return TypeAdapter(kind).validate_python(known, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        value = first["input"]
        expected = str(first["msg"]).removeprefix("Input should be ")
        raise WrongTypeError(
            f"{call}: {first['loc'][0]}={value!r:.80}: expected {expected}, not {type(value).__name__}."
        ) from None


def checked_reading(kind: type[Options], given: Mapping[str, object], call: str) -> Options:
    """The options of reading that a call takes as `**options`; a name that is none of them is refused."""
    for name in given:
        if name not in kind.__annotations__:
            near = difflib.get_close_matches(name, kind.__annotations__, 1)
            hint = f"Did you mean {near[0]}?" if near else f"Expected one of {', '.join(kind.__annotations__)}."
            raise TypeError(f"{call}: unknown argument {name!r}. {hint}")
    return checked(kind, given, call)


OPTION = re.compile(r"(?<!qkv )--(?:set )?([a-z][a-z0-9-]*)")
COMMAND = re.compile(r"qkv (train|finetune|compare|tune)((?: [A-Z][A-Z]+)+)((?: --[a-z-]+ [\w./-]*\w)*)")


@contextmanager
def python_names() -> Iterator[None]:
    """Messages name options as Python's callers do (minutes, not --minutes), and objects by what they are."""
    try:
        yield
    except QkvError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python_names(error.args[0]), *error.args[1:])
        raise


def in_python_names(message: str) -> str:
    """A message or a note in the words of Python's callers."""
    message = COMMAND.sub(_call, message)
    return object_names.in_words(OPTION.sub(lambda match: match[1].replace("-", "_"), message))


def _call(command: re.Match[str]) -> str:
    """A command as a call: qkv train FILE --model bert is qkv.train(FILE, model="bert")."""
    words = command[3].split()
    options = [f'{name[2:].replace("-", "_")}="{value}"' for name, value in zip(words[::2], words[1::2], strict=True)]
    return f"qkv.{command[1]}({', '.join([*command[2].split(), *options])})"
