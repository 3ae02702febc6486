"""Documents from files: line ends, byte order marks, borders of documents, and any bytes at all."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.bad_inputs import prose
from qkv.data.corpus import CorpusConfig
from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.text import line_documents, paragraph_documents, read_documents
from qkv.data.text_files import find_text_files
from qkv.errors import ConfigError, DataError, QkvError


def documents(*names: str | Path, **options: object) -> list[str]:
    corpus = CorpusConfig(files=tuple(map(str, names)), **options)  # type: ignore[arg-type]
    findings = Findings()
    return joined(read_documents(find_text_files(corpus.files, corpus.filter, findings), corpus, findings))


def joined(pieces: object) -> list[str]:
    found, current = [], ""
    for text, ends in pieces:  # type: ignore[attr-defined]
        current += text
        if ends:
            found.append(current)
            current = ""
    assert not current
    return found


def chunked(content: bytes, size: int) -> list[bytes]:
    return [content[start : start + size] for start in range(0, len(content), size)]


def attempt(work: Callable[[], Any]) -> QkvError | None:
    """How it ended: None when it went well. Anything but a QkvError goes through and fails the test."""
    try:
        work()
    except QkvError as error:
        return error
    return None


plain_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\ufeff"), max_size=60)


@given(plain_text, st.integers(1, 7))
def test_decoding_does_not_depend_on_the_pieces(text: str, size: int) -> None:
    content = b"text: " + text.encode()
    found = "".join(decode(chunked(content, size), "f", "utf-8", Findings()))
    assert found == "text: " + text.replace("\r\n", "\n").replace("\r", "\n")


def test_line_ends_are_counted_across_pieces() -> None:
    findings = Findings()
    content = b"x" * 4096 + b"a\r\nb\rc\nd\r"
    text = "".join(decode(chunked(content, 1), "f", "utf-8", findings))
    assert text == "x" * 4096 + "a\nb\nc\nd\n"
    assert (findings.crlf, findings.cr, findings.newlines) == (1, 2, 1)


@given(st.binary(max_size=300), st.sampled_from(["utf-8", "cp1252", "utf-16", "ascii", "utf-8-sig", "shift_jis"]))
def test_any_bytes_are_text_or_a_place(content: bytes, encoding: str) -> None:
    """D2: a text, or file:line:offset."""
    error = attempt(lambda: list(decode(chunked(content, 64), "f", encoding, Findings())))
    assert error is None or str(error).startswith("f:")


def first_bad_byte(content: bytes) -> int | None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


@given(st.binary(min_size=1, max_size=100), st.integers(0, 50))
def test_the_place_of_a_bad_byte_is_exact(junk: bytes, before: int) -> None:
    content = b"ab\n" * 2000 + b"line\n" * before + junk.replace(b"\x00", b"?").replace(b"\r", b"?")
    findings = Findings()
    place = first_bad_byte(content)
    error = attempt(lambda: list(decode(chunked(content, 97), "f", "utf-8", findings)))
    assert error is None
    if place is None:
        assert not findings.unreadable
    else:
        line = content[:place].count(b"\n") + 1
        assert findings.unreadable["f"][1] == f"f:{line}:{place}"


SUFFIXES = ["txt", "gz", "zip", "zst", "jsonl", "json", "parquet", "csv", ""]
HEADS = [
    b"",
    b"\x1f\x8b\x08",
    b"PK\x03\x04",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b'{"text": "',
    b'["',
    b"[[",
    b"\xef\xbb\xbf",
]


@settings(max_examples=400)
@given(st.sampled_from(SUFFIXES), st.sampled_from(HEADS), st.binary(max_size=200))
def test_any_file_of_any_name(tmp_path_factory: pytest.TempPathFactory, suffix: str, head: bytes, junk: bytes) -> None:
    """D2: documents or a QkvError, never another exception."""
    path = tmp_path_factory.getbasetemp() / f"any.{suffix}"
    path.write_bytes(head + junk)
    error = attempt(lambda: documents(path))
    assert error is None or error.exit_code == 2


@settings(max_examples=300)
@given(st.sampled_from(["gz", "zip", "zst", "parquet", "jsonl", "json"]), st.integers(0), st.integers(0, 255))
def test_good_files_with_a_byte_changed(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, place: int, byte: int
) -> None:
    content = bytearray(good(suffix))
    content[place % len(content)] = byte
    path = tmp_path_factory.getbasetemp() / f"changed.{suffix}"
    path.write_bytes(content)
    error = attempt(lambda: documents(path))
    assert error is None or error.exit_code == 2


def good(suffix: str) -> bytes:
    text = prose(60)
    if suffix == "gz":
        return gzip.compress(text.encode(), mtime=0)
    if suffix == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("a.txt"), text)
        return out.getvalue()
    if suffix == "zst":
        zstandard = pytest.importorskip("zstandard", reason="the extra [data] is not installed")
        return zstandard.compress(text.encode())  # type: ignore[no-any-return]
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="the extra [data] is not installed")
        import pyarrow.parquet

        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"text": text.splitlines()}), out)
        return out.getvalue()
    rows = text.splitlines()
    if suffix == "json":
        return json.dumps(rows).encode()
    return "\n".join(json.dumps({"text": row}) for row in rows).encode()


@given(st.lists(st.text(st.sampled_from("ab \n\t"), max_size=12), max_size=8))
def test_lines_and_paragraphs_do_not_depend_on_the_pieces(texts: list[str]) -> None:
    whole = "".join(texts)
    assert joined(line_documents(texts)) == whole.split("\n")
    expected, current = [], []
    for line in [*whole.split("\n"), ""]:
        if line.strip():
            current.append(line)
        elif current:
            expected.append("\n".join(current))
            current = []
    assert joined(paragraph_documents(texts)) == expected


def test_kinds_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("one\ntwo\u2028still two\n\n  \nthree\nfour\n".encode())
    assert documents(path) == ["one\ntwo\u2028still two\n\n  \nthree\nfour\n"]
    assert documents(path, documents="lines") == ["one", "two\u2028still two", "three", "four"]
    assert documents(path, documents="paragraphs") == ["one\ntwo\u2028still two", "three\nfour"]


def test_folders_are_sorted_and_filtered(tmp_path: Path) -> None:
    for name in ("b.txt", "a.md", "c/d.txt", ".git/config", "c/e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"text of {name}")
    assert documents(tmp_path) == ["text of a.md", "text of b.txt", "text of c/d.txt"]
    assert documents(tmp_path, filter="*.md") == ["text of a.md"]
    assert documents(tmp_path, filter="c/*") == ["text of c/d.txt"]
    with pytest.raises(DataError, match=r"no file matches '\*.rst'"):
        documents(tmp_path, filter="*.rst")


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for encoding in ("cp1252", "utf-16", "utf-16-le", "utf-32", "shift_jis", "latin-1"):
        path.write_bytes("plain\nsecond".encode(encoding))
        assert documents(path, encoding=encoding) == ["plain\nsecond"]
    for encoding in ("utf-9", "base64", "rot13", "", "\0"):
        with pytest.raises(ConfigError, match="is not known"):
            documents(path, encoding=encoding)


def test_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"id": "1", "body": "first", "title": "t"}, {"id": "2", "body": "second\r\nline", "title": "u"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert documents(path) == ["first", "second\nline"]
    assert documents(path, text="title") == ["t", "u"]
    with pytest.raises(DataError, match="Did you mean --text title"):
        documents(path, text="titel")


def test_a_long_json_list_in_small_pieces() -> None:
    from qkv.data.formats.rows import JsonReader

    values = ["first", {"text": "second\n[1, 2]"}, 'third "quoted" \\', "x" * 5000]
    text = json.dumps(values, indent=1)
    for size in (1, 2, 7, 1000):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        reader = JsonReader(pieces, "f")
        assert reader.peek() == "["
        assert [value for _, value in reader.elements()] == values


def test_one_document_larger_than_a_piece(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("word " * 1_000_000)
    pieces = list(read_documents([Source(path)], CorpusConfig(files=("x",)), Findings()))
    assert len(pieces) > 3
    assert max(len(piece.text) for piece in pieces) <= 2**20


def test_zip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.files.unpack.SUSPICIOUS_SIZE", 2**20)
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(b"a" * (8 * 2**20)))
    with pytest.raises(DataError, match="bombs"):
        documents(path)


def test_names_of_the_catalog_are_paths_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = documents("python-docs")
    assert len(found) > 50
    monkeypatch.chdir(tmp_path)
    Path("python-docs").write_text("a file of that name")
    assert documents("python-docs") == ["a file of that name"]


def test_parquet_says_how_far_it_is(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pyarrow.table({"text": ["some text"] * 3000}), tmp_path / "rows.parquet"
    )
    counts: list[int] = []
    corpus = CorpusConfig(files=("x",))
    assert len(list(read_documents([Source(tmp_path / "rows.parquet")], corpus, Findings(), counts.append))) == 3000
    assert len(counts) >= 3
    assert all(counts)


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_line_ends_inside_rows_are_counted(tmp_path: Path, suffix: str) -> None:
    rows = ["one\r\ntwo", "three\rfour\r\n"]
    path = tmp_path / f"rows.{suffix}"
    if suffix == "jsonl":
        path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table({"text": rows}), path)
    findings = Findings()
    texts = joined(read_documents([Source(path)], CorpusConfig(files=("x",)), findings))
    assert texts == ["one\ntwo", "three\nfour\n"]
    assert (findings.crlf, findings.cr) == (2, 1)
    assert any("2 line ends" in note for note in findings.notes())


def test_the_list_of_a_zip_is_not_read_again_for_every_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "many.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(40):
            archive.writestr(f"{number:02d}.txt", f"text {number}\n")
    opened: list[object] = []
    real = zipfile.ZipFile
    monkeypatch.setattr("qkv.data.files.unpack.zipfile.ZipFile", lambda *given: opened.append(given) or real(*given))
    assert documents(packed) == [f"text {number}\n" for number in range(40)]
    assert len(opened) <= 3
