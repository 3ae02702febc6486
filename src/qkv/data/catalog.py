"""The catalog: public data sets that can be named instead of a file. The facts are in catalog.toml.

A set is looked for in the folders of QKV_DATA, then in the cache, then fetched: continued where it broke off, put in
place at once. Its sha256 must always fit. Two sets need no file at all, because every Python carries them: python-docs
and python-stdlib.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import sysconfig
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse

from qkv.data.cache import PART_SUFFIX, REMEDY, cache_folder, root
from qkv.data.findings import Progress, no_progress
from qkv.errors import DataError, InputError
from qkv.storage import sha256, storage_errors, storage_remedy, try_lock


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
        folders = [Path(folder) for folder in os.environ.get("QKV_DATA", "").split(os.pathsep) if folder]
        places = [(folder / self.path, self.sha256) for folder in folders]
        for path, expected in [*places, (download_path(self), self.original_sha256 or self.sha256)]:
            if path.is_file():
                _require_sum(path, expected)
                return path
        return None

    def obtain(self, progress: Progress = no_progress) -> Path:
        """The file, fetched if it is not at hand."""
        return self.locate() or fetch(self, progress)


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
    def files(self) -> tuple[CatalogFile, ...]:
        return self.train + self.valid

    @property
    def builtin(self) -> bool:
        return self.name in BUILTIN

    @property
    def bytes(self) -> int | None:
        return None if self.builtin else sum(file.bytes for file in self.files)

    def at_hand(self) -> bool:
        return self.builtin or all(file.locate() is not None for file in self.files)


@cache
def sets() -> dict[str, CatalogSet]:
    """All named sets by their names."""
    text = resources.files("qkv.data").joinpath("catalog.toml").read_text(encoding="utf-8")
    sets: dict[str, CatalogSet] = {}
    for entry in tomllib.loads(text)["set"]:
        files = {split: tuple(CatalogFile(**file) for file in entry.get(split, ())) for split in ("train", "valid")}
        sets[entry["name"]] = CatalogSet(**{**entry, **files})
    return sets


def find(name: str) -> CatalogSet | None:
    return sets().get(name)


def _require_sum(path: Path, expected: str) -> None:
    try:
        digest = sha256(path)
    except OSError as error:
        raise DataError(str(path), f"cannot be read: {error.strerror}", "Check its permissions.") from None
    if digest != expected:
        problem = f"is not the published file (sha256 {digest[:12]}..., expected {expected[:12]}...)"
        raise DataError(str(path), problem, "Remove it, or name your own copy by its path.")


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


BUILTIN = {"python-docs": _python_docs, "python-stdlib": _python_stdlib}


CHUNK = 2**18
TIMEOUT_SECONDS = 30
OFFLINE = (
    "Without a network: put the file below a folder, in the layout `qkv data list --json` shows, and set QKV_DATA "
    "to that folder; python-docs and python-stdlib need no network."
)
UNREACHABLE = (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException)


class _KeyStaysHome(urllib.request.HTTPRedirectHandler):
    """A key is for the server that was asked, not for the one that it sends us on to."""

    def redirect_request(self, request: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        sent = super().redirect_request(request, *rest)
        if sent and urlparse(sent.full_url)[:2] != urlparse(request.full_url)[:2]:
            sent.remove_header("Authorization")
        return sent


def open_url(address: str, headers: Mapping[str, str]) -> Any:
    """The answer of a server, to be read."""
    request = urllib.request.Request(address, headers={"User-Agent": "qkv", **headers})
    return urllib.request.build_opener(_KeyStaysHome).open(request, timeout=TIMEOUT_SECONDS)


def download_path(file: CatalogFile) -> Path:
    """Where a fetched file is kept: under the name of the original, which may not be packed as our own copy is."""
    path = PurePosixPath(file.path)
    name = PurePosixPath(urlparse(file.address).path).name if file.address else path.name
    return root() / "sets" / path.parent / name


def fetch(file: CatalogFile, progress: Progress = no_progress) -> Path:
    """Download a file into the cache and return its place."""
    if file.address is None:
        raise InputError(
            f"{file.path}: not at hand, and there is no single address to fetch it from. Put it below a folder and set "
            "QKV_DATA to that folder; `qkv data list` names its source."
        )
    final = download_path(file)
    cache_folder("sets", *PurePosixPath(file.path).parent.parts)
    part = final.with_name(final.name + PART_SUFFIX)
    size = file.original_bytes or file.bytes
    with download_lock(final), storage_remedy(REMEDY), storage_errors(final, size):
        download(file.address, part, size, progress, OFFLINE)
        if sha256(part) != (file.original_sha256 or file.sha256):
            part.unlink()
            raise InputError(
                f"{file.address}: what came is not the expected file (its sha256 differs). Try again; if it stays so, "
                "the original has changed: get it by hand and name it by its path."
            )
        os.replace(part, final)
    return final


@contextmanager
def download_lock(final: Path) -> Iterator[None]:
    """One process at a time brings a file: two would write into one unfinished copy of it."""
    name = hashlib.sha256(os.fsencode(final.absolute())).hexdigest()[:32]
    with try_lock(cache_folder("locks", name)) as held:
        if not held:
            raise InputError(f"{final}: another process is fetching this file. Wait for it, then try again.")
        yield


def download(
    address: str, part: Path, size: int, progress: Progress, offline: str, headers: Mapping[str, str] | None = None
) -> None:
    """Bring `part` to `size` bytes, from where it is; `offline` is what to do where there is no network."""
    done = part.stat().st_size if part.exists() else 0
    if done > size:
        part.unlink()
        done = 0
    if done == size:
        return
    reach = {"Range": f"bytes={done}-"} if done else {}
    try:
        with open_url(address, {**(headers or {}), **reach}) as answer:
            continued = getattr(answer, "status", 200) == 206
            done = done if continued else 0
            promised = done + int(answer.headers.get("Content-Length") or 0)
            with part.open("ab" if continued else "wb") as file:
                # one byte more than expected is enough to see that the file is another
                while done <= size and (chunk := answer.read(min(CHUNK, size - done + 1))):
                    file.write(chunk)
                    done += len(chunk)
                    progress(f"fetching {part.stem}", done, size)
                file.flush()
                os.fsync(file.fileno())
        if done < min(promised, size):
            raise InputError(
                f"{address}: broke off after {done:,} of {size:,} bytes. Try again: it goes on from there."
            )
    except urllib.error.HTTPError as error:
        raise InputError(f"{address}: the server answers {error.code} {error.reason}. {offline}") from None
    except UNREACHABLE as error:
        raise InputError(f"{address}: cannot be fetched ({getattr(error, 'reason', error)}). {offline}") from None
