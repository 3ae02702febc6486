"""The exception tree. Every message says the value, what was expected and the remedy.

QkvError
├── InputError          exit 2   the input, the data, the command or the machine does not fit
│   ├── DataError                a file of the corpus cannot be read as text
│   ├── ConfigError              a recipe, an option or a --set does not fit
│   ├── MissingExtraError        an optional package is not installed
│   └── TooLittleMemoryError     the machine, or its limit, gives no more
├── DivergedError       exit 3   training reached a value that is not a number
├── StorageError        exit 4   the disk refused; what was saved before is intact
├── RefusedError        exit 5   a model or checkpoint file is damaged, altered or unsafe
└── InterruptedRun      exit 130 or 143, by signal; the state was saved
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class QkvError(Exception):
    """Anything qkv says to a person instead of showing a traceback."""

    exit_code = 1


class InputError(QkvError):
    exit_code = 2


class DataError(InputError):
    """A file of the corpus does not hold what was expected.

    `where` is `file`, `file:line` or `file:line:offset`; the offset counts bytes from the start of the file.
    """

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}. {remedy}")
        self.where, self.problem, self.remedy = where, problem, remedy


class ConfigError(InputError):
    pass


class MissingExtraError(InputError):
    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} needs an optional package. Install it with: pip install 'qkv[{extra}]'")


class TooLittleMemoryError(InputError):
    pass


class DivergedError(QkvError):
    exit_code = 3


class StorageError(QkvError):
    exit_code = 4


class RefusedError(QkvError):
    exit_code = 5


class InterruptedRun(QkvError):  # noqa: N818  (a fact, not a mistake)
    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


_FULL = "make room, then continue with --resume."
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EIO: "check the disk, then continue with --resume.",
    errno.EROFS: "make it writable and continue with --resume, or choose another folder with --run.",
}


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that holds `path`, or would hold it."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


@contextmanager
def storage(path: Path, needed: int = 0) -> Iterator[None]:
    """Turn the disk's refusals into one clear sentence, and refuse early when `needed` bytes are not there."""

    def refusal(reason: str, remedy: str) -> StorageError:
        amount = f"{needed:,} bytes are needed, " if needed else ""
        return StorageError(
            f"{path}: {reason}; {amount}{free_bytes(path):,} bytes are free. What was saved before is intact: {remedy}"
        )

    if needed and free_bytes(path) < needed:
        raise refusal("not enough room on the disk", _FULL)
    try:
        yield
    except OSError as error:
        if error.errno in _REMEDIES:
            raise refusal(error.strerror or str(error), _REMEDIES[error.errno]) from error
        if error.errno == errno.EACCES or error.errno == errno.EPERM:
            raise StorageError(f"{path}: no permission to write here. Choose another folder with --run.") from error
        raise


_NO_MEMORY = ("allocate memory", "enough memory", "out of memory", "can't start new thread")


def out_of_memory(error: Exception) -> bool:
    """Whether an exception says that there is no more memory: Python, torch and the system each have words for it."""
    return isinstance(error, MemoryError) or (
        not isinstance(error, QkvError) and any(words in str(error).lower() for words in _NO_MEMORY)
    )
