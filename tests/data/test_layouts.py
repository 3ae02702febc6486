"""Folders of labelled examples are seen as such, and ordinary folders of prose and code stay text."""

from __future__ import annotations

import gzip
import json
import unicodedata
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from data.test_archives import tar
from data.zoo.shapes import captions, delimited, lines, news, news_of, stories, tagged, write
from data.zoo.zoo_labels import TOPICS
from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.detect import detect
from qkv.data.examples import Labelled
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import DataError


def texts(folder: Path, files: Iterable[tuple[str, str]]) -> None:
    for name, content in files:
        write(folder / name, content)


def chapter(number: int) -> str:
    return "\n\n".join(stories()[number % 20 : number % 20 + 12])


def read(folder: Path, **options: Any) -> Labelled:
    return read_examples(ExamplesConfig(files=(str(folder),), **options), purpose="describe")


PROSE: dict[str, Callable[[Path], None]] = {
    "chapters": lambda at: texts(at, ((f"chapter{n:02}.txt", chapter(n)) for n in range(1, 25))),
    "chapters in books": lambda at: texts(
        at, ((f"{book}/{n:02}.txt", chapter(n)) for book in ("Oliver Twist", "Bleak House") for n in range(1, 25))
    ),
    "parts": lambda at: texts(
        at, ((f"part {part}/{n:02}.txt", stories()[n]) for part in ("one", "two") for n in range(1, 25))
    ),
    "numbered chapters of books": lambda at: texts(
        at, ((f"{book}_chapter_{n:02}.txt", stories()[n]) for book in ("alice", "peter") for n in range(1, 25))
    ),
    "notes": lambda at: texts(
        at, ((f"{topic}/{name}.md", story) for topic in ("garden", "kitchen") for name, story in STORIES)
    ),
    "diary by year": lambda at: texts(
        at, ((f"{year}/{month:02}-{day:02}.txt", stories()[day]) for year in (2021, 2022) for month in (1, 2, 3)
             for day in range(1, 12))
    ),
    "source code": lambda at: texts(
        at, ((f"{part}/module_{n}.py", "def f(x):\n    return x\n" * 9) for part in ("core", "web") for n in range(20))
    ),
    "essays of writers": lambda at: texts(
        at, ((f"{name}_{n}.txt", chapter(n)) for name in ("miller", "jones") for n in range(1, 15))
    ),
    "texts by title": lambda at: texts(at, ((f"{name}.txt", story) for name, story in STORIES)),
    "a play and a log": lambda at: texts(
        at,
        (
            ("hamlet.txt", lines(f"HAMLET: {text}" for text in captions("en"))),
            ("system.txt", lines(f"12:0{n % 10} started {n}" for n in range(90))),
        ),
    ),
    "parts of one corpus": lambda at: texts(
        at, ((f"part-{n}.txt", lines(text for text, _ in news(20 * n, 20 * n + 20))) for n in range(4))
    ),
    "splits of text": lambda at: texts(
        at, ((f"wiki.{split}.txt", "\n\n".join(stories()[:20])) for split in ("train", "valid", "test"))
    ),
    "a book with a small table": lambda at: texts(
        at, (("book.txt", chapter(1) * 5), ("figures.csv", "year,count\n2019,12\n2020,15\n"), ("README", "A book."))
    ),
    "inbox and sent": lambda at: texts(
        at, ((f"{box}/{n:03}.txt", stories()[n]) for box in ("inbox", "sent") for n in range(30))
    ),
}  # fmt: skip
NAMES = [
    *("apple", "bread", "cloud", "door", "earth", "fire", "glass", "house", "ice", "jar", "king", "lamp", "moon"),
    *("night", "ocean", "paper", "queen", "river", "stone", "tree"),
]


STORIES = list(zip(NAMES, stories()[:20], strict=True))


@pytest.mark.parametrize("shape", PROSE)
def test_ordinary_folders_stay_text(tmp_path: Path, shape: str) -> None:
    PROSE[shape](tmp_path)
    assert detect({"files": [str(tmp_path)]}).content == "text"


LABELLED: dict[str, Callable[[Path], None]] = {
    "numbers in folders": lambda at: texts(
        at, ((f"{topic}/{n}", text) for topic in TOPICS for n, text in enumerate(news_of(topic, 25), 100))
    ),
    "hashes in folders": lambda at: texts(
        at,
        ((f"{topic}/{n:04}.{n * 7919:032x}", text) for topic in TOPICS for n, text in enumerate(news_of(topic, 25))),
    ),
    "words in names": lambda at: texts(
        at,
        ((f"{n}.2001-07-0{n % 9 + 1}.{topic}.txt", text) for topic in TOPICS
         for n, text in enumerate(news_of(topic, 25), 1000)),
    ),
    "words and numbers joined": lambda at: texts(
        at, ((f"{topic}{n}.txt", text) for topic in TOPICS for n, text in enumerate(news_of(topic, 25)))
    ),
    "endings in splits": lambda at: texts(
        at,
        ((f"{split}/reviews.{ending}", lines(text for text, _ in news(30 * start, 30 * start + 30)))
         for start, (split, ending) in enumerate((a, b) for a in ("train", "test") for b in ("pos", "neg"))),
    ),
    "a table that names the files": lambda at: texts(
        at,
        [
            *((f"texts/{n:03}.txt", text) for n, (text, _) in enumerate(news(0, 40))),
            ("labels.csv", lines(["file,topic", *(f"{n:03}.txt,{topic}" for n, (_, topic) in enumerate(news(0, 40)))])),
        ],
    ),
    "texts and labels in plain names": lambda at: texts(
        at,
        (("sentences.txt", lines(t for t, _ in news(0, 60))), ("labels.txt", lines(label for _, label in news(0, 60)))),
    ),
    "words of requests and their intents": lambda at: texts(
        at,
        ((f"{split}/{name}", lines(row[place] for row in news(start, start + 60)))
         for start, split in ((0, "train"), (60, "valid")) for place, name in ((0, "seq.in"), (1, "label"))),
    ),
    "tables without labels": lambda at: texts(
        at, ((f"{topic}.csv", delimited([("text",), *((text,) for text in news_of(topic, 30))])) for topic in TOPICS)
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", LABELLED)
def test_layouts_of_labels(tmp_path: Path, shape: str) -> None:
    LABELLED[shape](tmp_path)
    assert detect({"files": [str(tmp_path)]}).content == "examples"
    found = read(tmp_path)
    assert found.task == "classification"
    expected = {"pos", "neg"} if shape == "endings in splits" else set(TOPICS)
    assert set(found.labels.names) == expected
    topic_of = dict(news())
    for example in (*found.train, *found.valid):
        assert "pos" in expected or topic_of.get(example.text.strip(), example.label) == example.label
    assert detect({"files": [str(tmp_path)], "task": None, "documents": "lines"}).content == "text"


def test_what_is_not_certain_is_read_when_labels_are_asked_for(tmp_path: Path) -> None:
    texts(tmp_path, ((f"{who}/{n}.txt", chapter(n)) for who in ("austen", "shelley") for n in range(6)))
    detected = detect({"files": [str(tmp_path)]})
    assert detected.content == "text"
    assert any("--task classification" in note for note in detected.text_notes)
    assert detect({"files": [str(tmp_path)], "task": "classification"}).content == "examples"
    assert read(tmp_path).labels.names == ("austen", "shelley")


def test_notes_name_the_layout_and_what_is_left_out(tmp_path: Path) -> None:
    texts(tmp_path, ((f"{topic}.txt", lines(news_of(topic, 40))) for topic in TOPICS))
    texts(tmp_path, (("README", "About it.\n"), ("LICENSE", "Free.\n"), (".hidden", "x")))
    notes = "\n".join(read(tmp_path).notes)
    assert "the names of the files are the labels of their lines (business, science, sports, world)" in notes
    assert "files left out: 2 documentation (LICENSE, README), 1 hidden." in notes


def test_lists_of_names_and_other_tables_are_left_out(tmp_path: Path) -> None:
    texts(tmp_path, ((f"{split}.csv", delimited([("text", "label"), *news(0, 80)])) for split in ("train", "test")))
    texts(
        tmp_path,
        (
            ("sample_submission.csv", "id,label\n1,world\n"),
            ("classes.json", json.dumps(TOPICS)),
            ("mapping.tsv", lines(f"{number}\t{topic}" for number, topic in enumerate(TOPICS))),
        ),
    )
    found = read(tmp_path)
    assert (len(found.train), len(found.test or ())) == (80, 80)
    assert "3 not among the examples (classes.json, mapping.tsv, sample_submission.csv)" in "\n".join(found.notes)


def test_labels_line_by_line_of_another_number_are_refused(tmp_path: Path) -> None:
    texts(tmp_path, (("texts.txt", lines(t for t, _ in news(0, 60))), ("labels.txt", "world\nsports\n" * 25)))
    with pytest.raises(DataError, match=r"60 lines here, 50 in .*labels.txt; expected one label per line"):
        read(tmp_path)


def test_an_id_without_a_label_is_a_bad_row_and_several_labels_are_several(tmp_path: Path) -> None:
    rows = [(f"n{number}", text) for number, (text, _) in enumerate(news())]
    labels = [(f"n{number}", label) for number, (_, label) in enumerate(news())]
    write(tmp_path / "texts.csv", delimited([("id", "article"), *rows]))
    write(tmp_path / "labels.csv", delimited([("id", "category"), *labels[1:]]))
    found = read(tmp_path)
    assert len(found.train) == len(rows) - 1
    assert any("no label in 'category'" in note for note in found.notes)
    write(tmp_path / "labels.csv", delimited([("id", "category"), *labels, ("n0", "sports"), ("n1", "sports")]))
    assert read(tmp_path).task == "multi-label"


def test_a_split_of_each_language_is_read_together_with_a_note(tmp_path: Path) -> None:
    for language in ("esp", "ned"):
        for split in ("train", "testa"):
            rows = [list(zip(words.split(), tags.split(), strict=True)) for words, tags in tagged(0, 20)]
            content = "\n".join(lines(" ".join(cells) for cells in sentence) for sentence in rows)
            write(tmp_path / f"{language}.{split}", content)
    found = read(tmp_path)
    assert (len(found.train), len(found.valid)) == (40, 20 * 2)
    assert any("esp, ned are read together; --filter 'esp*' reads one" in note for note in found.notes)
    assert len(read(tmp_path, filter="ned*").train) == 20


@pytest.mark.parametrize("files", [("simple.txt", "normal.txt"), ("pairs.question", "pairs.answer")])
def test_lines_that_correspond_are_pairs(tmp_path: Path, files: tuple[str, str]) -> None:
    for name, rows in zip(files, (captions("en", 60), captions("de", 60)), strict=True):
        write(tmp_path / name, lines(rows))
    assert detect({"files": [str(tmp_path)]}).content == "pairs"
    assert len(read_parallel(ParallelConfig(files=(str(tmp_path),)), purpose="describe").train) == 60
    write(tmp_path / files[1], lines(reversed(captions("de", 60))))
    assert detect({"files": [str(tmp_path)]}).content != "pairs"


def test_a_filter_chooses_pairs(tmp_path: Path) -> None:
    for name in ("a", "b"):
        for language in ("en", "de"):
            write(tmp_path / f"{name}.{language}", lines(captions(language, 60)))
    config = ParallelConfig(files=(str(tmp_path),), filter="a.*")
    assert detect({"files": config.files, "filter": "a.*"}).content == "pairs"
    assert len(read_parallel(config, purpose="describe").train) == 60


def test_a_folder_of_many_files_is_detected_by_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    members = {f"{topic}/{n:05}.txt": b"a text" for topic in TOPICS for n in range(1000)}
    (tmp_path / "news.tar.gz").write_bytes(gzip.compress(tar(members), 1))
    opened: list[object] = []
    from qkv.data.formats import kinds

    real = kinds.read_bytes
    monkeypatch.setattr(kinds, "read_bytes", lambda source: opened.append(source) or real(source))
    assert detect({"files": [str(tmp_path)]}).content == "examples"
    assert len(opened) < 20


def _zipped(folder: Path) -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*")):
            archive.write(file, file.relative_to(folder.parent))
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_files_above_the_folders_of_labels_do_not_matter(tmp_path: Path, packed: bool) -> None:
    folder = tmp_path / "articles"
    for topic in ("Wirtschaft", unicodedata.normalize("NFD", "Übrige")):
        texts(folder, ((f"{topic}/{n:03}.txt", text) for n, (text, _) in enumerate(news(0, 20))))
    texts(folder, [("LIESMICH.txt", "all of it was written in 2023")])
    (folder / "table.xlsx").write_bytes(b"PK")
    path = _zipped(folder) if packed else folder
    assert detect({"files": [str(path)]}).content == "examples"
    assert read(path).labels.names == ("Wirtschaft", "Übrige")


@pytest.mark.parametrize("packed", [False, True])
def test_files_above_folders_leave_the_hint_at_labels(tmp_path: Path, packed: bool) -> None:
    folder = tmp_path / "articles"
    for topic in ("economy", "sport"):
        texts(folder, ((f"{topic}/{n}.md", text) for n, (text, _) in enumerate(news(0, 9))))
    texts(folder, [("LIESMICH.txt", "all of it was written in 2023")])
    found = detect({"files": [str(_zipped(folder) if packed else folder)]})
    assert found.content == "text"
    assert any("texts in 2 folders (economy, sport)" in note for note in found.text_notes)
