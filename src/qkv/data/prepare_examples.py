"""From files of examples or of parallel text to what training needs: the data, its vocabulary, and how long texts are.

The vocabulary is learned from the training split and kept in the cache under the data's fingerprint. Parallel text has
one for both languages, unless they are to be separate; where there are several languages to translate to, their tags
are special tokens of it: no text can spell one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from qkv.config import toml_values
from qkv.data import cache
from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.encode import (
    EncodedRows,
    PairRows,
    encode_pairs,
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
    Pairs,
    Parallel,
    TagExamples,
    TextExamples,
)
from qkv.data.findings import Assumption, Progress, no_progress
from qkv.data.formats.kinds import FilePreviews
from qkv.data.hold_out import PAIR_FRACTION, require_enough
from qkv.data.read_examples import EXAMPLES_VERSION, read_examples
from qkv.data.read_pairs import PAIRS_VERSION, read_parallel
from qkv.errors import ConfigError, DataError
from qkv.text.pipelines import ONLY_READ
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import join_vocabularies, train_tokenizer

TOKENIZER_VERSION = 1  # raise when the same data would give another vocabulary
LEARN_FROM = 16_000_000  # characters, of pairs bytes; of more, every n-th text is taken
SAMPLED = 4000  # texts whose lengths decide how far texts are read
EXAMPLES_READ_WHOLE, PAIRS_KEPT = 0.99, 0.999  # of the texts are read to their end, of the pairs learned from
LONGEST_CONTEXT, CONTEXT_STEP = 256, 16  # tokens, by default
EXAMPLE_VOCABULARIES = ((50_000, 1024), (200_000, 4096), (1_500_000, 8192), (None, 16_384))
"""For texts of fewer characters, how many tokens."""
PAIR_VOCABULARIES = ((200_000, 1000), (1_500_000, 4000), (20_000_000, 8000), (200_000_000, 16_000), (None, 32_000))
"""For texts of fewer bytes, both languages together, how many tokens."""
ONE_WORD, ALPHABET = 0.9, 100  # of the texts without blanks inside, and characters at most: read by characters


@dataclass(frozen=True)
class PreparedExamples:
    labelled: Labelled
    tokenizer: Tokenizer | None
    """None for pictures and numbers."""
    tokenizer_config: TokenizerConfig
    """Resolved: the kind is chosen, or left to the tokenizer that a model already has."""
    config: ExamplesConfig
    """Resolved: with the columns, the task and the examples' fingerprint."""
    tokenizer_notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.labelled.notes, *self.tokenizer_notes)

    @cached_property
    def longest(self) -> int:
        """How many tokens, with those around them, nearly all texts of the training split have."""
        assert self.tokenizer is not None
        far, train = 2**20, self.labelled.train
        if isinstance(train, TagExamples):
            rows = encode_words(self.tokenizer, islice(sentences_of(train), SAMPLED), far)
        else:
            assert isinstance(train, TextExamples)
            spread = train.select(slice(None, None, max(1, len(train) // SAMPLED)))
            rows = encode_texts(self.tokenizer, texts_of(spread), far, pairs=self.labelled.pairs)
        return int(np.quantile(rows.lengths, EXAMPLES_READ_WHOLE)) + 1

    @property
    def context(self) -> int:
        return default_context(self.longest)

    def rows(self, examples: Examples, context: int) -> EncodedRows | Array:
        """A split as rows of ids, as pixels, or as numbers."""
        if isinstance(examples, ArrayExamples):
            return examples.values
        assert self.tokenizer is not None
        return rows_of(self.tokenizer, examples, context)


def default_context(longest: int) -> int:
    return max(CONTEXT_STEP, min(LONGEST_CONTEXT, -(-longest // CONTEXT_STEP) * CONTEXT_STEP))


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
) -> PreparedExamples:
    """Read the examples and learn their vocabulary; `given_tokenizer` is one that a model already has."""
    watch = progress or no_progress
    data = read_examples(config, watch, previews=previews)
    fraction = config.valid_fraction if data.held_out else None
    require_enough(data.train.keys, data.valid.keys, fraction, config.files[0])
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
    if known := _known(tokenizer, given_tokenizer):
        return PreparedExamples(data, *known, resolved)
    chosen, notes = tokenizer, list[str]()
    if tokenizer.kind is None:
        chosen = default_example_tokenizer(data, tokenizer)
        size = f" of {chosen.size:,}" if chosen.size else ""
        choice = f"tokenizer: {chosen.kind}{size}, chosen for these texts; choose another with --tokenizer."
        notes.append(Assumption(choice))

    def learn() -> list[Tokenizer]:
        return [train_tokenizer(chosen, _example_texts(data.train), progress=watch)]

    key = ("examples", str(TOKENIZER_VERSION), str(EXAMPLES_VERSION), data.fingerprint)
    (own,) = _learned(key, chosen, learn, config.files[0], notes)
    return PreparedExamples(data, own, chosen, resolved, tuple(notes))


def _known(
    asked: TokenizerConfig, given: Tokenizer | None, tags: Sequence[str] = ()
) -> tuple[Tokenizer, TokenizerConfig] | None:
    """A tokenizer that a model already has, or that of a file, with its config; None where one is to be learned."""
    if given is not None:
        tag_ids(given, tags)
        kept = asked.kind is not None or given.kind in ONLY_READ
        return given, asked if kept else replace(asked, kind=given.kind)  # type: ignore[arg-type]
    return (with_tags(train_tokenizer(asked, ()), tags), asked) if asked.kind == "file" else None


def _learned(
    key: Sequence[str],
    chosen: TokenizerConfig,
    learn: Callable[[], Iterable[Tokenizer]],
    where: str,
    notes: list[str],
    files: Sequence[str] = ("tokenizer.json",),
) -> list[Tokenizer]:
    """Tokenizers from the cache; `learn` gives them where they are not there yet."""

    def fill(aside: Path) -> None:
        try:
            for name, tokenizer in zip(files, learn(), strict=True):
                tokenizer.save(aside / name)
        except DataError as error:
            raise DataError(where, error.problem, error.remedy) from None
        cache.write_facts(aside, {"config": toml_values(chosen)})

    parts = (*key, json.dumps(toml_values(chosen)))
    folder = cache.obtain("tokenizers", hashlib.sha256("\0".join(parts).encode()).hexdigest(), fill, notes.append)
    return [Tokenizer.load(folder / name) for name in files]


def _size_for(amount: int, sizes: Sequence[tuple[int | None, int]]) -> int:
    return next(size for below, size in sizes if below is None or amount < below)


def default_example_tokenizer(data: Labelled, asked: TokenizerConfig) -> TokenizerConfig:
    """Word pieces, as many as the texts can teach; of strings without blanks, as proteins, characters."""
    if not asked.size and _unspaced(data.train):
        return replace(asked, kind="characters")
    tagging = data.task == "tagging"
    size = EXAMPLE_VOCABULARIES[-1][1] if tagging else _size_for(int(data.train.lengths.sum()), EXAMPLE_VOCABULARIES)
    return replace(asked, kind="wordpiece", size=asked.size or size, case="kept" if tagging else "lower")


def _unspaced(train: Examples) -> bool:
    """Whether nearly all texts are one word of a small alphabet: proteins, names; not a script without blanks."""
    if not isinstance(train, TextExamples):
        return False
    texts = [first for first, _ in texts_of(train.select(slice(SAMPLED)))]
    single = [text for text in texts if len(text.split()) == 1]
    return len(single) > ONE_WORD * len(texts) and len(set().union(*single)) <= ALPHABET


def _example_texts(train: Examples) -> Iterator[str]:
    if isinstance(train, TagExamples):
        yield from (" ".join(words) for words in sentences_of(train))
        return
    assert isinstance(train, TextExamples)
    stride = max(1, -(-int(train.lengths.sum()) // LEARN_FROM))
    for first, second in texts_of(train.select(slice(None, None, stride))):
        yield first if second is None else f"{first} {second}"


@dataclass(frozen=True)
class PreparedPairs:
    parallel: Parallel
    tokenizer: Tokenizer
    tokenizer_config: TokenizerConfig
    """Resolved: the kind is chosen, or left to the tokenizer that a model already has."""
    config: ParallelConfig
    """Resolved: with the languages, the columns and the pairs' fingerprint."""
    tokenizer_notes: tuple[str, ...] = ()
    target_tokenizer: Tokenizer | None = None
    """Where the languages have separate vocabularies: that of the target, numbered as `tokenizer` is."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.parallel.notes, *self.tokenizer_notes)

    @cached_property
    def longest(self) -> int:
        """How many tokens, with those around them, nearly all texts of the training split have."""
        train = self.parallel.train
        rows = self.rows(train.select(slice(None, None, max(1, len(train) // SAMPLED))))
        return int(np.quantile(np.maximum(rows.sources.lengths, rows.targets.lengths), PAIRS_KEPT)) + 1

    @property
    def context(self) -> int:
        """corpus.max_tokens, else what nearly all texts need."""
        return self.config.max_tokens or default_context(self.longest)

    def rows(self, pairs: Pairs, longest: int = 0) -> PairRows:
        """Pairs as rows of ids; to learn from, bounded by `context`, to evaluate on, as they are."""
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
    watch = progress or no_progress
    data = read_parallel(config, watch, previews=previews)
    fraction = (config.valid_fraction or PAIR_FRACTION) if data.held_out else None
    require_enough(data.train.keys, data.valid.keys, fraction, config.files[0], "pairs")
    resolved = replace(
        config,
        languages=tuple(name for direction in data.train.languages for name in direction),
        source=data.columns.get("source", config.source),
        target=data.columns.get("target", config.target),
        fingerprint=data.fingerprint,
    )
    if config.vocabulary == "separate":
        return _separate(data, tokenizer, resolved, watch)
    if known := _known(tokenizer, given_tokenizer, data.tagged):
        return PreparedPairs(data, *known, resolved)
    chosen, notes = tokenizer, list[str]()
    if tokenizer.kind is None:
        chosen = default_pair_tokenizer(data, tokenizer)
        choice = f"tokenizer: {chosen.kind} of {chosen.size:,}, for both languages; choose another with --tokenizer"
        notes.append(Assumption(f"{choice}, or learn one for each with --set corpus.vocabulary=separate."))

    def learn() -> list[Tokenizer]:
        return [with_tags(train_tokenizer(chosen, _pair_texts(data.train), progress=watch), data.tagged)]

    (own,) = _learned(_pair_key("pairs", data), chosen, learn, config.files[0], notes)
    return PreparedPairs(data, own, chosen, resolved, tuple(notes))


def _pair_key(what: str, data: Parallel) -> tuple[str, ...]:
    return what, str(TOKENIZER_VERSION), str(PAIRS_VERSION), data.fingerprint


def _separate(data: Parallel, asked: TokenizerConfig, config: ParallelConfig, watch: Progress) -> PreparedPairs:
    """A vocabulary for each language, of half of the tokens each; learned again, or taken from the cache, whenever
    the run is continued: the same pairs give the same."""
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
        return join_vocabularies(*(train_tokenizer(half, part, progress=watch) for part in texts))

    files = ("tokenizer.json", "target_tokenizer.json")
    first, second = _learned(_pair_key("pairs, apart", data), chosen, learn, config.files[0], notes, files)
    notes.append(f"tokenizer: bpe of {half.size:,} for each language, {first.vocabulary:,} tokens in all.")
    return PreparedPairs(data, first, chosen, config, tuple(notes), second)


def default_pair_tokenizer(data: Parallel, asked: TokenizerConfig) -> TokenizerConfig:
    """Byte pairs, as many as the texts can teach."""
    size = _size_for(data.train.source.bytes + data.train.target.bytes, PAIR_VOCABULARIES)
    return replace(asked, kind="bpe", size=asked.size or size)


def _pair_texts(train: Pairs, *, source: bool = True, target: bool = True) -> Iterator[str]:
    """One text or both of the training pairs, each pair once."""
    stride = max(1, -(-(train.source.bytes + train.target.bytes) // LEARN_FROM))
    for row in train.rows[~train.backward][::stride].tolist():
        if source:
            yield train.source[row]
        if target:
            yield train.target[row]
