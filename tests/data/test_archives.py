"""Archives: every kind is read in place, nothing in it leads out of it, and what is damaged is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.data.corpus import CorpusConfig
from qkv.data.files.discover import list_files
from qkv.data.findings import Findings
from qkv.data.formats.text import read_documents
from qkv.data.text_files import find_text_files
from qkv.errors import DataError

FILES = {"set/one.txt": b"the first text\n", "set/two.txt": b"the second text\n", "set/README": b"about it\n"}
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": lambda content: gzip.compress(content, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


def tar(files: dict[str, bytes] = FILES, *more: tarfile.TarInfo) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in more:
            archive.addfile(member)
    return output.getvalue()


def zipped(files: dict[str, bytes] = FILES) -> bytes:
    output = io.BytesIO()
    with zipfile.ZipFile(output, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return output.getvalue()


def documents(path: Path, findings: Findings | None = None, pattern: str | None = None) -> list[str]:
    corpus, findings = CorpusConfig(files=(str(path),)), findings or Findings()
    pieces = read_documents(find_text_files(corpus.files, pattern, findings), corpus, findings)
    return [piece.text for piece in pieces if piece.text]


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tbz2", "a.tar.xz", "a.txz"])
def test_every_kind_of_archive(tmp_path: Path, name: str) -> None:
    compression = {"tgz": ".gz", "tbz2": ".bz2", "txz": ".xz"}.get(name[2:], Path(name[2:]).suffix)
    content = zipped() if name == "a.zip" else PACK[compression if name != "a.tar" else ""](tar())
    (tmp_path / name).write_bytes(content)
    findings = Findings()
    assert documents(tmp_path / name, findings) == ["the first text\n", "the second text\n"]
    assert "files left out: 1 documentation (README)." in findings.notes()
    assert documents(tmp_path, findings) == ["the first text\n", "the second text\n"]
    assert documents(tmp_path / name, pattern="*README") == ["about it\n"]
    (tmp_path / name).write_bytes(content[: 1600 if name == "a.tar" else len(content) // 2])
    with pytest.raises(DataError, match="damaged or cut short"):
        documents(tmp_path / name)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
@pytest.mark.parametrize("packed", [False, True])
def test_compressed_files(tmp_path: Path, suffix: str, packed: bool) -> None:
    content, path = PACK[suffix](b"some text\n"), tmp_path / f"a.txt{suffix}"
    if packed:
        path = tmp_path / "a.zip"
        path.write_bytes(zipped({f"a.txt{suffix}": content}))
    else:
        path.write_bytes(content)
    assert documents(path) == ["some text\n"]


def test_links_and_devices_of_a_tar_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    others = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
        member = tarfile.TarInfo(f"set/{kind.decode()}.txt")
        member.type, member.linkname = kind, str(secret)
        others.append(member)
    path = tmp_path / "a.tar"
    path.write_bytes(tar(FILES, *others))
    findings = Findings()
    assert documents(path, findings) == ["the first text\n", "the second text\n"]
    assert findings.skipped["not a file"] == 4


@pytest.mark.parametrize("pack", [zipped, tar])
def test_names_that_lead_out_of_an_archive_lead_nowhere(tmp_path: Path, pack: Callable[..., bytes]) -> None:
    (tmp_path / "out.txt").write_text("secret")
    folder = tmp_path / "folder"
    folder.mkdir()
    names = {"../out.txt": b"a", str(tmp_path / "out.txt"): b"the archive's own\n", "ok.txt": b"fine\n"}
    (folder / ("a.zip" if pack is zipped else "a.tar")).write_bytes(pack(names))
    assert documents(folder) == ["the archive's own\n", "fine\n"]


def test_bombs_and_headers_of_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.files.unpack.SUSPICIOUS_SIZE", 2**20)
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(tar({"a.txt": b"a" * 8 * 2**20})))
    with pytest.raises(DataError, match="bombs"):
        documents(tmp_path / "a.tar.gz")
    (tmp_path / "b.tar").write_bytes(tar({"a" * (2 * 2**20): b"a"}))
    with pytest.raises(DataError, match=r"a header of 2,097,16\d bytes"):
        documents(tmp_path / "b.tar")


def test_a_damaged_header_is_not_the_end(tmp_path: Path) -> None:
    content = bytearray(tar({f"{number}.txt": b"text\n" for number in range(5)}))
    content[1024:1030] = b"\xff" * 6
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(DataError, match="no header of a file at byte 1,024"):
        documents(tmp_path / "a.tar")


def test_an_archive_that_is_unpacked_beside_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "set.tgz").write_bytes(gzip.compress(tar()))
    (tmp_path / "set").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    findings = Findings()
    assert documents(tmp_path, findings) == ["the first text\n", "the second text\n"]
    assert findings.skipped["archives that are also unpacked"] == 1


def test_archives_in_a_folder_stand_for_folders(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / f"{name}.zip").write_bytes(zipped({"pos/1.txt": b"good\n", "neg/1.txt": b"bad\n"}))
    paths = [file.path.as_posix() for file in list_files(tmp_path, None, Findings())]
    assert paths == ["test/neg/1.txt", "test/pos/1.txt", "train/neg/1.txt", "train/pos/1.txt"]


def test_a_large_archive_is_listed_once_and_holds_no_files_open(tmp_path: Path) -> None:
    path = tmp_path / "many.tar.gz"
    path.write_bytes(gzip.compress(tar({f"{number:05}.txt": b"text\n" for number in range(3000)}), 1))
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    assert len(documents(path)) == 3000
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.parametrize("name", ["README.md", "readme", "LICENSE-MIT", "LICENCE.txt", "CITATION.cff", "_about.txt"])
def test_documentation_is_no_document_unless_it_is_all_there_is(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("about it\n")
    assert documents(tmp_path) == ["about it\n"]
    (tmp_path / "book.txt").write_text("a text\n")
    (tmp_path / "reading.txt").write_text("another text\n")
    assert documents(tmp_path) == ["a text\n", "another text\n"]
    assert documents(tmp_path, pattern="*") == ["about it\n", "a text\n", "another text\n"] or name == "readme"


def test_names_in_utf_8_without_its_flag_and_in_decomposed_characters(tmp_path: Path) -> None:
    name = unicodedata.normalize("NFD", "Übersicht/Größe.txt")
    packed = zipped({"a" * len(name.encode()): b"the text\n", "caf\u00e9.txt": b"other text\n"})
    (tmp_path / "mac.zip").write_bytes(packed.replace(b"a" * len(name.encode()), name.encode()))
    files = [file.source.member for file in list_files(tmp_path / "mac.zip", None, Findings())]
    assert sorted(filter(None, files)) == ["caf\u00e9.txt", "Übersicht/Größe.txt"]
    assert sorted(documents(tmp_path / "mac.zip")) == ["other text\n", "the text\n"]
