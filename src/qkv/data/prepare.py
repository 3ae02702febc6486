"""From files to two token streams: fingerprint, survey, tokenizer and encoding, all of which are cached.

The cache is keyed by content: the hash of the bytes and of how they are read, and the tokenizer's fingerprint. Missing
entries are built under a temporary name and then renamed, so that two processes can build the same entry, and a crash
leaves no incomplete entry.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from qkv.config import toml_values
from qkv.data import cache
from qkv.data.corpus import CorpusConfig
from qkv.data.files import standard_input
from qkv.data.findings import Assumption, Caution, Findings, Leak, Progress, display_name, no_progress
from qkv.data.split import Overlap
from qkv.data.survey import CorpusFiles, Stamp, Survey, fingerprint, survey
from qkv.data.text_files import catalog_held_out
from qkv.data.tokens import Cutter, TokenStream, TokenWriter, alphabet, require, token_type
from qkv.errors import ConfigError, DataError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import choose, train_tokenizer
from qkv.visible import percent

__all__ = ["Prepared", "TokenStream", "prepare", "require", "stream", "stream_text"]

# increase these when the same text would give different tokenizers or streams
TOKENIZER_VERSION, LAYOUT_VERSION = 1, 2
# a vocabulary is learned from at most this many characters, evenly spread; an alphabet from all of them
TOKENIZER_SAMPLE = 16_000_000
REPORT_EVERY = 2**18
NOTE_KINDS: dict[object, type[str]] = {"Caution": Caution, "Assumption": Assumption, True: Caution}
"""Kinds of notes by their names in the cache; True stands for a Caution in folders that older versions wrote."""


@dataclass(frozen=True)
class Prepared:
    tokenizer: Tokenizer
    train: TokenStream
    valid: TokenStream
    notes: tuple[str, ...]
    """Notes for the user on what was changed, left out or decided; some are a `Caution`."""
    fingerprint: str
    """The hash of data, tokenizer and layout together."""
    tokenizer_config: TokenizerConfig
    """The resolved config: the kind is chosen."""
    corpus: CorpusConfig
    """The resolved config, with the fingerprint of the data."""
    held_out: bool
    """Whether the validation text was held out of the text given for training."""


def prepare(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    *,
    given_tokenizer: Tokenizer | None = None,
    resumed: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Read, split and encode a corpus, with the tokenizer of an existing model if it is given."""
    if not 0 < corpus.valid_fraction < 1:
        raise ConfigError(f"corpus.valid_fraction = {corpus.valid_fraction}: expected a share between 0 and 1.")
    work = _Preparation(corpus, progress or no_progress, resumed=resumed or given_tokenizer is not None)
    if tokenizer.kind == "file" and given_tokenizer is None:
        given_tokenizer = train_tokenizer(tokenizer, ())
    if given_tokenizer is None:
        learned, config = work.learned(tokenizer)
    else:
        learned, config = given_tokenizer, tokenizer
        if config.kind is None:
            config = replace(config, kind=given_tokenizer.kind)  # type: ignore[arg-type]
    key, (train, valid), notes = work.streams(learned)
    return Prepared(
        tokenizer=learned,
        train=train,
        valid=valid,
        notes=notes,
        fingerprint=key,
        tokenizer_config=config,
        corpus=work.corpus,
        held_out=not work.parts.valid,
    )


def learn_tokenizer(
    corpus: CorpusConfig, config: TokenizerConfig, *, progress: Progress | None = None
) -> tuple[Tokenizer, TokenizerConfig, tuple[str, ...]]:
    """Learn only a tokenizer, from all of the text; return it with its resolved config and the notes."""
    work = _Preparation(replace(corpus, valid=()), progress or no_progress, whole=True)
    learned, resolved = work.learned(config)
    return learned, resolved, tuple(work.notes)


def stream(
    tokenizer: Tokenizer, corpus: CorpusConfig, *, progress: Progress | None = None
) -> tuple[TokenStream, tuple[str, ...]]:
    """All documents of a corpus as one stream; nothing is held out."""
    work = _Preparation(replace(corpus, valid=()), progress or no_progress, whole=True)
    _, (whole,), notes = work.streams(tokenizer)
    return whole, notes


def stream_to_score(
    tokenizer: Tokenizer, corpus: CorpusConfig, trained: CorpusConfig | None, progress: Progress | None = None
) -> tuple[TokenStream, tuple[str, ...]]:
    """The text that `evaluate` scores: all of it, or the validation part of a set of the catalog. A note says if the
    model was trained on it."""
    held_out, findings = catalog_held_out(corpus), Findings()
    if held_out:
        names = ", ".join(map(display_name, held_out))
        findings.add_note(Assumption(f"{corpus.files[0]}: scored on its validation part, {names}."))
    work = _Preparation(replace(corpus, files=held_out or corpus.files, valid=()), progress or no_progress, whole=True)
    _, (whole,), notes = work.streams(tokenizer)
    if trained is not None and not trained.valid and work.fingerprint == trained.fingerprint:
        findings.add_note(Leak("leak: the model was trained on this text, except for the part that was held out."))
    return whole, (*findings.notes(), *notes)


def stream_text(tokenizer: Tokenizer, text: str) -> TokenStream:
    """A text as a stream of one document."""
    ids = [tokenizer.separator, *tokenizer.encode(text), tokenizer.separator]
    tokens = np.array(ids, dtype=token_type(tokenizer.vocabulary))
    unknown = 0 if tokenizer.unknown is None else int(np.count_nonzero(tokens == tokenizer.unknown))
    return TokenStream(tokens, len(text.encode()), len(text), 1, unknown)


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _open(folder: Path, name: str, facts: dict[str, int], tokenizer: Tokenizer) -> TokenStream:
    dtype = np.dtype(token_type(tokenizer.vocabulary)).newbyteorder("<")
    tokens = np.memmap(folder / f"{name}.bin", dtype=dtype, mode="r", shape=(facts["tokens"],))
    return TokenStream(tokens, facts["bytes"], facts["characters"], facts["documents"], facts["unknown"])


class _Preparation:
    """Prepares one corpus; it is surveyed only if a tokenizer or a stream is not in the cache."""

    def __init__(self, corpus: CorpusConfig, progress: Progress, whole: bool = False, resumed: bool = False) -> None:
        self.progress = progress
        self.whole = whole  # whether nothing is held out
        piped = standard_input.receive(corpus, resumed)
        self.parts = CorpusFiles.of(corpus, piped, whole, progress)
        self.fingerprint, self.stamp = fingerprint(self.parts, progress)
        if piped is not None:
            self.parts = self.parts.moved(standard_input.keep_copy(piped, self.fingerprint))
            self.stamp = Stamp.of(self.parts.sources)
        self.corpus = replace(self.parts.corpus, fingerprint=self.fingerprint)
        self.notes: list[str] = list(self.parts.findings.notes())
        self._survey: Survey | None = None

    def survey(self) -> Survey:
        if self._survey is None:
            self._survey = survey(self.parts, self.progress)
        return self._survey

    def learned(self, config: TokenizerConfig) -> tuple[Tokenizer, TokenizerConfig]:
        """The tokenizer of this corpus, from the cache or learned now, and the resolved config."""
        settings = json.dumps(toml_values(config), sort_keys=True)
        part = "all" if self.whole else "training part"
        key = _key("tokenizer", str(TOKENIZER_VERSION), self.fingerprint, settings, part)

        def learn(folder: Path) -> None:
            survey = self.survey()
            resolved = config
            if config.kind is None:
                default = choose(survey.statistics)
                resolved = replace(default, size=default.size if config.size is None else config.size)
            if resolved.kind == "characters" and resolved.size is None:
                texts = iter([alphabet(self._texts(1))])
            else:
                texts = self._texts(max(1, -(-survey.characters // TOKENIZER_SAMPLE)))
            trained = train_tokenizer(resolved, texts)
            self.stamp.require_unchanged()
            trained.save(folder / "tokenizer.json")
            cache.write_facts(folder, {"config": toml_values(resolved)})

        folder = cache.obtain("tokenizers", key, learn, self.notes.append)
        resolved = TokenizerConfig(**cache.read_facts(folder)["config"])
        if config.kind is None:
            size = f" of {resolved.size:,}" if resolved.size else ""
            chosen = f"tokenizer: {resolved.kind}{size}, chosen for this text"
            self.notes.append(Assumption(f"{chosen}; choose another with --tokenizer."))
        return Tokenizer.load(folder / "tokenizer.json"), resolved

    def _texts(self, stride: int) -> Iterator[str]:
        """The training part in pieces split between words; only every `stride`-th piece."""
        cutter = Cutter()
        number = done = 0
        for valid, text, ends in self.survey().split_texts(self.whole):
            for part, _ in cutter.parts(text, ends) if not valid else ():
                if part and number % stride == 0:
                    yield part
                    done += len(part)
                    self.progress("learning the tokenizer", done, None)
                number += bool(part)

    def streams(self, tokenizer: Tokenizer) -> tuple[str, list[TokenStream], tuple[str, ...]]:
        """The cache key of this corpus with a tokenizer, its streams (one if nothing is held out), and all notes."""
        key = _key("whole" if self.whole else "tokens", str(LAYOUT_VERSION), self.fingerprint, tokenizer.fingerprint)
        folder = cache.obtain("tokens", key, lambda folder: self.encode(tokenizer, folder), self.notes.append)
        facts = cache.read_facts(folder)
        names = ("train",) if self.whole else ("train", "valid")
        notes = (NOTE_KINDS.get(kind, str)(note) for note, kind in facts["notes"])
        return key, [_open(folder, name, facts[name], tokenizer) for name in names], (*self.notes, *notes)

    def encode(self, tokenizer: Tokenizer, folder: Path) -> None:
        """Write the streams of this corpus into a folder of the cache."""
        survey = self.survey()
        train = TokenWriter(folder / "train.bin", tokenizer)
        valid = None if self.whole else TokenWriter(folder / "valid.bin", tokenizer)
        overlap = Overlap()
        done = reported = 0
        for piece in self.survey().split_texts(self.whole):
            writer = valid if piece.is_validation else train
            assert writer is not None
            writer.add(piece.text, piece.is_last)
            if not self.whole:
                overlap.add(piece)
            done += len(piece.text)
            if done - reported > REPORT_EVERY:
                self.progress("encoding", done, survey.characters)
                reported = done
        self.stamp.require_unchanged()
        notes = list(survey.notes())
        streams = {"train": train.close()}
        if valid is not None:
            streams["valid"] = valid.close()
            if not all(counts["characters"] for counts in streams.values()):
                where = ", ".join(self.corpus.files)
                raise DataError(where, "too little text to hold some out for validation", "Give more text.")
            notes += [*survey.held_out(**streams), *overlap.notes()]
        notes += _unknown({"": streams["train"]} if self.whole else streams)
        cache.write_facts(folder, {**streams, "notes": [[note, type(note).__name__] for note in notes]})


def _unknown(streams: dict[str, dict[str, int]]) -> Iterator[str]:
    for name, stream in streams.items():
        if count := stream["unknown"]:
            share = percent(count / stream["tokens"], 2)
            text = f"{name} text".strip()
            yield Caution(f"{count:,} tokens of the {text} ({share}) are not in the vocabulary and become UNK.")
