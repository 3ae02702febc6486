"""The labelled sets of the real data, each read with nothing said: the counts of their README, and what was guessed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from data_at_hand import real
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import ImageExamples, Labelled, TagExamples, TextExamples
from qkv.data.read_examples import read_examples


@cache
def read(*names: str | Path, **options: Any) -> Labelled:
    return read_examples(ExamplesConfig(files=tuple(map(str, names)), **options))


def counts(found: Labelled, side: str = "train") -> dict[str, int]:
    examples = dict(found.splits)[side]
    counted = np.bincount(examples.targets, minlength=len(found.labels))
    return dict(zip(found.labels.names, map(int, counted), strict=True))


class Expected(NamedTuple):
    folder: str
    task: str
    sizes: tuple[int, ...]
    """Training and validation examples, and test examples where there are some."""
    labels: tuple[str, ...]
    columns: dict[str, str]


CASES = [
    Expected(
        "sst2",
        "classification",
        (67_349, 872),
        ("0", "1"),
        {"text": "sentence", "label": "label"},
    ),
    Expected("cola", "classification", (8551, 1043), ("0", "1"), {"text": "4", "label": "2"}),
    Expected(
        "mrpc",
        "classification",
        (3667, 408, 1725),
        ("0", "1"),
        {"text": "#1 String", "second text": "#2 String", "label": "Quality"},
    ),
    Expected(
        "rte",
        "classification",
        (2490, 277),
        ("entailment", "not_entailment"),
        {"text": "sentence1", "second text": "sentence2", "label": "label", "id": "index"},
    ),
    Expected(
        "stsb",
        "regression",
        (5749, 1500),
        (),
        {"text": "sentence1", "second text": "sentence2", "label": "score", "id": "index"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder)
def test_glue(case: Expected) -> None:
    found = read(real(case.folder))
    assert found.task == case.task
    assert tuple(len(side) for _, side in found.splits) == case.sizes
    assert found.labels.names == case.labels
    assert found.columns == case.columns
    assert found.pairs == ("second text" in case.columns)


def test_sst2() -> None:
    found = read(real("sst2"))
    assert counts(found) == {"0": 67_349 - 37_569, "1": 37_569}
    assert counts(found, "valid") == {"0": 872 - 444, "1": 444}
    assert found.train[0].text == "hide new secretions from the parental units "
    assert found.valid[1].label == "0"


def test_mrpc_keeps_its_stray_quotes() -> None:
    found = read(real("mrpc"))
    assert isinstance(found.valid, TextExamples)
    assert found.valid[0].second == '" The foodservice pie business does not fit our long-term growth strategy .'
    assert any("byte order mark" in note for note in found.notes)


def test_stsb_scores() -> None:
    found = read(real("stsb"))
    assert found.train.targets.dtype == np.float32
    assert (found.train.targets.min(), found.train.targets.max()) == (0, 5)
    assert found.train[1].label == pytest.approx(3.8)


def test_ag_news_is_quoted_and_has_no_header() -> None:
    found = read(real("ag-news"))
    assert len(found.train) + len(found.valid) == 10_001
    assert found.labels.names == ("Business", "Sci/Tech", "Sports", "World")
    assert counts(found, "test") == dict.fromkeys(found.labels.names, 1900)
    assert not any('""' in example.text for example in found.train)
    assert any("cells may be quoted" in note for note in found.notes)
    assert any("is learned from" in note for note in found.notes)


def test_imdb() -> None:
    found = read(real("imdb-5k/movie_review.tsv.gz"))
    both = counts(found)["1"] + counts(found, "valid")["1"]
    assert (len(found.train) + len(found.valid), both) == (5000, 2517)
    assert found.columns == {"text": "review", "label": "sentiment", "id": "id"}
    assert found.train[0].id == "5814_8"
    assert len(found.valid) == pytest.approx(500, abs=5)
    assert counts(found, "valid")["1"] == pytest.approx(252, abs=3)  # each class gives its share


def test_sms_spam() -> None:
    found = read(real("sms-spam/SMSSpamCollection"))
    both = {name: counts(found)[name] + counts(found, "valid")[name] for name in found.labels.names}
    assert both == {"ham": 5574 - 747, "spam": 747}
    assert any("CRLF" in note for note in found.notes)
    assert not np.isin(found.valid.keys, found.train.keys).any()  # hundreds of copies, none on both sides


def test_wnut17() -> None:
    found = read(real("wnut17"))
    assert found.task == "tagging"
    assert [len(side) for _, side in found.splits] == [3394, 1009, 1287]
    assert len({name[2:] for name in found.labels.names if name != "O"}) == 6
    assert isinstance(found.train, TagExamples)
    assert found.train[0].words[:3] == ("@paulwalk", "It", "'s")
    assert found.train[0].tags[14:17] == ("B-location", "I-location", "I-location")
    assert len(found.train.targets) == int(found.train.lengths.sum())
    assert any("BIO tags of 6 kinds" in note for note in found.notes)


def test_universal_dependencies() -> None:
    found = read(real("ud-english-ewt"))
    assert len(found.labels) == 17
    assert [len(side) for _, side in found.splits] == [12_544, 2001, 2077]


@pytest.mark.parametrize(("label", "kinds"), [("xpos", 49), ("4", 17), ("deprel", 49)])
def test_other_columns(label: str, kinds: int) -> None:
    found = read(real("ud-english-ewt/en_ewt-ud-dev.conllu.gz"), label=label)
    assert len(found.labels) == kinds
    assert len(found.train) + len(found.valid) == 2001


def test_mnist() -> None:
    found = read(real("mnist-10k"), valid_fraction=0.2)
    assert found.task == "images"
    assert (len(found.train), len(found.valid)) == (8000, 2000)
    assert isinstance(found.train, ImageExamples)
    assert found.train.values.shape == (8000, 28, 28)
    assert found.labels.names == tuple("0123456789")
    first = found.train if 0 in found.train.rows else found.valid
    assert first[list(first.rows).index(0)].label == "7"  # MNIST's famous first test picture
    same = read(real("mnist-10k/t10k-images-idx3-ubyte.gz"), valid_fraction=0.2)
    assert same.fingerprint == found.fingerprint


def test_a_play_has_no_labels() -> None:
    with pytest.raises(Exception, match="label"):
        read(real("tinyshakespeare/input.txt"))


def test_named_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_DATA", str(real("rte").parent))
    found = read("rte")
    assert (len(found.train), len(found.valid)) == (2490, 277)
    assert found.fingerprint == read(real("rte")).fingerprint
    with pytest.raises(Exception, match="no labels"):
        read("tinyshakespeare")
