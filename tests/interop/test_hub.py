"""Fetching from a hub: a server on this machine with Hugging Face's two routes, and all that goes wrong."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import qkv
from cli.commands import run
from interop import tiny_folder
from qkv.data.cache import PART_SUFFIX
from qkv.data.catalog import download_lock
from qkv.errors import InputError
from qkv.interop import hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """What the server has and how it behaves; every request is kept."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.asked: list[tuple[str, str | None, str | None]] = []  # path, Range, Authorization
        self.breaks: dict[str, int] = {}  # after so many bytes of a file the line goes dead, once
        self.status: int | None = None  # an answer for everything
        self.listing: Any = None  # another listing than that of the files
        self.ranges = True
        self.elsewhere = ""  # where the weights are sent for, as the hub does it

    def listed(self) -> Any:
        if self.listing is not None:
            return self.listing
        return {"sha": COMMIT, "siblings": [entry(name, data) for name, data in self.files.items()]}


def entry(name: str, data: bytes) -> dict[str, Any]:
    """As the hub lists a file: large ones by sha256, small ones as git names them."""
    found: dict[str, Any] = {"rfilename": name, "size": len(data)}
    if name.endswith(".safetensors"):
        return found | {"blobId": "0" * 40, "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
    return found | {"blobId": hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()}


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        self.hub.asked.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
        if self.hub.status:
            return self.send_error(self.hub.status)
        if self.path == "/api/models/org/tiny/revision/main?blobs=true":
            said = self.hub.listed()
            return self.answer(200, said if isinstance(said, bytes) else json.dumps(said).encode())
        name = self.path.removeprefix(f"/org/tiny/resolve/{COMMIT}/")
        if name not in self.hub.files:
            return self.send_error(404)
        if self.hub.elsewhere and name == "model.safetensors":
            self.send_response(302)
            self.send_header("Location", self.hub.elsewhere + self.path)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        data, start = self.hub.files[name], 0
        if self.hub.ranges and (asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")):
            start = int(asked[1])
        stop = self.hub.breaks.pop(name, None)
        return self.answer(206 if start else 200, data[start:], stop)

    def answer(self, code: int, data: bytes, stop: int | None = None) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:stop])
        if stop is not None:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *words: Any) -> None:
        pass


@contextmanager
def listening(made: Hub) -> Iterator[str]:
    """The address at which a hub answers."""
    served = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"hub": made}))
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{served.server_port}"
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    made = Hub(tiny_folder.files() | {"README.md": b"# tiny", "pytorch_model.bin": b"pickle", "evil.py": b"print()"})
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with listening(made) as address:
        monkeypatch.setenv("HF_ENDPOINT", address + "/")
        yield made


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_whole_model_is_fetched(server: Hub) -> None:
    """Only what is opened: no pickle, no program, no prose. A second time nothing but the list is asked for."""
    folder = hub.fetch("hf:org/tiny")
    assert held(folder) == tiny_folder.files()
    assert folder.name == COMMIT
    assert qkv.load(folder).parameters > 0
    names = [path.rpartition("/")[2] for path, *_ in server.asked[1:]]
    assert sorted(names) == sorted(tiny_folder.files())
    sizes = [len(server.files[name]) for name in names]
    assert sizes == sorted(sizes), "the smallest come first"
    server.asked.clear()
    assert hub.fetch("hf:org/tiny") == folder
    assert len(server.asked) == 1


def test_two_processes_do_not_share_an_unfinished_copy(server: Hub) -> None:
    folder = hub.fetch("hf:org/tiny")
    (folder / "config.json").unlink()
    with download_lock(folder / "config.json"), pytest.raises(InputError, match="another process is downloading"):
        hub.fetch("hf:org/tiny")
    assert held(hub.fetch("hf:org/tiny")) == tiny_folder.files()


def test_the_command(server: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["import", "hf:org/tiny", "--json"], False) == 0
    assert qkv.load(tmp_path / "models" / "org-tiny").bundle.source
    assert run(["import", "hf:org/tiny", "--json"], False) == 2  # it is there already


def test_a_broken_line_is_taken_up_where_it_broke(server: Hub) -> None:
    name, data = "model.safetensors", server.files["model.safetensors"]
    half = len(data) // 2
    server.breaks[name] = half
    with pytest.raises(InputError, match=f"interrupted after {half:,} of {len(data):,} bytes"):
        hub.fetch("hf:org/tiny")
    server.asked.clear()
    folder = hub.fetch("hf:org/tiny")
    asked = {path.rpartition("/")[2]: reach for path, reach, _ in server.asked}
    assert asked[name] == f"bytes={half}-"
    assert "tokenizer.json" not in asked, "what had come is not asked for again"
    assert held(folder) == tiny_folder.files()


def test_a_server_that_cannot_go_on_begins_anew(server: Hub) -> None:
    server.breaks["model.safetensors"] = 1000
    with pytest.raises(InputError, match="interrupted"):
        hub.fetch("hf:org/tiny")
    server.ranges = False
    assert held(hub.fetch("hf:org/tiny")) == tiny_folder.files()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_another_content_than_was_listed(server: Hub, name: str) -> None:
    """Of the same size, so that only the hash tells; nothing of it stays, and the right one comes the next time."""
    good = server.files[name]
    server.listing = server.listed()
    server.files[name] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(InputError, match="its hash differs"):
        hub.fetch("hf:org/tiny")
    left = [path.name for path in Path(hub.cache_folder("hub", "org", "tiny", COMMIT)).iterdir()]
    assert name not in left
    assert not [each for each in left if each.endswith(PART_SUFFIX)]
    server.files[name] = good
    assert held(hub.fetch("hf:org/tiny"))[name] == good


def test_a_file_altered_in_the_cache_comes_again(server: Hub) -> None:
    folder = hub.fetch("hf:org/tiny")
    weights = bytearray((folder / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (folder / "model.safetensors").write_bytes(weights)
    assert held(hub.fetch("hf:org/tiny")) == tiny_folder.files()


@pytest.mark.parametrize(("status", "words"), [(404, "404"), (401, "HF_TOKEN"), (403, "HF_TOKEN"), (500, "500")])
def test_the_hub_says_no(server: Hub, status: int, words: str) -> None:
    server.status = status
    with pytest.raises(InputError, match=words):
        hub.fetch("hf:org/tiny")


def test_a_file_that_is_listed_and_not_there(server: Hub) -> None:
    server.listing = server.listed()
    del server.files["tokenizer.json"]
    with pytest.raises(InputError, match="404"):
        hub.fetch("hf:org/tiny")


def test_a_key_goes_with_every_request(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.fetch("hf:org/tiny")
    assert {key for *_, key in server.asked} == {"Bearer hf_secret"}


def test_a_key_stays_with_the_server_that_was_asked(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub sends us on for its weights, to a store of another name, which must not learn the key."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    store = Hub(tiny_folder.files())
    with listening(store) as server.elsewhere:
        assert held(hub.fetch("hf:org/tiny")) == tiny_folder.files()
    assert [(path.rpartition("/")[2], key) for path, _, key in store.asked] == [("model.safetensors", None)]
    assert {key for *_, key in server.asked} == {"Bearer hf_secret"}


def test_a_server_that_speaks_another_language(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a line that ends in the middle of the list nor an answer that is no HTTP is a fault of ours."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        for answer in (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{", b""):

            def speak(answer: bytes = answer) -> None:
                line, _ = deaf.accept()
                with line:
                    line.recv(65536)
                    line.sendall(answer)

            thread = threading.Thread(target=speak)
            thread.start()
            with pytest.raises(InputError, match=r"cannot be reached|not JSON"):
                hub.fetch("hf:org/tiny")
            thread.join()


def with_entries(*more: Any, **changes: Any) -> dict[str, Any]:
    files = [entry(name, data) for name, data in tiny_folder.files().items()]
    return {"sha": COMMIT, "siblings": [*files, *more]} | changes


def only(name: str, **changes: Any) -> dict[str, Any]:
    """The good listing with one entry changed."""
    values = with_entries()
    for each in values["siblings"]:
        if each["rfilename"] == name:
            each.update(changes)
    return values


STRANGE: dict[str, tuple[Any, str]] = {
    "not JSON": (b"<html>", "not JSON"),
    "a list": ([], "not a list of files"),
    "nothing": ({}, "not a list of files"),
    "a commit that is a path": (with_entries(sha="../../../etc"), "not a list of files"),
    "a commit that is a number": (with_entries(sha=7), "not a list of files"),
    "files that are no list": (with_entries(siblings={"a": 1}), "not a list of files"),
    "no files": (with_entries(siblings=[]), "no model.safetensors and config.json"),
    "files that are words": (with_entries(siblings=["config.json", 7, None]), "no model.safetensors"),
    "no size": (only("model.safetensors", size=None), "does not say how large"),
    "a negative size": (only("config.json", size=-5), "does not say how large"),
    "a size that is a truth": (only("config.json", size=True), "does not say how large"),
    "a size in words": (only("config.json", size="12"), "does not say how large"),
    "deep": (b'{"a":' * 100_000, "not JSON"),
    "a huge number": (b'{"a": ' + b"9" * 10_000 + b"}", "not JSON"),
    "a smaller size than the file has": (only("model.safetensors", size=100), "hash differs"),
    "more than any disk": (only("model.safetensors", size=2**60), "bytes are needed"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_strange_lists(server: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    server.listing, words = STRANGE[name]
    assert run(["import", "hf:org/tiny", "--to", str(tmp_path / "to")], False) in (2, 4)
    said = capsys.readouterr().err
    assert re.search(words, said.replace("\n", " "))
    assert "bug in qkv" not in said
    assert not (tmp_path / "to").exists()


def test_names_that_are_paths_are_never_asked_for(server: Hub, tmp_path: Path) -> None:
    tricks = ["../../x", "/etc/passwd", "..", "a/config.json", "model-00001-of-00001.safetensors/../../../x", "x\0y"]
    tricks += ["../model-00001-of-00001.safetensors", "model-00001-of-00001.safetensors\n", "config.json/"]
    server.listing = with_entries(*(entry(name, b"evil") for name in tricks))
    folder = hub.fetch("hf:org/tiny")
    assert held(folder) == tiny_folder.files()
    assert not [path for path, *_ in server.asked if ".." in path or "passwd" in path]
    written = {path.name for path in (tmp_path / "cache").rglob("*") if path.is_file()}
    assert written - {".lock"} == set(tiny_folder.files())


@pytest.mark.parametrize(
    "address",
    ["hf:", "hf:org", "hf:org/", "hf:../tiny", "hf:org/../../x", "hf:org/tiny@../x", "hf:org/tiny?x=1", "hf:a b/c"],
)
def test_addresses_that_are_none(server: Hub, address: str) -> None:
    with pytest.raises(InputError, match="expected hf:org/name"):
        hub.fetch(address)
    assert server.asked == []


def test_without_a_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A port where nobody listens: what to do instead is said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert run(["import", "hf:org/tiny"], False) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "cannot be reached" in said
    assert "hf download org/tiny --local-dir MODEL" in said
    assert "qkv import MODEL" in said


@pytest.mark.parametrize("address", ["file:///etc", "ftp://127.0.0.1", "", "not an address"])
def test_a_hub_that_is_no_address(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    assert run(["import", "hf:org/tiny"], False) == 2
    assert "bug in qkv" not in capsys.readouterr().err
