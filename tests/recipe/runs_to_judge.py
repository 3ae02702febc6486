"""Runs that were built to go a certain way: what they are trained on, how, and what must be said about them.

Every one is a real training of a few seconds on one thread, on the documentation inside Python or on made text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from qkv.config import parse_assignment


@lru_cache(maxsize=1)
def documentation() -> str:
    """English about Python, about 366,000 characters, every paragraph once."""
    from pydoc_data.topics import topics

    paragraphs = [part for name in sorted(topics) for part in topics[name].split("\n\n")]
    distinct = {" ".join(part.split()): part for part in paragraphs if len(part) > 30}
    return "\n\n".join(distinct.values())


def letters(number: int, seed: int, kinds: int = 26) -> str:
    return "".join(map(chr, np.random.default_rng(seed).integers(97, 97 + kinds, number)))


def chain(number: int, seed: int) -> str:
    """Letters that depend on the one before them, each on its own way: a bigram model knows all there is to know."""
    ways = np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=12)
    random, now, found = np.random.default_rng(seed), 0, []
    steps = random.random(number)
    borders = ways.cumsum(axis=1)
    for step in steps:
        now = int(min(np.searchsorted(borders[now], step), 11))
        found.append(chr(97 + now))
    return "".join(found)


def edited(text: str, every: int) -> str:
    """The text with a letter changed at every so many places."""
    return "".join("#" if place % every == 0 else letter for place, letter in enumerate(text, 1))


def english(size: int, start: int = 0) -> Callable[[], str]:
    return lambda: documentation()[start : start + size]


CAT = "the cat sat on the mat and the dog sat on the log\n"
TEXTS: dict[str, Callable[[], str]] = {
    "": str,
    "page": english(1_500),
    "pages": english(6_000),
    "article": english(12_000),
    "chapter": english(20_000),
    "part": english(60_000),
    "book": english(150_000),
    "long book": english(200_000),
    "new line": english(80, 300_000),
    "a word": lambda: "the",
    "copy": english(6_000, 20_000),
    "edited copy": lambda: edited(documentation()[20_000:26_000], 60),
    "half a copy": lambda: documentation()[20_000:23_000] + documentation()[200_000:203_000],
    "one sentence": lambda: CAT * 400,
    "one page": lambda: documentation()[:2_000] * 30,
    "chain": lambda: chain(60_000, 1),
    "noise": lambda: letters(40_000, 1),
    "four letters": lambda: letters(40_000, 2, 4),
    "little noise": lambda: letters(4_000, 3),
    "one letter": lambda: "a" * 20_000,
    "capitals": lambda: letters(20_000, 5).upper(),
    "book, digits": lambda: documentation()[:150_000] + "0123456789 " * 20,
    "numbers": lambda: "".join(f"{number * 7919 % 10_007} " for number in range(3_000)),
}
SHORTHANDS = {
    "tiny": "model.layers=1 model.heads=2 model.width=32 model.context=32",
    "wide": "model.layers=2 model.heads=4 model.width=64 model.context=32",
    "32": "model.width=32 model.context=32",
    "48": "model.width=48 model.context=32",
    "64": "model.width=64 model.context=32",
    "128": "model.width=128 model.context=32",
    "heart": "training.optimizer=adamw training.learning_rate=0.004 training.batch=8 training.patience=0",
    "slow": "training.learning_rate=1e-6 training.matrix_learning_rate=1e-6",
}

# What is said is one of the verdicts. A star: only among the slow tests. Settings are --set's, of `training` where no
# section is named, and the shorthands above.
TABLE = """
  | run                            | verdicts                 | learns from  | checks on   | model and settings
  | a page, gpt                    | overfitting memorised    | page         |             | gpt wide heart steps=250
  | a page, lstm                   | memorised                | page         |             | lstm 128 heart learning_rate=0.012 steps=200
* | a page, modern                 | overfitting memorised    | page         |             | modern wide heart steps=200
  | a page, one evaluation         | overfitting memorised    | page         |             | modern wide heart steps=200 evaluate_every=200
* | a page, evaluated all the time | overfitting memorised    | page         |             | modern wide heart steps=200 evaluate_every=2
  | a page, stopped early          | overfitting memorised    | page         |             | gru 128 heart learning_rate=0.008 steps=300 patience=4
  | some pages in words            | overfitting memorised    | article      |             | modern wide heart steps=80 tokenizer.kind=words
* | a few pages                    | learning                 | pages        |             | modern wide heart steps=350
* | a few pages, gru               | learning                 | article      |             | gru 128 batch=16 learning_rate=0.008 steps=300
  | a tiny rate                    | underfit                 | book         |             | modern tiny slow batch=32 steps=60
  | a tiny rate, lstm              | underfit                 | part         |             | lstm 48 slow steps=40
* | a tiny rate, long              | underfit                 | part         |             | gpt tiny slow batch=16 steps=250
  | three steps                    | underfit                 | book         |             | modern tiny steps=3
  | a huge rate, adamw             | diverged                 | part         |             | modern tiny batch=16 steps=60 optimizer=adamw learning_rate=30.0 clip=0.0
  | a huge rate, muon              | diverged                 | part         |             | modern tiny batch=16 steps=60 learning_rate=30.0 matrix_learning_rate=30.0
  | a huge rate, rnn               | diverged                 | part         |             | rnn 48 batch=16 steps=60 learning_rate=10.0 clip=0.0
* | a huge rate, gpt               | diverged                 | part         |             | gpt tiny batch=16 steps=60 optimizer=adamw learning_rate=3.0
  | a huge rate, late              | diverged                 | part         |             | modern tiny batch=16 steps=150 warmup=140 learning_rate=3.0 matrix_learning_rate=10.0 patience=0
  | a high rate in the middle      | unstable                 | part         |             | modern tiny batch=16 steps=200 warmup=100 learning_rate=1.0 matrix_learning_rate=3.0 patience=0
  | short                          | learning                 | book         |             | modern tiny batch=32 steps=60
* | short, seed 1                  | learning                 | book         |             | modern tiny batch=32 steps=60 seed=1
* | short, seed 2                  | learning                 | book         |             | modern tiny batch=32 steps=60 seed=2
* | longer                         | learning                 | long book    |             | modern wide batch=32 steps=200
  | short, gpt                     | learning                 | book         |             | gpt tiny batch=32 steps=80
* | short, rnn                     | learning                 | book         |             | rnn 64 batch=32 steps=100
  | short, gru                     | learning                 | book         |             | gru 64 batch=32 steps=100
* | short, lstm                    | learning                 | book         |             | lstm 64 batch=32 steps=100
* | short, cnn                     | learning                 | book         |             | cnn 48 batch=32 steps=60
* | short, mlp                     | learning                 | book         |             | mlp 48 batch=32 steps=60
* | short, pieces                  | learning                 | long book    |             | modern tiny batch=16 steps=80 tokenizer.kind=bpe
  | several epochs                 | learning                 | part         |             | modern tiny batch=32 steps=150
  | much dropout                   | learning                 | book         |             | modern tiny batch=32 steps=80 model.dropout=0.4
  | noisy                          | learning underfit        | book         |             | modern tiny batch=1 steps=200 learning_rate=0.002 matrix_learning_rate=0.01 task.evaluation_tokens=512
* | noisy to the end               | learning plateau unclear | book         |             | modern tiny batch=1 steps=300 schedule=constant-decay decay=0.01 task.evaluation_tokens=512 evaluate_every=10 patience=0
  | little to check on             | learning unclear         | book         | new line    | modern tiny batch=32 steps=80
* | little to check on, long       | unclear plateau          | chapter      | new line    | modern tiny batch=16 steps=200
* | a word to check on             | learning unclear         | book         | a word      | modern tiny batch=32 steps=40
  | a chain of letters             | plateau                  | chain        |             | modern tiny batch=32 steps=200
* | a chain of letters, lstm       | plateau                  | chain        |             | lstm 48 batch=32 steps=250
  | a copy                         | leak                     | part         | copy        | modern wide batch=16 steps=80
  | a copy with edits              | leak                     | part         | edited copy | modern tiny batch=32 steps=80
* | half a copy                    | leak                     | part         | half a copy | gru 64 batch=32 steps=80
  | the same again and again       | repetitive               | one sentence |             | modern tiny batch=16 steps=50
  | a page again and again         | repetitive               | one page     |             | modern tiny batch=32 steps=80
  | noise                          | noise                    | noise        |             | modern tiny batch=32 steps=80
  | noise of four letters          | noise                    | four letters |             | lstm 32 batch=32 steps=60
* | noise by heart                 | noise                    | little noise |             | modern wide heart steps=200
* | noise, a tiny rate             | noise                    | noise        |             | modern tiny slow batch=32 steps=40
  | one letter                     | trivial                  | one letter   |             | modern tiny batch=16 steps=30
  | checked on capitals            | unlike                   | book         | capitals    | modern tiny batch=32 steps=80
* | checked on numbers             | unlike                   | book, digits | numbers     | gpt tiny batch=32 steps=80
"""  # noqa: E501


@dataclass(frozen=True)
class Made:
    """A run of the table. Without text to check on, the end of the text is held out."""

    name: str
    verdicts: tuple[str, ...]
    text: Callable[[], str]
    valid: Callable[[], str]
    settings: str
    slow: bool

    def values(self) -> dict[str, Any]:
        """The recipe, but for the corpus."""
        kind, *words = self.settings.split()
        values: dict[str, Any] = {"tokenizer": {"kind": "characters"}, "model": {"kind": kind}}
        said = [each for word in words for each in SHORTHANDS.get(word, word).split()]
        for each in ["training.threads=1", "training.device=cpu", "training.dtype=f32", *said]:
            key, value = parse_assignment(each if "." in each.split("=")[0] else f"training.{each}")
            section, _, name = key.partition(".")
            values.setdefault(section, {})[name] = value
        return values


def made() -> Iterator[Made]:
    for line in TABLE.strip().splitlines()[1:]:
        star, name, verdicts, text, valid, settings = (cell.strip() for cell in line.split("|"))
        yield Made(name, tuple(verdicts.split()), TEXTS[text], TEXTS[valid], settings, star == "*")
