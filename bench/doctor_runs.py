# ruff: noqa: E501
"""The runs of bench/doctor.py: slices of real data, and what was done to them on purpose."""

from __future__ import annotations

import csv
import gzip
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Rows = list[dict[str, Any]]
Corpus = dict[str, Any]
Make = Callable[[Path, Path], Corpus]


def lines_of(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8-sig").split("\n")[:-1]


def table_rows(path: Path, names: tuple[str, ...] = ()) -> Iterator[list[str]]:
    for line in lines_of(path):
        cells = line.rstrip("\r").split("\t")
        if len(cells) >= len(names):
            yield cells


def write_rows(folder: Path, rows: Rows, name: str = "rows.csv") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return str(folder / name)


SOURCES: dict[str, tuple[str, int, int, bool]] = {  # file, column of the text, of the label, whether it has a header
    "sms": ("sms-spam/SMSSpamCollection", 1, 0, False),
    "sst2": ("sst2/train.tsv.gz", 0, 1, True),
    "cola": ("cola/train.tsv", 3, 1, False),
    "ag": ("ag-news/dev.tsv.gz", 0, 1, False),
    "imdb": ("imdb-5k/movie_review.tsv.gz", 2, 1, True),
}


def texts(source: str, count: int, *, noise: float = 0.0, copies: int = 1, start: int = 0, leak: bool = False) -> Make:
    """Labelled texts; a share of labels drawn at random, every row several times, validation rows out of the training."""

    def make(data: Path, folder: Path) -> Corpus:
        name, text, label, header = SOURCES[source]
        cells = list(table_rows(data / name))[int(header) :]
        drawn = np.random.default_rng(1)
        cells = [cells[row] for row in drawn.permutation(len(cells))[start : start + count]]
        labels = [row[label] for row in cells]
        wrong = drawn.random(len(cells)) < noise
        shuffled = drawn.permutation(labels)
        rows = [
            {"text": row[text], "label": shuffled[index] if wrong[index] else labels[index]}
            for index, row in enumerate(cells)
        ]
        corpus: Corpus = {"files": [write_rows(folder, rows * copies)], "text": "text", "label": "label"}
        if leak:
            corpus["valid"] = [write_rows(folder, rows[: count // 4], "valid.csv")]
        return corpus

    return make


def pairs(source: str, count: int, columns: tuple[int, int, int], task: str = "classification") -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        cells = [row for row in table_rows(data / source) if len(row) > max(columns)][1 : count + 1]
        names = ("sentence1", "sentence2", "label")
        rows = [dict(zip(names, (row[column] for column in columns), strict=True)) for row in cells]
        return {
            "files": [write_rows(folder, rows)],
            "text": names[0],
            "text2": names[1],
            "label": "label",
            "task": task,
        }

    return make


def topics(count: int) -> Make:
    """Several labels a text: the class of AG News, and whether the text is long or has a number."""

    def make(data: Path, folder: Path) -> Corpus:
        rows = []
        for text, label in list(table_rows(data / "ag-news/dev.tsv.gz"))[:count]:
            more = [name for name, yes in (("long", len(text) > 250), ("number", any(map(str.isdigit, text)))) if yes]
            rows.append({"text": text, "labels": "|".join([label, *more])})
        return {"files": [write_rows(folder, rows)], "text": "text", "label": "labels", "task": "multi-label"}

    return make


def numbers(name: str, count: int = 10_000, task: str = "classification") -> Make:
    """A table that scikit-learn ships."""

    def make(data: Path, folder: Path) -> Corpus:
        from sklearn import datasets

        found = getattr(datasets, f"load_{name}")()
        order = np.random.default_rng(2).permutation(len(found.target))[:count]
        columns = [str(column).replace(" ", "_") for column in found.feature_names]
        kind = float if task == "regression" else lambda target: f"kind {target}"
        rows = [
            {**dict(zip(columns, found.data[row].tolist(), strict=True)), "target": kind(found.target[row])}
            for row in order
        ]
        return {"files": [write_rows(folder, rows)], "label": "target", "task": task, "columns": columns}

    return make


def images(count: int) -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        folder.mkdir(parents=True, exist_ok=True)
        pixels = gzip.decompress((data / "mnist-10k/t10k-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((data / "mnist-10k/t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
        images = np.frombuffer(pixels, np.uint8).reshape(-1, 28, 28)[:count]
        np.savez(folder / "digits.npz", images=images, labels=np.frombuffer(labels, np.uint8)[:count].astype(np.int64))
        return {"files": [str(folder / "digits.npz")], "task": "images"}

    return make


def tagged(kind: str, count: int) -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        folder.mkdir(parents=True, exist_ok=True)
        path = data / ("ud-english-ewt/en_ewt-ud-dev.conllu.gz" if kind == "ud" else "wnut17/wnut17train.conll")
        sentences: list[list[tuple[str, str]]] = [[]]
        for line in lines_of(path):
            cells = line.strip().split("\t")
            if not line.strip():
                sentences.append([])
            elif kind == "ud" and cells[0].isdigit():
                sentences[-1].append((cells[1], cells[3]))
            elif kind != "ud" and len(cells) == 2:
                sentences[-1].append((cells[0], cells[1]))
        wanted = [words for words in sentences if words][:count]
        text = "\n\n".join("\n".join(f"{word}\t{tag}" for word, tag in words) for words in wanted)
        (folder / "words.conll").write_text(text + "\n", encoding="utf-8")
        return {"files": [str(folder / "words.conll")]}

    return make


def translated(count: int, target: str = "de") -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        folder.mkdir(parents=True, exist_ok=True)
        for language in ("en", target):
            wanted = lines_of(data / f"multi30k/train.{language}.gz")[:count]
            (folder / f"text.{language}").write_text("\n".join(wanted) + "\n", encoding="utf-8")
        return {"files": [str(folder / "text.en"), str(folder / f"text.{target}")]}

    return make


def phonemes(count: int) -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(data / "cmudict/cmudict.zip") as archive:
            name = next(name for name in archive.namelist() if name.endswith("cmudict"))
            rows = [line.split() for line in archive.read(name).decode("latin-1").splitlines()]
        drawn = np.random.default_rng(3).permutation(len(rows))[:count].tolist()
        wanted = [rows[index] for index in drawn if rows[index][0].isalpha()]
        for name, text in (
            ("words.let", [" ".join(row[0]) for row in wanted]),
            ("words.pho", [" ".join(row[2:]) for row in wanted]),
        ):
            (folder / name).write_text("\n".join(text) + "\n", encoding="utf-8")
        return {"files": [str(folder / "words.let"), str(folder / "words.pho")]}

    return make


def text(
    source: str, size: int, *, start: int = 0, repeat: int = 1, leak: bool = False, valid: tuple[str, int] | None = None
) -> Make:
    def make(data: Path, folder: Path) -> Corpus:
        folder.mkdir(parents=True, exist_ok=True)
        whole = read_text(data, source)[start : start + size] * repeat
        (folder / "text.txt").write_text(whole, encoding="utf-8")
        corpus: Corpus = {"files": [str(folder / "text.txt")]}
        if leak or valid:
            other = whole[: len(whole) // 8] if leak else read_text(data, valid[0])[: valid[1]] if valid else ""
            (folder / "valid.txt").write_text(other, encoding="utf-8")
            corpus["valid"] = [str(folder / "valid.txt")]
        return corpus

    return make


def read_text(data: Path, source: str) -> str:
    match source:
        case "shakespeare":
            return (data / "tinyshakespeare/input.txt").read_text(encoding="utf-8")
        case "names":
            return (data / "names/names.txt").read_text(encoding="utf-8")
        case "coins":
            return (data / "ece1786/LargerCorpus.txt").read_text(encoding="utf-8")
        case "stories":
            with gzip.open(data / "tinystories/tinystories_1000.json.gz", "rt", encoding="utf-8") as file:
                return "\n\n".join(json.load(file))
    letters = np.random.default_rng(4).integers(97, 123, 60_000)  # "noise"
    return "".join(map(chr, letters))


@dataclass(frozen=True)
class Planned:
    name: str
    make: Make
    settings: str
    minutes: float = 1.0
    compares: bool = False

    def values(self, data: Path, folder: Path) -> dict[str, Any]:
        from qkv.config import parse_assignment

        kind, *words = self.settings.split()
        values: dict[str, Any] = {"corpus": self.make(data, folder), "model": {"kind": kind}}
        for word in ["training.threads=1", "training.dtype=f32", "training.device=cpu", *words]:
            key, value = parse_assignment(word if "." in word.split("=")[0] else f"training.{word}")
            section, _, name = key.partition(".")
            values.setdefault(section, {})[name] = value
        if kind == "auto":
            del values["model"]
        return values


SMALL = "model.layers=1 model.heads=2 model.width=32 model.context=32 tokenizer.kind=characters"
WIDE = "model.layers=2 model.heads=4 model.width=64 model.context=32 tokenizer.kind=characters"
HEART = "optimizer=adamw learning_rate=0.004 batch=8 patience=0"
MT = "model.layers=1 model.heads=2 model.width=32 model.hidden=64 task.evaluation_sentences=40"

RUNS = [
    Planned("text, short", text("shakespeare", 150_000), f"modern {SMALL} batch=32 steps=60"),
    Planned("text, longer", text("shakespeare", 200_000), f"modern {WIDE} batch=16 steps=150"),
    Planned("text, gpt", text("coins", 120_000), f"gpt {SMALL} batch=32 steps=80"),
    Planned("text, lstm", text("stories", 120_000), "lstm model.width=48 model.context=32 tokenizer.kind=characters batch=32 steps=60"),
    Planned("text, mlp", text("names", 100_000), "mlp model.width=48 model.context=16 tokenizer.kind=characters batch=64 steps=80"),
    Planned("text, cnn", text("stories", 100_000), "cnn model.width=48 model.context=32 tokenizer.kind=characters batch=32 steps=50"),
    Planned("text, three steps", text("shakespeare", 100_000), f"modern {SMALL} batch=16 steps=3"),
    Planned("text, one evaluation", text("coins", 60_000), f"modern {SMALL} batch=16 steps=60 evaluate_every=60"),
    Planned("text, tiny rate", text("coins", 60_000), f"modern {SMALL} batch=16 steps=40 learning_rate=1e-6 matrix_learning_rate=1e-6"),
    Planned("text, huge rate", text("coins", 60_000), f"modern {SMALL} batch=16 steps=60 optimizer=adamw learning_rate=30.0 clip=0.0"),
    Planned("text, memorised", text("shakespeare", 1_600), f"gpt {WIDE} {HEART} steps=250"),
    Planned("text, overfitted lstm", text("coins", 2_500), f"lstm model.width=128 model.context=32 tokenizer.kind=characters {HEART} steps=200"),
    Planned("text, leak", text("coins", 60_000, leak=True), f"modern {WIDE} batch=16 steps=60"),
    Planned("text, repeats itself", text("shakespeare", 2_000, repeat=30), f"modern {SMALL} batch=16 steps=60"),
    Planned("text, noise", text("noise", 40_000), f"modern {SMALL} batch=16 steps=60"),
    Planned("text, other kind", text("shakespeare", 120_000, valid=("noise", 8_000)), f"modern {SMALL} batch=32 steps=60"),
    Planned("text, few words to check on", text("shakespeare", 60_000, valid=("coins", 90)), f"modern {SMALL} batch=16 steps=60"),
    Planned("text, bpe", text("stories", 200_000), "modern model.layers=1 model.heads=2 model.width=32 model.context=32 tokenizer.kind=bpe batch=16 steps=60"),
    Planned("masked, short", text("coins", 120_000), "bert model.layers=1 model.heads=2 model.width=32 batch=16 steps=40"),
    Planned("masked, longer", text("stories", 200_000), "bert model.layers=1 model.heads=2 model.width=48 batch=32 steps=150 task.next_sentence=none"),
    Planned("masked, memorised", text("coins", 6_000), "bert model.layers=2 model.heads=2 model.width=64 batch=16 steps=150 task.next_sentence=none"),
    Planned("sms, bag", texts("sms", 2_000), "bag model.width=32 steps=60"),
    Planned("sms, linear", texts("sms", 2_000), "linear steps=100"),
    Planned("sms, five steps", texts("sms", 2_000), "lstm model.width=16 steps=5"),
    Planned("sms, long", texts("sms", 1_500), "bag model.width=32 steps=400"),
    Planned("sms, few rows", texts("sms", 60), "bag model.width=16 steps=60"),
    Planned("sms, very few rows", texts("sms", 24), "bag model.width=16 steps=30"),
    Planned("sms, leak", texts("sms", 1_000, leak=True), "bag model.width=32 steps=150"),
    Planned("sst2, cnn", texts("sst2", 3_000), "cnn model.width=24 model.embedding_width=32 steps=80"),
    Planned("sst2, lstm memorises", texts("sst2", 300), "lstm model.width=48 steps=200 batch=16 learning_rate=0.005"),
    Planned("sst2, wrong labels", texts("sst2", 1_500, noise=1.0), "bag model.width=32 steps=200"),
    Planned("sst2, some wrong labels", texts("sst2", 1_500, noise=0.4), "bag model.width=32 steps=150"),
    Planned("sst2, rows twice", texts("sst2", 800, copies=3), "bag model.width=32 steps=150"),
    Planned("cola, mlp", texts("cola", 2_000), "mlp model.width=32 steps=80"),
    Planned("cola, encoder", texts("cola", 1_000), "encoder model.layers=1 model.heads=2 model.width=32 steps=50"),
    Planned("ag, linear", texts("ag", 1_500), "linear steps=80"),
    Planned("ag, bag", texts("ag", 1_500), "bag model.width=32 steps=200"),
    Planned("ag, rate too high", texts("ag", 1_000), "bag model.width=32 steps=60 learning_rate=3.0"),
    Planned("imdb, bag", texts("imdb", 600), "bag model.width=32 steps=80"),
    Planned("imdb, linear", texts("imdb", 900), "linear steps=80"),
    Planned("mrpc, bag", pairs("mrpc/train.tsv.gz", 1_000, (3, 4, 0)), "bag model.width=32 steps=60"),
    Planned("rte, lstm", pairs("rte/train.tsv.gz", 500, (1, 2, 3)), "lstm model.width=16 steps=25"),
    Planned("stsb, bag", pairs("stsb/train.tsv.gz", 1_200, (7, 8, 9), "regression"), "bag model.width=32 steps=100"),
    Planned("stsb, lstm", pairs("stsb/train.tsv.gz", 600, (7, 8, 9), "regression"), "lstm model.width=16 steps=30"),
    Planned("topics, bag", topics(1_000), "bag model.width=32 steps=150"),
    Planned("topics, few steps", topics(600), "cnn model.width=18 model.embedding_width=16 steps=8"),
    Planned("cancer, mlp", numbers("breast_cancer"), "mlp steps=80"),
    Planned("cancer, linear", numbers("breast_cancer"), "linear steps=80"),
    Planned("wine, few rows", numbers("wine", 40), "mlp steps=60"),
    Planned("diabetes, linear", numbers("diabetes", task="regression"), "linear steps=20"),
    Planned("diabetes, mlp", numbers("diabetes", task="regression"), "mlp steps=300"),
    Planned("digits, cnn", images(800), "cnn steps=30"),
    Planned("digits, few", images(60), "cnn steps=20"),
    Planned("tags, lstm", tagged("ud", 500), "lstm model.width=24 steps=80"),
    Planned("tags, few steps", tagged("ud", 300), "cnn steps=5"),
    Planned("names, lstm", tagged("wnut", 600), "lstm model.width=24 steps=80"),
    Planned("names, tiny", tagged("wnut", 40), "lstm model.width=16 steps=40"),
    Planned("pairs, few steps", translated(500), f"transformer {MT} steps=15"),
    Planned("pairs, memorised", translated(60), f"transformer {MT} steps=150"),
    Planned("phonemes, gru", phonemes(800), "rnn-translator model.width=32 model.layers=1 task.metric=errors task.evaluation_sentences=40 steps=40"),
]  # fmt: skip
COMPARISONS = [
    Planned("compare, sms", texts("sms", 1_500), "auto", 0.6, compares=True),
    Planned("compare, text", text("shakespeare", 150_000), "auto", 0.8, compares=True),
    Planned("compare, cancer", numbers("breast_cancer"), "auto", 0.4, compares=True),
]
