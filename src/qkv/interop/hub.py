"""Downloads a model from the Hugging Face hub. A broken download is continued, and every file is checked by its hash.

    hf:org/name          the newest version
    hf:org/name@v1.0     a branch, a tag or a commit

The environment variables are those of Hugging Face: HF_ENDPOINT is the address of another hub, HF_TOKEN a key for
closed models. Only files that qkv reads are downloaded, and no pickles or programs.
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.error
from pathlib import Path
from typing import Any

from qkv.data.cache import PART_SUFFIX, REMEDY, cache_folder
from qkv.data.catalog import UNREACHABLE, download, download_lock, open_url
from qkv.data.findings import Progress, no_progress
from qkv.errors import InputError
from qkv.interop.huggingface import INDEX, WEIGHTS
from qkv.safe_json import parse_bounded_json
from qkv.storage import sha256, storage_errors, storage_remedy

NAME = re.compile(
    r"hf:(?P<name>[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95})(?:@(?P<revision>[\w./-]{1,100}))?", re.A
)
WANTED = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "vocab.json", "merges.txt", "vocab.txt", "source.spm", "target.spm",
)  # fmt: skip
SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
LARGEST_LIST = 2**24


def is_address(source: str) -> bool:
    return source.startswith("hf:")


def fetch(source: str, progress: Progress = no_progress) -> Path:
    """Download the model's files into the cache, and return their folder."""
    match = NAME.fullmatch(source)
    if not match or ".." in source:
        raise InputError(f"{source}: expected hf:org/name, or hf:org/name@revision, in ASCII letters, digits and ._-")
    name, revision = match["name"], match["revision"] or "main"
    hub = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    without = re.sub(r"//[^/]*@", "//***@", hub)  # the address without a password, for messages
    if not re.fullmatch(r"https?://[!-.0-~]+(/[!-~]*)?", hub):
        raise InputError(f"HF_ENDPOINT = {without!a}: expected the address of a hub, as https://huggingface.co.")
    if without != hub:
        raise InputError(f"HF_ENDPOINT = {without}: a user or a password is not sent. Leave it out, and set HF_TOKEN.")
    offline = (
        f"Without a network: get the model where there is one (`hf download {name} --local-dir MODEL`), copy the "
        "folder here and name it: qkv import MODEL"
    )
    listed = _list(f"{hub}/api/models/{name}/revision/{revision}?blobs=true", offline)
    commit, files = listed.get("sha"), listed.get("siblings")
    if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit) or not isinstance(files, list):
        raise InputError(f"{hub}: the answer about {name} is not a list of files. Check the name.")
    folder = cache_folder("hub", *name.split("/"), commit)
    for entry in _chosen(files, name):
        _one(
            f"{hub}/{name}/resolve/{commit}/{entry['rfilename']}", folder / entry["rfilename"], entry, progress, offline
        )
    return folder


def _list(address: str, offline: str) -> dict[str, Any]:
    try:
        with open_url(address, _key()) as answer:
            body = answer.read(LARGEST_LIST)
    except urllib.error.HTTPError as error:
        closed = " It may be closed: set HF_TOKEN." if error.code in (401, 403) else ""
        raise InputError(f"{address}: the hub answers {error.code} {error.reason}.{closed} Check the name.") from None
    except UNREACHABLE as error:
        raise InputError(f"{address}: cannot be reached ({getattr(error, 'reason', error)}). {offline}") from None
    except ValueError as error:  # such as a port that is not a number
        raise InputError(f"{address}: not an address ({error}). Check HF_ENDPOINT.") from None
    try:
        values = parse_bounded_json(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{address}: the answer is not JSON. Check HF_ENDPOINT.") from None
    return values if isinstance(values, dict) else {}


def _key() -> dict[str, str]:
    key = os.environ.get("HF_TOKEN", "").strip()
    if not re.fullmatch(r"[!-~]*", key):
        raise InputError("HF_TOKEN: it has spaces or characters that no key has. Copy it again, or unset it.")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _chosen(files: list[Any], name: str) -> list[dict[str, Any]]:
    """The files that are needed, the smallest first, so that an unsupported model is refused before its weights
    come."""
    there = {e["rfilename"]: e for e in files if isinstance(e, dict) and isinstance(e.get("rfilename"), str)}
    weights = [WEIGHTS] if WEIGHTS in there else [file for file in there if file == INDEX or SHARD.fullmatch(file)]
    if not weights or "config.json" not in there:
        raise InputError(
            f"hf:{name}: no {WEIGHTS} and config.json there; {len(there):,} other files. Only models kept as "
            "safetensors are fetched; a GGUF file can be fetched by hand and named."
        )
    chosen = [there[file] for file in (*WANTED, *weights) if file in there]
    for entry in chosen:
        if type(entry.get("size")) is not int or entry["size"] < 0:
            raise InputError(f"hf:{name}: the hub does not say how large {entry['rfilename']} is. Fetch it by hand.")
    return sorted(chosen, key=lambda entry: entry["size"])


def _one(address: str, final: Path, entry: dict[str, Any], progress: Progress, offline: str) -> None:
    size = entry["size"]
    if final.is_file() and final.stat().st_size == size and _has_listed_hash(final, entry):
        return
    part = final.with_name(final.name + PART_SUFFIX)
    with download_lock(final), storage_remedy(REMEDY), storage_errors(final, size):
        download(address, part, size, progress, offline, _key())
        if not _has_listed_hash(part, entry):
            part.unlink()
            raise InputError(f"{address}: this is not the file that the hub lists (its hash differs). Try again.")
        os.replace(part, final)


def _has_listed_hash(path: Path, entry: dict[str, Any]) -> bool:
    """Whether a file has the hash that the hub lists: the sha256 of large files, git's blob hash of small ones."""
    lfs = entry.get("lfs")
    if isinstance(lfs, dict) and isinstance(lfs.get("sha256"), str):
        return sha256(path) == lfs["sha256"]
    if not isinstance(entry.get("blobId"), str):
        return path.stat().st_size == entry["size"]
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == entry["blobId"]
