"""A small language and its translation, which a small model learns in seconds: numbers, in two languages and spoken."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ENGLISH = ("one", "two", "three", "four", "five", "six", "seven", "eight")
GERMAN = ("eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht")
SPOKEN = ("W AH N", "T UW", "TH R IY", "F AO R", "F AY V", "S IH K S", "S EH V AH N", "EY T")
SMALL = {
    "transformer": ["model.layers=1", "model.heads=2", "model.width=32", "model.hidden=64"],
    "rnn-translator": ["model.width=32", "training.learning_rate=0.01"],
}


def numbers(count: int = 160, seed: int = 3) -> list[list[int]]:
    """Different sequences of two to six."""
    drawn = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        found[tuple(drawn.integers(0, len(ENGLISH), int(drawn.integers(2, 7))).tolist())] = None
    return [list(each) for each in found]


def sides(count: int = 160, seed: int = 3) -> tuple[list[str], list[str]]:
    rows = numbers(count, seed)
    return [" ".join(ENGLISH[n] for n in row) for row in rows], [" ".join(GERMAN[n] for n in row) for row in rows]


def write(folder: Path, name: str = "train", count: int = 160, seed: int = 3) -> list[str]:
    """Two files, NAME.en and NAME.de."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for ending, lines in zip(("en", "de"), sides(count, seed), strict=True):
        path = folder / f"{name}.{ending}"
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        paths.append(str(path))
    return paths


def spoken(folder: Path) -> str:
    """A table of letters and phonemes, parted by blanks; "two" and "eight" are spoken in two ways."""
    rows = [(" ".join(word), said) for word, said in zip(ENGLISH, SPOKEN, strict=True)]
    rows += [("t w o", "T AH"), ("e i g h t", "EY T H"), *((f"{a} {b}", f"{x} {y}") for a, x in rows for b, y in rows)]
    path = folder / "words.tsv"
    path.write_text("source\ttarget\n" + "".join(f"{one}\t{other}\n" for one, other in rows), encoding="utf-8")
    return str(path)


def settings(kind: str, *more: str) -> list[str]:
    """`--model` and its small shape, as words of a command."""
    quick = ["model.dropout=0.1", "task.tokens=256", "training.threads=1", "training.dtype=f32"]
    values = [*SMALL[kind], *quick, "training.evaluate_every=1000", *more]  # looked at once, in the end
    return ["--model", kind, *(word for value in values for word in ("--set", value))]
