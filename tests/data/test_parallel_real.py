"""The parallel sets of the real data, each read with next to nothing said: the counts of their README, the notes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from data_at_hand import real
from qkv.data.corpus import ParallelConfig
from qkv.data.detect_pairs import is_parallel
from qkv.data.encode import end_of
from qkv.data.examples import Pair, Parallel
from qkv.data.findings import Caution
from qkv.data.formats.kinds import FilePreviews
from qkv.data.prepare_pairs import prepare_parallel
from qkv.data.read_pairs import read_parallel
from qkv.text.tokenizer import TokenizerConfig


def multi30k(*endings: str) -> tuple[str, ...]:
    return tuple(str(real(f"multi30k/train.{each}.gz")) for each in endings)


@cache
def read(*files: str, **options: Any) -> Parallel:
    return read_parallel(ParallelConfig(files=files, **options))


FIRST = Pair(
    "Two young, White males are outside near many bushes.",
    "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
    "de",
)


def test_multi30k() -> None:
    found = read(*multi30k("en", "de"))
    assert found.languages == ("en", "de")
    assert [(name, len(side)) for name, side in found.splits] == [("train", 28_998), ("valid", 1014), ("test", 1000)]
    assert found.train[0] == FIRST
    # two translations are "@@", at these lines; everything else is kept
    said = next(note for note in found.notes if "left out" in note)
    assert isinstance(said, Caution)
    assert "train.en.gz:16510: 2 of 29,000 pairs left out" in said
    assert not any(pair.target == "@@" for pair in found.train)
    assert any("val.en.gz" in note and "--valid" in note for note in found.notes)
    assert any("test_2016_flickr.de.gz" in note for note in found.notes)
    assert any("leak: 1 of 1,014 valid sources" in note for note in found.notes)
    assert any(
        note == "task: translation (en to de); 28,998 train, 1,014 valid, 1,000 test pairs." for note in found.notes
    )


def test_multi30k_as_a_folder_and_as_a_named_set(monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(*multi30k("en", "de"))
    folder = read(str(real("multi30k")), languages=("de", "cs"))
    assert (folder.languages, [len(side) for _, side in folder.splits]) == (("de", "cs"), [28_998, 1014, 1000])
    monkeypatch.setenv("QKV_DATA", str(real("multi30k").parent))
    named = read_parallel(ParallelConfig(files=("multi30k",)))
    assert named.fingerprint == found.fingerprint  # its test files stand beside
    assert any("multi30k: en is translated to de; choose others with --languages." in note for note in named.notes)


def test_zero_shot() -> None:
    tests = tuple(str(real(f"multi30k/test_2016_flickr.{each}.gz")) for each in ("de", "cs"))
    found = read(*multi30k("en", "de", "en", "cs"), directions="both", test=tests)
    assert found.tagged == ("cs", "de", "en")
    assert [len(side) for _, side in found.splits] == [2 * (28_998 + 29_000), 4 * 1014, 2 * 1000]
    assert found.test is not None
    assert found.test.directions == (("de", "cs"), ("cs", "de"))
    assert not set(found.test.directions) & set(found.directions)


@pytest.mark.slow
def test_tatoeba() -> None:
    found = read(str(real("tatoeba-deu-eng")), languages=("en", "de"))
    assert (len(found.train), len(found.valid), found.test) == (169_197 - 2034, 2034, None)
    assert found.columns == {"source": "1", "target": "2"}
    assert found.train[0] == Pair("Hi.", "Hallo!", "de")
    ours, others = (side.source_keys[side.rows] for side in (found.train, found.valid))
    assert not np.isin(others, ours).any()
    assert sum('"' in source for source in found.train.source) == 511  # quotes are text, and swallow nothing
    assert any("files left out: 1 documentation (_about.txt)" in note for note in found.notes)
    assert any("of 167,163 training pairs (less than 0.1%) are copies of others" in note for note in found.notes)


@pytest.mark.slow
def test_a_vocabulary_of_eight_thousand() -> None:
    done = prepare_parallel(ParallelConfig(files=multi30k("en", "de")), TokenizerConfig())
    assert (done.tokenizer_config.kind, done.tokenizer_config.size) == ("bpe", 8000)
    assert done.tokenizer.vocabulary == 8000
    rows = done.rows(done.parallel.train, done.context)
    assert done.context == 48
    assert len(rows) + rows.left_out == 28_998
    assert rows.left_out < 60
    assert rows.targets.lengths.mean() == pytest.approx(15.5, abs=1.5)
    assert done.tokenizer.decode(rows.targets.row(0).tolist()) == FIRST.target
    assert rows.targets.row(0)[-1] == end_of(done.tokenizer)[0]
    test = done.parallel.test
    assert test is not None
    assert done.rows(test).kept.tolist() == list(range(1000))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("multi30k/train.en.gz", "multi30k/train.de.gz"), True),
        (("multi30k/train.de.gz", "multi30k/train.en.gz", "multi30k/val.de.gz", "multi30k/val.en.gz"), True),
        (("multi30k",), True),
        (("tatoeba-deu-eng/deu-eng.zip",), True),
        (("multi30k/train.en.gz",), False),
        (("multi30k/train.en.gz", "multi30k/val.en.gz"), False),
        (("tinyshakespeare/input.txt", "names/names.txt"), False),
        (("sotu/sotu.zip",), False),
        (("sst2",), False),
        (("ag-news/dev.tsv.gz",), False),
        (("sms-spam/SMSSpamCollection",), False),
        (("cola/train.tsv",), False),
        (("stsb/train.tsv.gz",), False),
        (("mrpc/train.tsv.gz",), False),
        (("imdb-5k/movie_review.tsv.gz",), False),
        (("wnut17",), False),
        (("ud-english-ewt",), False),
        (("wic",), False),
    ],
)
def test_what_is_plainly_parallel(names: tuple[str, ...], expected: bool) -> None:
    assert is_parallel([str(real(name)) for name in names], FilePreviews("utf-8")) == expected
