"""The catalog: public data sets that can be named instead of a file. The facts are in catalog.toml.

A set is looked for in the folders of QKV_DATA, then in the cache, then fetched; its sha256 must always fit.
Two sets need no file at all, because every Python carries them: python-docs and python-stdlib.
"""

from __future__ import annotations

import os
import sysconfig
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from qkv.data.corpus import CorpusConfig
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Findings
from qkv.data.progress import Progress, silent
from qkv.errors import DataError
from qkv.storage import sha256


@dataclass(frozen=True)
class CatalogFile:
    path: str
    """Below a folder of QKV_DATA."""
    bytes: int
    sha256: str
    address: str | None = None
    original_bytes: int | None = None
    """Size and hash of what the address gives, where our copy is packed."""
    original_sha256: str | None = None

    def locate(self) -> Path | None:
        """The file as it is at hand, checked, or None."""
        for folder in data_folders():
            path = folder / self.path
            if path.is_file():
                _require_sum(path, self.sha256)
                return path
        from qkv.data.download import fetched

        path = fetched(self)
        if path.is_file():
            _require_sum(path, self.original_sha256 or self.sha256)
            return path
        return None

    def obtain(self, progress: Progress = silent) -> Path:
        """The file, fetched if it is not at hand."""
        found = self.locate()
        if found is None:
            from qkv.data.download import fetch

            found = fetch(self, progress)
        return found


@dataclass(frozen=True)
class CatalogSet:
    name: str
    what: str
    task: str
    terms: str
    source: str
    train: tuple[CatalogFile, ...] = ()
    valid: tuple[CatalogFile, ...] = ()

    @property
    def builtin(self) -> bool:
        return self.name in _BUILTIN

    @property
    def bytes(self) -> int | None:
        return None if self.builtin else sum(file.bytes for file in (*self.train, *self.valid))

    def at_hand(self) -> bool:
        return self.builtin or all(file.locate() is not None for file in (*self.train, *self.valid))

    def sources(self, progress: Progress = silent) -> list[Source | Builtin]:
        """What to read for a language model."""
        if self.builtin:
            return [Builtin(self.name, _BUILTIN[self.name])]
        if self.task != "language modelling":
            raise DataError(
                self.name, f"is a set for {self.task}, no text to go on with", "`qkv data list` names sets of text."
            )
        return [source for file in self.train for source in _sources(file.obtain(progress))]


def _sources(path: Path) -> list[Source]:
    from qkv.data.files.discover import found_in

    return found_in(path)


@cache
def _sets() -> dict[str, CatalogSet]:
    text = resources.files("qkv.data").joinpath("catalog.toml").read_text(encoding="utf-8")
    return {entry["name"]: _set(entry) for entry in tomllib.loads(text)["set"]}


def _set(entry: dict[str, Any]) -> CatalogSet:
    files = {role: tuple(CatalogFile(**file) for file in entry.get(role, ())) for role in ("train", "valid")}
    return CatalogSet(**{**entry, **files})


def every() -> list[CatalogSet]:
    return list(_sets().values())


def names() -> list[str]:
    return list(_sets())


def find(name: str) -> CatalogSet | None:
    return _sets().get(name)


def data_folders() -> list[Path]:
    return [Path(folder) for folder in os.environ.get("QKV_DATA", "").split(os.pathsep) if folder]


def own_validation(corpus: CorpusConfig, findings: Findings, progress: Progress = silent) -> list[Source]:
    """A set that brings its own validation file is validated on it, unless the user says otherwise."""
    if len(corpus.files) != 1 or corpus.valid or os.path.lexists(corpus.files[0]):
        return []
    found = find(corpus.files[0])
    if found is None or not found.valid or found.task != "language modelling":
        return []
    findings.say(f"{found.name}: validated on its own {', '.join(file.path for file in found.valid)}.")
    return [source for file in found.valid for source in _sources(file.obtain(progress))]


def _require_sum(path: Path, expected: str) -> None:
    try:
        found = sha256(path)
    except OSError as error:
        raise DataError(str(path), f"cannot be read: {error.strerror}", "Check its permissions.") from None
    if found != expected:
        raise DataError(
            str(path),
            f"is not the published file (sha256 {found[:12]}..., expected {expected[:12]}...)",
            "Remove it, or name your own copy by its path.",
        )


def _python_docs() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        problem = "this Python was installed without pydoc's topics"
        raise DataError("python-docs", problem, "Use python-stdlib, or a text of your own.") from None
    for name in sorted(topics):
        yield topics[name]


def _python_stdlib() -> Iterator[str]:
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.glob("*.py")):
        try:
            yield path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # another encoding, or gone: the rest is enough


_BUILTIN = {"python-docs": _python_docs, "python-stdlib": _python_stdlib}
