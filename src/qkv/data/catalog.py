"""The catalog: public data sets that can be given by name instead of a file. They are listed in catalog.toml.

A set is searched in the folders of QKV_DATA, then in the cache; else it is downloaded, from where an earlier download
was interrupted. Its sha256 is always checked. Two sets need no files, because they come with Python: python-docs and
python-stdlib.
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
    """Its path in a folder of QKV_DATA."""
    bytes: int
    sha256: str
    address: str | None = None
    original_bytes: int | None = None
    """Size and hash of the download, if the copy in QKV_DATA is compressed differently."""
    original_sha256: str | None = None

    def locate(self) -> Path | None:
        """The local copy of the file, after checking its hash; None if there is none."""
        folders = [Path(folder) for folder in os.environ.get("QKV_DATA", "").split(os.pathsep) if folder]
        candidates = [(folder / self.path, self.sha256) for folder in folders]
        for path, expected in [*candidates, (download_path(self), self.original_sha256 or self.sha256)]:
            if path.is_file():
                _require_hash(path, expected)
                return path
        return None

    def obtain(self, progress: Progress = no_progress) -> Path:
        """The local copy of the file, downloaded if there is none."""
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


def _require_hash(path: Path, expected: str) -> None:
    try:
        digest = sha256(path)
    except OSError as error:
        raise DataError(str(path), f"cannot be read: {error.strerror}", "Check its permissions.") from None
    if digest != expected:
        problem = f"is not the published file (sha256 {digest[:12]}..., expected {expected[:12]}...)"
        raise DataError(str(path), problem, "Remove it, or give your own copy by its path.")


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
            continue  # not UTF-8, or just deleted; the other files are enough


BUILTIN = {"python-docs": _python_docs, "python-stdlib": _python_stdlib}


CHUNK = 2**18
TIMEOUT_SECONDS = 30
OFFLINE = (
    "Without a network: put the file into a folder, under the path that `qkv data list --json` shows, and set QKV_DATA "
    "to that folder; python-docs and python-stdlib need no network."
)
UNREACHABLE = (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException)


class _KeepsKeyFromOtherHosts(urllib.request.HTTPRedirectHandler):
    """Removes an access key from a request that is redirected to another server."""

    def redirect_request(self, request: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        redirected = super().redirect_request(request, *rest)
        if redirected and urlparse(redirected.full_url)[:2] != urlparse(request.full_url)[:2]:
            redirected.remove_header("Authorization")
        return redirected


def open_url(address: str, headers: Mapping[str, str]) -> Any:
    """Open a URL; return the response of the server."""
    request = urllib.request.Request(address, headers={"User-Agent": "qkv", **headers})
    return urllib.request.build_opener(_KeepsKeyFromOtherHosts).open(request, timeout=TIMEOUT_SECONDS)


def download_path(file: CatalogFile) -> Path:
    """Where a downloaded file is kept: under its original name, because the copy in QKV_DATA may be compressed."""
    path = PurePosixPath(file.path)
    name = PurePosixPath(urlparse(file.address).path).name if file.address else path.name
    return root() / "sets" / path.parent / name


def fetch(file: CatalogFile, progress: Progress = no_progress) -> Path:
    """Download a file into the cache and return its path."""
    if file.address is None:
        raise InputError(
            f"{file.path}: no local copy, and no single address to download it from. Put it into a folder and set "
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
                f"{file.address}: the download is not the expected file (its sha256 differs). Try again; "
                "if that fails, the original has changed: download it yourself and give its path."
            )
        os.replace(part, final)
    return final


@contextmanager
def download_lock(final: Path) -> Iterator[None]:
    """Let only one process at a time download a file: two would write to the same unfinished copy."""
    name = hashlib.sha256(os.fsencode(final.absolute())).hexdigest()[:32]
    with try_lock(cache_folder("locks", name)) as held:
        if not held:
            raise InputError(f"{final}: another process is downloading this file. Wait for it, then try again.")
        yield


def download(
    address: str, part: Path, size: int, progress: Progress, offline: str, headers: Mapping[str, str] | None = None
) -> None:
    """Download the rest of `part`, up to `size` bytes; `offline` is the remedy for a missing network."""
    done = part.stat().st_size if part.exists() else 0
    if done > size:
        part.unlink()
        done = 0
    if done == size:
        return
    resume_header = {"Range": f"bytes={done}-"} if done else {}
    try:
        with open_url(address, {**(headers or {}), **resume_header}) as response:
            continued = getattr(response, "status", 200) == 206
            done = done if continued else 0
            promised = done + int(response.headers.get("Content-Length") or 0)
            with part.open("ab" if continued else "wb") as file:
                # one byte more than expected shows that it is a different file
                while done <= size and (chunk := response.read(min(CHUNK, size - done + 1))):
                    file.write(chunk)
                    done += len(chunk)
                    progress(f"fetching {part.stem}", done, size)
                file.flush()
                os.fsync(file.fileno())
        if done < min(promised, size):
            raise InputError(
                f"{address}: interrupted after {done:,} of {size:,} bytes. Try again: it continues from there."
            )
    except urllib.error.HTTPError as error:
        raise InputError(f"{address}: the server replied {error.code} {error.reason}. {offline}") from None
    except UNREACHABLE as error:
        raise InputError(f"{address}: cannot be downloaded ({getattr(error, 'reason', error)}). {offline}") from None
