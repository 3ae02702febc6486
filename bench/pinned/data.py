"""Small data of every kind, the same on every machine, written by this file and by the tests' collections of bad files.

Nothing here imports qkv: both commits read the very same files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import small_pairs
from data import bad_examples, bad_inputs, bad_parallel

GOOD = ("fine", "bright", "warm", "clever")
BAD = ("dull", "cold", "weak", "stale")
THINGS = ("river", "stone", "film", "book", "café", "song", "play")
TAGS = {"the": "DET", "keeps": "VERB", "and": "CCONJ", "of": "ADP"}
HEAVY = ("ten-megabyte-line.txt", "bad-byte-far.txt", "long-line.csv")
AS_TEXT = (
    "texts", "prose.txt", "nothing", "stdin", "bad-byte-in-folder", "one-folder", "one-empty-file", "no-folder",
    "folder.csv", "lists.jsonl", "strings.jsonl", "number.json", "null-labels.jsonl", "object-labels.jsonl",
)  # fmt: skip
"""Cases of labelled data that are text for a language model unless the task is given."""
OPTIONS = ("text", "text2", "label", "task", "encoding", "source", "target")


def sentences(count: int, seed: int) -> list[tuple[str, bool]]:
    """Texts of unequal lengths, and whether they are friendly."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        good = number % 2 == 0
        words = [str(generator.choice(GOOD if good else BAD)), str(generator.choice(THINGS))]
        tail = " and the ".join(str(word) for word in generator.choice(THINGS, int(generator.integers(1, 6))))
        rows.append((f"The {words[0]} {words[1]} {number} keeps the {tail}", good))
    return rows


def write(folder: Path) -> None:
    """Write all data sets for the probes that are meant to succeed."""
    folder.mkdir(parents=True)
    _texts(folder)
    for name, count, seed in (("train", 160, 5), ("dev", 40, 6), ("test", 40, 7)):
        _tables(folder, name, sentences(count, seed))
        small_pairs.write(folder / "pairs", name, count, seed)
    _folders(folder)
    _numbers(folder)
    _pictures(folder)
    _translations(folder)


def _texts(folder: Path) -> None:
    rows = [text for text, _ in sentences(400, 5)]
    (folder / "book.txt").write_text(".\n".join(rows) + ".\n", encoding="utf-8")
    (folder / "other.txt").write_text(".\n".join(text for text, _ in sentences(60, 9)) + ".\n", encoding="utf-8")
    (folder / "notes").mkdir()
    for number in range(8):
        part = ".\n".join(rows[number * 40 : number * 40 + 40])
        (folder / "notes" / f"note{number}.md").write_text(f"# Note {number}\n\n{part}.\n", encoding="utf-8")
    objects = "".join(json.dumps({"text": f"{text}.", "number": number}) + "\n" for number, text in enumerate(rows))
    (folder / "book.jsonl").write_text(objects, encoding="utf-8")


def _tables(folder: Path, name: str, rows: list[tuple[str, bool]]) -> None:
    """One table for each task on labelled texts, and tagged words."""

    def save(file: str, lines: list[str]) -> None:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")

    labels = ["good" if good else "bad" for _, good in rows]
    texts = [text for text, _ in rows]
    both = list(zip(texts, labels, strict=True))
    save(f"classes/{name}.csv", ["text,label", *(f"{text},{label}" for text, label in both)])
    numbered = [f"{number}\t{text}\t{label}" for number, (text, label) in enumerate(both)]
    save(f"tabs/{name}.tsv", ["id\treview\tsentiment", *numbered])
    save(f"fasttext/{name}.txt", [f"__label__{label} {text}" for text, label in both])
    seconds = texts[3:] + texts[:3]
    same = ["same" if number % 3 == 0 else "other" for number in range(len(rows))]
    triples = list(zip(texts, seconds, same, strict=True))
    save(f"two/{name}.csv", ["sentence1,sentence2,label", *(f"{a},{b},{label}" for a, b, label in triples)])
    glue = [
        "index\tsentence1\tsentence2\tlabel",
        *(f"{n}\t{a}\t{b}\t{int(c == 'same')}" for n, (a, b, c) in enumerate(triples)),
    ]
    save(f"glue/{name}.tsv", glue)
    several = [f"{label}|long" if len(text) > 60 else label for text, label in zip(texts, labels, strict=True)]
    save(
        f"several/{name}.tsv", ["text\tlabels", *(f"{text}\t{cell}" for text, cell in zip(texts, several, strict=True))]
    )
    scores = [3.5 + len(text) / 100 if good else 1.25 - len(text) / 200 for text, good in rows]
    save(
        f"scores/{name}.csv",
        ["text,score", *(f"{text},{score:.3f}" for text, score in zip(texts, scores, strict=True))],
    )
    objects = [json.dumps({"review": text, "stars": n % 3 + 1}) for n, text in enumerate(texts)]
    save(f"objects/{name}.jsonl", objects)
    tagged, universal = [], []
    for text in texts:
        for place, word in enumerate(text.split(), 1):
            tag = TAGS.get(word.lower(), "NUM" if word.isdigit() else "NOUN")
            tagged.append(f"{word}\t{tag}")
            universal.append(f"{place}\t{word}\t{word.lower()}\t{tag}\t_\t_\t{place - 1}\tdep\t_\t_")
        tagged.append("")
        universal.append("")
    save(f"tagged/{name}.conll", tagged)
    save(f"universal/{name}.conllu", universal)
    names = []
    for number, text in enumerate(texts):
        names += [f"Anna{number % 7}\tB-person", "visits\tO", f"Rome{number % 5}\tB-place", "City\tI-place"]
        names += [*(f"{word}\tO" for word in text.split()[3:]), ""]
    save(f"names/{name}.conll", names)


def _folders(folder: Path) -> None:
    for number, (text, good) in enumerate(sentences(160, 5)):
        place = folder / "classes-as-folders" / ("good" if good else "bad") / f"{number}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def _numbers(folder: Path) -> None:
    for name, count, seed in (("train", 160, 1), ("dev", 40, 2)):
        rows = np.random.default_rng(seed).normal(size=(count, 3)).round(3).tolist()
        (folder / "numbers").mkdir(exist_ok=True)
        kinds = {
            "class": [("high" if a + b > 0 else "low") for a, b, c in rows],
            "amount": [f"{a - 2 * c:.3f}" for a, b, c in rows],
        }
        for label, cells in kinds.items():
            lines = [
                f"one,two,three,{label}",
                *(f"{a},{b},{c},{cell}" for (a, b, c), cell in zip(rows, cells, strict=True)),
            ]
            (folder / "numbers" / f"{name}-{label}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _pictures(folder: Path) -> None:
    generator = np.random.default_rng(3)
    pixels = generator.integers(0, 60, (120, 14, 14), dtype=np.uint8)
    labels = np.arange(120) % 2
    pixels[labels == 1, :6] += 150
    np.savez(folder / "pictures.npz", images=pixels, labels=labels)
    (folder / "digits").mkdir()
    for side, part in (("train", slice(0, 90)), ("t10k", slice(90, 120))):
        images = bad_examples.idx(pixels[part].shape, pixels[part].tobytes())
        (folder / "digits" / f"{side}-images-idx3-ubyte").write_bytes(images)
        answers = labels[part].astype(np.uint8)
        (folder / "digits" / f"{side}-labels-idx1-ubyte").write_bytes(
            bad_examples.idx(answers.shape, answers.tobytes())
        )


def _translations(folder: Path) -> None:
    english, german = small_pairs.sides(160, 3)
    rows = [f"{one}\t{other}" for one, other in zip(english, german, strict=True)]
    (folder / "table.tsv").write_text("\n".join(["english\tgerman", *rows]) + "\n", encoding="utf-8")
    czech = ("jedna", "dva", "tři", "čtyři", "pět", "šest", "sedm", "osm")
    words = dict(zip(small_pairs.ENGLISH, czech, strict=True))
    (folder / "languages").mkdir()
    (folder / "languages" / "a.de").write_text("\n".join(german) + "\n", encoding="utf-8")
    (folder / "languages" / "a.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    (folder / "languages" / "b.en").write_text("\n".join(english) + "\n", encoding="utf-8")
    lines = [" ".join(words[word] for word in line.split()) for line in english]
    (folder / "languages" / "b.cs").write_text("\n".join(lines) + "\n", encoding="utf-8")
    small_pairs.spoken(folder)


def bad(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Write every bad or odd input of the tests; yield its name and the words that follow a verb to read it."""
    for case in bad_inputs.build(folder / "texts"):
        if case.name not in HEAVY:
            yield f"text {case.name[:60]!a}", [str(case.path)]
    tables = [(f"table {case.name}", case, "classification") for case in bad_examples.every()]
    pairs = [(f"parallel {case.name}", case, "translation") for case in bad_parallel.every()]
    seen: set[str] = set()
    for name, case, task in [*tables, *pairs]:
        if case.name in HEAVY:
            continue
        name = f"{name} again" if name in seen else name
        seen.add(name)
        place = folder / name.replace(" ", "/", 1)
        place.mkdir(parents=True)
        options = bad_examples.build(case, place)
        if task == "translation" or case.name in AS_TEXT:
            options.setdefault("task", task)
        if case.name == "picture.png":
            options["task"] = "images"
        yield name, list(_words(options))


def _words(options: dict[str, Any]) -> Iterator[str]:
    """Options of the library as a person types them."""
    yield from [options["catalog"]] if "catalog" in options else options["files"]
    for name in OPTIONS:
        if name in options:
            yield from (f"--{name}", str(options[name]))
    for side in ("valid", "test", "languages"):
        if side in options:
            yield from (f"--{side}", *options[side])
    for name in ("header", "valid_fraction"):
        if name in options:
            yield from ("--set", f"corpus.{name}={json.dumps(options[name])}")
