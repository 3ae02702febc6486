"""Files of a folder that somebody else may have made: nothing outside it is opened, and no small file costs much.

JSON is bounded in bytes and in values, and an object that names a key twice is refused: readers differ in which of the
two they take, so that what was checked need not be what is used.
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qkv.errors import InputError, QkvError, RefusedError
from qkv.visible import visible

JsonObject = dict[str, Any]
LARGEST_JSON = 2**26
MOST_VALUES = 2_000_000  # of one JSON text; the largest vocabularies have about half as many


class Refuse:
    """The refusals of one file: each names the file and the field, and ends with what to do."""

    def __init__(self, where: object, remedy: str = "Use another copy of the file.") -> None:
        self.where, self.remedy = where, remedy

    def __call__(self, field: str, problem: str) -> RefusedError:
        return RefusedError(f"{self.where}: {printable(field)}: {printable(problem)}. {self.remedy}")


def printable(text: str, most: int = 300) -> str:
    """Text of a file, fit for a terminal."""
    return visible(text[:most]) + (" ..." if len(text) > most else "")


def special(mode: int) -> str:
    """What something that is not a regular file is called."""
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
    return kinds.get(stat.S_IFMT(mode), "something special")


def require_regular(path: Path, remedy: str, most: int | None = None) -> None:
    """Refuse whatever is not a regular file: a pipe may wait for ever, a device never end. OSError if it is missing.

    `most` is the number of bytes from which on no honest file of its kind is so large.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is {special(status.st_mode)}, not a file. {remedy}")
    if most is not None and status.st_size > most:
        raise InputError(f"{path}: {status.st_size:,} bytes; at most {most:,} are read. {remedy}")


class NotTaken(ValueError):  # noqa: N818  (a fact, not a mistake)
    """JSON that is whole and is not taken all the same."""


def parse_json(text: str) -> Any:
    """The value of a JSON text; ValueError or RecursionError where there is none."""
    values = text.count(",") + text.count("[") + text.count("{")
    if values > MOST_VALUES:
        raise NotTaken(f"{values:,} values; at most {MOST_VALUES:,} are read")
    return json.loads(text, object_pairs_hook=_no_twins)


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise NotTaken("an object names a key twice")
    return values


def read_text(path: Path, most: int, unreadable: type[QkvError] = RefusedError) -> str:
    """The text of a file of at most `most` bytes; anything else is refused, `unreadable` where the system refuses."""
    try:
        if path.stat().st_size > most:
            raise RefusedError(f"{path}: larger than {most:,} bytes; no such file is.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{path}: not UTF-8 at byte {error.start}. Use another copy.") from None
    except OSError as error:
        raise unreadable(f"{path}: cannot be read: {error.strerror}. Check the name and its permissions.") from None


def finite(value: Any) -> Any:
    """The value with None for numbers that JSON has no word for: infinity, and what is not a number."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> JsonObject:
    """A JSON object from a file of a model or checkpoint folder; anything else is refused."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise RefusedError(f"{path}: more than {LARGEST_JSON:,} bytes; no such file is so large.")
        values = parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RefusedError(f"{path}: missing. This is not a whole qkv folder.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error if isinstance(error, NotTaken) else type(error).__name__
        raise RefusedError(f"{path}: not readable as JSON ({reason}). The file is damaged.") from None
    if not isinstance(values, dict):
        raise RefusedError(f"{path}: expected a JSON object, found {type(values).__name__}.")
    return values


def plain_file(folder: Path, name: str, most: int = 2**63) -> Path:
    """A regular file of the folder by its plain name. Links that lead out of the folder are refused.

    Hugging Face's own cache is made of such links: from snapshots/COMMIT/NAME to blobs/HASH. Those are followed.
    """
    path = folder / name
    if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\0" in name:
        raise RefusedError(f"{folder}: {name!a:.100} is not a plain file name. A model's files lie in its own folder.")
    try:
        real, home = path.resolve(strict=True), folder.resolve(strict=True)
        status = real.stat()
    except FileNotFoundError:
        raise RefusedError(f"{path}: missing. The folder is not whole; use another copy.") from None
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, half a character
        raise RefusedError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if real.parent not in (home, blobs):
        raise RefusedError(f"{path}: a link that leads out of the folder. Put the file itself there.")
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(f"{path}: not a regular file. Put the file itself there.")
    if status.st_size > most:
        raise RefusedError(f"{path}: {status.st_size:,} bytes; at most {most:,} are read.")
    return path


def require_replaceable(folder: Path, mark: str, force: bool) -> None:
    """Only a model folder, whose file `mark` says what it is, is ever replaced, and only when it is asked for."""
    if not force:
        raise InputError(f"{folder}: exists. Choose another name, or ask to replace it (force).")
    if folder.name in ("", "..") or not folder.is_dir() or folder.is_symlink() or not _only_a_model(folder, mark):
        raise InputError(f"{folder}: not a model folder, so it is not replaced, force or not. Choose another name.")


def _only_a_model(folder: Path, mark: str) -> bool:
    """Empty, or settings of a model and no folders among them: many a project has a config.json."""
    entries = list(folder.iterdir())
    if not entries:
        return True
    try:
        values = read_json(plain_file(folder, mark))
    except RefusedError:
        return False
    return bool({"format", "model_type"} & values.keys()) and not any(path.is_dir() for path in entries)
