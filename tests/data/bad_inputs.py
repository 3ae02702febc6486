"""The bad inputs of promises.md D1 that a language model can meet, as files in a folder.

`build(folder)` makes them and says what is expected of each: refused with exit code 2 and a message that mentions
something, or accepted with a note or warning that does. Cases that this system cannot make are left out.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import socket
import sqlite3
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from data import documents

Expected = Literal["refused", "accepted"]


class Case(NamedTuple):
    name: str
    path: Path
    expected: Expected
    must_mention: str


def prose(words: int = 3000) -> str:
    """English-like text that is the same on every machine, and long enough to train on."""
    nouns = "river stone garden letter winter captain window market island shadow".split()  # noqa: SIM905
    verbs = "finds keeps follows paints forgets carries watches answers".split()  # noqa: SIM905
    lines = []
    for number in range(words // 6):
        noun, verb, other = nouns[number % 10], verbs[number * 7 % 8], nouns[(number * number + 3) % 10]
        lines.append(f"The {noun} {verb} the {other} {number}.")
    return "\n".join(lines) + "\n"


def build(folder: Path) -> list[Case]:
    """Make every case below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    cases: list[Case] = []
    for group in (_empty, _encodings, _disguised, _packed, _rows, _tables, _documents, _places, _acceptable):
        for name, content, expected, mention in group(folder):
            path = folder / name
            if isinstance(content, bytes):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            elif content is not None:
                content(path)
            cases.append(Case(name, path, expected, mention))
    return cases


Content = bytes | Callable[[Path], Any] | None
Row = tuple[str, Content, Expected, str]
GOOD = prose().encode()


def _empty(folder: Path) -> Iterator[Row]:
    yield "empty.txt", b"", "refused", "empty"
    yield "one-newline.txt", b"\n", "refused", "white space"
    yield "only-newlines.txt", b"\n" * 5000, "refused", "white space"
    yield "only-spaces.txt", b" " * 5000, "refused", "white space"
    yield "only-tabs-and-returns.txt", b"\t\r\n" * 500, "refused", "white space"
    yield "only-bom.txt", b"\xef\xbb\xbf", "refused", "empty"
    yield "one-byte.txt", b"a", "refused", "too little"
    yield "two-bytes.txt", b"ab", "refused", "needs at least"
    yield "smaller-than-context.txt", b"a short line\n", "refused", "needs at least"


def _encodings(folder: Path) -> Iterator[Row]:
    yield "cp1252.txt", b"first line\ncaf\xe9 au lait\n" + GOOD, "accepted", "cp1252"
    yield "cp1252-quotes.txt", GOOD + b"\x93quoted\x94\n", "accepted", "cp1252"
    far = b"plain text\n" * 200_000
    yield "bad-byte-far.txt", far + b"\xff" + GOOD, "accepted", "cp1252"
    yield "cut-character.txt", GOOD + "é".encode()[:1], "accepted", "cp1252"
    yield "overlong.txt", GOOD + b"\xc0\xaf", "accepted", "not UTF-8"
    yield "surrogate-bytes.txt", GOOD + b"\xed\xa0\x80", "accepted", "cp1252"
    yield "beyond-unicode.txt", GOOD + b"\xf5\x80\x80\x80", "accepted", "cp1252"
    text = prose()
    yield "utf-16-le-bom.txt", b"\xff\xfe" + text.encode("utf-16-le"), "accepted", "utf-16"
    yield "utf-16-be-bom.txt", b"\xfe\xff" + text.encode("utf-16-be"), "accepted", "utf-16"
    yield "utf-32-le-bom.txt", b"\xff\xfe\x00\x00" + text.encode("utf-32-le"), "accepted", "utf-32"
    yield "utf-32-be-bom.txt", b"\x00\x00\xfe\xff" + text.encode("utf-32-be"), "accepted", "utf-32"
    yield "utf-16-le.txt", text.encode("utf-16-le"), "accepted", "utf-16-le"
    yield "utf-16-be.txt", text.encode("utf-16-be"), "accepted", "utf-16-be"
    yield "nul-inside.txt", GOOD + b"a\x00b\n", "accepted", "U+FFFD"
    yield "only-nul.txt", b"\x00" * 1000, "refused", "binary"
    german = "Die Wölfe hören über den Fluß hinweg schöne Töne.\n" * 40
    yield "mostly-utf-8.txt", german.encode() + b"\xff\n" + german.encode(), "accepted", f":41:{len(german.encode())}"
    yield "two-encodings.txt", german.encode() + german.encode("cp1252"), "accepted", "cp1252"
    yield "nul-bytes.txt", GOOD + b"\0" * 2 * len(GOOD), "refused", f":501:{len(GOOD)}"
    yield "ebcdic.txt", text.encode("cp037"), "refused", "--encoding"


def _disguised(folder: Path) -> Iterator[Row]:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"), io.BytesIO())
    random = bytes(range(1, 256)) * 8
    yield "gzip.txt", gzip.compress(GOOD), "refused", "gzip"
    yield "zip.txt", _zip({"a.txt": GOOD}), "refused", "zip"
    yield "document.docx", _zip({"word/document.xml": GOOD}), "refused", "docx"
    yield "bzip2.txt", bz2.compress(GOOD), "refused", "bzip2"
    yield "xz.txt", lzma.compress(GOOD), "refused", "xz"
    yield "tar.txt", archive.getvalue(), "refused", "tar"
    yield "seven-zip.txt", b"7z\xbc\xaf\x27\x1c" + random, "refused", "7-Zip"
    yield "rar.txt", b"Rar!\x1a\x07" + random, "refused", "RAR"
    yield "zstandard.txt", b"\x28\xb5\x2f\xfd" + random, "refused", "zstandard"
    yield "parquet.txt", b"PAR1" + random + b"PAR1", "refused", "Parquet"
    yield "pdf.txt", b"%PDF-1.7\n" + random, "refused", "PDF"
    yield "png.txt", b"\x89PNG\r\n\x1a\n" + random, "refused", "PNG"
    yield "jpeg.txt", b"\xff\xd8\xff\xe0" + random, "refused", "JPEG"
    yield "gif.txt", b"GIF89a" + random, "refused", "GIF"
    yield "program.txt", b"\x7fELF\x02\x01\x01" + random, "refused", "program"
    yield "pickle.pkl", b"\x80\x04\x95" + random, "refused", "pickle"
    yield "array.npy", b"\x93NUMPY\x01\x00" + random, "refused", "numpy"
    yield "rich.txt", b"{\\rtf1 hello}" + GOOD, "refused", "RTF"
    yield "database.txt", _sqlite, "refused", "SQLite"
    yield "random-bytes.txt", random[100:] * 4, "refused", "--encoding"


def _packed(folder: Path) -> Iterator[Row]:
    packed = gzip.compress(GOOD)
    yield "text.gz", GOOD, "refused", "does not hold gzip"
    yield "truncated.txt.gz", packed[: len(packed) // 2], "refused", "damaged or cut short"
    yield "flipped.txt.gz", packed[:50] + bytes([packed[50] ^ 255]) + packed[51:], "refused", "damaged"
    yield "trailing.txt.gz", packed + b"garbage", "refused", "damaged"
    yield "empty.gz", b"", "refused", "empty"
    yield "nothing-inside.txt.gz", gzip.compress(b""), "refused", "empty"
    yield "bad-byte.txt.gz", gzip.compress(GOOD + b"one\ntwo \xff\n"), "accepted", "cp1252"
    whole = _zip({"a.txt": GOOD})
    yield "text.zip", GOOD, "refused", "is not a zip"
    yield "truncated.zip", whole[: len(whole) // 2], "refused", "damaged"
    damaged = bytearray(_zip({"a.txt": GOOD}, zipfile.ZIP_STORED))
    damaged[200] ^= 1
    yield "bad-checksum.zip", bytes(damaged), "refused", "damaged"
    yield "empty.zip", _zip({}), "refused", "nothing in this zip"
    yield "only-images.zip", _zip({"a.png": b"\x89PNG\r\n"}), "refused", "nothing in this zip"
    encrypted = bytearray(whole)
    encrypted[6] |= 1
    encrypted[encrypted.rindex(b"PK\x01\x02") + 8] |= 1
    yield "encrypted.zip", bytes(encrypted), "refused", "encrypted"
    yield "bad-byte.zip", _zip({"good.txt": GOOD, "worse.txt": b"ok\n\x00\n"}), "accepted", "worse.txt:2:3"
    try:
        import zstandard
    except ImportError:
        return
    frame = zstandard.compress(GOOD)
    yield "text.zst", GOOD, "refused", "does not hold zstandard"
    yield "truncated.txt.zst", frame[: len(frame) // 2], "refused", "damaged"
    yield "flipped.txt.zst", frame[:20] + bytes([frame[20] ^ 255]) + frame[21:], "refused", "damaged"
    yield "empty.zst", b"", "refused", "empty"
    yield "good.txt.zst", frame, "accepted", ""


def _rows(folder: Path) -> Iterator[Row]:
    good = [json.dumps({"text": line}) for line in prose().splitlines()[:200]]
    yield "not-json.jsonl", GOOD, "refused", ":1"
    yield "half-bad.jsonl", _lines([*good[:50], *["{broken"] * 50]), "refused", ":51"
    yield "two-columns.jsonl", _lines(['{"first": "a b", "second": "c d"}'] * 20), "refused", "first, second"
    yield "no-text.jsonl", _lines(['{"number": 1}'] * 20), "refused", "number"
    yield "text-is-number.jsonl", _lines(['{"text": "fine"}', *['{"text": 7}'] * 20]), "refused", "found int"
    yield "all-null.jsonl", _lines(['{"text": "fine"}', *['{"text": null}'] * 20]), "refused", "found nothing"
    yield "surrogates.jsonl", _lines(['{"text": "\\ud83d half"}'] * 20), "refused", "surrogate"
    yield "deep.jsonl", _lines(["[" * 100_000] * 3), "refused", ":1"
    yield "lists.jsonl", _lines(["[1, 2]"] * 10), "refused", "found list"
    yield "cut-off.jsonl", "\n".join(good[:20]).encode()[:-5], "refused", ":20"
    yield "empty-texts.jsonl", _lines(['{"text": ""}'] * 20), "refused", "white space"
    yield "bad-byte.jsonl", _lines(good) + b'{"text": "\xff"}\n', "accepted", "cp1252"
    yield "object.json", b'{"number": 1}', "refused", "number"
    yield "number.json", b"17", "refused", "list"
    yield "numbers.json", b"[1, 2, 3]", "refused", "found int"
    yield "cut-off.json", json.dumps(prose().splitlines()).encode()[:-20], "refused", "not JSON"
    yield "no-commas.json", b'["one" "two"]', "refused", "expected , or ]"
    yield "empty-list.json", b"[]", "refused", "empty"
    yield "deep.json", b"[" * 100_000, "refused", "deep"
    yield "text.parquet", GOOD, "refused", "Parquet"
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return

    def parquet(**columns: list[Any]) -> bytes:
        out = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table(columns), out)
        return out.getvalue()

    whole = parquet(text=prose().splitlines())
    yield "truncated.parquet", whole[: len(whole) // 2], "refused", "Parquet"
    yield "numbers.parquet", parquet(number=[1, 2, 3]), "refused", "number"
    yield "no-rows.parquet", parquet(text=pyarrow.array([], pyarrow.string())), "refused", "empty"
    yield "packed.parquet.gz", gzip.compress(whole), "refused", "Unpack"
    yield "good.parquet", whole, "accepted", "'text'"


def _tables(folder: Path) -> Iterator[Row]:
    table = b"text,label\n" + b"".join(b"good film %d,1\nbad film %d,0\n" % (n, n) for n in range(100))
    yield "table.csv", table, "refused", "table"
    yield "table.tsv", table.replace(b",", b"\t"), "refused", "table"
    yield "table.csv.gz", gzip.compress(table), "refused", "table"
    yield "only-tables", _folder({"a.csv": table, "b.tsv": table}), "refused", "tables"


def _documents(folder: Path) -> Iterator[Row]:
    if not (find_spec("lxml") and find_spec("pypdf")):
        return
    for name in ("encrypted.pdf", "scanned.pdf", "old.docx", "not-xml.docx", "drm.epub", "deep.html", "no-json.ipynb"):
        make, mention = documents.REFUSED[name]
        yield name, make(), "refused", mention
    page = f"<nav>Home</nav><p>{prose()}</p>".encode()
    yield "truncated.pdf", documents.pdf(prose(60), prose(90))[:700], "refused", "damaged"
    yield "good.html", page, "accepted", ""
    yield "cp1251.html", b"<meta charset='windows-1251'>" + "Река хранит камень. ".encode("cp1251") * 99, "accepted", ""
    papers = {"a.html": page, "b.pdf": documents.REFUSED["scanned.pdf"][0]()}
    yield "papers", _folder(papers), "accepted", "1 document cannot be read"


def _places(folder: Path) -> Iterator[Row]:
    (folder / "near-name.txt").write_bytes(GOOD)
    yield "near-nane.txt", None, "refused", "near-name.txt"
    yield "nowhere/at/all.txt", None, "refused", "no such file"
    yield "near-name.txt/child.txt", None, "refused", "no such file"
    yield "x" * 300 + ".txt", None, "refused", "cannot be opened"
    yield "empty-folder", _folder({}), "refused", "looks like text"
    yield "hidden-only", _folder({".secret.txt": GOOD}), "refused", "hidden"
    yield "images-only", _folder({"a.png": b"\x89PNG", "b.bin": b"\x00\x01"}), "refused", "not text"
    yield "folder-with-bad-byte", _folder({"a.txt": GOOD, "b.txt": b"caf\xe9\n"}), "accepted", "cp1252"
    yield "dangling-link.txt", lambda path: path.symlink_to("gone.txt"), "refused", "link"
    yield "link-loop.txt", lambda path: path.symlink_to(path.name), "refused", "link"
    if hasattr(os, "mkfifo"):
        yield "pipe.txt", os.mkfifo, "refused", "named pipe"
        yield "socket.txt", _socket, "refused", "socket"
    if os.name == "posix" and os.geteuid() != 0:
        yield "no-permission.txt", _unreadable, "refused", "permission"


def _acceptable(folder: Path) -> Iterator[Row]:
    text = prose()
    yield "bom.txt", b"\xef\xbb\xbf" + GOOD, "accepted", "byte order mark"
    yield "crlf.txt", GOOD.replace(b"\n", b"\r\n"), "accepted", "CRLF"
    yield "lone-cr.txt", GOOD.replace(b"\n", b"\r"), "accepted", "lone carriage returns"
    yield "mixed-ends.txt", GOOD + GOOD.replace(b"\n", b"\r\n"), "accepted", "mixed"
    yield "line-separators.txt", text.replace("river", "ri\u2028ver\x85").encode(), "accepted", "U+2028"
    yield "nfd.txt", text.replace("e", "e\u0301").encode(), "accepted", "NFC"
    yield "control.txt", text.replace("stone", "st\x07ne").encode(), "accepted", "control characters"
    yield "replacement.txt", text.replace("stone", "st\ufffdne").encode(), "accepted", "U+FFFD"
    yield "inner-bom.txt", (text + "\ufeff" + text).encode(), "accepted", "U+FEFF"
    yield "right-to-left.txt", ("שלום עולם " * 40 + "\n").encode() * 20, "accepted", ""
    yield "emoji.txt", ("family 👨‍👩‍👧‍👦 flag 🇩🇪 skin 👍🏽 " * 5 + "\n").encode() * 40, "accepted", ""
    yield "ten-megabyte-line.txt", b"one long line of words " * 450_000, "accepted", "longer than"
    yield "no-final-newline.txt", GOOD.rstrip(), "accepted", ""
    yield "one-line-repeated.txt", b"the same line again and again\n" * 500, "accepted", "repeat"
    yield "table-named.txt", b"text,label\n" + b'"a ""quoted"" film, good",1\n' * 300, "accepted", "repeat"
    yield "only-in-the-tail.txt", (text + "\u4e16\u754c" * 60 + "\n").encode(), "accepted", "UNK"
    yield "name with\nnewline.txt", GOOD, "accepted", ""
    yield "naïve name ☃ .txt", GOOD, "accepted", ""
    yield "no-suffix", GOOD, "accepted", ""
    yield "good.txt.gz", gzip.compress(GOOD), "accepted", ""
    yield "two-members.txt.gz", gzip.compress(GOOD) + gzip.compress(GOOD), "accepted", ""
    yield "mac.zip", _zip({"a.txt": GOOD, "__MACOSX/._a.txt": b"\x00", "p.png": b"\x89PNG"}), "accepted", "left out"
    yield "mixed-folder", _mixed_folder, "accepted", "left out"
    yield "copies", _folder({"a.txt": GOOD, "b.txt": GOOD, "c.txt": GOOD[:3000]}), "accepted", "copies"
    lines = [json.dumps({"text": line}) for line in text.splitlines()[:300]]
    yield "one-bad-row.jsonl", _lines([*lines, "{broken"]), "accepted", "1 of 301"
    yield "one-surrogate.jsonl", _lines([*lines, '{"text": "\\ud83d"}']), "accepted", "surrogate"
    yield "crlf-bom.jsonl", b"\xef\xbb\xbf" + _lines(lines).replace(b"\n", b"\r\n"), "accepted", "CRLF"
    yield "blank-lines.jsonl", _lines(lines).replace(b"\n", b"\n\n"), "accepted", "'text'"
    yield "guessed-column.jsonl", _lines(lines).replace(b'"text"', b'"Body"'), "accepted", "'Body'"
    yield "list.json", json.dumps(text.splitlines()).encode(), "accepted", ""


def _lines(rows: list[str]) -> bytes:
    return ("\n".join(rows) + "\n").encode()


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return out.getvalue()


def _folder(files: dict[str, bytes]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.mkdir()
        for name, content in files.items():
            (path / name).write_bytes(content)

    return make


def _mixed_folder(path: Path) -> None:
    _folder({"a.txt": GOOD, ".hidden": b"x", "picture.png": b"\x89PNG", "table.csv": b"a,b\n"})(path)
    (path / "deep").mkdir()
    (path / "deep" / "b.md").write_bytes(GOOD[::-1])
    (path / "deep" / "back").symlink_to("..", target_is_directory=True)
    (path / "deep" / "self").symlink_to("self")


def _sqlite(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("create table t (x)")
    database.commit()
    database.close()


def _socket(path: Path) -> None:
    # the name of a socket must be short: bind it from inside its folder
    before = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


def _unreadable(path: Path) -> None:
    path.write_bytes(GOOD)
    path.chmod(0)


def state(folder: Path) -> str:
    """A hash over all names, kinds and contents of a folder."""
    digest = hashlib.sha256()
    for root, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(root, name)
            digest.update(os.fsencode(path) + str(path.lstat().st_mode).encode())
            if stat.S_ISREG(path.lstat().st_mode):
                digest.update(path.read_bytes())
    return digest.hexdigest()
