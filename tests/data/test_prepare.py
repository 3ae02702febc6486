"""From files to streams: the cache, its damage, two builders at once, standard input, and little memory."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.bad_inputs import prose
from data_at_hand import real
from qkv.config import parse, toml_values
from qkv.data import cache
from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Caution
from qkv.data.prepare import learn_tokenizer, prepare, stream, stream_text
from qkv.data.tokens import alphabet
from qkv.errors import ConfigError, DataError, InputError, StorageError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig

AUTO = TokenizerConfig()
CHARACTERS = TokenizerConfig(kind="characters")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def book(folder: Path, text: str | None = None, name: str = "book.txt") -> CorpusConfig:
    path = folder / name
    path.write_text(prose() if text is None else text, encoding="utf-8")
    return CorpusConfig(files=(str(path),))


def entries(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


def test_the_streams_are_the_text(tmp_path: Path) -> None:
    text = prose()
    prepared = prepare(book(tmp_path), CHARACTERS)
    cut = int(0.9 * len(text))
    ours = prepared.tokenizer
    assert prepared.train.tokens.tolist() == [ours.separator, *ours.encode(text[:cut]), ours.separator]
    assert prepared.valid.tokens.tolist() == [ours.separator, *ours.encode(text[cut:]), ours.separator]
    assert isinstance(prepared.train.tokens, np.memmap)
    assert (prepared.train.characters, prepared.valid.characters) == (cut, len(text) - cut)
    assert prepared.corpus.fingerprint
    assert len(prepared.corpus.fingerprint) == 64
    assert prepared.tokenizer_config.kind == "characters"


def test_the_resolved_configs_survive_a_recipe(tmp_path: Path) -> None:
    prepared = prepare(book(tmp_path), AUTO)
    for config in (prepared.corpus, prepared.tokenizer_config):
        assert parse(type(config), json.loads(json.dumps(toml_values(config))), "a recipe") == config
    again = prepare(prepared.corpus, prepared.tokenizer_config)
    assert again.fingerprint == prepared.fingerprint


def test_real_text_by_itself() -> None:
    prepared = prepare(CorpusConfig(files=(str(real("tinyshakespeare/input.txt")),)), CHARACTERS)
    assert prepared.tokenizer.vocabulary == 67
    assert (prepared.train.characters, prepared.valid.characters) == (1_003_854, 111_540)
    assert prepared.valid.unknown == 0


def test_a_second_time_nothing_is_built(tmp_path: Path, own_cache: Path) -> None:
    corpus = book(tmp_path)
    stages: list[str] = []
    first = prepare(corpus, AUTO)
    before = entries(own_cache)
    second = prepare(corpus, AUTO, progress=lambda stage, done, total: stages.append(stage))
    assert entries(own_cache) == before
    assert set(stages) == {"fingerprinting"}
    assert second.notes == first.notes
    assert second.fingerprint == first.fingerprint


def test_the_same_content_elsewhere_is_the_same_corpus(tmp_path: Path, own_cache: Path) -> None:
    first = prepare(book(tmp_path), AUTO)
    before = entries(own_cache)
    second = prepare(book(tmp_path, name="copy.text"), AUTO)
    assert second.corpus.fingerprint == first.corpus.fingerprint
    assert entries(own_cache) == before


def test_what_changes_the_reading_changes_the_fingerprint(tmp_path: Path) -> None:
    corpus = book(tmp_path)
    variants = [
        corpus,
        replace(corpus, documents="lines"),
        replace(corpus, valid_fraction=0.2),
        replace(corpus, encoding="latin-1"),
        replace(corpus, valid=corpus.files),
        book(tmp_path, prose() + "x", "other.txt"),
    ]
    fingerprints = [prepare(each, CHARACTERS).corpus.fingerprint for each in variants]
    assert len(set(fingerprints)) == len(variants)


def test_a_damaged_cache_is_built_again(tmp_path: Path, own_cache: Path) -> None:
    corpus = book(tmp_path)
    first = prepare(corpus, AUTO)
    expected = first.train.tokens.tolist()
    for path in own_cache.rglob("train.bin"):
        path.write_bytes(path.read_bytes()[:-2])
    assert prepare(corpus, AUTO).train.tokens.tolist() == expected
    for path in own_cache.rglob("manifest.json"):
        path.write_text("{")
    assert prepare(corpus, AUTO).train.tokens.tolist() == expected
    assert not [path for path in own_cache.rglob("*") if "partial" in path.name or "trash" in path.name]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path, own_cache: Path) -> None:
    corpus = book(tmp_path)

    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "reading":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(corpus, AUTO, progress=stop)
    assert not [path for path in own_cache.rglob("*") if path.is_file()]


def test_two_at_once_both_end_well(tmp_path: Path, own_cache: Path) -> None:
    corpus = book(tmp_path, prose(60_000))
    program = textwrap.dedent("""
        import sys
        from qkv.data.corpus import CorpusConfig
        from qkv.data.prepare import prepare
        from qkv.text.tokenizer import TokenizerConfig
        prepared = prepare(CorpusConfig(files=(sys.argv[1],)), TokenizerConfig())
        print(prepared.fingerprint, int(prepared.train.tokens.sum()))
    """)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    command = [sys.executable, "-c", program, corpus.files[0]]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
        for _ in range(3)
    ]
    answers = [process.communicate()[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    assert len(set(answers)) == 1
    assert answers[0]


def test_a_race_that_is_lost() -> None:
    winner = cache.obtain("other room", "key", lambda aside: cache.write_facts(aside, {"by": "the winner"}))

    def build(aside: Path) -> None:
        cache.write_facts(aside, {"by": "us"})
        shutil.copytree(winner, aside.parent / "key")  # while we build, another process puts its own in place

    folder = cache.obtain("room", "key", build)
    assert cache.read_facts(folder) == {"by": "the winner"}
    assert [path.name for path in folder.parent.iterdir()] == ["key"]


def test_unknown_characters_of_the_tail_are_counted(tmp_path: Path) -> None:
    prepared = prepare(book(tmp_path, prose() + "世" * 40), CHARACTERS)
    assert prepared.valid.unknown == 40
    assert prepared.train.unknown == 0
    assert any("40 tokens of the valid text" in note for note in prepared.notes)


def test_own_validation_text_and_overlap(tmp_path: Path) -> None:
    corpus = book(tmp_path)
    held_out = book(tmp_path, "\n".join(f"quite another sentence, number {n} of them" for n in range(50)), "valid.txt")
    prepared = prepare(replace(corpus, valid=held_out.files), CHARACTERS)
    assert prepared.train.characters == len(prose())
    assert not any(note.startswith("overlap") for note in prepared.notes)
    same = prepare(replace(corpus, valid=corpus.files), AUTO)
    assert same.train.characters == same.valid.characters


def test_overlap_is_said(tmp_path: Path) -> None:
    text = "\n".join(f"sentence number {n} is long enough to be counted as one" for n in range(80))
    corpus = book(tmp_path, text)
    prepared = prepare(replace(corpus, valid=corpus.files), AUTO)
    assert any("overlap: 100.0%" in note for note in prepared.notes)


def test_a_copy_of_short_lines_is_noticed(tmp_path: Path) -> None:
    corpus = book(tmp_path, "".join(f"name{n}\n" for n in range(300)))
    prepared = prepare(replace(corpus, valid=corpus.files), CHARACTERS)
    assert any("overlap: 100.0%" in note and isinstance(note, Caution) for note in prepared.notes)
    assert all(isinstance(note, str) for note in prepared.notes)


def test_the_real_share_is_said(tmp_path: Path) -> None:
    notes = prepare(replace(book(tmp_path), documents="lines"), CHARACTERS).notes
    said = next(note for note in notes if "held out for validation" in note)
    prepared = prepare(replace(book(tmp_path), documents="lines"), CHARACTERS)
    share = prepared.valid.characters / (prepared.train.characters + prepared.valid.characters)
    assert f"{prepared.valid.documents:,} of them ({share:.1%} of the text) are held out" in said
    first, second = book(tmp_path, "one " * 5000, "1.txt"), book(tmp_path, "two " * 5000, "2.txt")
    notes = prepare(replace(first, files=first.files + second.files), CHARACTERS).notes
    assert any("2 documents: the end of the longest (10.0% of the text) is held out" in note for note in notes)
    assert any("its last 10.0% is held out" in note for note in prepare(book(tmp_path), CHARACTERS).notes)


def test_a_given_tokenizer_is_used(tmp_path: Path) -> None:
    first = prepare(book(tmp_path), TokenizerConfig(kind="bpe", size=300))
    other = book(tmp_path, "another text altogether\n" * 50, "other.txt")
    second = prepare(other, first.tokenizer_config, given_tokenizer=first.tokenizer)
    assert second.tokenizer.fingerprint == first.tokenizer.fingerprint
    path = tmp_path / "tokenizer.json"
    first.tokenizer.save(path)
    third = prepare(other, TokenizerConfig(kind="file", file=str(path)))
    assert third.fingerprint == second.fingerprint


def test_resuming_with_the_tokenizer_of_the_run_finds_the_cache(tmp_path: Path, own_cache: Path) -> None:
    first = prepare(book(tmp_path), AUTO)
    before = entries(own_cache)
    again = prepare(first.corpus, first.tokenizer_config, given_tokenizer=Tokenizer.parse(first.tokenizer.json()))
    assert entries(own_cache) == before
    assert again.fingerprint == first.fingerprint


def test_a_stream_for_evaluation(tmp_path: Path) -> None:
    prepared = prepare(book(tmp_path), CHARACTERS)
    found, notes = stream(prepared.tokenizer, book(tmp_path, "The river ✈\r\n", "short.txt"))
    assert found.tokens.tolist() == stream_text(prepared.tokenizer, "The river ✈\n").tokens.tolist()
    assert any("CRLF" in note for note in notes)
    assert any("become UNK" in note for note in notes)


def test_a_tokenizer_alone_learns_from_all_of_the_text(tmp_path: Path) -> None:
    corpus = book(tmp_path, prose() + "世" * 40)
    learned, resolved, _ = learn_tokenizer(corpus, CHARACTERS)
    assert not learned.unknown_characters("世")
    assert resolved.kind == "characters"
    assert prepare(corpus, CHARACTERS).tokenizer.unknown_characters("世") == ["世"]


def test_characters_are_learned_from_all_of_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.prepare.TOKENIZER_SAMPLE", 20_000)
    text = "".join(f"{prose(3000)}{chr(0x4E00 + number)}\n" for number in range(40)) + prose(20_000)
    prepared = prepare(book(tmp_path, text), CHARACTERS)
    assert prepared.train.unknown == 0
    assert prepared.tokenizer.vocabulary == len(set(text)) + 2


@given(st.lists(st.text(max_size=30), max_size=5))
def test_an_alphabet(texts: list[str]) -> None:
    assert alphabet(texts) == "".join(sorted(set("".join(texts))))


class Pipe(io.TextIOWrapper):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))


def test_standard_input_is_kept(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Pipe(prose().encode()))
    first = prepare(CorpusConfig(files=("-",)), AUTO)
    assert first.corpus.files == ("-",)
    monkeypatch.setattr("sys.stdin", Pipe(b""))
    again = prepare(first.corpus, first.tokenizer_config, given_tokenizer=first.tokenizer)
    assert again.fingerprint == first.fingerprint
    assert len(list((own_cache / "input").iterdir())) == 1
    with pytest.raises(DataError, match="it is empty"):
        prepare(CorpusConfig(files=("-",)), AUTO)
    with pytest.raises(InputError, match="cannot be mixed"):
        prepare(CorpusConfig(files=("-", "a.txt")), AUTO)
    with pytest.raises(InputError, match="cannot be the validation text"):
        prepare(replace(book(tmp_path), valid=("-",)), AUTO)


def test_a_recipe_of_a_piped_text_reads_the_pipe(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Pipe(prose().encode()))
    first = prepare(CorpusConfig(files=("-",)), CHARACTERS)
    monkeypatch.setattr("sys.stdin", Pipe(b"quite another text\n" * 100))
    second = prepare(first.corpus, CHARACTERS)
    assert second.train.characters + second.valid.characters == 1900
    assert second.corpus.fingerprint != first.corpus.fingerprint
    monkeypatch.setattr("sys.stdin", Pipe(b"not to be read"))
    assert prepare(first.corpus, CHARACTERS, resumed=True).fingerprint == first.fingerprint
    with open(os.devnull) as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert prepare(first.corpus, CHARACTERS).fingerprint == first.fingerprint
        other = prepare(replace(first.corpus, documents="lines"), CHARACTERS)
    assert other.corpus.fingerprint != first.corpus.fingerprint
    assert prepare(first.corpus, CHARACTERS, resumed=True).fingerprint == first.fingerprint  # its copy is still there


def test_what_killed_pipes_and_downloads_left_is_swept(tmp_path: Path, own_cache: Path) -> None:
    yesterday = time.time() - 25 * 3600
    places = [own_cache / name for name in ("input/old.part", "sets/deep/old.part", "input/new.part", "input/old.txt")]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("left over")
        if place.stem == "old":
            os.utime(place, (yesterday, yesterday))
    prepare(book(tmp_path), CHARACTERS)
    assert [place.exists() for place in places] == [False, False, True, True]


def test_bad_bytes_from_a_pipe_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Pipe(b"one\n" * 2000 + bytes(8000)))
    with pytest.raises(DataError, match="standard input:2001:8000"):
        prepare(CorpusConfig(files=("-",)), AUTO)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, 2.0])
def test_a_fraction_that_is_none(tmp_path: Path, fraction: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        prepare(replace(book(tmp_path), valid_fraction=fraction), AUTO)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file where the cache should be")
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "taken"))
    with pytest.raises(StorageError, match="Set QKV_CACHE"):
        prepare(book(tmp_path), AUTO)


_PEAK = """
import resource, sys
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare
from qkv.text.tokenizer import TokenizerConfig
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
prepare(CorpusConfig(files=(sys.argv[1],)), TokenizerConfig(kind=sys.argv[3]))
before = peak()
prepare(CorpusConfig(files=(sys.argv[2],)), TokenizerConfig(kind=sys.argv[3]))
print(before, peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "megabytes"), [("characters", 300), ("bpe", 60)])
@pytest.mark.parametrize("line", [True, False], ids=["lines", "one line"])
def test_a_corpus_larger_than_memory_streams(tmp_path: Path, kind: str, megabytes: int, line: bool) -> None:
    """Many times the text takes hardly more memory than ten megabytes of it do."""
    unit = prose(60_000) if line else prose(60_000).replace("\n", " ")
    small, large = tmp_path / "small.txt", tmp_path / "large.txt"
    for path, size in ((small, 10), (large, megabytes)):
        with path.open("w") as file:
            for _ in range(size * 10**6 // len(unit)):
                file.write(unit)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    answer = subprocess.run(
        [sys.executable, "-c", _PEAK, str(small), str(large), kind],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    before, after = map(float, answer.stdout.split())
    print(f"{kind}: {before:.0f} MB, then {after:.0f} MB")
    assert after - before < 60, (before, after)
