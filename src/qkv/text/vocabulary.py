"""Vocabularies: which kind suits a corpus, learning one from it, and those of translators.

A corpus is counted while it streams by; on that `auto` chooses. The vocabulary is learned from the training part only:
what only the validation part holds becomes UNK there and is counted, so the measured loss is honest about text the
model has never met. The same text gives the same tokenizer.json, byte for byte, whatever the machine, threads or hash
seed.

Translators have special tokens that ask for a language (<2de> in models of qkv's, >>deu<< in Marian's), or two
vocabularies of byte pairs with one numbering, so that one table of embeddings serves both:

    tokens of both = tokens of the first, then those of the second that the first has not

Each cuts text by its own merges (Sennrich et al. 2016, section 3.2, without joining); what either wrote, both can read.
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

# words are counted in the first part of a corpus only: enough to tell a closed little language from open text
WORDS_SAMPLE = 4_000_000


@dataclass(frozen=True)
class Statistics:
    bytes: int
    characters: int
    distinct_characters: int
    lines: int
    longest_line: int
    words: int
    """Words and punctuation marks in the sample, see WORDS_SAMPLE."""
    distinct_words: int


class Counting:
    """Feed it the text in pieces; cut them between words, or words on the cut count as two."""

    def __init__(self) -> None:
        self.bytes = self.characters = self.lines = self.longest_line = 0
        self._line = 0
        self.seen: set[str] = set()
        self.counts: Counter[str] = Counter()
        self._sampled = 0
        self._word = re.compile(WORD)

    def add(self, text: str, ends: bool = False) -> None:
        """The next piece; `ends` says that a document ends here, which ends its line as well."""
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
# the library's trainers take time quadratic in the length of a word, and would learn tokens as long
LONGEST_WORD = 256
LONGEST_TOKEN = 32
REPORT_EVERY = 2**18


def choose(statistics: Statistics) -> TokenizerConfig:
    """The kind and size that suit a corpus, where they are left open.

    A closed little language (few words, each seen many times) is learned by words; a small corpus or a list of names
    by characters, which need little text to learn from; anything larger, or written in very many characters, by BPE.
    """
    mean_count = statistics.words / max(1, statistics.distinct_words)
    if statistics.distinct_words <= 256 and mean_count >= 20 and statistics.distinct_words > 1:
        return TokenizerConfig(kind="words")
    if statistics.bytes < SMALL_CORPUS and statistics.distinct_characters < MANY_CHARACTERS:
        return TokenizerConfig(kind="characters")
    return TokenizerConfig(kind="bpe", size=bpe_size(statistics.bytes))


def bpe_size(size: int) -> int:
    """About the square root of the bytes, as a power of two: 1024 for a megabyte, 4096 for ten."""
    wanted = 512
    while wanted < 8192 and 1.25 * wanted * wanted < size:
        wanted *= 2
    return wanted


def train_tokenizer(config: TokenizerConfig, texts: Iterable[str], *, progress: Progress | None = None) -> Tokenizer:
    """A tokenizer of the configured kind from the texts of the training part, which are read once."""
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
    """Ids in order of frequency. In a longer text, words seen once become UNK, so that UNK is learned too."""
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
    """The library numbers the ##letters in the order of a hash table, and breaks ties by these numbers: naming them as
    special tokens first gives them fixed numbers, and the vocabulary is then put into a clean tokenizer."""
    backend = build("wordpiece", _numbered("wordpiece", []), case=config.case)
    kept = [text for part in texts for text in _short_words([part])]
    if backend.normalizer is not None:
        kept = [backend.normalizer.normalize_str(text) for text in kept]
    letters = sorted({character for text in kept for character in set(text) if not character.isspace()})
    if not letters:
        raise DataError("the corpus", "holds no words", "WordPiece learns from words; choose --tokenizer characters.")
    fixed = [*SPECIAL["wordpiece"], *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(config.size or 4096, len(fixed) + len(letters)),
        special_tokens=fixed,
        initial_alphabet=letters,
        show_progress=False,
    )
    backend.train_from_iterator(kept, trainer)
    learned = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    return Tokenizer(build("wordpiece", dict(learned), case=config.case), "wordpiece")


_LONG = re.compile(rf"\S{{{LONGEST_WORD}}}|\s{{{LONGEST_WORD}}}")


def _short_words(texts: Iterable[str]) -> Iterator[str]:
    """The same texts, cut where a word or a gap goes on for too long to learn from."""
    for text in texts:
        start = 0
        for match in _LONG.finditer(text):
            yield text[start : match.end()]
            start = match.end()
        yield text[start:]


_OURS, _MARIANS = re.compile(r"<2([^<>]+)>"), re.compile(r">>([^<>]+)<<")


def is_tag(name: str) -> bool:
    return _language(name) is not None


def _language(name: str) -> str | None:
    match = _OURS.fullmatch(name) or _MARIANS.fullmatch(name)
    return match[1] if match else None


def tags(tokenizer: Tokenizer) -> dict[str, str]:
    """The tags of a vocabulary by their languages."""
    named = ((_language(name), name) for name in tokenizer.named)
    return {language: name for language, name in named if language is not None}


def written_tag(tokenizer: Tokenizer, text: str) -> tuple[str | None, str]:
    """The language that a text itself asks for, as Marian's do: ">>deu<< A dog." is a tag and a text. No other special
    token is ever taken from a text."""
    match = _MARIANS.match(text)
    return (match[1], text[match.end() :].lstrip()) if match and match[0] in tokenizer.named else (None, text)


def may_be_left_out(tokenizer: Tokenizer) -> bool:
    """Whether texts need no tag: Marian's models translate without one too, into what they saw most."""
    return all(_MARIANS.fullmatch(name) for name in tags(tokenizer).values())


def join_vocabularies(first: Tokenizer, second: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Both with the tokens of both; their special tokens, which come first, are the same."""
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
