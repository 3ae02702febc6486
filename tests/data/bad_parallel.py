"""The bad inputs of promises.md D1 that parallel data can meet, and odd ones that are read with a note.

Each case is a folder of files, the options to read them with, and what is expected: a refusal with exit code 2 that
mentions something, or a note that does.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Iterator
from typing import Any

from data.bad_examples import Case, Content

COUNT = 200
ENGLISH = [f"the little dog number {n} sleeps in the garden" for n in range(COUNT)]
GERMAN = [f"der kleine Hund Nummer {n} schläft im Garten" for n in range(COUNT)]


def text(lines: list[str], end: str = "\n") -> bytes:
    return "".join(line + end for line in lines).encode()


def tsv(*columns: list[str], header: str = "", mark: str = "\t") -> bytes:
    rows = [mark.join(cells) for cells in zip(*columns, strict=True)]
    return text([*([header] if header else []), *rows])


def jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


SOURCE, TARGET = text(ENGLISH), text(GERMAN)
OBJECTS = [{"source": one, "target": other} for one, other in zip(ENGLISH, GERMAN, strict=True)]


def two(name: str, first: Content, second: Content, mention: str, refused: bool = True, **options: Any) -> Case:
    """Two files, read in step."""
    return Case(
        name, {"train.en": first, "train.de": second}, refused, mention, {"files": ["train.en", "train.de"], **options}
    )


def one(name: str, content: Content, mention: str, refused: bool = True, **options: Any) -> Case:
    return Case(name, {name: content}, refused, mention, options)


def every() -> Iterator[Case]:
    for group in (_counts, _bytes, _names, _sides, _tables, _languages, _odd_but_read):
        yield from group()


def _counts() -> Iterator[Case]:
    yield two("target-short", SOURCE, text(GERMAN[:-1]), "train.en:200: 200 lines here, 199 in")
    yield two("source-short", text(ENGLISH[:150]), TARGET, "train.en:151: 150 lines here, 200 in")
    yield two("one-blank-line-more", SOURCE, TARGET + b"\n", "200 lines here, 201 in")
    split = text(GERMAN).replace(b"Nummer 7 ", b"Nummer\n7 ")
    yield two("a-line-was-split", SOURCE, split, "200 lines here, 201 in")
    yield two("empty", b"", b"", "train.en: is empty")
    yield two("empty-target", SOURCE, b"", "200 lines here, 0 in")
    yield two("only-bom", b"\xef\xbb\xbf", b"\xef\xbb\xbf", "is empty")
    yield two("newlines", b"\n" * 50, b"\n" * 50, "only blank lines")
    yield two("spaces", b"  \n" * 50, b"\t\n" * 50, "only blank lines")
    some = [line if n % 4 else "" for n, line in enumerate(GERMAN)]
    yield two("empty-targets", SOURCE, text(some), "train.en:1: 50 of 200 pairs cannot be used")
    yield two("empty-sources", text([line if n % 4 else " " for n, line in enumerate(ENGLISH)]), TARGET,
              "a target without a source")  # fmt: skip
    yield two("shifted", text(["no" if n % 2 else "long " * 40 for n in range(COUNT)]),
              text(["long " * 40 if n % 2 else "no" for n in range(COUNT)]), "more than 9 times as long")  # fmt: skip
    yield two("one-pair", b"a dog\n", b"ein Hund\n", "one pair is not enough")
    yield two("one-source", b"a dog\n" * 90, text(GERMAN[:90]), "every source is the same")


def _bytes() -> Iterator[Case]:
    packed = gzip.compress(SOURCE)
    yield two("picture", SOURCE, b"\x89PNG\r\n\x1a\n" + bytes(range(1, 200)), "PNG")
    yield two("page", b"%PDF-1.7\n" + bytes(range(1, 200)), TARGET, "PDF")
    yield two("gzip-unnamed", packed, TARGET, "gzip")
    yield two("returns", SOURCE.replace(b"\n", b"\r"), TARGET.replace(b"\n", b"\r"), "only \\n ends a line")
    yield two("unknown-encoding", SOURCE, TARGET, "is not known", encoding="utf-9")
    files: dict[str, Content] = {"train.en.gz": packed, "train.de.gz": gzip.compress(TARGET)[:300]}
    yield Case("cut-gzip", files, True, "damaged", {"files": ["train.en.gz", "train.de.gz"]})
    files = {"train.en.gz": packed, "train.de.gz": TARGET}
    yield Case("plain-gzip", files, True, "does not hold gzip", {"files": ["train.en.gz", "train.de.gz"]})
    files = {"train.en": SOURCE, "train.de.zip": b"no zip at all"}
    yield Case("no-zip", files, True, "is not a zip", {"files": ["train.en", "train.de.zip"]})
    yield one("empty.zip", zipped({}), "this zip is empty")


def _names() -> Iterator[Case]:
    yield Case("alone", {"train.en": SOURCE}, True, "a text without its translation", {"files": ["train.en"]})
    files: dict[str, Content] = {"train.en": SOURCE, "train.de": TARGET, "train.cs": TARGET}
    yield Case("three", files, True, "train.cs: is a text without its translation (3 files named",
               {"files": ["train.en", "train.de", "train.cs"]})  # fmt: skip
    yield Case("twice", {"train.en": SOURCE}, True, "both as source and as target", {"files": ["train.en"] * 2})
    link: dict[str, Content] = {"train.en": SOURCE, "train.de": lambda path: path.symlink_to("train.en")}
    yield Case("linked", link, True, "both as source and as target", {"files": ["train.en", "train.de"]})
    yield Case("gone", {"train.en": SOURCE}, True, "train.de: no such file", {"files": ["train.en", "train.de"]})
    yield Case("near", files, True, "Did you mean", {"files": ["train.en", "trian.de"]})
    loop: dict[str, Content] = {"train.en": SOURCE, "train.de": lambda path: path.symlink_to("train.de")}
    yield Case("loop", loop, True, "link that leads to itself", {"files": ["train.en", "train.de"]})
    yield Case("no-files", {}, True, "no files were named", {"files": []})
    yield Case("stdin", {}, True, "read from files", {"stdin": True})
    yield Case("nothing", {}, True, "nothing in it looks like texts and their translations", {"files": ["."]})
    yield Case("which", files, True, "which languages? There are: cs, de, en", {"files": ["."]})
    yield Case("texts", {"a.txt": SOURCE, "b.txt": text(GERMAN[:9])}, True, "nothing in it looks", {"files": ["."]})
    if hasattr(os, "mkfifo"):
        pipe: dict[str, Content] = {"train.en": SOURCE, "train.de": os.mkfifo}
        yield Case("pipe", pipe, True, "named pipe", {"files": ["train.en", "train.de"]})


def _sides() -> Iterator[Case]:
    train: dict[str, Content] = {"train.en": SOURCE, "train.de": TARGET}
    named = {"files": ["train.en", "train.de"]}
    yield Case("sides-mixed", {**train, "dev.en": SOURCE, "dev.de": TARGET}, True, "is in the language 'en'",
               {"files": ["train.en", "dev.en", "train.de", "dev.de"]})  # fmt: skip
    yield Case("dev-unequal", {**train, "dev.en": SOURCE, "dev.de": text(GERMAN[:9])}, True, "dev.en:10: 200 lines",
               named)  # fmt: skip
    turned = {**named, "valid": ["dev.de", "dev.en"]}
    yield Case("dev-turned", {**train, "dev.en": SOURCE, "dev.de": TARGET}, True,
               "dev.de: translates de to en, but the model learns en to de", turned)  # fmt: skip
    other = {**named, "test": ["test.en", "test.cs"]}
    yield Case("other-language", {**train, "test.en": SOURCE, "test.cs": TARGET}, True, "translates en to cs", other)
    yield Case(
        "dev-alone", {**train, "dev.en": SOURCE}, True, "dev.en: is a text without", {**named, "valid": ["dev.en"]}
    )
    yield Case("dev-empty", {**train, "dev.en": b"", "dev.de": b""}, True, "dev.en: is empty", named)


def _tables() -> Iterator[Case]:
    good = tsv(ENGLISH, GERMAN, header="source\ttarget")
    yield one("empty.tsv", b"", "empty")
    yield one("header-only.tsv", b"source\ttarget\n", "the table has a header and no rows")
    yield one("one-column.tsv", tsv(ENGLISH), "which columns are source and target?")
    yield one("three.csv", tsv(ENGLISH, GERMAN, ENGLISH, header="a,b,c", mark=","), "There are: a, b, c", header=True)
    yield one("misspelled.tsv", good, "Did you mean --source source?", source="sourze")
    yield one("number.tsv", good, "no column '9'", target="9")
    yield one("same-column.tsv", good, "both column 'source'", source="source", target="source")
    yield one("same-number.tsv", good, "which columns", source="1", target="source")
    yield one("ragged.tsv", good + b"a\tb\tc\td\n" * 9, "expected 2 cells, found 4")
    yield one("empty-cells.tsv", tsv(ENGLISH, ["" if n % 3 else line for n, line in enumerate(GERMAN)]),
              "a source without a target")  # fmt: skip
    yield one(
        "twice.tsv", good.replace(b"source\ttarget\n", b"source\tsource\n"), "two columns are called", header=True
    )
    yield one("unclosed.csv", tsv(ENGLISH, [f'"{line}"' for line in GERMAN], header="source,target", mark=",")
              + b'"open,end\n', "a quote opens")  # fmt: skip
    yield one("half.jsonl", jsonl(OBJECTS) + b"{broken\n" * 20, "half.jsonl:201: 20 of 220 rows")
    yield one("numbers.jsonl", jsonl([{"source": n, "target": str(n)} for n in range(40)]), "found int")
    yield one("nulls.jsonl", jsonl([{**each, "target": None} for each in OBJECTS]), "found nothing")
    yield one("surrogates.jsonl", b'{"source": "half \\ud83d", "target": "halb"}\n' * 30, "surrogate")
    yield one("lists.jsonl", jsonl([[1, 2]] * 9), "expected objects")
    yield one("broken.parquet", SOURCE, "Parquet")
    files: dict[str, Content] = {"train.tsv": good, "dev.tsv": tsv(ENGLISH, GERMAN, header="source\ttext")}
    yield Case("dev-columns", files, True, "no column 'target'", {"files": ["train.tsv"], "valid": ["dev.tsv"],
               "header": True})  # fmt: skip


def _languages() -> Iterator[Case]:
    yield two("one-language", SOURCE, TARGET, "languages names 1: en", languages=("en",))
    yield two("three-languages", SOURCE, TARGET, "expected 2, source and target", languages=("en", "de", "cs"))
    yield two("same-language", SOURCE, TARGET, "are both 'en'", languages=("en", "en"))
    files: dict[str, Content] = {"a.en": SOURCE, "a.de": TARGET, "b.txt": SOURCE, "c.txt": TARGET}
    yield Case("unnamed", files, True, "Give all of them", {"files": ["a.en", "a.de", "b.txt", "c.txt"]})
    yield Case("not-there", files, True, "no file is in 'cs'", {"files": ["."], "languages": ("en", "cs")})
    yield Case("no-translations", {}, True, "is a set for language modelling", {"catalog": "sotu"})


def _odd_but_read() -> Iterator[Case]:
    yield two(
        "cp1252", SOURCE, "\n".join(GERMAN).encode("cp1252"), "train.de: not UTF-8, so it is read as cp1252", False
    )
    yield two("bad-byte", SOURCE[:-1] + b"\xff\n", TARGET, "train.en: not UTF-8", False)
    yield two("half-a-character", SOURCE, TARGET[:-1] + b"\xc3", "1 byte in 1 file", False)
    yield two("utf-16", SOURCE, TARGET.decode().encode("utf-16"), "read as utf-16", False)
    yield two("nul", SOURCE, TARGET.replace(b"Hund Nummer 3 ", b"Hund\0Nummer 3 "), "train.de:4:", False)
    yield two("bom", b"\xef\xbb\xbf" + SOURCE, TARGET, "byte order mark", False)
    yield two("crlf", SOURCE.replace(b"\n", b"\r\n"), TARGET, "200 line ends \\r\\n (CRLF) were read as \\n", False)
    yield two("one-empty", SOURCE + b"lonely\n", TARGET + b"\n", "train.en:201: 1 of 201 pairs left out", False)
    yield two("blank-pairs", SOURCE + b"\n \n", TARGET + b" \n\n", "2 pairs of blank lines left out", False)
    yield two("one-unequal", SOURCE + b"long " * 40 + b"\n", TARGET + b"@@\n", "more than 9 times as long", False)
    yield two("copies", SOURCE * 2, TARGET * 2, "190 of 380 training pairs", False, valid_fraction=0.05)
    yield two("identical", SOURCE + b"Berlin\n", TARGET + b"Berlin\n", "in 1 of 201 pairs source and target", False)
    yield two("all-identical", SOURCE, SOURCE, "in 200 of 200 pairs source and target are the same", False)
    yield two("no-last-line-end", SOURCE[:-1], TARGET, "task: translation (en to de)", False)
    train: dict[str, Content] = {"train.en": SOURCE, "train.de": TARGET}
    leak: dict[str, Content] = {**train, "val.en": text(ENGLISH[:20]), "val.de": text(GERMAN[:19]) + b"anders\n"}
    yield Case("leak", leak, False, "leak: 20 of 20 valid sources (100.0%) are also in the training set; 19 of them",
               {"files": ["train.en", "train.de"]})  # fmt: skip
    yield one("one-broken.jsonl", jsonl(OBJECTS) + b"{broken\n", "1 of 201 rows left out", False)
    yield one("semicolons.csv", tsv(ENGLISH, GERMAN, header="source;target", mark=";"), "semicolons", False)
    yield one("unnamed.tsv", tsv(ENGLISH, GERMAN), "no header, so the columns are numbered", False)
