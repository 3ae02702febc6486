"""Prepares parallel text for training: the pairs, the tokenizer, and the length of texts.

The vocabulary is learned from the training split and cached by the data's fingerprint. Both languages share it, unless
separate vocabularies are requested. If there are several target languages, their tags are special tokens, which no text
can spell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qkv.data.corpus import ParallelConfig
from qkv.data.encode import (
    PairRows,
    encode_pairs,
    with_tags,
)
from qkv.data.examples import (
    Pairs,
    Parallel,
)
from qkv.data.findings import Assumption, Progress, no_progress
from qkv.data.formats.kinds import FilePreviews
from qkv.data.hold_out import PAIR_FRACTION, require_enough, with_fewer_examples
from qkv.data.pair_columns import sides_in_words
from qkv.data.prepare_examples import (
    LENGTH_SAMPLE,
    TOKENIZER_SAMPLE,
    TOKENIZER_VERSION,
    default_context,
    examples_in_time,
    known_tokenizer,
    learned_tokenizers,
    size_for,
)
from qkv.data.read_pairs import PAIRS_VERSION, read_parallel
from qkv.errors import ConfigError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import join_vocabularies, train_tokenizer

USED_PAIR_SHARE = 0.999  # the share of pairs that fit into the default context
PAIR_VOCABULARIES = ((200_000, 1000), (1_500_000, 4000), (20_000_000, 8000), (200_000_000, 16_000), (None, 32_000))
"""(bytes, tokens): the size of the vocabulary for texts with fewer bytes, of both languages together."""


@dataclass(frozen=True)
class PreparedPairs:
    parallel: Parallel
    tokenizer: Tokenizer
    tokenizer_config: TokenizerConfig
    """The resolved config: the kind is chosen, or that of the existing tokenizer of a model."""
    config: ParallelConfig
    """The resolved config, with the languages, the columns and the fingerprint of the pairs."""
    tokenizer_notes: tuple[str, ...] = ()
    target_tokenizer: Tokenizer | None = None
    """The tokenizer of the target, if the languages have separate vocabularies; its ids are those of `tokenizer`."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.parallel.notes, *self.tokenizer_notes)

    @cached_property
    def longest(self) -> int:
        """The length, with special tokens, that nearly all texts of the training split do not exceed."""
        train = self.parallel.train
        rows = self.rows(train.select(slice(None, None, max(1, len(train) // LENGTH_SAMPLE))))
        return int(np.quantile(np.maximum(rows.sources.lengths, rows.targets.lengths), USED_PAIR_SHARE)) + 1

    @property
    def context(self) -> int:
        """corpus.max_tokens, else what nearly all texts need."""
        return self.config.max_tokens or default_context(self.longest)

    def limited(self, most: int) -> PreparedPairs:
        """The same with at most this many training pairs; 0: all."""
        parallel = with_fewer_examples(self.parallel, most)
        return replace(self, parallel=parallel, config=replace(self.config, max_train=most))

    def within(self, seconds: float) -> PreparedPairs:
        """The same with as many training pairs as can be encoded in these seconds."""
        train = self.parallel.train
        most = examples_in_time(len(train), lambda part: self.rows(train.select(part)), seconds)
        return self if self.config.max_train else self.limited(most)

    def rows(self, pairs: Pairs, longest: int = 0) -> PairRows:
        """Pairs as rows of ids; for training, pairs longer than `longest` are left out (0: none)."""
        own = self.target_tokenizer
        return encode_pairs(self.tokenizer, pairs, longest, tagged=self.parallel.tagged, target_tokenizer=own)


def prepare_parallel(
    config: ParallelConfig,
    tokenizer: TokenizerConfig,
    *,
    given_tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
    previews: FilePreviews | None = None,
) -> PreparedPairs:
    """Read the pairs and learn their vocabulary; `given_tokenizer` is one that a model already has."""
    return _prepare_parallel(config, tokenizer, given_tokenizer, progress, previews).limited(config.max_train)


def _prepare_parallel(
    config: ParallelConfig,
    tokenizer: TokenizerConfig,
    given_tokenizer: Tokenizer | None,
    progress: Progress | None,
    previews: FilePreviews | None,
) -> PreparedPairs:
    report = progress or no_progress
    data = read_parallel(config, report, previews=previews)
    require_enough(data, config.valid_fraction or PAIR_FRACTION, config.files[0])
    resolved = replace(
        config,
        languages=tuple(name for direction in data.train.languages for name in direction),
        source=data.columns.get("source", config.source),
        target=data.columns.get("target", config.target),
        fingerprint=data.fingerprint,
    )
    if config.vocabulary == "separate":
        return _separate(data, tokenizer, resolved, report)
    if known := known_tokenizer(tokenizer, given_tokenizer, data.tagged):
        return PreparedPairs(data, *known, resolved)
    chosen, notes = tokenizer, list[str]()
    if tokenizer.kind is None:
        chosen = default_pair_tokenizer(data, tokenizer)
        sides = sides_in_words(data.directions)
        choice = f"tokenizer: {chosen.kind} of {chosen.size:,}, for {sides}; choose another with --tokenizer"
        notes.append(Assumption(f"{choice}, or learn one for each with --set corpus.vocabulary=separate."))

    def learn() -> list[Tokenizer]:
        return [with_tags(train_tokenizer(chosen, _pair_texts(data.train), progress=report), data.tagged)]

    (own,) = learned_tokenizers(_pair_key("pairs", data), chosen, learn, config.files[0], notes)
    return PreparedPairs(data, own, chosen, resolved, tuple(notes))


def _pair_key(what: str, data: Parallel) -> tuple[str, ...]:
    return what, str(TOKENIZER_VERSION), str(PAIRS_VERSION), data.fingerprint


def _separate(data: Parallel, asked: TokenizerConfig, config: ParallelConfig, report: Progress) -> PreparedPairs:
    """Learn a vocabulary of half the size for each language. A resumed run reads them from the cache or learns them
    again, with the same result."""
    if data.tagged or len(data.train.directions) > 1:
        raise ConfigError(
            "corpus.vocabulary = 'separate': there are several languages or directions here, which share one "
            "vocabulary. Leave it out, or train one direction."
        )
    if asked.kind not in (None, "bpe"):
        raise ConfigError(
            f"corpus.vocabulary = 'separate' with tokenizer {asked.kind!r}: only byte pairs are learned for each "
            "language. Use --tokenizer bpe, or leave it out."
        )
    chosen, notes = default_pair_tokenizer(data, asked), list[str]()
    half = replace(chosen, size=(chosen.size or 0) // 2)

    def learn() -> Iterable[Tokenizer]:
        texts = (_pair_texts(data.train, target=False), _pair_texts(data.train, source=False))
        return join_vocabularies(*(train_tokenizer(half, part, progress=report) for part in texts))

    files = ("tokenizer.json", "target_tokenizer.json")
    first, second = learned_tokenizers(_pair_key("pairs, apart", data), chosen, learn, config.files[0], notes, files)
    notes.append(f"tokenizer: bpe of {half.size:,} for each language, {first.vocabulary:,} tokens in all.")
    return PreparedPairs(data, first, chosen, config, tuple(notes), second)


def default_pair_tokenizer(data: Parallel, asked: TokenizerConfig) -> TokenizerConfig:
    """BPE, with a size by the amount of text."""
    size = size_for(data.train.source.bytes + data.train.target.bytes, PAIR_VOCABULARIES)
    return replace(asked, kind="bpe", size=asked.size or size)


def _pair_texts(train: Pairs, *, source: bool = True, target: bool = True) -> Iterator[str]:
    """The sources, the targets or both of the training pairs, each pair once."""
    stride = max(1, -(-(train.source.bytes + train.target.bytes) // TOKENIZER_SAMPLE))
    for row in train.rows[~train.backward][::stride].tolist():
        if source:
            yield train.source[row]
        if target:
            yield train.target[row]
