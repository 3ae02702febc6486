"""The exception tree, and optional packages: which extra brings each. Messages say value, expectation and remedy.

QkvError
├── InputError          exit 2   the input, the data, the command or the machine does not fit
│   ├── DataError                a file of the corpus cannot be read as text
│   ├── ConfigError              a recipe, an option or a --set does not fit
│   ├── MissingExtraError        an optional package is not installed; also an ImportError
│   ├── UnusablePathError        the system keeps no file under this name
│   ├── WrongTypeError           a Python caller gave an object of the wrong type; also a TypeError
│   └── TooLittleMemoryError     the machine, or its limit, gives no more
├── DivergedError       exit 3   training reached a value that is not a number
├── StorageError        exit 4   the disk refused; what was saved before is intact
│   └── OutputError              standard output cannot be written
├── RefusedError        exit 5   a model or checkpoint file is damaged, altered or unsafe
└── InterruptedRun      exit 130 or 143, by signal; the state was saved
"""

from __future__ import annotations

import signal
from importlib import import_module


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
        super().__init__(f"{where}: {problem}{'' if problem.endswith('?') else '.'} {remedy}")
        self.where, self.problem, self.remedy = where, problem, remedy


class ConfigError(InputError):
    pass


class MissingExtraError(InputError, ImportError):
    def __init__(self, need: str, extra: str) -> None:
        super().__init__(f"{need} needs an optional package. Install it with: pip install 'qkv[{extra}]'")


class UnusablePathError(InputError):
    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"{path}: {reason}. Choose another name, in a folder that exists.")
        self.reason = reason


class WrongTypeError(InputError, TypeError):
    pass


def require_type(name: str, value: object, *types: type) -> None:
    """Refuse an argument of another type by its name, before it fails somewhere deep inside."""
    if not isinstance(value, types):
        expected = " or ".join("None" if kind is type(None) else kind.__name__ for kind in types)
        raise WrongTypeError(f"{name}: expected {expected}, not {type(value).__name__}.")


class TooLittleMemoryError(InputError):
    pass


class DivergedError(QkvError):
    exit_code = 3


class StorageError(QkvError):
    """`remedy` is what to do once there is room again, or another place for it."""

    exit_code = 4

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}, then {remedy}." if remedy else problem)
        self.problem, self.remedy = problem, remedy


class OutputError(StorageError):
    """Standard output cannot be written."""


class RefusedError(QkvError):
    exit_code = 5


class InterruptedRun(QkvError):  # noqa: N818  (a fact, not a mistake)
    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class SignalReceived(KeyboardInterrupt):
    """Raised by the command line where a signal asks it to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def signal_of(stop: BaseException) -> int:
    """The number of the signal behind a KeyboardInterrupt."""
    return int(getattr(stop, "number", signal.SIGINT))


_NO_MEMORY = (
    "allocate memory",
    "enough memory",
    "out of memory",
    "can't start new thread",
    "bad_alloc",
    "create a primitive",
)


def out_of_memory(error: Exception) -> bool:
    """Whether an exception says that there is no more memory: Python, torch and the system each have words for it."""
    return isinstance(error, MemoryError) or (
        not isinstance(error, QkvError) and any(words in str(error).lower() for words in _NO_MEMORY)
    )


EXTRAS = {
    "pyarrow": "data",
    "zstandard": "data",
    "PIL": "images",
    "tensorboard": "track",
    "transformers": "hf",
    "gguf": "gguf",
    "sklearn": "compare",
    "optuna": "tune",
    "sacrebleu": "translate",
    "sentencex": "translate",
}


def installed(package: str) -> bool:
    """Whether a package can be imported; one that is there but broken cannot."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def require_package(package: str, need: str) -> None:
    """Refuse, before any work, what needs a package that is not installed."""
    if not installed(package):
        raise MissingExtraError(need, EXTRAS[package])


def install_hint(package: str) -> str:
    return f"pip install 'qkv[{EXTRAS[package]}]' adds it"
