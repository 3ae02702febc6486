"""Python files of one's own: a model, a tokenizer, metrics, a reader of data.

A file is executed because the user names it (`--model mingru.py`), or because an installed package announces it (an
entry point of the group `qkv.models`, `qkv.tokenizers`, `qkv.metrics` or `qkv.readers`). Runs and models keep the name
and the sha256 of the file, never its code: nothing in a folder is executed, and another version of the file is refused.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

from qkv.errors import InputError, RefusedError


@dataclass(frozen=True)
class OwnFile:
    """A file that was executed, or the source of an object that exists already."""

    file: str
    sha256: str
    module: ModuleType | None = None

    @property
    def name(self) -> str:
        return Path(self.file).name

    @property
    def values(self) -> dict[str, str]:
        """As a folder keeps it."""
        return {"file": self.name, "sha256": self.sha256}


class _FileLoader(SourceLoader):
    """Loads the very bytes that were hashed."""

    def __init__(self, name: str, file: str, content: bytes) -> None:
        self.name, self.file, self.content = name, file, content

    def get_filename(self, fullname: str) -> str:
        return self.file

    def get_data(self, path: bytes | str) -> bytes:
        return self.content


def execute(name: str | Path, holds: str) -> OwnFile:
    """Execute a file of the user's, once for each content; `holds` says what it is expected to define."""
    file = Path(name)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}). Expected a Python file with {holds}.") from None
    digest = hashlib.sha256(content).hexdigest()
    module_name = f"qkv_own_{digest[:16]}"
    if module_name not in sys.modules:
        loader = _FileLoader(module_name, str(file), content)
        spec = spec_from_loader(module_name, loader)
        assert spec is not None
        sys.modules[module_name] = module = module_from_spec(spec)  # dataclasses and type hints look it up there
        try:
            loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise InputError(f"{file}: {type(error).__name__} while it was read: {error}") from error
    return OwnFile(str(file), digest, sys.modules[module_name])


NAMED: dict[str, str] = {}
"""The files that the present command names, by option. Commands that qkv prints name them again."""


def named_again(*options: str) -> list[str]:
    """The words that name these files in another command; by default those of all options."""
    return [word for option in options or NAMED for word in ((option, NAMED[option]) if option in NAMED else ())]


def source_of(definition: type | Callable[..., object]) -> OwnFile:
    """The file of a class or a function that was made in Python."""
    try:
        file = inspect.getsourcefile(definition)
        source = Path(file).read_bytes() if file and Path(file).is_file() else inspect.getsource(definition).encode()
    except (OSError, TypeError):  # typed into an interpreter
        file, source = None, repr(definition.__qualname__).encode()
    return OwnFile(file or definition.__name__, hashlib.sha256(source).hexdigest())


def load_plugin(group: str, name: str) -> object | None:
    """What an installed package announces under a name; None where none does."""
    for point in metadata.entry_points(group=group, name=name):
        return point.load()
    return None


def require_record(saved: object, where: str) -> tuple[str, str]:
    """Name and sha256 as a folder keeps them."""
    if isinstance(saved, dict) and all(isinstance(saved.get(key), str) for key in ("file", "sha256")):
        return saved["file"], saved["sha256"]
    raise RefusedError(f"{where}: expected the file's name and its sha256, as in {{file = ..., sha256 = ...}}.")


def require_same(known: OwnFile | None, saved: object, where: str, what: str, option: str) -> None:
    """See that the file that something was made with is loaded, and that it is the same."""
    file, digest = require_record(saved, where)
    if known is None:
        raise InputError(
            f"{where}: {what} of {file} (sha256 {digest[:12]}), which is not part of qkv and is not in this folder. "
            f"Name the file again: --{option} {file}"
        )
    if known.sha256 != digest:
        raise RefusedError(
            f"{where}: made with another version of {file}: sha256 {digest[:12]}, and that of {known.file} is "
            f"{known.sha256[:12]}. Use the file as it was."
        )
