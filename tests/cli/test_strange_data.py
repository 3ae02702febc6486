"""Data as strangers have them: archives in folders, links, holes, options for other data, too few examples."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_pairs
import small_tasks
from cli.commands import run
from cli.guards import guarded
from data.bad_inputs import prose
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.tagger import TaggerConfig
from qkv.recipe import bundle
from text.kinds import tokenizer
from translators import built

TABLE = "text,label\n" + "".join(f"{text},{'good' if good else 'bad'}\n" for text, good in small_tasks.sentences(40))


def zipped(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/") + ".txt", content)
    return made.getvalue()


def tarred() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    return made.getvalue()


PACKED: dict[str, Callable[[], bytes]] = {
    "a.zip": lambda: zipped(a="A text. " * 50),
    "labels.zip": lambda: zipped(pos__a="good", pos__b="fine", neg__a="bad", neg__b="dull"),
    "nested.zip": lambda: zipped(inner=zipped(a="A text.").decode("latin-1")),
    "empty.zip": lambda: zipped(),
    "broken.zip": lambda: b"PK\x03\x04 no zip",
    "a.tar": tarred,
    "a.tar.gz": lambda: gzip.compress(tarred()),
    "a.txt.gz": lambda: gzip.compress(prose().encode()),
    "broken.gz": lambda: b"no gzip",
}


@pytest.mark.parametrize("beside", ["book.txt", "table.csv", "pos/good.txt"])
@pytest.mark.parametrize("name", PACKED)
def test_a_folder_with_an_archive_is_described_or_refused(name: str, beside: str, tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "folder"
    (folder / beside).parent.mkdir(parents=True)
    (folder / beside).write_text(TABLE if beside.endswith(".csv") else prose())
    (folder / name).write_bytes(PACKED[name]())
    code = run(["data", "describe", str(folder)], debug=False)
    assert code == (2 if name.startswith("broken") and not beside.endswith(".csv") else code), capsys.readouterr().err
    assert code in (0, 2), capsys.readouterr().err


def test_a_folder_with_a_zip_is_trained_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.txt").write_text(prose())
    (folder / "b.zip").write_bytes(zipped(b=prose()[::-1]))
    assert run(["train", str(folder), "--model", "gpt-nano", "--steps", "1"], debug=False) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.gz", "a.zst", "a.parquet", "a.txt.gz", "text and hole.txt"])
def test_a_terabyte_of_holes_is_refused_by_its_first_bytes(name: str, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / name
    begin = {"text and hole.txt": prose().encode(), "a.txt.gz": gzip.compress(prose().encode())}
    path.write_bytes(begin.get(name, b""))
    os.truncate(path, 2**40)
    assert guarded(["train", str(path), "--run", str(tmp_path / "run"), "--steps", "1"]) == 2
    assert name in capsys.readouterr().err


def test_one_name_twice_in_a_zip_is_reported(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "The first text.")
        archive.writestr("b.txt", "Another.")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.txt", "The second text.")
    assert run(["data", "describe", str(path)], debug=False) == 0
    assert "1 name is repeated, the first a.txt" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["file", "folder", "parent"])
def test_links_that_leave_a_folder_are_not_followed(kind: str, tmp_path: Path, capsys: Any) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (folder / "a.txt").write_text("Inside. " * 20)
    (folder / "again.txt").symlink_to("a.txt")
    (outside / "secret.txt").write_text("Not for you. " * 20)
    leads = {"file": "../outside/secret.txt", "folder": "../outside", "parent": ".."}[kind]
    (folder / "link.txt").symlink_to(leads)
    assert run(["data", "describe", str(folder), "--json"], debug=False) == 0
    out = capsys.readouterr().out
    assert "1 link that leads out of the folder was not followed" in out
    assert "link.txt" in out
    assert '"files": 2' in out, "the link to a file of the folder is followed"
    (tmp_path / "named").symlink_to(folder)
    assert run(["data", "describe", str(tmp_path / "named")], debug=False) == 0


def tagged(tag: str, often: int, count: int = 200) -> str:
    """Sentences of three words, some with a tag of one's own."""
    return "".join(f"The\tO\nr{number}\t{tag if number < often else 'O'}\nkeeps\tB-X\n\n" for number in range(count))


def rows(label: str, often: int, count: int = 200) -> str:
    lines = (f"the river {n},{label if n < often else ('good', 'bad')[n % 2]}\n" for n in range(count))
    return "text,label\n" + "".join(lines)


def several(label: str, often: int, count: int = 200) -> str:
    lines = (f'{{"text": "the river {n}", "label": ["good"{f", {chr(34)}{label}{chr(34)}" if n < often else ""}]}}\n'
             for n in range(count))  # fmt: skip
    return "".join(lines)


SCORED: dict[str, tuple[str, Callable[[str, int], str]]] = {
    "tagger": ("words.conll", tagged),
    "classifier": ("table.csv", rows),
    "several": ("table.jsonl", several),
}


@pytest.mark.parametrize("kind", SCORED)
def test_examples_with_labels_unknown_to_a_model_are_not_left_out_of_its_score(
    kind: str, tmp_path: Path, capsys: Any
) -> None:
    words = tokenizer("wordpiece")
    encoder = BertConfig(vocabulary=words.vocabulary, **small_tasks.ENCODER)
    config: Any = TaggerConfig(encoder=encoder, labels=("B-X", "O"))
    if kind != "tagger":
        problem = "multi" if kind == "several" else "single"
        config = ClassifierConfig(encoder=encoder, labels=("bad", "good"), problem=problem)
    bundle.save(tmp_path / "model", bundle.Bundle(built(config), config, words, 2))
    name, made = SCORED[kind]
    what = "sentences have tags" if kind == "tagger" else "examples have labels"
    for often, code in ((0, 0), (1, 0), (20, 0 if kind == "tagger" else 2), (60, 2)):
        (tmp_path / name).write_text(made("B-NEW", often))
        assert run(["evaluate", str(tmp_path / "model"), str(tmp_path / name)], debug=False) == code
        err = capsys.readouterr().err
        assert ("B-NEW" in err) == (often > 0)
        assert (f"{often} of 200 {what} that the model does not know" in err) == (often > 0), err


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """Texts in folders named for their labels, and a table that --filter leaves out."""
    for number, (text, good) in enumerate(small_tasks.sentences(40)):
        place = tmp_path / "reviews" / ("pos" if good else "neg") / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return tmp_path / "reviews"


def test_folders_named_for_labels_are_labels(labels: Path, tmp_path: Path, capsys: Any) -> None:
    assert run(["data", "describe", str(labels)], debug=False) == 0
    assert "classification" in capsys.readouterr().out
    words = [
        "train",
        str(labels),
        "--test",
        str(labels),
        "--model",
        "bag",
        "--steps",
        "1",
        "--run",
        str(tmp_path / "r"),
    ]
    assert run(words, debug=False) == 0, capsys.readouterr().err
    assert "40 for testing" in capsys.readouterr().err


def test_filter_chooses_among_labelled_files(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "a.csv").write_text(TABLE)
    (folder / "b.csv").write_text("number,word\n1,x\n2,y\n")
    said = ["--filter", "a.*", "--label", "label"]
    for words in (["data", "describe"], ["train", "--model", "bag", "--steps", "1", "--run", str(tmp_path / "run")]):
        assert run([*words, str(folder), *said], debug=False) == 0, capsys.readouterr().err
        both = capsys.readouterr()
        assert "classification" in both.out + both.err
    assert run(["data", "describe", str(folder), "--filter", "c.*", "--label", "label"], debug=False) == 2
    assert "'c.*'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--documents", ["train", "TABLE", "--label", "label", "--documents", "lines"]),
        ("--documents", ["data", "describe", "TABLE", "--label", "label", "--documents", "lines"]),
        ("--test", ["train", "BOOK", "--test", "BOOK"]),
        ("--source", ["train", "TABLE", "--label", "label", "--source", "text"]),
        ("--filter", ["train", "TABLE", "--source", "text", "--target", "label", "--filter", "*"]),
    ],
)
def test_options_for_other_data_are_refused_by_their_names(
    option: str, words: list[str], book: str, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "table.csv").write_text(TABLE)
    named = {"TABLE": str(tmp_path / "table.csv"), "BOOK": book}
    assert run([named.get(word, word) for word in words], debug=False) == 2
    err = capsys.readouterr().err
    assert f"{option} " in err
    assert "unknown key" not in err
    assert "[corpus]" not in err


def few(task: str, count: int, folder: Path) -> list[str]:
    """Files with so many examples of a kind of data; of text one word or two, for its bound is one of tokens."""
    folder.mkdir(parents=True)
    if task == "translation":
        return small_pairs.write(folder, count=count)
    if task == "text":
        (folder / "book.txt").write_text("word " * (count // 2))
        return [str(folder / "book.txt")]
    if task == "numbers":
        lines = [f"{n},{n * n},{'ab'[n % 2]}" for n in range(count)]
        (folder / "table.csv").write_text("\n".join(["x,y,label", *lines]) + "\n")
        return [str(folder / "table.csv")]
    path = small_tasks.write(folder, task)
    if task == "images":
        arrays = np.load(path)
        np.savez(path, images=arrays["images"][:count], labels=arrays["labels"][:count])
    elif task == "tagging":
        path.write_text("\n\n".join(path.read_text().split("\n\n")[:count]) + "\n\n")
    else:
        path.write_text("\n".join(path.read_text().splitlines()[: count + 1]) + "\n")
    return [str(path)]


DATA = ("classification", "pairs", "regression", "multi-label", "tagging", "images", "numbers", "translation", "text")


@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize("task", DATA)
def test_too_few_examples_are_refused_with_the_number_needed(
    task: str, count: int, tmp_path: Path, capsys: Any
) -> None:
    files = few(task, count, tmp_path / "data")
    said = ["--task", task] if task in ("regression", "multi-label") else []
    assert run(["train", *files, *said, "--steps", "1", "--run", str(tmp_path / "run")], debug=False) == 2
    assert "t least " in capsys.readouterr().err
    assert not (tmp_path / "run" / "best").exists()


@pytest.mark.parametrize("task", [task for task in DATA if task != "text"])
def test_few_examples_to_check_on_are_refused(task: str, tmp_path: Path, capsys: Any) -> None:
    files, valid = few(task, 40, tmp_path / "data"), few(task, 1, tmp_path / "valid")
    said = ["--task", task] if task in ("regression", "multi-label") else []
    words = ["train", *files, *said, "--valid", *valid, "--steps", "1", "--run", str(tmp_path / "run")]
    assert run(words, debug=False) == 2
    assert "1 validation" in capsys.readouterr().err


def test_a_table_with_an_unclosed_quote(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "table.csv"
    path.write_text('text,label\ngood film,pos\n"bad film,neg\n')
    assert run(["train", str(path), "--steps", "1", "--run", str(tmp_path / "run")], debug=False) == 2
    capsys.readouterr()
