"""Fetching a file of the catalog: continued where it broke off, checked by its sha256, put in place at once."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from qkv.data.cachefolder import PART, REMEDY, cache_folder, root
from qkv.data.progress import Progress, silent
from qkv.errors import InputError
from qkv.storage import advised, locked, sha256, writing

if TYPE_CHECKING:
    from qkv.data.catalog import CatalogFile

CHUNK = 2**18
TIMEOUT_SECONDS = 30


UNREACHABLE = (urllib.error.URLError, TimeoutError, ConnectionError, http.client.HTTPException)


class _KeyStaysHome(urllib.request.HTTPRedirectHandler):
    """A key is for the server that was asked, not for the one that it sends us on to."""

    def redirect_request(self, request: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        sent = super().redirect_request(request, *rest)
        if sent and urlparse(sent.full_url)[:2] != urlparse(request.full_url)[:2]:
            sent.remove_header("Authorization")
        return sent


def opened(address: str, headers: Mapping[str, str]) -> Any:
    """The answer of a server, to be read."""
    request = urllib.request.Request(address, headers={"User-Agent": "qkv", **headers})
    return urllib.request.build_opener(_KeyStaysHome).open(request, timeout=TIMEOUT_SECONDS)


def fetched(file: CatalogFile) -> Path:
    """Where a fetched file is kept: under the name of the original, which may not be packed as our own copy is."""
    path = PurePosixPath(file.path)
    name = PurePosixPath(urlparse(file.address).path).name if file.address else path.name
    return root() / "sets" / path.parent / name


def fetch(file: CatalogFile, progress: Progress = silent) -> Path:
    """Download a file into the cache and return its place."""
    if file.address is None:
        raise InputError(
            f"{file.path}: not at hand, and there is no single address to fetch it from. Put it below a folder and set "
            "QKV_DATA to that folder; `qkv data list` names its source."
        )
    final = fetched(file)
    cache_folder("sets", *PurePosixPath(file.path).parent.parts)
    part = final.with_name(final.name + PART)
    size = file.original_bytes or file.bytes
    with fetching(final), advised(REMEDY), writing(final, size):
        download(file.address, part, size, progress, _offline())
        if sha256(part) != (file.original_sha256 or file.sha256):
            part.unlink()
            raise InputError(
                f"{file.address}: what came is not the expected file (its sha256 differs). Try again; if it stays so, "
                "the original has changed: get it by hand and name it by its path."
            )
        os.replace(part, final)
    return final


@contextmanager
def fetching(final: Path) -> Iterator[None]:
    """One process at a time brings a file: two would write into one unfinished copy of it."""
    name = hashlib.sha256(os.fsencode(final.absolute())).hexdigest()[:32]
    with locked(cache_folder("locks", name)) as held:
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
        with opened(address, {**(headers or {}), **reach}) as answer:
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
        reason = getattr(error, "reason", error)
        raise InputError(f"{address}: cannot be fetched ({reason}). {offline}") from None


def _offline() -> str:
    return (
        "Without a network: put the file below a folder, in the layout `qkv data list --json` shows, and set QKV_DATA "
        "to that folder; python-docs and python-stdlib need no network."
    )
