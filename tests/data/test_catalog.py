"""Named data sets: the facts, the folders of QKV_DATA, fetching with resume and checksum, and no network."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from data_at_hand import folder, real
from qkv.data import catalog
from qkv.data.catalog import CatalogFile, CatalogSet
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare, stream
from qkv.data.text_files import catalog_text_sources
from qkv.errors import DataError, InputError
from qkv.text.tokenizer import TokenizerConfig

CONTENT = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("QKV_DATA", raising=False)
    return tmp_path / "cache"


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT; breaks off once when asked to, understands Range or not."""

    asked: list[str | None] = []  # noqa: RUF012
    breaks = False
    ranges = True

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if self.path != "/set.bin":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        body = CONTENT[start:]
        if self.breaks and not wanted:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Server, "asked", [])
    monkeypatch.setattr(Server, "breaks", False)
    monkeypatch.setattr(Server, "ranges", True)
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{served.server_address[1]}/set.bin"
        served.shutdown()
        thread.join()


def entry(address: str | None, content: bytes = CONTENT) -> CatalogFile:
    return CatalogFile("sets/set.bin", len(content), hashlib.sha256(content).hexdigest(), address)


def test_fetch_once(server: str, own_cache: Path) -> None:
    file = entry(server)
    assert file.locate() is None
    path = file.obtain()
    assert path.read_bytes() == CONTENT
    assert path == own_cache / "sets" / "sets" / "set.bin"
    assert file.obtain() == path
    assert len(Server.asked) == 1
    assert [each.name for each in path.parent.iterdir()] == ["set.bin"]


def test_two_processes_do_not_share_an_unfinished_copy(server: str) -> None:
    file = entry(server)
    with (
        catalog.download_lock(catalog.download_path(file)),
        pytest.raises(InputError, match="another process is downloading"),
    ):
        file.obtain()
    assert not Server.asked
    assert file.obtain().read_bytes() == CONTENT


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_download_goes_on(server: str, monkeypatch: pytest.MonkeyPatch, ranges: bool) -> None:
    monkeypatch.setattr(Server, "breaks", True)
    monkeypatch.setattr(Server, "ranges", ranges)
    file = entry(server)
    with pytest.raises(InputError, match="interrupted"):
        file.obtain()
    assert file.obtain().read_bytes() == CONTENT
    assert Server.asked == [None, f"bytes={len(CONTENT) // 2}-"]


def test_another_file_than_expected(server: str, own_cache: Path) -> None:
    with pytest.raises(InputError, match="sha256 differs"):
        entry(server, CONTENT[::-1]).obtain()
    with pytest.raises(InputError, match="sha256 differs"):
        entry(server, CONTENT[:1000]).obtain()
    assert not [path for path in own_cache.rglob("*") if path.is_file() and path.name != ".lock"]


def test_a_download_says_how_far_it_is(server: str) -> None:
    said: list[tuple[str, int, int | None]] = []
    entry(server).obtain(lambda *progress: said.append(progress))
    assert said[-1] == ("fetching set.bin", len(CONTENT), len(CONTENT))


def test_a_set_that_is_fetched_for_training_says_so(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = CatalogSet("a-set", "a text", "language modelling", "free", "here", (entry(server),))
    monkeypatch.setattr("qkv.data.catalog.find", lambda name: found if name == "a-set" else None)
    stages: list[str] = []
    with pytest.raises(DataError):  # it holds no text
        prepare(
            CorpusConfig(files=("a-set",)),
            TokenizerConfig(kind="characters"),
            progress=lambda stage, done, total: stages.append(stage),
        )
    assert stages[0] == "fetching set.bin"


def test_from_a_file_address(tmp_path: Path) -> None:
    (tmp_path / "original").write_bytes(CONTENT)
    assert entry((tmp_path / "original").as_uri()).obtain().read_bytes() == CONTENT


def test_without_a_network(server: str) -> None:
    with pytest.raises(InputError, match="Without a network"):
        entry("http://127.0.0.1:9/set.bin").obtain()
    with pytest.raises(InputError, match="404"):
        entry(server.replace("set.bin", "gone.bin")).obtain()
    with pytest.raises(InputError, match="no single address"):
        entry(None).obtain()


def test_folders_of_the_user_come_first(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine" / "sets").mkdir(parents=True)
    (tmp_path / "mine" / "sets" / "set.bin").write_bytes(CONTENT)
    monkeypatch.setenv("QKV_DATA", f"/nowhere:{tmp_path / 'mine'}")
    assert entry(server).obtain() == tmp_path / "mine" / "sets" / "set.bin"
    assert not Server.asked
    (tmp_path / "mine" / "sets" / "set.bin").write_bytes(b"altered")
    with pytest.raises(DataError, match="not the published file"):
        entry(server).obtain()


def test_every_set_has_its_facts() -> None:
    sets = catalog.sets().values()
    assert {"python-docs", "python-stdlib", "tinyshakespeare", "names", "sotu", "tinystories"} <= set(catalog.sets())
    for each in sets:
        assert each.what
        assert each.terms
        assert each.source
        assert each.task
        assert each.builtin or each.train
        for file in (*each.train, *each.valid):
            assert len(file.sha256) == 64
            assert file.bytes > 0
            assert file.address is None or file.address.startswith("https://")


def test_the_facts_are_those_of_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    real("SHA256SUMS")
    monkeypatch.setenv("QKV_DATA", str(folder()))
    for each in catalog.sets().values():
        assert each.at_hand(), each.name
        for file in (*each.train, *each.valid):
            found = file.locate()
            assert found is not None
            assert found.stat().st_size == file.bytes


def test_a_packed_copy_is_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    for each in catalog.sets().values():
        for file in (*each.train, *each.valid):
            if file.original_sha256:
                content = gzip.decompress(real(file.path).read_bytes())
                assert hashlib.sha256(content).hexdigest() == file.original_sha256
                assert len(content) == file.original_bytes
                assert catalog.download_path(file).suffix != ".gz"


def test_what_every_python_has() -> None:
    for name, least in (("python-docs", 300_000), ("python-stdlib", 3_000_000)):
        found = catalog.find(name)
        assert found is not None
        (source,) = catalog_text_sources(found)
        texts = list(source.documents())  # type: ignore[union-attr]
        assert sum(map(len, texts)) > least
        assert texts == list(source.documents())  # type: ignore[union-attr]


def test_a_set_with_its_own_validation_text(monkeypatch: pytest.MonkeyPatch) -> None:
    real("wikitext-2/test.txt.gz")
    monkeypatch.setenv("QKV_DATA", str(folder()))
    prepared = prepare(CorpusConfig(files=("wikitext-2",)), TokenizerConfig(kind="characters"))
    assert (prepared.train.bytes, prepared.valid.bytes) == (1_121_681, 1_256_449)
    assert prepared.corpus.valid == ()  # no path of this machine goes into a recipe
    found, notes = stream(prepared.tokenizer, CorpusConfig(files=("wikitext-2",)))
    assert found.bytes == 1_121_681
    assert not any("validated on" in note for note in notes)


def test_sets_for_other_tasks_are_refused() -> None:
    found = catalog.find("sst2")
    assert found is not None
    with pytest.raises(DataError, match="classification"):
        catalog_text_sources(found)
