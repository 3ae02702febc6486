"""Readers for folders from untrusted sources: no file outside the folder is opened, and JSON is bounded.

JSON is bounded in bytes and in values. An object with a duplicate key is refused: parsers differ in which of the two
values they keep, so a checked value might not be the one used.
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
MAX_JSON_BYTES = 2**26
MAX_JSON_VALUES = 2_000_000  # the largest vocabularies have about half as many


class Refusals:
    """Makes the errors that refuse one file. Their messages name the file and the field, and end with the remedy."""

    def __init__(self, where: object, remedy: str = "Use another copy of the file.") -> None:
        self.where, self.remedy = where, remedy

    def __call__(self, field: str, problem: str) -> RefusedError:
        return RefusedError(f"{self.where}: {visible_excerpt(field)}: {visible_excerpt(problem)}. {self.remedy}")


def visible_excerpt(text: str, max_length: int = 300) -> str:
    """The start of an untrusted text, safe to print on a terminal."""
    return visible(text[:max_length]) + (" ..." if len(text) > max_length else "")


def file_kind(mode: int) -> str:
    """Name the kind of a file that is not a regular file, by its `st_mode`."""
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
    return kinds.get(stat.S_IFMT(mode), "a special file")


def require_regular_file(path: Path, remedy: str, max_bytes: int | None = None) -> None:
    """Raise InputError for anything but a regular file (a pipe may block, a device may be endless), or a larger one.

    OSError if the file is missing.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: is {file_kind(status.st_mode)}, not a file. {remedy}")
    if max_bytes is not None and status.st_size > max_bytes:
        raise InputError(f"{path}: {status.st_size:,} bytes; at most {max_bytes:,} are read. {remedy}")


class RejectedJson(ValueError):  # noqa: N818  (it describes the document)
    """The document may be valid JSON, but it is refused."""


def parse_bounded_json(text: str) -> Any:
    """Parse JSON. RejectedJson for duplicate keys or too many values, ValueError or RecursionError for invalid JSON."""
    values = text.count(",") + text.count("[") + text.count("{")
    if values > MAX_JSON_VALUES:
        raise RejectedJson(f"{values:,} values; at most {MAX_JSON_VALUES:,} are read")
    return json.loads(text, object_pairs_hook=_without_duplicates)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise RejectedJson("an object has a duplicate key")
    return values


def read_text(path: Path, max_bytes: int, unreadable: type[QkvError] = RefusedError) -> str:
    """Read a UTF-8 file of at most `max_bytes`. RefusedError for others; `unreadable` if the system cannot read it."""
    try:
        if path.stat().st_size > max_bytes:
            raise RefusedError(f"{path}: larger than {max_bytes:,} bytes; no valid file of this kind is so large.")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RefusedError(f"{path}: not UTF-8 at byte {error.start}. Use another copy.") from None
    except OSError as error:
        raise unreadable(f"{path}: cannot be read: {error.strerror}. Check the name and its permissions.") from None


def without_nonfinite(value: Any) -> Any:
    """Replace infinities and NaN, which JSON cannot express, by None."""
    if isinstance(value, Mapping):
        return {key: without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [without_nonfinite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> JsonObject:
    """A JSON object from a file of a model or checkpoint folder; anything else is refused."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise RefusedError(f"{path}: more than {MAX_JSON_BYTES:,} bytes; no valid file of this kind is so large.")
        values = parse_bounded_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RefusedError(f"{path}: missing. This is not a complete qkv folder.") from None
    except (OSError, ValueError, RecursionError) as error:
        reason = error if isinstance(error, RejectedJson) else type(error).__name__
        raise RefusedError(f"{path}: not readable as JSON ({reason}). The file is damaged.") from None
    if not isinstance(values, dict):
        raise RefusedError(f"{path}: expected a JSON object, found {type(values).__name__}.")
    return values


def plain_file(folder: Path, name: str, max_bytes: int = 2**63) -> Path:
    """Return the path of a regular file in the folder. Links that lead out of the folder are refused.

    The exception is Hugging Face's cache, which is built of such links: from snapshots/COMMIT/NAME to blobs/HASH.
    """
    path = folder / name
    if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\0" in name:
        raise RefusedError(f"{folder}: {name!a:.100} is not a plain file name. A model's files must be in its folder.")
    try:
        real, home = path.resolve(strict=True), folder.resolve(strict=True)
        status = real.stat()
    except FileNotFoundError:
        raise RefusedError(f"{path}: missing. The folder is incomplete; use another copy.") from None
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, or a name that cannot be encoded
        raise RefusedError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if real.parent not in (home, blobs):
        raise RefusedError(f"{path}: a link that leads out of the folder. Replace it by the file.")
    if not stat.S_ISREG(status.st_mode):
        raise RefusedError(f"{path}: not a regular file. Replace it by one.")
    if status.st_size > max_bytes:
        raise RefusedError(f"{path}: {status.st_size:,} bytes; at most {max_bytes:,} are read.")
    return path


def require_replaceable(folder: Path, config_name: str, force: bool) -> None:
    """Raise InputError unless `force` is set and the folder is empty or only a model, which its config file shows."""
    if not force:
        raise InputError(f"{folder}: exists. Choose another name, or ask to replace it (force).")
    if (
        folder.name in ("", "..")
        or not folder.is_dir()
        or folder.is_symlink()
        or not _only_a_model(folder, config_name)
    ):
        raise InputError(f"{folder}: not a model folder, so it is not replaced, force or not. Choose another name.")


def _only_a_model(folder: Path, config_name: str) -> bool:
    """Whether the folder is empty, or has a model's config and no subfolders. Other projects have a config.json too."""
    entries = list(folder.iterdir())
    if not entries:
        return True
    try:
        values = read_json(plain_file(folder, config_name))

    except RefusedError:
        return False
    return bool({"format", "model_type"} & values.keys()) and not any(path.is_dir() for path in entries)
