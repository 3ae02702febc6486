"""Labelled data: what is guessed, how labels become numbers, how the sides part."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from data.bad_examples import DIGITS, FILMS, GOOD, OBJECTS, PIXELS, conll, idx, jsonl, npz
from data.bad_examples import csv as table
from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import is_labelled
from qkv.data.examples import ImageExamples, Labelled, LabelMap, PackedTexts, TagExamples
from qkv.data.formats.delimited import sniff_dialect
from qkv.data.formats.headers import has_header
from qkv.data.formats.kinds import FilePreviews
from qkv.data.hold_out import choose_held_out
from qkv.data.identity import text_key
from qkv.data.read_examples import read_examples
from qkv.errors import MissingExtraError


def read(path: Path, content: bytes | None = None, **options: Any) -> Labelled:
    if content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return read_examples(ExamplesConfig(files=(str(path),), **options))


def everything(found: Labelled) -> list[Any]:
    return [example for _, side in found.splits for example in side]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_packed_texts(texts: list[str]) -> None:
    packed = PackedTexts()
    for text in texts:
        packed.append(text)
    assert list(packed) == texts
    assert len(packed) == len(texts)


def test_keys_do_not_see_case_and_space() -> None:
    assert text_key("A  b\n") == text_key("a b")
    assert text_key("a", "b") != text_key("a b")


plain = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).filter(str.strip)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(plain, st.sampled_from(["good", "bad"])), min_size=4, max_size=20), st.sampled_from(",;\t|"))
def test_what_is_written_is_read(tmp_path: Path, rows: list[tuple[str, str]], mark: str) -> None:
    assume(len({label for _, label in rows}) == 2 and len({text_key(text) for text, _ in rows}) > 2)
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, quoting=csv.QUOTE_ALL)
    writer.writerows([("text", "label"), *rows])
    path = tmp_path / ("a.tsv" if mark == "\t" else "a.csv")
    found = read(path, out.getvalue().encode(), text="text", label="label", header=True)
    assert sorted((each.text, each.label) for each in everything(found)) == sorted(rows)


def test_quotes_and_lines_inside_of_cells(tmp_path: Path) -> None:
    rows = [(f'"He said ""no {n}"", and\nleft"', label) for n, (_, label) in enumerate(FILMS)]
    found = read(tmp_path / "a.csv", table(rows))
    assert len(everything(found)) == 200
    assert found.train[0].text.endswith(", and\nleft")


def test_backslashes_before_quotes(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", table([(f'"He said \\"no {n}\\", and left"', n % 2) for n in range(60)]))
    assert found.train[0].text.startswith('He said "no ')


@pytest.mark.parametrize(
    ("lines", "delimiter", "quotes"),
    [
        (["a,b", "c,d"], ",", "doubled"),
        (["a;b", "c;d,e"], ";", "doubled"),
        (["a\tb", 'say "x\td'], "\t", "none"),
        (["a\tb", '"x\td', '"y\te'], "\t", "none"),
        (["a\tb", '"x ""y"""\td'], "\t", "doubled"),
        (["a\tb", '"x"\td', "y\te"], "\t", "none"),
    ],
)
def test_dialects(lines: list[str], delimiter: str, quotes: str) -> None:
    found = sniff_dialect(lines, "\t,;|" if "\t" in lines[0] else ",;\t|")
    assert (found.delimiter, found.quoting) == (delimiter, quotes)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([["text", "label"], ["a", "1"], ["b", "0"]], True),
        ([["Kommentar", "Note"], ["schön", "1"], ["nicht", "2"]], True),
        ([["ham", "ok then"], ["spam", "win"], ["ham", "hello"], ["ham", "bye"]], False),
        ([["a long sentence that nobody would take for the name of a column", "1"], ["b", "0"]], False),
        ([["fine", "1"], ["bad", "0"]], False),
        ([["Kommentar", "Klasse"], *([f"Satz {n}", "gut" if n % 2 else "schlecht"] for n in range(40))], True),
        ([["Satz", "gut"], *([f"Satz {n}", "gut" if n % 2 else "schlecht"] for n in range(40))], False),
    ],
)
def test_headers(rows: list[list[str]], expected: bool) -> None:
    assert has_header(rows) == expected


def test_columns_by_name(tmp_path: Path) -> None:
    rows = [(n, "x", f"a longer remark about {n}", f"film {n} was fine", n % 2) for n in range(50)]
    content = table(rows, "id,source,remark,review,sentiment")
    found = read(tmp_path / "a.csv", content)
    assert found.columns == {"text": "review", "label": "sentiment", "id": "id"}
    said = next(note for note in found.notes if "column" in note)
    assert "text: column 'review', label: column 'sentiment'" in said
    assert "not used: 'source', 'remark'" in said
    other = read(tmp_path / "a.csv", text="remark", label="5", id="2")
    assert other.columns == {"text": "remark", "label": "sentiment", "id": "source"}
    assert everything(other)[0].id == "x"


@pytest.mark.parametrize("names", ["premise,hypothesis", "text_a,text_b", "q1,q2", "#1 String,#2 String"])
def test_pairs(tmp_path: Path, names: str) -> None:
    rows = [(f"the first of pair {n}", f"and the second of {n}", "yes" if n % 2 else "no") for n in range(50)]
    found = read(tmp_path / "a.csv", table(rows, f"{names},label"))
    assert found.pairs
    assert found.train[0].second.startswith("and the second")
    alone = read(tmp_path / "a.csv", text=names.split(",")[1], label="label")
    assert not alone.pairs


def test_numbers_make_a_regression(tmp_path: Path) -> None:
    rows = [(f"film {n}", n / 7) for n in range(1, 60)]
    found = read(tmp_path / "a.csv", table(rows))
    assert found.task == "regression"
    assert found.train.targets.dtype == np.float32
    assert not found.labels.names
    classes = read(tmp_path / "b.csv", table([(f"film {n}", float(n % 2)) for n in range(60)]))
    assert classes.labels.names == ("0", "1")
    years = read(tmp_path / "c.csv", table([(f"film {n}", 1900 + n) for n in range(60)]))
    assert years.task == "regression"
    stars = table([(f"film {n}", n % 5) for n in range(60)])
    assert read(tmp_path / "d.csv", stars).task == "classification"
    assert read(tmp_path / "d.csv", task="regression").task == "regression"


def test_classes_are_ordered(tmp_path: Path) -> None:
    found = read(tmp_path / "a.csv", table([(f"film {n}", n % 12) for n in range(240)]))
    assert found.labels.names == tuple(map(str, range(12)))
    assert found.labels == LabelMap(tuple(map(str, range(12))))


def test_several_labels(tmp_path: Path) -> None:
    rows = [{"text": f"film {n}", "labels": [[], ["war"], ["war", "drama"]][n % 3]} for n in range(60)]
    found = read(tmp_path / "a.jsonl", jsonl(rows))
    assert found.task == "multi-label"
    assert found.labels.names == ("drama", "war")
    labels = {each.text: each.label for each in everything(found)}
    assert [labels[f"film {n}"] for n in range(3)] == [(), ("war",), ("drama", "war")]
    assert found.train.targets.dtype == np.bool_
    assert found.train.targets.shape == (len(found.train), 2)
    genres = ["drama", "war", "drama|war"]
    content = table([(f"film {n}", genres[n % 3]) for n in range(60)])
    assert read(tmp_path / "b.csv", content).task == "multi-label"
    assert read(tmp_path / "b.csv", task="classification").labels.names == ("drama", "drama|war", "war")


def test_fasttext(tmp_path: Path) -> None:
    lines = "".join(f"__label__{'good' if n % 2 else 'bad'} film number {n}\n" for n in range(40))
    found = read(tmp_path / "a.txt", lines.encode())
    assert (found.task, found.labels.names) == ("classification", ("bad", "good"))
    assert everything(found)[0].text.startswith("film number")
    several = read(tmp_path / "b.txt", (lines + "__label__good __label__odd a film\n").encode())
    assert (several.task, several.labels.names) == ("multi-label", ("bad", "good", "odd"))


def test_label_before_a_tab(tmp_path: Path) -> None:
    content = "".join(f"{'good' if n % 2 else 'bad'}\tfilm number {n}, as it is\n" for n in range(40)).encode()
    found = read(tmp_path / "reviews", content)
    assert found.columns == {"text": "2", "label": "1"}


def test_folders_are_labels(tmp_path: Path) -> None:
    for side in ("train", "test"):
        for number in range(20):
            path = tmp_path / side / ("pos" if number % 2 else "neg") / f"{number}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"review {number} of {side}\nof two lines")
    (tmp_path / "train" / "unsup").mkdir()
    (tmp_path / "train" / "unsup" / "0.txt").write_text("nobody judged this")
    found = read(tmp_path)
    assert found.labels.names == ("neg", "pos")
    assert found.test is not None
    assert (len(found.train) + len(found.valid), len(found.test)) == (20, 20)
    assert found.train[0].text.endswith("\nof two lines")


def test_sides_that_are_said(tmp_path: Path) -> None:
    for name in ("train", "more_test", "dev"):
        (tmp_path / f"{name}.csv").write_bytes(GOOD.replace(b"film", name.encode()))
    named = {name: str(tmp_path / f"{name}.csv") for name in ("train", "more_test", "dev")}
    both = read_examples(ExamplesConfig(files=(named["train"], named["more_test"]), valid=(named["dev"],)))
    assert (len(both.train), len(both.valid), both.test) == (400, 200, None)
    folder = read_examples(ExamplesConfig(files=(str(tmp_path),), valid=(named["dev"],)))
    assert (len(folder.train), len(folder.valid)) == (200, 200)
    found = read_examples(ExamplesConfig(files=(str(tmp_path),)))
    assert [len(side) for _, side in found.splits] == [200, 200, 200]


def test_proteins(tmp_path: Path) -> None:
    rows = [("MKT" + "ACDEFGHIKL"[n % 10] * (n + 9), "ab"[n % 2]) for n in range(40)]
    found = read(tmp_path / "a.csv", table(rows, "protein,family"))
    assert found.columns == {"text": "protein", "label": "family"}


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    columns = {"text": [text for text, _ in FILMS], "label": [bool(label) for _, label in FILMS]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    found = read(tmp_path / "a.parquet")
    assert found.labels.names == ("false", "true")
    assert len(everything(found)) == 200


def test_the_same_rows_are_the_same_data(tmp_path: Path) -> None:
    one = read(tmp_path / "a.csv", GOOD)
    assert read(tmp_path / "b.jsonl", jsonl(OBJECTS)).fingerprint == one.fingerprint
    assert read(tmp_path / "c.json", json.dumps(OBJECTS).encode()).fingerprint == one.fingerprint
    assert read(tmp_path / "a.csv", seed=1).fingerprint != one.fingerprint
    assert read(tmp_path / "d.csv", GOOD + b"one more,1\n").fingerprint != one.fingerprint


@pytest.mark.parametrize("times", [1, 3])
def test_tagged(tmp_path: Path, times: int) -> None:
    sentence = "-DOCSTART- -X- O\n\n" + "Anna NNP B-person\nRossi NNP I-person\nvisits VBZ O\n \t\n" * times
    found = read(tmp_path / "a.conll", conll(30, sentence))
    assert isinstance(found.train, TagExamples)
    assert len(everything(found)) == 30 * times
    assert found.train[0].tags == ("B-person", "I-person", "O")
    assert read(tmp_path / "a.conll", label="2").train[0].tags == ("NNP", "NNP", "VBZ")


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("S-a O", "IOBES tags of 1 kind."),
        ("I-a O", "IO tags of 1 kind."),
        ("B-a O I-a", "1 I- tag does not follow a B- or I- tag of its kind; it begins a span nevertheless."),
        ("B-a O I-a O I-a", "2 I- tags do not follow a B- or I- tag of their kind; each begins a span nevertheless."),
    ],
)
def test_schemes(tmp_path: Path, tags: str, said: str) -> None:
    lines = "".join(f"word{n}\t{tag}\n" for n, tag in enumerate(tags.split()))
    found = read(tmp_path / "a.iob", (lines + "\nother\tO\n\nthird\tO\n").encode())
    assert said in "\n".join(found.notes)


def test_only_many_long_sentences_lack_blank_lines(tmp_path: Path) -> None:
    sentence, long = "The\tO\ndog\tO\nsleeps\tO\n", "".join(f"word{n}\tO\n" for n in range(1200))
    short = "\n".join(sentence.replace("dog", f"Rex{n}\tB-dog\nof") for n in range(2000))
    usual = read(tmp_path / "usual.conll", f"{short}\n{long}\n".encode())
    assert not any("blank lines" in note for note in usual.notes)
    lacking = read(tmp_path / "lacking.conll", ("Rex\tB-dog\n\n" * 30 + f"{long}\n{long * 2}\n{long}\n").encode())
    (note,) = (note for note in lacking.notes if "blank lines" in note)
    assert "4,800 of 4,830 words are in sentences of more than 1,000; blank lines should separate sentences" in note


def test_npz(tmp_path: Path) -> None:
    arrays = {"x_train": PIXELS, "y_train": DIGITS, "x_test": PIXELS[:6] // 2, "y_test": DIGITS[:6]}
    found = read(tmp_path / "a.npz", npz(**arrays))
    assert isinstance(found.train, ImageExamples)
    assert found.test is not None
    assert (len(found.train) + len(found.valid), len(found.test)) == (20, 6)
    floats = read(tmp_path / "b.npz", npz(images=PIXELS / 319, labels=DIGITS))
    assert floats.train.all_values.max() == 204


def test_idx_in_several_files(tmp_path: Path) -> None:
    for side, count in (("train", 20), ("t10k", 8)):
        (tmp_path / f"{side}-images-idx3-ubyte").write_bytes(idx((count, 4, 4), PIXELS[:count].tobytes()))
        (tmp_path / f"{side}-labels-idx1-ubyte").write_bytes(idx((count,), DIGITS[:count].tobytes()))
    found = read(tmp_path)
    assert found.test is not None
    assert (len(found.train) + len(found.valid), len(found.test)) == (20, 8)
    assert any("leak: 8 of 8 test images" in note for note in found.notes)


def test_pictures_in_folders(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for number in range(12):
        path = tmp_path / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        size = (8, 6) if number else (4, 4)
        image.new("RGB", size, (number, 9, 200)).save(path)
    found = read(tmp_path)
    assert isinstance(found.train, ImageExamples)
    assert found.train.all_values.shape == (12, 6, 8, 3)
    assert any("1 of 12 images were resized to 8 x 6" in note for note in found.notes)
    assert is_labelled([str(tmp_path)], FilePreviews("utf-8"))


def test_pictures_need_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "a.png").write_bytes(b"\x89PNG")
    with pytest.raises(MissingExtraError, match=r"pip install 'qkv\[images\]'"):
        read(tmp_path)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), min_size=2, max_size=80),
    st.floats(0.05, 0.6),
    st.integers(0, 5),
)
def test_splits(rows: list[tuple[int, int]], fraction: float, seed: int) -> None:
    keys = np.array([key for key, _ in rows], dtype=np.uint64)
    classes = np.array([each for _, each in rows], dtype=np.int32)
    assume(len(set(keys.tolist())) > 1)
    out = choose_held_out(keys, classes, fraction, seed)
    assert out.any()
    assert not out.all()
    assert not np.isin(keys[out], keys[~out]).any()  # copies stay together
    turned = choose_held_out(keys[::-1], classes[::-1], fraction, seed)
    if len({(key, each) for key, each in rows}) == len(set(keys.tolist())):  # no text with two labels
        assert (turned[::-1] == out).all()


def test_every_class_gives_its_share() -> None:
    keys = np.arange(10_000, dtype=np.uint64) * np.uint64(2**40 + 1)
    classes = (np.arange(10_000) % 10 == 0).astype(np.int32)
    out = choose_held_out(keys, classes, 0.1, 0)
    assert out.sum() == 1000
    assert abs(int(classes[out].sum()) - 100) <= 1
    assert (choose_held_out(keys, classes, 0.1, 1) != out).any()
    singles = choose_held_out(keys[:40], np.arange(40, dtype=np.int32) // 2, 0.1, 0)
    assert singles.sum() == 4
    assert len(set((np.arange(40) // 2)[~singles].tolist())) == 20  # every class can be learned


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", GOOD, True),
        ("a.jsonl", jsonl(OBJECTS), True),
        ("a.jsonl", jsonl([{"text": f"story {n}", "url": f"http://{n}"} for n in range(40)]), False),
        ("a.txt", b"It was a dark night.\n\nAnd so on.\n" * 20, False),
        ("a.txt", "".join(f"go {n}\tgeh {n}\n" for n in range(90)).encode(), False),
        ("sms", "".join(f"{'ham' if n % 3 else 'spam'}\tmessage {n} here\n" for n in range(90)).encode(), True),
        ("a.conll", conll(), True),
        ("a.json", json.dumps([f"story {n}" for n in range(9)]).encode(), False),
    ],
)
def test_what_looks_labelled(tmp_path: Path, name: str, content: bytes, expected: bool) -> None:
    (tmp_path / name).write_bytes(content)
    assert is_labelled([str(tmp_path / name)], FilePreviews("utf-8")) == expected
