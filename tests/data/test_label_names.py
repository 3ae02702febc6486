"""Labels by other names: spellings that mean the same, names that are given, levels."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.zoo.shapes import captions, delimited, write
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Labelled
from qkv.data.label_names import at_level, parse_names
from qkv.data.read_examples import read_examples
from qkv.errors import ConfigError, DataError


def read(folder: Path, names: list[str], **options: object) -> Labelled:
    """Captions with these labels in turn."""
    rows = [(text, names[n % len(names)]) for n, text in enumerate(captions("en", 60))]
    write(folder / "captions.csv", delimited([("text", "label"), *rows]))
    config = ExamplesConfig(files=(str(folder / "captions.csv"),), **options)  # type: ignore[arg-type]
    return read_examples(config, purpose="describe")


def counts(found: Labelled) -> dict[str, int]:
    return {name: int((found.train.targets == number).sum()) for number, name in enumerate(found.labels.names)}


def test_spellings_of_a_label_are_one(tmp_path: Path) -> None:
    found = read(tmp_path, ["spam", "ham", "Spam", "ham", "SPAM ", "ham "])
    assert counts(found) == {"ham": 30, "spam": 30}
    (note,) = (note for note in found.notes if "spelled differently" in note)
    assert "20 labels are spelled differently, such as 'Spam' for 'spam', and are read as the same label" in note
    assert "--labels Spam=Spam keeps it separate" in note


def test_letters_and_labels_that_are_kept_apart(tmp_path: Path) -> None:
    assert set(counts(read(tmp_path, ["a", "A", "b"]))) == {"a", "A", "b"}
    found = read(tmp_path, ["spam", "SPAM", "ham"], labels=("SPAM=SPAM",))
    assert set(counts(found)) == {"spam", "SPAM", "ham"}


def test_labels_get_other_names(tmp_path: Path) -> None:
    assert counts(read(tmp_path, ["0", "1", "1.0"], labels=("0=neg", "1=pos"))) == {"neg": 20, "pos": 40}
    assert counts(read(tmp_path, ["bad", "awful", "good"], labels=("awful=bad",))) == {"bad": 40, "good": 20}
    several = read(tmp_path, ["a|b", "b|c", "c"], task="multi-label")
    assert several.labels.names == ("a", "b", "c")


@pytest.mark.parametrize(("given", "mention"), [("0", "not OLD=NEW"), ("=a", "not OLD=NEW"), ("a=", "not OLD=NEW")])
def test_names_that_cannot_be_read_are_refused(given: str, mention: str) -> None:
    with pytest.raises(ConfigError, match=mention):
        parse_names([given])
    with pytest.raises(ConfigError, match="'a' has two names, 'b' and 'c'"):
        parse_names(["a=b", "a=c"])


def test_names_of_labels_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"captions.csv:2: --labels names 2; the labels are 0, 1. Use labels that"):
        read(tmp_path, ["0", "1"], labels=("2=pos",))


def test_levels_of_labels(tmp_path: Path) -> None:
    labels = ["LOC:city", "LOC:country", "NUM:date"]
    found = read(tmp_path, labels)
    assert set(counts(found)) == set(labels)
    (note,) = (note for note in found.notes if "several levels" in note)
    assert "--label label:1 learns the 2 labels of the first level" in note
    coarse = read(tmp_path, labels, label="label:1")
    assert counts(coarse) == {"LOC": 40, "NUM": 20}
    assert coarse.columns["label"] == "label:1"
    assert not any("several levels" in note for note in coarse.notes)
    assert [at_level("comp.sys.mac", level) for level in (0, 1, 2, 3)] == [
        "comp.sys.mac", "comp", "comp.sys", "comp.sys.mac"
    ]  # fmt: skip


@pytest.mark.parametrize("labels", [["4.5", "3.5", "5.5"], ["U.S.", "U.K."], ["a/b", "c"], ["x:y", "x:z"]])
def test_other_labels_have_no_levels(labels: list[str], tmp_path: Path) -> None:
    assert not any("several levels" in note for note in read(tmp_path, labels, task="classification").notes)
