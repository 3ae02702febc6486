"""Parallel data: lines in step, languages by name, sides, both directions, ids, vocabulary, what is plainly that."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.bad_parallel import ENGLISH, GERMAN, OBJECTS, SOURCE, TARGET, jsonl, text, tsv, zipped
from qkv.data.corpus import ParallelConfig
from qkv.data.detect_pairs import is_parallel
from qkv.data.encode import encode_pairs, end_of, tag_of, with_tags
from qkv.data.examples import Pair, Pairs, Parallel
from qkv.data.findings import Caution
from qkv.data.formats.aligned import file_pair_languages, parse_file_name
from qkv.data.formats.kinds import FilePreviews
from qkv.data.identity import component_keys
from qkv.data.prepare_pairs import default_pair_tokenizer, prepare_parallel
from qkv.data.read_pairs import read_parallel
from qkv.errors import ConfigError, DataError, InputError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from text.kinds import KINDS, tokenizer

CZECH = [f"malý pes číslo {n} spí na zahradě" for n in range(len(ENGLISH))]


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def read(folder: Path, *names: str, **options: Any) -> Parallel:
    for side in ("valid", "test"):
        if side in options:
            options[side] = tuple(str(folder / name) for name in options[side])
    purpose = options.pop("purpose", "train")
    return read_parallel(ParallelConfig(files=tuple(str(folder / name) for name in names), **options), purpose=purpose)


def texts(side: Pairs) -> list[tuple[str, str]]:
    found = [(pair.source, pair.target) for pair in side]
    assert found == list(side.texts())
    return found


def everything(found: Parallel) -> list[tuple[str, str]]:
    return sorted(pair for _, side in found.splits for pair in texts(side))


BOTH = list(zip(ENGLISH, GERMAN, strict=True))
TWO = {"train.en": SOURCE, "train.de": TARGET}


def test_two_files(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    found = read(tmp_path, "train.en", "train.de")
    assert found.languages == ("en", "de")
    assert found.directions == (("en", "de"),)
    assert found.tagged == ()
    assert (len(found.train), len(found.valid), found.test) == (190, 10, None)
    assert everything(found) == sorted(BOTH)
    assert found.train[0].language == "de"
    turned = read(tmp_path, "train.de", "train.en")
    assert turned.languages == ("de", "en")
    assert everything(turned) == sorted((second, first) for first, second in BOTH)
    assert turned.fingerprint != found.fingerprint


line = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\r\t"), max_size=30)
solid = line.filter(str.strip)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(solid, solid), min_size=1, max_size=20), st.sampled_from(["", ".gz", ".zip"]), st.booleans())
def test_what_is_written_is_read(tmp_path: Path, pairs: list[tuple[str, str]], packing: str, ended: bool) -> None:
    for place, ending in enumerate(("en", "de")):
        content = "\n".join(pair[place] + "\r" * pair[place].endswith("\r") for pair in pairs) + "\n" * (
            ended or len(pairs) == 1
        )
        whole = ("\ufeff" if content.startswith("\ufeff") else "") + content  # a first one is a mark, no text
        pack = {"": bytes, ".gz": gzip.compress, ".zip": lambda data: zipped({"only.txt": data})}[packing]
        (tmp_path / f"a.{ending}{packing}").write_bytes(pack(whole.encode()))
    config = ParallelConfig(files=tuple(str(tmp_path / f"a.{ending}{packing}") for ending in ("en", "de")))
    assert texts(read_parallel(config, purpose="evaluate").train) == pairs


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(solid, solid), min_size=2, max_size=20))
def test_objects_are_read_as_they_are(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl([{"id": 1, "source": first, "target": second} for first, second in pairs]))
    assert texts(read_parallel(ParallelConfig(files=(str(path),)), purpose="evaluate").train) == pairs


def test_only_a_newline_ends_a_line(tmp_path: Path) -> None:
    odd = ["a\x85b", "c\u2028d", "e\x0bf", "g\rh", "i\x0cj", "k\x1cl", "m\u2029n"]
    write(tmp_path, {"a.en": text(odd, "\r\n"), "a.de": text(odd[::-1])})
    found = read(tmp_path, "a.en", "a.de", purpose="describe")
    assert texts(found.train) == list(zip(odd, odd[::-1], strict=True))
    assert "7 line ends \\r\\n (CRLF) were read as \\n." in found.notes
    assert not any("lone" in note for note in found.notes)


def test_tabs_do_not_make_a_table_of_a_text(tmp_path: Path) -> None:
    tabs = [line.replace(" ", "\t", 1) for line in ENGLISH]
    write(tmp_path, {"a.txt": text(tabs), "b.txt": TARGET, "train.en.zip": zipped({"x": text(tabs)})})
    write(tmp_path, {"train.de.zip": zipped({"x": text(tabs)})})
    assert everything(read(tmp_path, "a.txt", "b.txt")) == sorted(zip(tabs, GERMAN, strict=True))
    found = read(tmp_path, "train.en.zip", "train.de.zip")
    assert found.languages == ("en", "de")
    assert everything(found) == sorted(zip(tabs, tabs, strict=True))


def test_zstandard(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    write(
        tmp_path, {f"a.{name}.zst": zstandard.compress(content) for name, content in (("en", SOURCE), ("de", TARGET))}
    )
    found = read(tmp_path, "a.en.zst", "a.de.zst")
    assert (everything(found), found.languages) == (sorted(BOTH), ("en", "de"))


def test_another_encoding(tmp_path: Path) -> None:
    write(tmp_path, {"a.en": SOURCE.decode().encode("utf-16"), "a.de": TARGET.decode().encode("utf-16")})
    assert everything(read(tmp_path, "a.en", "a.de", encoding="utf-16")) == sorted(BOTH)


def test_unequal_pairs_are_left_out_of_training_only(tmp_path: Path) -> None:
    write(tmp_path, {"train.en": SOURCE + b"x" * 91 + b"\n" + b"x" * 90 + b"\n" + b"x" * 40 + b"\n"})
    write(tmp_path, {"train.de": TARGET + b"y" * 10 + b"\n" + b"y" * 10 + b"\n" + b"y\n"})
    found = read(tmp_path, "train.en", "train.de")
    assert len(everything(found)) == 202
    note = next(note for note in found.notes if "more than 9 times" in note)
    assert isinstance(note, Caution)
    assert "train.en:201: 1 of 203 pairs left out" in note
    assert len(read(tmp_path, "train.en", "train.de", purpose="evaluate").train) == 203
    other = read(tmp_path, "train.en", "train.de", valid=("train.en", "train.de"))
    assert (len(other.train), len(other.valid)) == (202, 203)


def test_sides_beside_the_training_files(tmp_path: Path) -> None:
    write(tmp_path, TWO | {"val.en": b"a cat\n", "val.de": b"eine Katze\n", "val.cs": b"kocka\n"})
    write(tmp_path, {f"test_2016.{each}.gz": gzip.compress(b"a\nb\n") for each in ("en", "de")})
    write(tmp_path, {f"test_2017.{each}.gz": gzip.compress(b"a\n") for each in ("en", "de")} | {"dev.en": b"alone\n"})
    found = read(tmp_path, "train.en", "train.de")
    assert found.test is not None
    assert [len(side) for _, side in found.splits] == [200, 1, 2]
    assert texts(found.valid) == [("a cat", "eine Katze")]
    assert any("validated on" in note and "choose others with --valid" in note for note in found.notes)
    assert any("the first is taken" in note for note in found.notes)
    assert [len(side) for _, side in read(tmp_path, "train.en", "train.de", test=("val.en", "val.de")).splits] == [
        200,
        1,
        1,
    ]
    assert len(read(tmp_path, "train.en", "train.de", purpose="evaluate").valid) == 0
    write(tmp_path, {"own.en": SOURCE, "own.de": TARGET})
    assert len(read(tmp_path, "own.en", "own.de").valid) == 10  # nothing says that these are training files


def test_sides_named_together(tmp_path: Path) -> None:
    write(tmp_path, TWO | {"dev.en": b"a cat\n", "dev.de": b"eine Katze\n"})
    found = read(tmp_path, "dev.en", "dev.de", "train.en", "train.de")
    assert [len(side) for _, side in found.splits] == [200, 1]


def test_a_folder_and_an_archive(tmp_path: Path) -> None:
    files = TWO | {"train.cs": text(CZECH), "valid.en": b"a\n", "valid.cs": b"b\n", "README": b"about\n"}
    write(tmp_path / "set", files)
    (tmp_path / "set.zip").write_bytes(zipped({f"set/{name}": content for name, content in files.items()}))
    for name in ("set", "set.zip"):
        found = read(tmp_path, name, languages=("en", "cs"))
        assert found.languages == ("en", "cs")
        assert [len(side) for _, side in found.splits] == [200, 1]
        assert "files left out: 1 documentation (README), 1 without translations (train.de)." in found.notes


def test_both_sides_in_one_folder_of_two_languages(tmp_path: Path) -> None:
    write(tmp_path, TWO)
    found = read(tmp_path, ".")
    assert found.languages == ("de", "en")
    assert any("de is translated to en; choose others with --languages" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", tsv(ENGLISH, GERMAN)),
        ("a.txt", tsv(ENGLISH, GERMAN)),
        ("a.tsv.gz", gzip.compress(tsv(ENGLISH, GERMAN))),
        ("a.zip", zipped({"deu.txt": tsv(ENGLISH, GERMAN), "_about.txt": b"About this set.\n"})),
        ("a.tsv", tsv(ENGLISH, GERMAN, ["CC-BY 2.0"] * 200)),
        ("a.tsv", tsv(ENGLISH, GERMAN, header="source\ttarget")),
        ("a.csv", tsv(GERMAN, ENGLISH, header="target,source", mark=",")),
        ("a.csv", tsv(ENGLISH, GERMAN, header="en,de", mark=",")),
        ("a.csv", tsv(ENGLISH, ENGLISH, GERMAN, header="id,English,German", mark=",")),
        ("a.jsonl", jsonl(OBJECTS)),
        ("a.json", json.dumps(OBJECTS).encode()),
        ("a.jsonl", jsonl([{"id": 7, "translation": {"en": one, "de": other}} for one, other in BOTH])),
    ],
)
def test_tables(tmp_path: Path, name: str, content: bytes) -> None:
    write(tmp_path, {name: content})
    found = read(tmp_path, name)
    assert everything(found) == sorted(BOTH)
    assert found.languages in (("source", "target"), ("en", "de"), ("English", "German"))
    assert is_parallel([str(tmp_path / name)], FilePreviews("utf-8"))


def test_columns_that_are_said(tmp_path: Path) -> None:
    write(tmp_path, {"a.csv": tsv(CZECH, ENGLISH, GERMAN, header="x,y,z", mark=",")})
    found = read(tmp_path, "a.csv", source="y", target="z")
    assert everything(found) == sorted(BOTH)
    assert found.columns == {"source": "y", "target": "z"}
    assert read(tmp_path, "a.csv", source="2", target="3", header=True).fingerprint == found.fingerprint
    write(tmp_path, {"a.csv": tsv(CZECH, ENGLISH, GERMAN, header="cs,en,de", mark=",")})
    said = read(tmp_path, "a.csv", languages=("en", "de"), header=True)
    assert (everything(said), said.languages) == (sorted(BOTH), ("en", "de"))


def test_a_first_pair_is_no_header(tmp_path: Path) -> None:
    write(tmp_path, {"a.tsv": b"text\tText\n" + tsv(ENGLISH, GERMAN)})
    assert len(everything(read(tmp_path, "a.tsv"))) == 201


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    sys.modules["pyarrow.parquet"].write_table(pyarrow.table({"source": ENGLISH, "target": GERMAN}), path)
    assert everything(read(tmp_path, "a.parquet")) == sorted(BOTH)
    nested = pyarrow.table({"translation": [{"en": one, "de": other} for one, other in BOTH]})
    sys.modules["pyarrow.parquet"].write_table(nested, path)
    found = read(tmp_path, "a.parquet")
    assert (everything(found), found.languages) == (sorted(BOTH), ("en", "de"))


def test_held_out_pairs_share_no_source(tmp_path: Path) -> None:
    sources = [f"sentence {n % 50}" for n in range(400)]
    targets = [f"Satz {n // 3}" for n in range(400)]
    write(tmp_path, {"a.en": text(sources), "a.de": text(targets)})
    found = read(tmp_path, "a.en", "a.de", valid_fraction=0.2)
    assert len(found.valid) == 80
    assert not {pair.source for pair in found.train} & {pair.source for pair in found.valid}
    again = read(tmp_path, "a.en", "a.de", valid_fraction=0.2, seed=1)
    assert {pair.source for pair in again.valid} != {pair.source for pair in found.valid}


def test_both_directions_share_neither_text(tmp_path: Path) -> None:
    sources, targets = [f"source {n // 2}" for n in range(300)], [f"target {(n + n // 4) // 2}" for n in range(300)]
    write(tmp_path, {"a.en": text(sources), "a.de": text(targets)})
    found = read(tmp_path, "a.en", "a.de", directions="both", valid_fraction=0.1)
    assert found.directions == (("en", "de"), ("de", "en"))
    assert found.tagged == ("de", "en")
    assert found.train.directions == found.directions
    ours, others = ({pair.source for pair in side} for side in (found.train, found.valid))
    assert others
    assert not ours & others
    half = len(found.train) // 2
    forward, back = found.train[3], found.train[half + 3]
    assert (back.source, back.target, back.language) == (forward.target, forward.source, "en")
    assert forward.language == "de"


def test_what_is_connected() -> None:
    first, second = np.array([5, 5, 7, 9, 3], dtype=np.uint64), np.array([1, 2, 2, 4, 4], dtype=np.uint64)
    assert component_keys(first, second).tolist() == [5, 5, 5, 3, 3]


def test_several_languages(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"a.en": SOURCE, "a.de": TARGET, "b.en": SOURCE, "b.cs": text(CZECH), "z.de": TARGET, "z.cs": text(CZECH)},
    )
    names = ("a.en", "a.de", "b.en", "b.cs")
    found = read(tmp_path, *names, directions="both", test=("z.de", "z.cs"))
    assert found.directions == (("en", "de"), ("en", "cs"), ("de", "en"), ("cs", "en"))
    assert found.tagged == ("cs", "de", "en")
    assert len(found.train) + len(found.valid) == 800
    into = found.train.target_languages(found.tagged)
    assert [found.tagged[number] for number in into] == [pair.language for pair in found.train]
    assert not {pair.source for pair in found.train} & {pair.source for pair in found.valid}  # in both files of English
    assert found.test is not None
    assert found.test.directions == (("de", "cs"), ("cs", "de"))  # never trained, and read all the same
    one = read(tmp_path, *names)
    assert one.tagged == ("cs", "de")
    assert one.train.directions == (("en", "de"), ("en", "cs"))
    with pytest.raises(DataError, match="translates de to en"):
        read(tmp_path, *names, test=("a.de", "a.en"))


def test_fingerprints_know_the_pairs_and_not_the_names(tmp_path: Path) -> None:
    write(tmp_path, TWO | {"b/other.en.gz": gzip.compress(SOURCE), "b/other.de": TARGET.replace(b"\n", b"\r\n")})
    first, second = read(tmp_path, "train.en", "train.de"), read(tmp_path, "b/other.en.gz", "b/other.de")
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != read(tmp_path, "train.en", "train.de", seed=1).fingerprint
    assert first.fingerprint != read(tmp_path, "train.en", "train.de", directions="both").fingerprint


def test_files_that_slipped_are_told(tmp_path: Path) -> None:
    lengths = np.random.default_rng(0).integers(10, 80, 1500)
    write(tmp_path, {"a.en": text(["x" * int(n) for n in lengths]), "a.de": text(["y" * int(n) for n in lengths])})
    assert not any("correlation" in note for note in read(tmp_path, "a.en", "a.de").notes)
    write(tmp_path, {"a.de": text(["y" * int(n) for n in np.roll(lengths, 1)])})
    assert any(isinstance(note, Caution) and "correlation" in note for note in read(tmp_path, "a.en", "a.de").notes)


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"),
        ("train.de.gz", "de"),
        ("europarl-v7.de-en.de", "de"),
        ("corpus_fr.txt", "fr"),
        ("dev.eng_Latn", "eng_Latn"),
        ("train.pt-BR.zst", "pt-BR"),
        ("src-train.txt", "source"),
        ("train.tgt", "target"),
        ("a.txt", None),
        ("de.txt", None),
        ("main.py", None),
        ("README", None),
        ("notes.md", None),
    ],
)
def test_languages_of_names(name: str, language: str | None) -> None:
    found = parse_file_name(name)
    assert (found.language if found else None) == language


def test_names_that_belong_together() -> None:
    assert file_pair_languages("train.en", "train.de.gz") == ("en", "de")
    assert file_pair_languages("src-train.txt", "tgt-train.txt") == ("source", "target")
    assert file_pair_languages("train.en", "dev.de") is None
    assert file_pair_languages("train.en", "train.en.gz") is None
    assert file_pair_languages("a.txt", "b.txt") is None


def test_what_is_plainly_parallel(tmp_path: Path) -> None:
    prose = text(["It was a dark night.", "", "The rain fell.", "", "He waited."] * 9)
    write(
        tmp_path, TWO | {"a.txt": SOURCE, "b.txt": TARGET, "book.en": SOURCE, "book.de": prose * 40, "x.py": b"a = 1\n"}
    )
    write(
        tmp_path,
        {"news.tsv": tsv(ENGLISH, ["good", "bad"] * 100), "edges.csv": b"source,target\n" + b"a1,b2\nc3,d4\n" * 9},
    )
    write(tmp_path, {"named.csv": tsv(ENGLISH, GERMAN, header="sentence1,sentence2", mark=",")})
    write(tmp_path, {"labels.csv": tsv(ENGLISH, ["yes", "no"] * 100, header="source,target", mark=",")})
    write(tmp_path, {"lm.jsonl": jsonl([{"text": each, "source": "web"} for each in ENGLISH])})

    def asked(*names: str) -> bool:
        return is_parallel([str(tmp_path / name) for name in names], FilePreviews("utf-8"))

    assert asked("train.en", "train.de")
    assert not asked("a.txt", "b.txt")
    assert not asked("train.en")
    assert not asked("train.en", "b.txt")
    assert not asked("train.en", "train.de", "a.txt")
    write(tmp_path, {"cut.en": SOURCE, "cut.de": text(GERMAN[:2]), "lost.en": SOURCE, "lost.de": b""})
    assert asked("cut.en", "cut.de")  # the counts are said where they are read
    assert asked("lost.en", "lost.de")
    assert not asked("book.en", "book.de")  # filled in other places: two editions, not line by line
    for name in ("news.tsv", "edges.csv", "named.csv", "labels.csv", "lm.jsonl", "x.py", "gone.tsv", "a.txt"):
        assert not asked(name), name
    assert is_parallel(["multi30k"], FilePreviews("utf-8"))
    assert not is_parallel(["tinyshakespeare"], FilePreviews("utf-8"))
    assert not is_parallel([], FilePreviews("utf-8"))


def side_of(pairs: list[tuple[str, str]], tmp_path: Path, **options: Any) -> Parallel:
    write(tmp_path, {"p.en": text([one for one, _ in pairs]), "p.de": text([other for _, other in pairs])})
    return read(tmp_path, "p.en", "p.de", purpose="evaluate", **options)


RIVER = [("The river keeps the stone.", "the stone"), ("Stay", "nobody knows why"), ("ΩΩ", "river")]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_ids(kind: str, tmp_path: Path) -> None:
    own = tokenizer(kind)
    rows = encode_pairs(own, side_of(RIVER, tmp_path).train)
    assert len(rows) == len(rows.sources) == len(rows.targets) == 3
    for number, (source, target) in enumerate(RIVER):
        assert rows.sources.row(number).tolist() == [*own.opening, *own.encode(source), *end_of(own)]
        assert rows.targets.row(number).tolist() == [*own.encode(target), *end_of(own)]
    assert rows.kept.tolist() == [0, 1, 2]
    assert rows.sources.ids.dtype == np.uint16


def test_what_is_too_long_is_left_out_and_never_cut(tmp_path: Path) -> None:
    own = tokenizer("characters")
    side = side_of([("river", "stone"), ("river", "the stones"), ("the rivers", "stone")], tmp_path).train
    rows = encode_pairs(own, side, 6)
    assert (rows.kept.tolist(), rows.left_out) == ([0], 2)
    assert rows.notes("training pairs", 6) == ["2 of 3 training pairs are longer than 6 tokens and left out."]
    assert encode_pairs(own, side, 11).left_out == 0
    with pytest.raises(InputError, match="a length of 1 has no room for a text: special tokens take 1"):
        encode_pairs(own, side, 1)
    unknown = encode_pairs(own, side_of([("ΩΩ", "river"), ("a", "Ω")], tmp_path).train)
    assert unknown.notes("pairs", 9) == ["3 tokens of the pairs are not in the vocabulary and become UNK."]
    none = encode_pairs(own, side.select(np.zeros(3, dtype=np.bool_)))
    assert (len(none), len(none.sources.ids)) == (0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_tags_stand_before_the_source(kind: str, tmp_path: Path) -> None:
    plain = tokenizer(kind)
    own = with_tags(plain, ("de", "en"))
    assert own.vocabulary == plain.vocabulary + 2
    assert with_tags(own, ("de",)) is own
    spelled = "the river <2de> stone"
    assert own.encode(spelled) == plain.encode(spelled)  # a text cannot ask for a language
    own.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.named, loaded.fingerprint) == (own.named, own.fingerprint)
    found = side_of(RIVER[:2], tmp_path, directions="both")
    rows = encode_pairs(loaded, found.train, tagged=found.tagged)
    for number, language in enumerate(["de", "de", "en", "en"]):
        place = len(own.opening)
        assert rows.sources.row(number)[place] == own.named[tag_of(language)]
        assert rows.targets.row(number)[0] < plain.vocabulary
    assert own.decode(rows.sources.row(0).tolist()) == own.decode(own.encode(RIVER[0][0]))
    with pytest.raises(ConfigError, match="no tag <2de>"):
        encode_pairs(plain, found.train, tagged=found.tagged)
    with pytest.raises(ConfigError, match="not among those with tags"):
        encode_pairs(own, found.train, tagged=("de",))


def test_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    write(tmp_path, TWO)
    config = ParallelConfig(files=(str(tmp_path / "train.en"), str(tmp_path / "train.de")), directions="both")
    done = prepare_parallel(config, TokenizerConfig(size=400))
    assert (done.tokenizer.kind, done.tokenizer_config.kind, done.tokenizer_config.size) == ("bpe", "bpe", 400)
    assert done.tokenizer.vocabulary == 402
    assert done.config.languages == ("en", "de")
    assert done.config.fingerprint == done.parallel.fingerprint
    assert any("for both languages" in note for note in done.notes)
    kept = list((tmp_path / "cache" / "tokenizers").iterdir())
    again = prepare_parallel(done.config, done.tokenizer_config)
    assert list((tmp_path / "cache" / "tokenizers").iterdir()) == kept
    assert again.tokenizer.fingerprint == done.tokenizer.fingerprint
    assert again.parallel.fingerprint == done.parallel.fingerprint
    rows = done.rows(done.parallel.train, done.context)
    assert rows.left_out == 0
    assert done.context % 16 == 0
    for number in (0, len(rows) - 1):
        pair: Pair = done.parallel.train[int(rows.kept[number])]
        assert done.tokenizer.decode(rows.sources.row(number).tolist()) == pair.source
        assert done.tokenizer.decode(rows.targets.row(number).tolist()) == pair.target
    other = prepare_parallel(config, TokenizerConfig(), given_tokenizer=done.tokenizer)
    assert other.tokenizer is done.tokenizer
    with pytest.raises(ConfigError, match="no tag"):
        prepare_parallel(config, TokenizerConfig(), given_tokenizer=tokenizer("bpe"))
    done.tokenizer.save(tmp_path / "own.json")
    filed = prepare_parallel(config, TokenizerConfig(kind="file", file=str(tmp_path / "own.json")))
    assert filed.tokenizer.named == done.tokenizer.named


def test_the_vocabulary_grows_with_the_text(tmp_path: Path) -> None:
    assert default_pair_tokenizer(side_of(RIVER, tmp_path), TokenizerConfig()).size == 1000
    many = side_of([(f"{n} " + "a" * 100, f"{n} " + "b" * 100) for n in range(9000)], tmp_path)
    assert default_pair_tokenizer(many, TokenizerConfig()).size == 8000
    assert default_pair_tokenizer(many, TokenizerConfig(size=300)).size == 300


def test_resolved_configs_read_the_same(tmp_path: Path) -> None:
    write(tmp_path, {f"{side}.{each}": text(lines) for side in ("train", "val") for each, lines in
                     (("en", ENGLISH), ("de", GERMAN), ("cs", CZECH))})  # fmt: skip
    names = ("train.en", "train.de", "train.en", "train.cs", "val.en", "val.de", "val.en", "val.cs")
    config = ParallelConfig(files=tuple(str(tmp_path / name) for name in names), directions="both")
    done = prepare_parallel(config, TokenizerConfig(size=300))
    assert done.config.languages == ("en", "de", "en", "cs")
    assert read_parallel(done.config).fingerprint == done.parallel.fingerprint
    folder = ParallelConfig(files=(str(tmp_path),), languages=("en", "de", "en", "cs"), directions="both")
    assert read_parallel(folder).fingerprint == done.parallel.fingerprint


READ = """
import resource, sys
from qkv.data.corpus import ParallelConfig
from qkv.data.read_pairs import read_parallel

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

read_parallel(ParallelConfig(files=tuple(sys.argv[1:3])))
before = peak()
found = read_parallel(ParallelConfig(files=tuple(sys.argv[3:5])))
print(len(found.train), len(found.valid), peak() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no resource module")
def test_many_pairs_take_little_memory(tmp_path: Path) -> None:
    """The UTF-8 of the texts and some bytes a pair, and no Python object a text; in a process of its own."""
    count = 200_000
    lines = {
        "en": "the small river {} keeps its old stone in the sun",
        "de": "der kleine Fluss {} hält den alten Stein",
    }
    for ending, words in lines.items():
        for name, many in (("few", 10_000), ("many", count)):
            with (tmp_path / f"{name}.{ending}").open("w", encoding="utf-8") as file:
                file.writelines(words.format(number) + "\n" for number in range(many))
    size = sum((tmp_path / f"many.{ending}").stat().st_size for ending in lines)
    files = [str(tmp_path / f"{name}.{ending}") for name in ("few", "many") for ending in lines]
    done = subprocess.run([sys.executable, "-c", READ, *files], capture_output=True, text=True, check=True)
    train, valid, grown = map(int, done.stdout.split())
    assert (train, valid) == (count - 2000, 2000)
    assert grown < 1.3 * size + 130 * count  # a list of such texts alone takes three times their bytes


def test_a_bound_that_leaves_no_pair_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    write(tmp_path, TWO)
    config = ParallelConfig(files=(str(tmp_path / "train.en"), str(tmp_path / "train.de")))
    done = prepare_parallel(config, TokenizerConfig(size=400))
    with pytest.raises(InputError, match=r"all [\d,]+ pairs are longer than 2 tokens"):
        done.rows(done.parallel.train, 2)
