"""From parallel files to what training needs: the pairs, one vocabulary for both languages, and the length they have.

The vocabulary is learned from both texts of the training pairs and kept in the cache under the pairs' fingerprint.
Where there are several languages to translate to, their tags are special tokens of it: no text can spell one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from qkv.config import plain
from qkv.data import cache
from qkv.data.corpus import ParallelConfig
from qkv.data.findings import Progress, silent
from qkv.data.formats.kinds import Beginnings
from qkv.data.hold_out import USUAL_FRACTION, require_enough
from qkv.data.parallel.encoding import PairRows, encode_pairs, tag_ids, tag_of
from qkv.data.parallel.pairs import Pairs, Parallel
from qkv.data.parallel.reading import READING_VERSION, read_parallel
from qkv.errors import ConfigError, DataError
from qkv.text.pipelines import ONLY_READ
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer, united

Side = Literal["source", "target"]
BOTH: tuple[Side, Side] = ("source", "target")
FILES = ("tokenizer.json", "target_tokenizer.json")

TOKENIZER_VERSION = 1  # raise when the same pairs would give another vocabulary
LEARN_FROM = 16_000_000  # bytes; of more, every n-th pair is taken
VOCABULARIES = ((200_000, 1000), (1_500_000, 4000), (20_000_000, 8000), (200_000_000, 16_000))
"""For texts of fewer bytes, both languages together, so many pieces."""
LARGEST = 32_000
LOOKED_AT = 4000  # pairs whose lengths decide how long a pair may be
MOST = 0.999  # of the pairs are learned from
LONGEST = 256  # tokens, unless somebody says otherwise
STEP = 16


@dataclass(frozen=True)
class PreparedPairs:
    parallel: Parallel
    tokenizer: Tokenizer
    tokenizer_config: TokenizerConfig
    """Resolved: nothing is "auto" any more."""
    config: ParallelConfig
    """Resolved: with the languages, the columns and the pairs' fingerprint."""
    more: tuple[str, ...] = ()
    target_tokenizer: Tokenizer | None = None
    """Where the languages have separate vocabularies: that of the target, numbered as `tokenizer` is."""

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.parallel.notes, *self.more)

    @cached_property
    def longest(self) -> int:
        """How many tokens, with those around them, nearly all texts of the training side have."""
        train = self.parallel.train
        spread = np.arange(len(train)) % max(1, len(train) // LOOKED_AT) == 0
        rows = self.rows(train.chosen(spread))
        return int(np.quantile(np.maximum(rows.sources.lengths, rows.targets.lengths), MOST)) + 1

    @property
    def context(self) -> int:
        """What was said, else what nearly all texts need."""
        return self.config.longest or max(STEP, min(LONGEST, -(-self.longest // STEP) * STEP))

    def rows(self, side: Pairs, longest: int = 0) -> PairRows:
        """A side as rows of ids; to learn from, bounded by `context`, to judge by, as it is."""
        own = self.target_tokenizer
        return encode_pairs(self.tokenizer, side, longest, tagged=self.parallel.tagged, target_tokenizer=own)


def prepare_parallel(
    config: ParallelConfig,
    tokenizer: TokenizerConfig,
    *,
    given_tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
    beginnings: Beginnings | None = None,
) -> PreparedPairs:
    """Read the pairs and learn their vocabulary; `given_tokenizer` is one that a model already has."""
    watch = progress or silent
    found = read_parallel(config, watch, beginnings=beginnings)
    held_out = found.valid.source_keys is found.train.source_keys
    fraction = (config.valid_fraction or USUAL_FRACTION) if held_out else None
    require_enough(found.train.keys, found.valid.keys, fraction, config.files[0], "pairs")
    languages = tuple(name for direction in found.train.languages for name in direction)
    resolved = replace(
        config,
        languages=languages,
        source=found.columns.get("source", config.source),
        target=found.columns.get("target", config.target),
        fingerprint=found.fingerprint,
    )
    if config.vocabulary == "separate":
        return _separate(found, tokenizer, resolved, watch)
    if given_tokenizer is not None:
        tag_ids(given_tokenizer, found.tagged)
        learned = tokenizer.kind == "auto" and given_tokenizer.kind not in ONLY_READ
        kept = replace(tokenizer, kind=given_tokenizer.kind) if learned else tokenizer  # type: ignore[arg-type]
        return PreparedPairs(found, given_tokenizer, kept, resolved)
    if tokenizer.kind == "file":
        return PreparedPairs(found, with_tags(train_tokenizer(tokenizer, ()), found.tagged), tokenizer, resolved)
    chosen, said = tokenizer, list[str]()
    if tokenizer.kind == "auto":
        chosen = usual(found, tokenizer)
        said.append(
            f"tokenizer: {chosen.kind} of {chosen.size:,}, for both languages; --tokenizer says otherwise, --set "
            "corpus.vocabulary=separate learns one for each."
        )

    def learn(aside: Path) -> None:
        trained = _learned(chosen, found, BOTH, config.files[0], watch)
        with_tags(trained, found.tagged).save(aside / "tokenizer.json")
        cache.write_facts(aside, {"config": plain(chosen)})

    folder = cache.obtain("tokenizers", _key("pairs", found, chosen), learn, said.append)
    return PreparedPairs(found, Tokenizer.load(folder / "tokenizer.json"), chosen, resolved, tuple(said))


def _separate(found: Parallel, asked: TokenizerConfig, config: ParallelConfig, watch: Progress) -> PreparedPairs:
    """A vocabulary for each language, by half of the pieces each; learned again, or taken from the cache, whenever
    the run is continued: the same pairs give the same."""
    if found.tagged or len(found.train.directions) > 1:
        raise ConfigError(
            "corpus.vocabulary = 'separate': there are several languages or directions here, which share one "
            "vocabulary. Leave it out, or train one direction."
        )
    if asked.kind not in ("auto", "bpe"):
        raise ConfigError(
            f"corpus.vocabulary = 'separate' with tokenizer {asked.kind!r}: only byte pairs are learned for each "
            "language. Say --tokenizer bpe, or leave it out."
        )
    chosen = usual(found, asked)
    half = replace(chosen, size=(chosen.size or 0) // 2)

    said = list[str]()

    def learn(aside: Path) -> None:
        both = [_learned(half, found, (side,), config.files[0], watch) for side in BOTH]
        for tokenizer, name in zip(united(*both), FILES, strict=True):
            tokenizer.save(aside / name)
        cache.write_facts(aside, {"config": plain(chosen)})

    folder = cache.obtain("tokenizers", _key("pairs, apart", found, chosen), learn, said.append)
    first, second = (Tokenizer.load(folder / name) for name in FILES)
    said.append(f"tokenizer: bpe of {half.size:,} for each language, {first.vocabulary:,} pieces in all.")
    return PreparedPairs(found, first, chosen, config, tuple(said), second)


def _key(what: str, found: Parallel, chosen: TokenizerConfig) -> str:
    parts = (what, str(TOKENIZER_VERSION), str(READING_VERSION), found.fingerprint, json.dumps(plain(chosen)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _learned(chosen: TokenizerConfig, found: Parallel, sides: Sequence[Side], where: str, watch: Progress) -> Tokenizer:
    try:
        return train_tokenizer(chosen, _learned_from(found, sides), progress=watch)
    except DataError as error:
        raise DataError(where, error.problem, error.remedy) from None


def usual(found: Parallel, asked: TokenizerConfig) -> TokenizerConfig:
    """Byte pairs, as many as the texts can teach."""
    size = found.train.source.bytes + found.train.target.bytes
    many = next((pieces for most, pieces in VOCABULARIES if size < most), LARGEST)
    return replace(asked, kind="bpe", size=asked.size or many)


def with_tags(tokenizer: Tokenizer, languages: Sequence[str]) -> Tokenizer:
    """The same vocabulary with the tags of languages behind it, those that it has left as they are."""
    new = [tag_of(language) for language in languages if tag_of(language) not in tokenizer.named]
    if not new:
        return tokenizer
    values = json.loads(tokenizer.json())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    for number, name in enumerate(new, tokenizer.vocabulary):
        values["added_tokens"].append({"id": number, "content": name, **flags})
    return Tokenizer.parse(json.dumps(values, ensure_ascii=False), "tokenizer.json with tags", tokenizer.roles)


def _learned_from(found: Parallel, sides: Sequence[Side]) -> Iterator[str]:
    """One text or both of the training pairs, each pair once."""
    train = found.train.chosen(~found.train.backward)
    stride = max(1, -(-(train.source.bytes + train.target.bytes) // LEARN_FROM))
    for row in train.rows[::stride].tolist():
        for side in sides:
            yield train.source[row] if side == "source" else train.target[row]
