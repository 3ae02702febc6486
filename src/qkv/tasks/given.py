"""The data of a call from Python: names of files, or an object of any form; and the options for reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from qkv.data import catalog, object_names, objects, own_reader
from qkv.data.corpus import Documents
from qkv.errors import InputError, WrongTypeError
from qkv.tasks import TaskName
from qkv.visible import shortened


class DataKeywords(TypedDict, total=False):
    """How data are read: options with the names of the command line. A column is a name, or a number from 1."""

    task: TaskName | None
    text: str | int | None
    text2: str | int | None
    label: str | int | None
    labels: Mapping[str | int, str] | None
    id: str | int | None
    source: str | int | None
    target: str | int | None
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
    """Data as files: the named ones, or a file that was written for an object."""

    files: list[str]
    options: Mapping[str, str]  # of the section [corpus], which follow from the object's type
    object_name: str = ""  # for the name of a run; empty for named files


def files_of(data: object, argument: str) -> GivenData:
    """The files that `data` names, or a file with the content of the object `data`."""
    if isinstance(data, str) and not _is_name(data) and (len(data) > 255 or "\n" in data or not data):
        raise InputError(f"{argument}={data[:60]!r}: not the name of a file. A text is given in a list: [text].")
    if isinstance(data, str | Path):
        return GivenData([str(data)], {})
    if argument == "valid" and isinstance(data, float):
        remedy = f'Another share is held out with settings={{"corpus.valid_fraction": {data}}}.'
        raise WrongTypeError(f"valid={data}: expected data to validate on, not float. {remedy}")
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
    object_names.save_name(stored.file, object_names.described(data))
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
            values[key] = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, int) else value
    return own_reader.through(values), given


def _is_name(text: str) -> bool:
    try:
        return 0 < len(text) < 4096 and "\n" not in text and (Path(text).exists() or catalog.find(text) is not None)
    except (OSError, ValueError):  # a name that no system takes
        return False
