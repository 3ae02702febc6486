"""A million short rows, or pairs of texts, through `qkv train --steps 20`: their size, the most memory, the seconds.

    python bench/million.py [ROWS]                        a csv of made-up words for `bag`
    python bench/million.py [ROWS] --pairs SOURCE TARGET  line-aligned files, as Multi30k's, for `transformer`

Beside it stands what the program takes with few: the rest is what the rows cost. Pairs are the given ones over and
over, each with a number behind it, so that no two are the same.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "rd", "st", "ll", "m")]
FEW = 1000
# the same vocabulary, batches and looks for few pairs and many
SET = ("tokenizer.kind=bpe", "tokenizer.size=8000", "task.tokens=1024", "task.evaluation_sentences=20",
       "task.final_evaluation_sentences=20", "training.evaluate_every=20")  # fmt: skip
TRANSLATOR = ["--model", "transformer-tiny", *(word for value in SET for word in ("--set", value))]


def write(path: Path, rows: int) -> int:
    drawn = random.Random(0)
    with path.open("w") as file:
        file.write("text,label\n")
        for number in range(rows):
            words = drawn.choices(WORDS, k=12)
            file.write(f"{' '.join(words)} {'good' if number % 2 else 'bad'} {number},{number % 2}\n")
    return path.stat().st_size


def lines(path: str) -> list[str]:
    raw = Path(path).read_bytes()
    return (gzip.decompress(raw) if path.endswith(".gz") else raw).decode().split("\n")[:-1]


def write_pairs(folder: Path, given: Sequence[list[str]], count: int) -> int:
    """train.en and train.de; bytes of both."""
    size = 0
    for ending, texts in zip(("en", "de"), given, strict=True):
        path = folder / f"train.{ending}"
        with path.open("w", encoding="utf-8") as file:
            for number in range(count):
                file.write(f"{texts[number % len(texts)]} {number // len(texts)}\n")
        size += path.stat().st_size
    return size


def train(words: list[str], folder: Path) -> tuple[float, float]:
    """Seconds, and the most MB that were held."""
    command = [sys.executable, "-m", "qkv", "train", *words, "--steps", "20", "--run", str(folder)]
    environment = {**os.environ, "QKV_CACHE": str(folder.parent / "cache")}
    began = time.perf_counter()
    with (folder.parent / "log.txt").open("w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit((folder.parent / "log.txt").read_text()[-2000:])
    return time.perf_counter() - began, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--pairs", nargs=2, metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    rows, given = options.rows, [lines(path) for path in options.pairs or ()]
    what, few = ("pairs", len(given[0])) if given else ("rows", FEW)
    with tempfile.TemporaryDirectory() as name:
        found = []
        for count in (few, rows):
            folder = Path(name) / str(count)
            folder.mkdir()
            if given:
                size = write_pairs(folder, given, count) / 2**20
                seconds, most = train([str(folder / "train.en"), str(folder / "train.de"), *TRANSLATOR], folder / "run")
            else:
                size = write(folder / "rows.csv", count) / 2**20
                seconds, most = train([str(folder / "rows.csv"), "--model", "bag"], folder / "run")
            found.append(most)
            print(f"{count:>9,} {what}  {size:7.1f} MB of text  {most:7.0f} MB at most  {seconds:6.1f} s", flush=True)
        print(f"the {what} cost {found[1] - found[0]:.0f} MB, {(found[1] - found[0]) / size:.2f} times the text")


if __name__ == "__main__":
    main()
