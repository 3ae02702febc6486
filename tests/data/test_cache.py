"""The cache: what is damaged or altered is noticed and made anew, with a note; equal texts piped in at once agree."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from qkv.data import cache
from qkv.data.cache import PART_SUFFIX, cache_folder
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.files import standard_input
from qkv.data.files.unpack import Source
from qkv.data.prepare import prepare
from qkv.data.prepare_examples import prepare_examples
from qkv.data.prepare_pairs import prepare_parallel
from qkv.data.survey import Stamp
from qkv.text.tokenizer import TokenizerConfig
from small_pairs import write as write_pairs
from small_tasks import write as write_examples

NOTE = "damaged or altered; it is built again"


def text(folder: Path) -> tuple[str, ...]:
    folder.mkdir(exist_ok=True)
    path = folder / "text.txt"
    path.write_text("A river and a stone, a book and a song.\n" * 60, encoding="utf-8")
    return prepare(CorpusConfig(files=(str(path),)), TokenizerConfig(kind="bpe", size=300)).notes


def examples(folder: Path) -> tuple[str, ...]:
    path = write_examples(folder, "classification")
    return prepare_examples(ExamplesConfig(files=(str(path),)), TokenizerConfig()).notes


def pairs(folder: Path, vocabulary: str = "joint") -> tuple[str, ...]:
    files = tuple(write_pairs(folder))
    config = ParallelConfig(files=files, vocabulary=vocabulary)
    return prepare_parallel(config, TokenizerConfig(kind="bpe", size=600)).notes


def separate(folder: Path) -> tuple[str, ...]:
    return pairs(folder, "separate")


def flip(content: bytes) -> bytes:
    """One byte in the middle is another."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one bit": flip,
    "all ones": lambda content: b"\xff" * len(content),
    "cut": lambda content: content[:-3],
    "empty": lambda content: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("prepared", [text, examples, pairs, separate], ids=lambda each: each.__name__)
def test_whatever_is_damaged_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Callable[[Path], tuple[str, ...]], damage: str
) -> None:
    """Every file of every part of the cache: of text its tokens and vocabulary, of examples and pairs the latter."""
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    first = prepared(tmp_path / "data")
    files = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.name != ".lock")
    before = {path: path.read_bytes() for path in files}
    assert not any(NOTE in note for note in first)
    for path in files:
        path.write_bytes(DAMAGES[damage](before[path]))
        assert any(NOTE in note and str(path.parent) in note for note in prepared(tmp_path / "data")), path
        assert {each: each.read_bytes() for each in files} == before
    assert prepared(tmp_path / "data") == first


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path))
    return tmp_path


def test_a_folder_that_another_process_repaired_stays(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever saw the damage before it was repaired does not remove what is whole by now."""

    def build(aside: Path) -> None:
        cache.write_facts(aside, {"made": 1})

    folder = cache.obtain("room", "key", build)
    inode = folder.stat().st_ino
    real, asked = cache.is_intact, []

    def late(place: Path) -> bool:
        asked.append(place)
        return len(asked) > 1 and real(place)  # the first answer is of a moment ago

    monkeypatch.setattr(cache, "is_intact", late)
    said: list[str] = []
    assert cache.obtain("room", "key", build, said.append) == folder
    assert folder.stat().st_ino == inode
    assert said == []


def spooled(content: bytes, name: str) -> Path:
    path = cache_folder("input") / f"{name}{PART_SUFFIX}"
    path.write_bytes(content)
    return path


def test_equal_texts_piped_in_at_once_do_not_disturb_each_other(own: Path) -> None:
    first = standard_input.keep_copy(spooled(b"one text", "a"), "fingerprint")
    stamp = Stamp.of([Source(first)])
    os.utime(cache_folder("input"))
    assert standard_input.keep_copy(spooled(b"one text", "b"), "fingerprint") == first
    stamp.require_unchanged()  # what the first process reads is the file it knows
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_a_damaged_copy_of_a_piped_text_is_replaced(own: Path) -> None:
    first = standard_input.keep_copy(spooled(b"one text", "a"), "fingerprint")
    first.write_bytes(b"one tex_")
    standard_input.keep_copy(spooled(b"one text", "b"), "fingerprint")
    assert first.read_bytes() == b"one text"


def test_a_copy_that_is_read_in_another_way_stays_too(own: Path) -> None:
    first = standard_input.keep_copy(spooled(b"one text", "a"), "lines")
    second = standard_input.keep_copy(first, "paragraphs")
    assert first.read_bytes() == second.read_bytes() == b"one text"
    assert sorted(path.name for path in first.parent.iterdir()) == ["lines.txt", "paragraphs.txt"]
