"""The exception tree with its exit codes, and the extra that installs each optional package.

Every message gives the value, what was expected, and the remedy.

QkvError
├── InputError          exit 2   the input, the data, the command or the machine is not suitable
│   ├── DataError                the data does not hold what was expected
│   ├── ConfigError              a recipe, an option or a --set does not fit
│   ├── MissingExtraError        an optional package is not installed; also an ImportError
│   ├── UnusablePathError        the operating system cannot create a file of this name
│   ├── WrongTypeError           a Python caller gave an object of the wrong type; also a TypeError
│   └── TooLittleMemoryError     the machine has too little memory, or a limit leaves too little
├── DivergedError       exit 3   the loss, a gradient or a weight is infinite or not a number

├── StorageError        exit 4   the disk refused; what was saved before is intact
│   └── OutputError              standard output cannot be written
├── RefusedError        exit 5   a model or checkpoint file is damaged, altered or unsafe
└── InterruptedRun      exit 130 or 143, by signal; the state was saved
"""

from __future__ import annotations

import signal
from importlib import import_module


class QkvError(Exception):
    """Base of the errors whose message users see instead of a traceback."""

    exit_code = 1


class InputError(QkvError):
    exit_code = 2


class DataError(InputError):
    """The data does not hold what was expected.

    `where` is `file`, `file:line` or `file:line:offset` (a byte offset from the start of the file), or names the data.
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
    """Raise WrongTypeError, which names the argument, before a wrong type fails somewhere deep inside."""
    if not isinstance(value, types):
        expected = " or ".join("None" if cls is type(None) else cls.__name__ for cls in types)
        raise WrongTypeError(f"{name}: expected {expected}, not {type(value).__name__}.")


class TooLittleMemoryError(InputError):
    pass


class DivergedError(QkvError):
    exit_code = 3


class StorageError(QkvError):
    """The system cannot write a file. `remedy` is what the user should do after the cause is removed."""

    exit_code = 4

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}, then {remedy}." if remedy else problem)
        self.problem, self.remedy = problem, remedy


class OutputError(StorageError):
    pass


class RefusedError(QkvError):
    exit_code = 5


class InterruptedRun(QkvError):  # noqa: N818  (an interruption is not an error)
    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


class SignalReceived(KeyboardInterrupt):
    """Raised by the command line's handlers of signals that ask it to stop."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


def signal_number_of(interrupt: BaseException) -> int:
    """The number of the signal that caused a KeyboardInterrupt."""
    return int(getattr(interrupt, "signal_number", signal.SIGINT))


_OUT_OF_MEMORY_PHRASES = (
    "allocate memory",
    "enough memory",
    "out of memory",
    "can't start new thread",
    "bad_alloc",
    "create a primitive",
)


def is_out_of_memory(error: Exception) -> bool:
    """Whether an exception means that memory ran out; Python, torch and the system word it differently."""
    return isinstance(error, MemoryError) or (
        not isinstance(error, QkvError) and any(phrase in str(error).lower() for phrase in _OUT_OF_MEMORY_PHRASES)
    )


EXTRA_OF_PACKAGE = {
    "pyarrow": "data",
    "zstandard": "data",
    "lxml": "documents",
    "pypdf": "documents",
    "striprtf": "documents",
    "openpyxl": "documents",
    "PIL": "images",
    "tensorboard": "track",
    "transformers": "hf",
    "gguf": "gguf",
    "sklearn": "compare",
    "optuna": "tune",
    "sacrebleu": "translate",
    "sentencex": "translate",
}


def is_installed(package: str) -> bool:
    """Whether a package can be imported. A broken installation counts as none."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def require_package(package: str, need: str) -> None:
    """Raise MissingExtraError, before any work starts, if a package is not installed. `need`: what needs it."""
    if not is_installed(package):
        raise MissingExtraError(need, EXTRA_OF_PACKAGE[package])


def installation_hint(package: str) -> str:
    return f"pip install 'qkv[{EXTRA_OF_PACKAGE[package]}]' adds it"
