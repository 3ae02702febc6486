"""Prepares labelled examples for training: the data, the tokenizer, and the length of texts.

The vocabulary is learned from the training split and cached by the data's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from qkv.config import toml_values
from qkv.data import cache
from qkv.data.corpus import ExamplesConfig
from qkv.data.encode import (
    EncodedRows,
    encode_texts,
    encode_words,
    sentences_of,
    tag_ids,
    texts_of,
    with_tags,
)
from qkv.data.examples import (
    Array,
    ArrayExamples,
    Examples,
    Labelled,
    NumberExamples,
    TagExamples,
    TextExamples,
)
from qkv.data.findings import Assumption, Progress, no_progress
from qkv.data.formats.kinds import FilePreviews
from qkv.data.hold_out import require_enough, with_fewer_examples
from qkv.data.read_examples import EXAMPLES_VERSION, read_examples
from qkv.errors import ConfigError, DataError
from qkv.text.pipelines import ONLY_READ
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer

TaggingKind = Literal["bpe", "wordpiece"]
TextKind = Literal["characters"]
TOKENIZER_VERSION = 2  # increase it when the same data would give a different vocabulary
TOKENIZER_SAMPLE = 16_000_000  # characters, for pairs bytes; of longer data, every n-th text is used
TIMED_EXAMPLES = 256  # examples whose encoding is timed
LENGTH_SAMPLE = 4000  # texts whose lengths decide the context
UNTRUNCATED_SHARE = 0.99  # of the texts
MAX_CONTEXT, CONTEXT_STEP = 256, 16  # tokens, by default
EXAMPLE_VOCABULARIES = ((50_000, 1024), (200_000, 4096), (1_500_000, 8192), (None, 16_384))
"""(characters, tokens): the size of the vocabulary for texts with fewer characters than this."""
# texts get a tokenizer of characters if more than this share has no blanks, and they have at most this many characters
MIN_UNSPACED_SHARE, MAX_ALPHABET = 0.9, 100


@dataclass(frozen=True)
class PreparedExamples:
    labelled: Labelled
    tokenizer: Tokenizer | None
    """None for images and numbers."""
    tokenizer_config: TokenizerConfig
    """The resolved config: the kind is chosen, or that of the existing tokenizer of a model."""
    config: ExamplesConfig
    """The resolved config, with the columns, the task and the fingerprint of the examples."""
    tokenizer_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.labelled.notes, *self.tokenizer_notes)

    @cached_property
    def longest(self) -> int:
        """The length, with special tokens, that nearly all texts of the training split do not exceed."""
        assert self.tokenizer is not None
        no_limit, train = 2**20, self.labelled.train
        if isinstance(train, TagExamples):
            rows = encode_words(self.tokenizer, islice(sentences_of(train), LENGTH_SAMPLE), no_limit)
        else:
            assert isinstance(train, TextExamples)
            spread = train.select(slice(None, None, max(1, len(train) // LENGTH_SAMPLE)))
            rows = encode_texts(self.tokenizer, texts_of(spread), no_limit, pairs=self.labelled.pairs)
        return int(np.quantile(rows.lengths, UNTRUNCATED_SHARE)) + 1

    @property
    def context(self) -> int:
        return default_context(self.longest)

    def read_as(self, kind: Literal["characters"]) -> PreparedExamples:
        """The same for a model that reads tokens of this kind."""
        config = replace(self.tokenizer_config, kind=kind, size=None, case="kept")
        key = ("examples", str(TOKENIZER_VERSION), str(EXAMPLES_VERSION), self.labelled.fingerprint)
        train = self.labelled.train
        (own,) = learned_tokenizers(
            key, config, lambda: [train_tokenizer(config, _example_texts(train))], self.config.files[0], []
        )
        return replace(self, tokenizer=own, tokenizer_config=config, tokenizer_notes=())

    def limited(self, most: int) -> PreparedExamples:
        """The same with at most this many training examples; 0: all."""
        labelled = with_fewer_examples(self.labelled, most)
        return replace(self, labelled=labelled, config=replace(self.config, max_train=most))

    def within(self, seconds: float) -> PreparedExamples:
        """The same with as many training examples as can be encoded in these seconds."""
        train = self.labelled.train
        if self.config.max_train or not isinstance(train, TextExamples | TagExamples):
            return self
        return self.limited(
            examples_in_time(len(train), lambda part: self.rows(train.select(part), MAX_CONTEXT), seconds)
        )

    def rows(self, examples: Examples, context: int) -> EncodedRows | Array:
        """The examples as rows of ids, as pixels, or as numbers."""
        if isinstance(examples, ArrayExamples):
            return examples.values
        assert self.tokenizer is not None
        return rows_of(self.tokenizer, examples, context)


def examples_in_time(
    count: int,
    encode: Callable[[slice], object],
    seconds: float,
    now: Callable[[], float] = time.perf_counter,
) -> int:
    """How many training examples can be encoded in these seconds, measured on a few; 0: all of them."""
    if count <= TIMED_EXAMPLES:
        return 0
    began = now()
    encode(slice(None, None, count // TIMED_EXAMPLES))
    most = int(TIMED_EXAMPLES * seconds / max(1e-9, now() - began))
    return 0 if most >= count else max(TIMED_EXAMPLES, most)


def default_context(longest: int) -> int:
    return max(CONTEXT_STEP, min(MAX_CONTEXT, -(-longest // CONTEXT_STEP) * CONTEXT_STEP))


def rows_of(tokenizer: Tokenizer, examples: TextExamples | TagExamples, context: int) -> EncodedRows:
    if isinstance(examples, TagExamples):
        return encode_words(tokenizer, sentences_of(examples), context)
    return encode_texts(tokenizer, texts_of(examples), context, pairs=examples.second is not None)


def prepare_examples(
    config: ExamplesConfig,
    tokenizer: TokenizerConfig,
    *,
    given_tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
    previews: FilePreviews | None = None,
    tagging_kind: TaggingKind = "wordpiece",
    text_kind: TextKind | None = None,
) -> PreparedExamples:
    """Read the examples and learn their vocabulary; `given_tokenizer` is one that a model already has, `tagging_kind`
    is learned by default from words with tags, and `text_kind`, if it is given, from texts."""
    whole = _prepare_examples(config, tokenizer, given_tokenizer, progress, previews, tagging_kind, text_kind)
    return whole.limited(config.max_train)


def _prepare_examples(
    config: ExamplesConfig,
    tokenizer: TokenizerConfig,
    given_tokenizer: Tokenizer | None,
    progress: Progress | None,
    previews: FilePreviews | None,
    tagging_kind: TaggingKind,
    text_kind: TextKind | None,
) -> PreparedExamples:
    report = progress or no_progress
    data = read_examples(config, report, previews=previews)
    require_enough(data, config.valid_fraction, config.files[0])
    resolved = replace(
        config,
        task=data.task,
        fingerprint=data.fingerprint,
        text=data.columns.get("text", config.text),
        text2=data.columns.get("second text", config.text2),
        label=data.columns.get("label", config.label),
        id=data.columns.get("id", config.id),
        columns=data.train.columns if isinstance(data.train, NumberExamples) else config.columns,
    )
    if data.task == "images" or data.numeric:
        unused = TokenizerConfig(kind="characters")
        if tokenizer not in (TokenizerConfig(), unused):
            reason = f"{config.files[0]} holds no text"
            raise ConfigError(f"--tokenizer {tokenizer.kind}: does not apply, because {reason}. Leave it out.")
        return PreparedExamples(data, None, unused, resolved)
    if known := known_tokenizer(tokenizer, given_tokenizer):
        return PreparedExamples(data, *known, resolved)
    chosen, notes = tokenizer, list[str]()
    if tokenizer.kind is None and text_kind is not None and data.task != "tagging":
        chosen = replace(tokenizer, kind=text_kind)
    elif tokenizer.kind is None:
        chosen = default_example_tokenizer(data, tokenizer, tagging_kind)
        size = f" of {chosen.size:,}" if chosen.size else ""
        choice = f"tokenizer: {chosen.kind}{size}, chosen for these texts; choose another with --tokenizer."
        notes.append(Assumption(choice))

    def learn() -> list[Tokenizer]:
        return [train_tokenizer(chosen, _example_texts(data.train), progress=report)]

    key = ("examples", str(TOKENIZER_VERSION), str(EXAMPLES_VERSION), data.fingerprint)
    (own,) = learned_tokenizers(key, chosen, learn, config.files[0], notes)
    return PreparedExamples(data, own, chosen, resolved, tuple(notes))


def known_tokenizer(
    asked: TokenizerConfig, given: Tokenizer | None, tags: Sequence[str] = ()
) -> tuple[Tokenizer, TokenizerConfig] | None:
    """The tokenizer of an existing model or of a file, with its config; None if a tokenizer must be learned."""
    if given is not None:
        tag_ids(given, tags)
        kept = asked.kind is not None or given.kind in ONLY_READ
        return given, asked if kept else replace(asked, kind=given.kind)  # type: ignore[arg-type]
    return (with_tags(train_tokenizer(asked, ()), tags), asked) if asked.kind == "file" else None


def learned_tokenizers(
    key: Sequence[str],
    chosen: TokenizerConfig,
    learn: Callable[[], Iterable[Tokenizer]],
    where: str,
    notes: list[str],
    files: Sequence[str] = ("tokenizer.json",),
) -> list[Tokenizer]:
    """Tokenizers from the cache; missing ones are learned with `learn`."""

    def fill(folder: Path) -> None:
        try:
            for name, tokenizer in zip(files, learn(), strict=True):
                tokenizer.save(folder / name)
        except DataError as error:
            raise DataError(where, error.problem, error.remedy) from None
        cache.write_facts(folder, {"config": toml_values(chosen)})

    parts = (*key, json.dumps(toml_values(chosen)))
    folder = cache.obtain("tokenizers", hashlib.sha256("\0".join(parts).encode()).hexdigest(), fill, notes.append)
    return [Tokenizer.load(folder / name) for name in files]


def size_for(amount: int, sizes: Sequence[tuple[int | None, int]]) -> int:
    return next(size for below, size in sizes if below is None or amount < below)


def default_example_tokenizer(
    data: Labelled, asked: TokenizerConfig, tagging_kind: TaggingKind = "wordpiece"
) -> TokenizerConfig:
    """WordPiece or, for tagged words, `tagging_kind`, with a size by the amount of text; characters for strings without
    blanks, such as proteins."""
    if not asked.size and _unspaced(data.train):
        return replace(asked, kind="characters")
    tagging = data.task == "tagging"
    size = EXAMPLE_VOCABULARIES[-1][1] if tagging else size_for(int(data.train.lengths.sum()), EXAMPLE_VOCABULARIES)
    kind: TaggingKind = tagging_kind if tagging else "wordpiece"
    return replace(asked, kind=kind, size=asked.size or size, case="kept" if tagging else "lower")


def _unspaced(train: Examples) -> bool:
    """Whether nearly all texts are one word of a small alphabet, such as proteins, unlike texts in Chinese."""
    if not isinstance(train, TextExamples):
        return False
    texts = [first for first, _ in texts_of(train.select(slice(LENGTH_SAMPLE)))]
    single = [text for text in texts if len(text.split()) == 1]
    return len(single) > MIN_UNSPACED_SHARE * len(texts) and len(set().union(*single)) <= MAX_ALPHABET


def _example_texts(train: Examples) -> Iterator[str]:
    if isinstance(train, TagExamples):
        yield from (" ".join(words) for words in sentences_of(train))
        return
    assert isinstance(train, TextExamples)
    stride = max(1, -(-int(train.lengths.sum()) // TOKENIZER_SAMPLE))
    for first, second in texts_of(train.select(slice(None, None, stride))):
        yield first if second is None else f"{first} {second}"
