"""The bad inputs of promises.md D1 that labelled data can meet, and odd ones that are read with a count.

Each case is a folder of files, the options to read them with, and what is expected: a refusal with exit code 2 that
mentions something, or a note that does.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Content = bytes | Callable[[Path], Any]


class Case(NamedTuple):
    name: str
    """Also the file that is read, unless `options` say others."""
    files: dict[str, Content]
    refused: bool
    mention: str
    options: Mapping[str, Any] = MappingProxyType({})


FILMS = [(f"the film number {n} is {'good' if n % 2 else 'bad'}", n % 2) for n in range(200)]


def csv(rows: list[tuple[Any, ...]], header: str = "text,label", mark: str = ",") -> bytes:
    lines = [header.replace(",", mark)] if header else []
    return "\n".join([*lines, *(mark.join(map(str, row)) for row in rows), ""]).encode()


def jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


GOOD = csv(FILMS)
OBJECTS = [{"text": text, "label": label} for text, label in FILMS]
SENTENCE = "Anna\tB-person\nvisits\tO\nRome\tB-place\n\n"


def conll(times: int = 40, sentence: str = SENTENCE) -> bytes:
    return "".join(sentence.replace("visits", f"visits{n}") for n in range(times)).encode()


def universal(cells: int = 10) -> bytes:
    word = ["1", "Rome", "rome", "PROPN", "NNP", "_", "0", "root", "_", "_"][:cells]
    verb = ["2", "sleeps", "sleep", "VERB", "VBZ", "_", "1", "dep", "_", "_"][:cells]
    return "".join("\t".join(word) + str(n) + "\n" + "\t".join(verb) + f"{n}\n\n" for n in range(20)).encode()


def idx(shape: tuple[int, ...], values: bytes) -> bytes:
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


PIXELS = np.arange(20 * 16, dtype=np.uint8).reshape(20, 4, 4)
DIGITS = np.arange(20, dtype=np.uint8) % 2


def every() -> Iterator[Case]:
    for group in (
        _empty,
        _labels,
        _columns,
        _cells,
        _numbers,
        _bytes,
        _json,
        _tagged,
        _pictures,
        _folders,
        _odd_but_read,
    ):
        yield from group()


def bad(name: str, content: Content, mention: str, **options: Any) -> Case:
    return Case(name, {name: content}, True, mention, options)


def odd(name: str, content: Content, mention: str, **options: Any) -> Case:
    return Case(name, {name: content}, False, mention, options)


def _empty() -> Iterator[Case]:
    yield bad("empty.csv", b"", "empty")
    yield bad("newlines.csv", b"\n" * 50, "empty")
    yield bad("spaces.tsv", b"  \n  \n", "empty")
    yield bad("only-bom.csv", b"\xef\xbb\xbf", "empty")
    yield bad("header-only.csv", b"text,label\n", "no rows")
    yield bad("empty-cells.csv", b'"",""\n,\n', "empty")
    yield bad("empty.jsonl", b"", "empty")
    yield bad("empty.conll", b"", "empty")
    yield bad("blank.conll", b"\n\t\n\n", "empty")
    yield bad("empty.conllu", b"# nothing\n\n", "empty")
    yield bad("empty-list.json", b"[]", "empty")


def _labels() -> Iterator[Case]:
    yield bad("one-row.csv", b"text,label\na good film,1\n", "one class")
    yield bad("one-class.csv", csv([(text, "good") for text, _ in FILMS]), ":2: only one class")
    yield bad("all-minus-one.csv", csv([(text, -1) for text, _ in FILMS]), "only one class: every label is '-1'")
    yield bad("no-class.csv", csv([(text, f"x{text[-9:]}{n}") for n, (text, _) in enumerate(FILMS)]), "not classes")
    yield bad("half-unlabelled.csv", csv([(text, label or "") for text, label in FILMS]), ":2: 100 of 200 rows")
    yield bad("nan-labels.csv", csv([(text, label or "nan") for text, label in FILMS]), "no label in 'label'")
    yield bad("not-numbers.csv", csv([(t, "yes" if n else "no") for t, n in FILMS]), "not numbers", task="regression")
    yield bad("one-number.csv", csv([(text, 3.5) for text, _ in FILMS]), "same number", task="regression")
    mixed = csv([(text, "many" if n % 9 == 8 else n / 7) for n, (text, _) in enumerate(FILMS)])
    yield bad("numbers-and-words.csv", mixed, "is not a number", task="regression")
    yield bad("infinite.csv", csv([(t, "inf" if n % 9 == 8 else n / 7) for n, (t, _) in enumerate(FILMS)]), "'inf'",
              task="regression")  # fmt: skip
    yield bad("same-text.csv", csv([("the same film", n % 2) for n in range(100)]), "every example is the same")
    yield bad("task-tagging.csv", GOOD, "does not fit", task="tagging")
    yield bad("task-images.csv", GOOD, "texts with labels", task="images")
    dev = csv([(text + " indeed", "maybe" if n % 5 == 4 else label) for n, (text, label) in enumerate(FILMS)])
    files: dict[str, Content] = {"train.csv": GOOD, "dev.csv": dev}
    yield Case("unseen", files, True, "dev.csv:6: the label 'maybe'", {"files": ["train.csv"], "valid": ["dev.csv"]})
    hidden: dict[str, Content] = {"train.csv": GOOD, "dev.csv": csv([(text + "!", -1) for text, _ in FILMS])}
    yield Case("hidden", hidden, True, "unpublished labels", {"files": ["train.csv"], "valid": ["dev.csv"]})


def _columns() -> Iterator[Case]:
    yield bad("only-text.csv", csv([(text,) for text, _ in FILMS], "text"), "label")
    yield bad("numbers.csv", csv([(n,) for n in range(50)], "a"), "which column holds the text")
    yield bad("twice.csv", csv([(t, t, n) for t, n in FILMS], "text,text,label"), "two columns are called 'text'")
    yield bad("misspelled.csv", GOOD, "Did you mean --label label?", label="lable")
    yield bad("out-of-range.csv", GOOD, "no column '9'", text="9")
    lines = csv([(text, n) for text, n in FILMS], '"a\nremark",label')
    yield bad("name-of-two-lines.csv", lines, "there are: a\\nremark, label", text="text")
    yield bad("second-missing.csv", GOOD, "no column 'text2'", text2="text2")
    two = csv([(t, "mf"[n], "yn"[n]) for t, n in FILMS], "text,sex,fresh")
    yield odd("two-labels.csv", two, "'sex' could be the label, too: --label sex")
    yield bad("wide.csv", csv([tuple(range(1500))] * 5, ",".join(f"c{n}" for n in range(1500))), "1,500 columns")
    other: dict[str, Content] = {"train.csv": GOOD, "dev.csv": csv(FILMS, "text,stars")}
    yield Case(
        "dev-columns", other, True, "dev.csv:1: no column 'label'", {"files": ["train.csv"], "valid": ["dev.csv"]}
    )


def _cells() -> Iterator[Case]:
    commas = [(f"{text}, really, {'' if n % 3 else ','}", label) for n, (text, label) in enumerate(FILMS)]
    yield bad("unquoted-commas.csv", csv(commas), "cells")
    yield bad("ragged.tsv", csv([(t, n, *"abc"[: i % 3]) for i, (t, n) in enumerate(FILMS)], mark="\t"), "cells, found")
    unclosed = csv([(f'"{text}"', label) for text, label in FILMS]) + b'"an open end,1\nmore,0\n'
    yield bad("unclosed.csv", unclosed, ":202: a quote opens")
    yield bad(
        "empty-texts.csv", csv([("" if n % 2 else text, n % 2) for n, (text, _) in enumerate(FILMS)]), "no text in"
    )
    pairs = [(f"first {n} here", f"second {n} here" if n % 4 else "", n % 2) for n in range(100)]
    yield bad("empty-seconds.csv", csv(pairs, "sentence1,sentence2,label"), "no text in 'sentence2'")


def _bytes() -> Iterator[Case]:
    packed = gzip.compress(GOOD)
    yield bad("gzip.csv", packed, "gzip")
    yield bad("plain.csv.gz", GOOD, "does not hold gzip")
    yield bad("cut.csv.gz", packed[: len(packed) // 2], "damaged")
    yield bad("picture.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(1, 200)), "PNG")
    yield bad("page.tsv", b"%PDF-1.7\n" + bytes(range(1, 200)), "PDF")
    yield bad("array.csv", b"\x93NUMPY\x01\x00" + bytes(range(1, 200)), "numpy")
    yield bad("text.parquet", GOOD, "Parquet")
    yield bad("text.arrow", GOOD, "not a valid Arrow file")
    yield bad("text.xlsx", GOOD, "not a valid workbook")
    yield bad("one-byte.csv", b"x", "no column looks like a label")
    yield bad("one-byte.jsonl", b"x", ":1: 1 of 1 rows")
    yield bad("one-byte.conll", b"x", "a word without a tag")
    yield bad("one-byte.npz", b"x", "not a valid npz")
    yield bad("zip.csv", b"PK\x03\x04" + bytes(range(1, 200)), "zip")
    yield bad("parquet.csv", b"PAR1" + bytes(range(1, 200)), "Parquet")
    yield bad("extra.csv", csv([(*row, 9) for row in FILMS]), "expected 2 cells, found 3")
    yield bad("unknown-encoding.csv", GOOD, "is not known", encoding="utf-9")
    yield bad("text.zip", GOOD, "is not a zip")


def _numbers() -> Iterator[Case]:
    rows = [(n, n * 0.5, "ab"[n % 2]) for n in range(200)]
    yield bad("one-class-of-numbers.csv", csv([(n, n / 3, "a") for n in range(50)], "x,y,class"), ":2: only one class")
    yield bad(
        "same-numbers.csv", csv([(1, 2, "ab"[n % 2]) for n in range(50)], "x,y,class"), "every example is the sam"
    )
    yield bad("words-among-numbers.csv", csv([*rows, *[("many", 1, "a")] * 3], "x,y,class"), ":202: 3 of 203 rows")
    yield bad("infinite-numbers.csv", csv([*rows, *[("inf", 1, "a")] * 3], "x,y,class"), "expected a number in 'x'")
    yield bad("huge-numbers.csv", csv([*rows, *[("1e300", 1, "a")] * 3], "x,y,class"), "'1e300'")
    yield bad(
        "unlabelled-numbers.csv", csv([(n, n / 2, "a" if n % 2 else "") for n in range(50)], "x,y,class"), "no label"
    )
    yield bad("no-such-target.csv", csv(rows, "x,y,class"), "Did you mean --label class?", label="clas")
    words = csv([("abc"[n % 3], "de"[n % 2]) for n in range(50)], "x,class")
    yield bad("only-words.csv", words, "no column of numbers", text="none")
    files: dict[str, Content] = {"train.csv": csv(rows, "x,y,class"), "dev.csv": csv(rows, "x,z,class")}
    yield Case(
        "number-columns", files, True, "dev.csv:1: no column 'y'", {"files": ["train.csv"], "valid": ["dev.csv"]}
    )
    gaps = csv([("" if n % 9 == 8 else n, n * 0.5, "ab"[n % 2]) for n in range(200)], "x,y,class")
    yield odd("gaps.csv", gaps, "22 numbers are missing (x: 22); read as the mean")
    yield odd(
        "two-columns.csv", csv([(n, n % 2) for n in range(50)], "a,b"), "a table of numbers; to learn: column 'b'"
    )
    sexes = csv([("mf"[n % 2], n, n % 3) for n in range(90)], "sex,age,class")
    yield odd("words-as-columns.csv", sexes, "and a column of 0 and 1 for each word of column sex (2 words)")


def _json() -> Iterator[Case]:
    yield bad("not-json.jsonl", GOOD, ":1")
    yield bad("half.jsonl", jsonl(OBJECTS[:100]) + b"{broken\n" * 100, ":101")
    yield bad("lists.jsonl", jsonl([[1, 2]] * 9), "expected objects")
    yield bad("strings.jsonl", jsonl(["a", "b"] * 9), "found str")
    yield bad("number.json", b"17", "found int")
    yield bad("cut.json", json.dumps(OBJECTS).encode()[:-30], "not JSON")
    yield bad("text-is-number.jsonl", jsonl([{"text": n, "label": n % 2} for n in range(40)]), "text")
    some = [{"text": n if n % 9 == 8 else f"film {n}", "label": n % 2} for n in range(90)]
    yield bad("some-numbers.jsonl", jsonl(some), "found int")
    yield bad("null-labels.jsonl", jsonl([{"text": f"film {n}", "label": None} for n in range(40)]), "label")
    yield bad("object-labels.jsonl", jsonl([{"text": f"film {n}", "label": {"a": n}} for n in range(40)]), "no label")
    yield bad("surrogates.jsonl", b'{"text": "half \\ud83d of it", "label": 1}\n' * 30, "surrogate")
    yield bad("deep.jsonl", (b"[" * 50_000 + b"\n") * 3, ":1")
    yield bad("keys.jsonl", jsonl([{f"k{n}": "a b c", "label": n} for n in range(1500)]), "keys")


def _tagged() -> Iterator[Case]:
    yield bad("no-tags.conll", b"Anna\nvisits\nRome\n\n" * 9, ":1: 9 of 9 rows")
    yield bad("ragged.conll", conll() + b"Anna\tO\tX\n\n" * 30, "expected 2 columns, found 3")
    yield bad("no-word.conll", conll() + b"\tO\n\n" * 30, "without a word")
    yield bad("only-outside.conll", conll(sentence="all\tO\nvisits\tO\n\n"), "only one class")
    yield bad("one-sentence.conll", b"Anna\tB-person\nsleeps\tO\n", "not enough")
    yield bad("endless.conll", b"word\tO\n" * 20_010, "more than 20,000 words")
    yield bad("wrong-column.conll", conll(), "no column 'upos'", label="upos")
    yield bad("nine.conllu", universal(9), "expected 10 columns, found 9")
    yield bad("wrong-column.conllu", universal(), "no column 'upso'", label="upso")
    yield bad("not-universal.conllu", conll(), "expected 10 columns")
    yield bad("task.conll", conll(), "words with tags", task="regression")


def _pictures() -> Iterator[Case]:
    pixels, labels = idx((20, 4, 4), PIXELS.tobytes()), idx((20,), DIGITS.tobytes())
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")

    def files(first: bytes, second: bytes) -> dict[str, Content]:
        return dict(zip(names, (first, second), strict=True))

    yield Case("idx-cut", files(pixels[:-9], labels), True, "311 values", {"files": [names[0]]})
    yield Case("idx-magic", files(b"\0\1" + pixels[2:], labels), True, "not an idx", {"files": [names[0]]})
    yield Case("idx-unequal", files(pixels, labels[:4] + b"\0\0\0\x13" + labels[9:]), True, "20 images and 19 labels",
               {"files": [names[0]]})  # fmt: skip
    yield Case("idx-alone", {names[0]: pixels}, True, "without labels", {"files": [names[0]]})
    yield Case("idx-labels-only", {names[1]: labels}, True, "labels without images", {"files": [names[1]]})
    huge = idx((2**31, 2**31, 2**31), b"abc")
    yield Case("idx-huge", files(huge, labels), True, "header announces", {"files": [names[0]]})
    yield Case("idx-flat", files(labels, labels), True, "1 dimensions", {"files": [names[0]]})
    yield Case("idx-one-class", files(pixels, idx((20,), bytes(20))), True, "only one class", {"files": [names[0]]})
    yield bad("objects.npz", npz(images=PIXELS, labels=np.array([{}] * 20, dtype=object)), "Python objects")
    yield bad("names.npz", npz(a=PIXELS, b=DIGITS), "There are: a, b")
    yield bad("flat.npz", npz(images=DIGITS, labels=DIGITS), "shape")
    yield bad("unequal.npz", npz(images=PIXELS, labels=DIGITS[:9]), "20 images and 9 labels")
    yield bad("negative.npz", npz(images=PIXELS.astype(int) - 300, labels=DIGITS), "values from")
    yield bad("not-a-number.npz", npz(images=np.full((20, 4, 4), np.nan), labels=DIGITS), "values from")
    yield bad("words.npz", npz(images=PIXELS.astype(str), labels=DIGITS), "holds")
    yield bad("text.npz", GOOD, "npz")
    yield bad("cut.npz", npz(images=PIXELS, labels=DIGITS)[:300], "npz")
    broken: dict[str, Content] = {f"{name}/{n}.png": b"\x89PNG broken" for name in ("cat", "dog") for n in range(5)}
    yield Case("broken-pictures", broken, True, "10 of 10 rows", {"files": ["."]})
    yield bad("picture.png", b"\x89PNG", "without a label")


def _folders() -> Iterator[Case]:
    yield Case("no-folder", {}, True, "no such file", {"files": ["gone.csv"]})
    yield Case("near", {"reviews.csv": GOOD}, True, "Did you mean", {"files": ["review.csv"]})
    yield Case("nothing", {}, True, "nothing in it looks like labelled data", {"files": ["."]})
    yield Case("texts", {"a.txt": b"one\n", "b.txt": b"two\n"}, True, "nothing in it", {"files": ["."]})
    yield bad("prose.txt", b"a plain text\nof two lines\n", "without labels")
    yield Case("mixed", {"a.csv": GOOD, "b.conll": conll()}, False, "b.conll", {"files": ["."]})
    yield Case("stdin", {}, True, "read from files", {"stdin": True})
    yield Case(
        "one-folder", {f"good/{n}.txt": b"fine %d" % n for n in range(9)}, True, "only one class", {"files": ["."]}
    )
    yield bad("half.txt", b"__label__a one\n" * 30 + b"two\n" * 30, "__label__NAME")
    yield bad("no-text.txt", b"__label__a\n__label__b\n" * 30, "no text")
    if hasattr(os, "mkfifo"):
        yield bad("pipe.csv", os.mkfifo, "named pipe")
    yield bad("link.csv", lambda path: path.symlink_to("gone.csv"), "link")
    yield bad("loop.csv", lambda path: path.symlink_to(path.name), "a link that leads to itself")
    yield bad("folder.csv", lambda path: path.mkdir(), "nothing in it looks like labelled data")
    if hasattr(os, "geteuid") and os.geteuid():  # root reads everything
        yield bad("locked.csv", lambda path: (path.write_bytes(GOOD), path.chmod(0)), "permission")


def _odd_but_read() -> Iterator[Case]:
    yield odd("bom.csv", b"\xef\xbb\xbf" + GOOD, "byte order mark")
    yield odd("crlf.csv", GOOD.replace(b"\n", b"\r\n"), "CRLF")
    yield odd("cr.csv", GOOD.replace(b"\n", b"\r"), "lone carriage returns")
    parted = csv([(text.replace(" film ", "\u2028film\u0085"), label) for text, label in FILMS])
    yield odd("other-line-ends.csv", parted, "20 of 200 examples")  # only \n ends a line
    hebrew = csv([(f"\u05e9\u05dc\u05d5\u05dd {text}", label) for text, label in FILMS])
    yield odd("right-to-left.csv", hebrew, "20 of 200 examples")
    yield odd("long-line.csv", GOOD + b"a film " * 1_500_000 + b",1\n", "20 of 201 examples")
    forms = ("caf\u00e9", "cafe\u0301", "tea")
    yield odd(
        "forms.csv", csv([(text, forms[n % 3]) for n, (text, _) in enumerate(FILMS)]), "spelled differently, such as"
    )
    once, again = ([(f"{word} {n} is good", n % 2) for n in range(100)] for word in forms[:2])
    yield odd("forms-of-texts.csv", csv([*once, *again]), "copies of others")
    yield odd("semicolons.csv", csv(FILMS, mark=";"), "semicolons")
    yield odd("tabs.csv", csv(FILMS, mark="\t"), "separated by tabs")
    yield odd("bars.csv", csv(FILMS, mark="|"), "vertical bars")
    yield odd("no-header.csv", csv(FILMS, ""), "no header")
    yield odd("one-ragged.csv", GOOD + b"a,b,c,d\n", "1 of 201 rows left out")
    yield odd("one-unlabelled.csv", GOOD + b"an odd film,\n", ":202: 1 of 201")
    yield odd("one-empty.csv", GOOD + b",1\n", "no text in 'text'")
    yield odd("floats.csv", csv([(text, label + 0.5) for text, label in FILMS]), "2 labels: 0.5, 1.5")
    yield odd("twenty-rows.csv", csv(FILMS[:20]), "of 20 examples are held out")
    yield odd("minus-one.csv", csv([(text, n % 3 - 1) for n, (text, _) in enumerate(FILMS)]), "label -1 (67 rows)")
    yield odd(
        "cases.csv",
        csv([(text, ("Ham", "ham", "spam")[n % 3]) for n, (text, _) in enumerate(FILMS)]),
        "such as 'Ham' for 'ham'",
    )
    yield odd("copies.csv", GOOD + GOOD.partition(b"\n")[2], "copies of others")
    yield odd("conflicts.csv", csv([*FILMS, *((text, 1 - label) for text, label in FILMS)]), "more than one label")
    yield odd("stars.csv", csv([(text, n % 5 + 1) for n, (text, _) in enumerate(FILMS)]), "5 whole numbers are read")
    genres = ["drama", "comedy", "drama|comedy", "war|drama"]
    yield odd(
        "genres.csv", csv([(t, genres[n % 4]) for n, (t, _) in enumerate(FILMS)], "text,genres"), "several labels"
    )
    yield odd("cp1252.csv", GOOD + b"caf\xe9,1\n", "is read as cp1252")
    yield odd("nul.tsv", GOOD.replace(b",", b"\t") + b"a\x00b\t1\n", "nul.tsv:202:5802")
    yield odd("utf-16-mark.csv", GOOD.decode().encode("utf-16"), "is read as utf-16")
    yield odd("utf-32-mark.csv", GOOD.decode().encode("utf-32"), "is read as utf-32")
    yield odd("utf-16-be.csv", GOOD.decode().encode("utf-16-be"), "is read as utf-16-be")
    yield odd("bad-byte.conll", conll() + b"caf\xe9\tO\n", "is read as cp1252")
    files: dict[str, Content] = {f"{name}/{n}.txt": b"text %d" % n for name in ("good", "bad") for n in range(20)}
    files["bad/3.txt"] = b"caf\xe9"
    yield Case("bad-byte-in-folder", files, False, "bad/3.txt: not UTF-8, so it is read as cp1252", {"files": ["."]})
    yield odd("utf-16.csv", GOOD.decode().encode("utf-16"), "task: classification", encoding="utf-16")
    yield odd("one-broken.jsonl", jsonl(OBJECTS) + b"{broken\n", "1 of 201")
    yield odd("one-surrogate.jsonl", jsonl(OBJECTS) + b'{"text": "\\ud83d", "label": 1}\n', "surrogate")
    yield odd("one-null.jsonl", jsonl([*OBJECTS, {"text": "a film", "label": None}]), "no label")
    yield odd("one-ragged.conll", conll(150) + b"a\tb\tO\n", "1 of 151")
    same: dict[str, Content] = {"train.csv": GOOD, "dev.csv": GOOD}
    yield Case("train-is-dev", same, False, "leak: 200 of 200", {"files": ["."]})
    dev = csv([(f"{text} indeed", label) for text, label in FILMS]) + b"a strange film,maybe\n"
    files: dict[str, Content] = {"train.csv": GOOD, "dev.csv": dev}
    yield Case("one-unseen", files, False, "dev.csv:202: 1 of 201 valid rows left out", {"files": ["."]})
    hidden: dict[str, Content] = {"train.tsv": csv(FILMS, mark="\t"), "test.tsv": csv([("a film",)] * 9, "text")}
    yield Case("no-labels-in-test", hidden, False, "is not used", {"files": ["."]})
    texts: dict[str, Content] = {f"{n % 2}/{n}.txt": b"film %d" % n for n in range(300)}
    yield Case("one-empty-file", {**texts, "0/x.txt": b" "}, False, "x.txt is empty", {"files": ["."]})
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("train.csv", GOOD)
        archive.writestr("__MACOSX/._train.csv", b"\0")
    yield odd("packed.zip", zipped.getvalue(), "200 examples")


def build(case: Case, folder: Path) -> dict[str, Any]:
    """Make the files of a case; the options to read it with."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            content(path)
    options = dict(case.options)
    files = ["-"] if options.pop("stdin", False) else [str(folder / name) for name in options.pop("files", [case.name])]
    options["files"] = tuple(files)
    for side in ("valid", "test"):
        if side in options:
            options[side] = tuple(str(folder / name) for name in options[side])
    return options
