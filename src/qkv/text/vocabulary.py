"""Vocabularies: chooses the kind for a corpus, learns a vocabulary from it, and handles those of translators.

A corpus is counted while it is read, and the default kind is chosen by these counts. The vocabulary is learned from the
training part only: words or characters that only the validation part contains become UNK there and are counted, so that
the loss also shows how the model does on unseen text. The same text gives the same tokenizer.json, byte for byte, on
any machine, with any number of threads and any hash seed.

Translators may have special tokens that name the language to translate into (<2de> in models of qkv, >>deu<< in
Marian's), or two BPE vocabularies with common ids, so that both languages have one embedding:

    tokens of both = tokens of the first, then those of the second that the first lacks

Each tokenizes with its own merges (Sennrich et al. 2016, section 3.2, not joint BPE), and both decode the same ids
alike.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tokenizers import pre_tokenizers, trainers

from qkv import time_limit
from qkv.errors import ConfigError, DataError
from qkv.text.own_tokenizer import train_own
from qkv.text.pipelines import SPECIAL, WORD, Kind, build
from qkv.text.tokenizer import Tokenizer, TokenizerConfig, require_unicode

# characters; words are counted only in this first part of a corpus, which is enough to recognise a small closed
# language
WORDS_SAMPLE = 4_000_000


@dataclass(frozen=True)
class Statistics:
    bytes: int
    characters: int
    distinct_characters: int
    lines: int
    longest_line: int
    words: int
    """The number of words and punctuation marks in the sample, see WORDS_SAMPLE."""
    distinct_words: int


class TextCounter:
    """Counts a text that is added part by part. Parts should end between words, because a divided word counts as
    two."""

    def __init__(self) -> None:
        self.bytes = self.characters = self.lines = self.longest_line = 0
        self._line = 0
        self.seen: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._sampled = 0
        self._word = re.compile(WORD)

    def add(self, text: str, ends: bool = False) -> None:
        """Count the next part. With `ends`, a document ends after it, and so does its last line."""
        self.bytes += len(text.encode())
        self.characters += len(text)
        self.seen.update(text)
        self._measure_lines(text, ends)
        if self._sampled < WORDS_SAMPLE:
            sample = text[: WORDS_SAMPLE - self._sampled]
            self._sampled += len(sample)
            self.counts.update(word for word in self._word.findall(sample) if word != "\n")

    def _measure_lines(self, text: str, ends: bool) -> None:
        first, *rest = map(len, text.split("\n"))
        self._line += first
        self.longest_line = max(self.longest_line, self._line, *rest)
        if rest:
            self.lines += len(rest)
            self._line = rest[-1]
        if ends:
            self.lines += self._line > 0
            self._line = 0

    def statistics(self) -> Statistics:
        return Statistics(
            bytes=self.bytes,
            characters=self.characters,
            distinct_characters=len(self.seen),
            lines=self.lines,
            longest_line=self.longest_line,
            words=self.counts.total(),
            distinct_words=len(self.counts),
        )


Progress = Callable[[str, int, int | None], None]

SMALL_CORPUS = 300_000
MANY_CHARACTERS = 1000
LARGEST_WORD_VOCABULARY = 16_384
RARE_WORDS_MATTER = 200_000  # characters
# the time of the library's trainers is quadratic in the length of a word, and they would learn very long tokens
LONGEST_WORD = 256
LONGEST_TOKEN = 32
REPORT_EVERY = 2**18


def choose(statistics: Statistics) -> TokenizerConfig:
    """The default kind and size for a corpus.

    A small closed language (few words, each frequent) gets a tokenizer of words; a small corpus or a list of names one
    of characters, because these need little text; a larger text, or one with very many different characters, gets BPE.
    """
    mean_count = statistics.words / max(1, statistics.distinct_words)
    if statistics.distinct_words <= 256 and mean_count >= 20 and statistics.distinct_words > 1:
        return TokenizerConfig(kind="words")
    if statistics.bytes < SMALL_CORPUS and statistics.distinct_characters < MANY_CHARACTERS:
        return TokenizerConfig(kind="characters")
    return TokenizerConfig(kind="bpe", size=bpe_size(statistics.bytes))


def bpe_size(size: int) -> int:
    """About the square root of the number of bytes, as a power of two: 1024 for a megabyte, 4096 for ten."""
    tokens = 512
    while tokens < 8192 and 1.25 * tokens * tokens < size:
        tokens *= 2
    return tokens


def train_tokenizer(config: TokenizerConfig, texts: Iterable[str], *, progress: Progress | None = None) -> Tokenizer:
    """Learn a tokenizer of the configured kind from the texts of the training part, which are read once."""
    if config.kind == "file":
        if config.file is None:
            raise ConfigError('tokenizer.kind is "file", but tokenizer.file names none.')
        return Tokenizer.load(Path(config.file))
    if config.kind is None:
        raise ConfigError("tokenizer.kind is open: call `choose` first, it needs the statistics of the corpus.")
    if config.case == "lower" and config.kind not in ("words", "wordpiece"):
        raise ConfigError(f'tokenizer.case = "lower" is for words and wordpiece; {config.kind} spells texts exactly.')
    if config.kind == "own":
        record = {"file": config.file, "sha256": config.sha256}
        return Tokenizer(
            train_own(config.settings or "{}", config.size, record, _watched(texts, progress), "the recipe"), "own"
        )
    smallest = len(SPECIAL[config.kind]) + (256 if config.kind == "bpe" else 1)
    if config.size is not None and config.size < smallest:
        raise ConfigError(f"tokenizer.size = {config.size}: {config.kind} needs at least {smallest} tokens.")
    learn = {"characters": _characters, "words": _words, "bpe": _bpe, "wordpiece": _wordpiece}[config.kind]
    return learn(config, _watched(texts, progress))


def _watched(texts: Iterable[str], progress: Progress | None) -> Iterator[str]:
    done = reported = 0
    for text in texts:
        require_unicode(text)
        yield text
        done += len(text)
        if progress is not None and done - reported > REPORT_EVERY:
            time_limit.check()
            progress("learning the tokenizer", done, None)
            reported = done


def _characters(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    frequent = sorted(counts, key=lambda character: (-counts[character], character))
    known = frequent if config.size is None else frequent[: config.size - len(SPECIAL["characters"])]
    return Tokenizer(build("characters", _numbered("characters", sorted(known))), "characters")


def _words(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """Learn words, with ids in order of frequency. In a longer text, words that occur once become UNK, so that a model
    learns to predict UNK as well."""
    texts = iter(texts)
    head: list[str] = []
    for text in texts:
        head.append(text)
        if sum(map(len, head)) > RARE_WORDS_MATTER:
            break
    rare = config.size is None and sum(map(len, head)) > RARE_WORDS_MATTER
    backend = build("words", _numbered("words", []), case=config.case)
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.size or LARGEST_WORD_VOCABULARY,
        min_frequency=2 if rare else 0,
        special_tokens=SPECIAL["words"],
        show_progress=False,
    )
    backend.train_from_iterator(chain(head, texts), trainer)
    learned = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    return Tokenizer(build("words", dict(learned), case=config.case), "words")


def _numbered(kind: Kind, tokens: Iterable[str]) -> dict[str, int]:
    names = dict.fromkeys([*SPECIAL[kind], *tokens])
    return {token: number for number, token in enumerate(names)}


def _bpe(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    backend = build("bpe", {})
    trainer = trainers.BpeTrainer(
        vocab_size=config.size or 4096,
        special_tokens=SPECIAL["bpe"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=LONGEST_TOKEN,
        show_progress=False,
    )
    backend.train_from_iterator(_short_words(texts), trainer)
    return Tokenizer(backend, "bpe")


def _wordpiece(config: TokenizerConfig, texts: Iterable[str]) -> Tokenizer:
    """Learn WordPiece. The library gives the ##letters ids in the order of a hash table, and breaks ties by id. Listed
    as special tokens they have fixed ids, and then a new tokenizer is built from the vocabulary without these
    entries."""
    backend = build("wordpiece", _numbered("wordpiece", []), case=config.case)
    normalized = [text for part in texts for text in _short_words([part])]
    if backend.normalizer is not None:
        normalized = [backend.normalizer.normalize_str(text) for text in normalized]
    letters = sorted({character for text in normalized for character in set(text) if not character.isspace()})
    if not letters:
        raise DataError("the corpus", "has no words", "WordPiece learns from words; choose --tokenizer characters.")
    fixed = [*SPECIAL["wordpiece"], *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(config.size or 4096, len(fixed) + len(letters)),
        special_tokens=fixed,
        initial_alphabet=letters,
        show_progress=False,
    )
    backend.train_from_iterator(normalized, trainer)
    learned = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    return Tokenizer(build("wordpiece", dict(learned), case=config.case), "wordpiece")


_LONG = re.compile(rf"\S{{{LONGEST_WORD}}}|\s{{{LONGEST_WORD}}}")


def _short_words(texts: Iterable[str]) -> Iterator[str]:
    """The same texts, split inside words and runs of white space that are too long to learn from."""
    for text in texts:
        start = 0
        for match in _LONG.finditer(text):
            yield text[start : match.end()]
            start = match.end()
        yield text[start:]


_QKV_TAG, _MARIAN_TAG = re.compile(r"<2([^<>]+)>"), re.compile(r">>([^<>]+)<<")


def is_tag(name: str) -> bool:
    return _language(name) is not None


def _language(name: str) -> str | None:
    match = _QKV_TAG.fullmatch(name) or _MARIAN_TAG.fullmatch(name)
    return match[1] if match else None


def tags(tokenizer: Tokenizer) -> dict[str, str]:
    """The language tags of a vocabulary, by language."""
    named = ((_language(name), name) for name in tokenizer.named)
    return {language: name for language, name in named if language is not None}


def written_tag(tokenizer: Tokenizer, text: str) -> tuple[str | None, str]:
    """Split a text such as ">>deu<< A dog." of Marian into its language and the text. No other special token is
    recognised inside a text."""
    match = _MARIAN_TAG.match(text)
    return (match[1], text[match.end() :].lstrip()) if match and match[0] in tokenizer.named else (None, text)


def tag_is_optional(tokenizer: Tokenizer) -> bool:
    """Whether a text may have no tag. Marian's models then translate into their most frequent language."""
    return all(_MARIAN_TAG.fullmatch(name) for name in tags(tokenizer).values())


def join_vocabularies(first: Tokenizer, second: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Two tokenizers that each have the tokens of both. They must have the same special tokens, which come first."""
    assert first.kind == second.kind == "bpe"
    assert first.named == second.named
    files = [json.loads(tokenizer.json()) for tokenizer in (first, second)]
    ids, others = ({**values["model"]["vocab"]} for values in files)
    for token in sorted(others, key=others.__getitem__):
        ids.setdefault(token, len(ids))
    for values in files:
        values["model"]["vocab"] = ids
    one, other = (Tokenizer.parse(json.dumps(v, ensure_ascii=False), "tokenizer.json of two languages") for v in files)
    return one, other
