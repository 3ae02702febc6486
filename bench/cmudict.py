"""The CMU Pronouncing Dictionary as pairs that `qkv train` learns: letters in, phonemes out.

    python bench/cmudict.py cmudict.zip FOLDER
    qkv train FOLDER/train.tsv --valid FOLDER/valid.tsv --test FOLDER/test.tsv --metric errors --model rnn-translator

Lines are `WORD n PH PH ...`. Letters and phonemes are parted by blanks, stress marks are taken off, words with other
signs than letters and the apostrophe are left out. By its name nine in ten words go to train, the others to valid and
test: all pronunciations of a word stand on one side, and each is a reference.
"""

from __future__ import annotations

import hashlib
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PARTS = 20
SIDES = {0: "valid", 1: "test"}  # of the parts; the others are train


def lines(path: Path) -> Iterator[str]:
    if path.suffix != ".zip":
        yield from path.read_text(encoding="latin-1").splitlines()
        return
    with zipfile.ZipFile(path) as archive:
        name = next(each for each in archive.namelist() if each.rpartition("/")[2] == "cmudict")
        yield from archive.read(name).decode("latin-1").splitlines()


def pairs(entries: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Side, letters and phonemes of each pronunciation, those once that differ in stress alone."""
    known: set[tuple[str, str]] = set()
    for entry in entries:
        word, _, *phonemes = entry.split()
        spoken = " ".join(re.sub(r"\d", "", each) for each in phonemes)
        if not re.fullmatch(r"[A-Z']+", word) or not spoken or (word, spoken) in known:
            continue
        known.add((word, spoken))
        part = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4]) % PARTS
        yield SIDES.get(part, "train"), " ".join(word.lower()), spoken


def main(path: str, folder: str) -> None:
    place, counts = Path(folder), Counter[str]()
    place.mkdir(parents=True, exist_ok=True)
    sides = {side: ["source\ttarget"] for side in ("train", "valid", "test")}
    for side, letters, phonemes in pairs(lines(Path(path))):
        sides[side].append(f"{letters}\t{phonemes}")
        counts[side] += 1
    for side, rows in sides.items():
        (place / f"{side}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    print(", ".join(f"{side}: {number:,} pairs" for side, number in counts.items()))


if __name__ == "__main__":
    main(*sys.argv[1:])
