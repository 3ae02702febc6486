"""From labelled files to what training needs: the examples, a tokenizer, and the length that texts are read to.

A vocabulary is learned from the texts of the training side alone and kept in the cache under the examples' fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from qkv.config import plain
from qkv.data import cache
from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import Progress, silent
from qkv.data.formats.kinds import Beginnings
from qkv.data.hold_out import require_enough
from qkv.data.labelled.encoding import Rows, encode_texts, encode_words, room_for, sentences_of, texts_of
from qkv.data.labelled.examples import Examples, ImageExamples, Labelled, NumberExamples, TagExamples, TextExamples
from qkv.data.labelled.reading import READING_VERSION, read_examples
from qkv.errors import DataError
from qkv.text.pipelines import ONLY_READ
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer

TOKENIZER_VERSION = 1  # raise when the same examples would give another vocabulary
LEARN_FROM = 16_000_000  # characters; of more, every n-th text is taken
LOOKED_AT = 4000  # texts whose lengths decide how far texts are read
MOST = 0.99  # of the texts are read to their end
LONGEST = 256  # tokens, unless somebody says otherwise
STEP = 16
VOCABULARIES = ((50_000, 1024), (200_000, 4096), (1_500_000, 8192))  # for texts of fewer characters, so many pieces
LARGEST = 16_384
ONE_WORD, ALPHABET = 0.9, 100  # of the texts without blanks inside, and characters at most: read by characters
ROLES = {"text": "text", "second text": "text2", "label": "label", "id": "id"}  # of columns, and how a config says them


@dataclass(frozen=True)
class PreparedExamples:
    labelled: Labelled
    tokenizer: Tokenizer | None
    """None for pictures and numbers."""
    tokenizer_config: TokenizerConfig
    """Resolved: nothing is "auto" any more."""
    config: ExamplesConfig
    """Resolved: with the columns, the task and the examples' fingerprint."""
    more: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.labelled.notes, *self.more)

    @cached_property
    def longest(self) -> int:
        """How many tokens, with those around them, nearly all texts of the training side have."""
        assert self.tokenizer is not None
        far, train = 2**20, self.labelled.train
        if isinstance(train, TagExamples):
            rows = encode_words(self.tokenizer, islice(sentences_of(train), LOOKED_AT), far)
        else:
            assert isinstance(train, TextExamples)
            spread = replace(train, rows=train.rows[:: max(1, len(train) // LOOKED_AT)])
            rows = encode_texts(self.tokenizer, texts_of(spread), far, pairs=self.labelled.pairs)
        return int(np.quantile(rows.lengths, MOST)) + 1

    @property
    def context(self) -> int:
        return max(STEP, min(LONGEST, -(-self.longest // STEP) * STEP))

    def rows(self, examples: Examples, context: int) -> Any:
        """A side as rows of ids, as pixels, or as numbers."""
        if isinstance(examples, ImageExamples):
            return examples.pixels
        if isinstance(examples, NumberExamples):
            return examples.numbers
        assert self.tokenizer is not None
        return rows_of(self.tokenizer, examples, context)


def rows_of(tokenizer: Tokenizer, examples: TextExamples | TagExamples, context: int) -> Rows:
    room_for(tokenizer, context, pairs=isinstance(examples, TextExamples) and examples.second is not None)
    if isinstance(examples, TagExamples):
        return encode_words(tokenizer, sentences_of(examples), context)
    return encode_texts(tokenizer, texts_of(examples), context, pairs=examples.second is not None)


def prepare_examples(
    config: ExamplesConfig,
    tokenizer: TokenizerConfig,
    *,
    given_tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
    beginnings: Beginnings | None = None,
) -> PreparedExamples:
    """Read the examples and learn their vocabulary; `given_tokenizer` is one that a model already has."""
    watch = progress or silent
    found = read_examples(config, watch, beginnings=beginnings)
    fraction = config.valid_fraction if found.valid.all_keys is found.train.all_keys else None
    require_enough(found.train.keys, found.valid.keys, fraction, config.files[0])
    columns: dict[str, Any] = {ROLES[role]: column for role, column in found.columns.items()}
    resolved = replace(config, task=found.task, fingerprint=found.fingerprint, **columns)
    if isinstance(found.train, NumberExamples):
        resolved = replace(resolved, columns=found.train.columns)
    if found.task == "images" or found.numeric:
        return PreparedExamples(found, None, TokenizerConfig(kind="characters"), resolved)
    if given_tokenizer is not None:
        learned = tokenizer.kind == "auto" and given_tokenizer.kind not in ONLY_READ
        kept = replace(tokenizer, kind=given_tokenizer.kind) if learned else tokenizer  # type: ignore[arg-type]
        return PreparedExamples(found, given_tokenizer, kept, resolved)
    if tokenizer.kind == "file":
        return PreparedExamples(found, train_tokenizer(tokenizer, ()), tokenizer, resolved)
    chosen, said = tokenizer, list[str]()
    if tokenizer.kind == "auto":
        chosen = usual(found, tokenizer)
        size = f" of {chosen.size:,}" if chosen.size else ""
        said.append(f"tokenizer: {chosen.kind}{size}, chosen for these texts; --tokenizer says otherwise.")
    parts = ("examples", str(TOKENIZER_VERSION), str(READING_VERSION), found.fingerprint, json.dumps(plain(chosen)))

    def learn(aside: Path) -> None:
        try:
            trained = train_tokenizer(chosen, _learned_from(found), progress=watch)
        except DataError as error:
            raise DataError(config.files[0], error.problem, error.remedy) from None
        trained.save(aside / "tokenizer.json")
        cache.write_facts(aside, {"config": plain(chosen)})

    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    folder = cache.obtain("tokenizers", key, learn, said.append)
    return PreparedExamples(found, Tokenizer.load(folder / "tokenizer.json"), chosen, resolved, tuple(said))


def usual(found: Labelled, asked: TokenizerConfig) -> TokenizerConfig:
    """Pieces of words, as many as the texts can teach; of strings without blanks, as proteins, characters."""
    if not asked.size and _unspaced(found):
        return replace(asked, kind="characters")
    characters = int(found.train.lengths.sum())
    many = (
        LARGEST
        if found.task == "tagging"
        else next((size for most, size in VOCABULARIES if characters < most), LARGEST)
    )
    size = asked.size or many
    return replace(asked, kind="wordpiece", size=size, case="lower" if found.task != "tagging" else "kept")


def _unspaced(found: Labelled) -> bool:
    """Whether nearly all texts are one word of a small alphabet: proteins, names; not a script without blanks."""
    if not isinstance(found.train, TextExamples):
        return False
    texts = [first for first, _ in texts_of(replace(found.train, rows=found.train.rows[:LOOKED_AT]))]
    single = [text for text in texts if len(text.split()) == 1]
    return len(single) > ONE_WORD * len(texts) and len(set().union(*single)) <= ALPHABET


def _learned_from(found: Labelled) -> Iterator[str]:
    train = found.train
    if isinstance(train, TagExamples):
        yield from (" ".join(words) for words in sentences_of(train))
        return
    assert isinstance(train, TextExamples)
    stride = max(1, -(-int(train.lengths.sum()) // LEARN_FROM))
    for first, second in texts_of(replace(train, rows=train.rows[::stride])):
        yield first if second is None else f"{first} {second}"
