"""The folder of a new run: created, numbered where its name is taken, refused where it is impossible."""

from __future__ import annotations

import os
from pathlib import Path

from qkv.errors import InputError, UnusablePathError
from qkv.storage import PARTIAL_SUFFIX, flush, storage_errors, storage_remedy
from qkv.training.metrics_log import REMEDY


def create_run_folder(folder: Path, numbered: bool) -> Path:
    """Create the folder of a new run; if `numbered`, with a number when the name is taken. Names that are taken or
    impossible are refused."""
    try:
        os.fspath(folder).encode("utf-8")
        return _create_run_folder(folder, numbered)
    except UnicodeEncodeError:  # the library that writes weights takes only such names
        raise InputError(f"{os.fspath(folder)!r}: the name is not UTF-8. Choose another --run.") from None
    except (OSError, ValueError, UnusablePathError) as error:  # too long, a broken link, a zero byte
        reason = getattr(error, "strerror", None) or getattr(error, "reason", error)
        raise InputError(f"{folder}: cannot be a run's folder ({reason}). Choose another --run.") from None


def _create_run_folder(folder: Path, numbered: bool) -> Path:
    with storage_remedy(REMEDY), storage_errors(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{folder}: a file is in the way of this folder. Choose another --run.") from None
        if not numbered:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder}: a file of this name is in the way. Choose another --run.")
            if (folder / "recipe.toml").exists():
                raise InputError(f"{folder}: this run exists. Continue it with --resume, or choose another --run.")
            # a run that was killed before its recipe was written leaves only temporary files
            if folder.is_dir() and any(path.suffix != PARTIAL_SUFFIX for path in folder.iterdir()):
                raise InputError(f"{folder}: not empty, and not a run. Choose another --run.")
            folder.mkdir(exist_ok=True)
            flush(folder.parent)
            return folder
        for number in range(1, 100_000):
            candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                candidate.mkdir()
            except FileExistsError:
                continue
            flush(folder.parent)
            return candidate
    raise InputError(f"{folder}: too many runs of this name. Choose another with --run.")
