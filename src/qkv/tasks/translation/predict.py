"""Translates texts of any length: splits them into sentences, translates these in batches, and restores the spacing.

Words of the source that the training text never held (names, numbers, rare characters) are copied into the translation
where the model lost them. `share(j, i)` is how much attention target word j gave to source word i:

    an unseen source word i that the translation lacks: of the target words j with argmax_i' share(j, i') = i, the
    longest run of neighbours is replaced by the source word

This is the replacement of unknown words by alignment (Luong et al. 2015, arXiv 1410.8206), with attention as the
alignment (`inspection/translator_heads.py`). A vocabulary over bytes has no unknown words, so a word counts as unseen
if it is a number of two digits or more, has a character that can only be spelled byte by byte, or is a capitalised word
that the tokenizer splits nearly into letters. The method is heuristic: the word is kept, but its position is only as
good as the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from qkv.data.encode import end_of, tag_ids
from qkv.errors import InputError, require_package
from qkv.generation.beam import Hypothesis, Search, Translator, translate
from qkv.inspection.translator_heads import Alignment, align, attends
from qkv.recipe.bundle import Bundle
from qkv.text.pipelines import ONLY_READ, WORD
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tag_is_optional, tags, written_tag

MAX_LISTED = 8  # words that a note lists
STREAMS_PER_TEXT = 1024  # random streams reserved for each text, one for each of its sentences
LONG_TEXT = 120  # characters; a text of this length or more is split into sentences
SPLITTING = "translating long texts sentence by sentence"
SURROUNDING_SPACE = re.compile(r"^(\s*)(.*?)(\s*)$", re.DOTALL)


@dataclass(frozen=True)
class TranslatedText:
    """A translation of a text, and its log-probability: the sum over its sentences."""

    text: str
    logprob: float
    sentences: tuple[tuple[list[int], list[int]], ...] = ()
    """For each sentence, the ids of the source (with special tokens) and those of its translation."""
    carried: tuple[str, ...] = ()
    """Words of the source that the model lost and that were copied into the translation (`carry_over`)."""


def require_translator(bundle: Bundle) -> Any:
    """The model of the bundle; models that do not translate are refused."""
    if not isinstance(bundle.model, Translator):
        raise InputError(
            f"this model is of kind {bundle.config.kind}; translating needs a translator. Train one on two files that "
            "are translations line by line."
        )
    return bundle.model


def target_languages(bundle: Bundle) -> list[str]:
    """The languages that the model has tags for; empty for a model with only one target language."""
    return list(tags(bundle.tokenizer))


def fit_to_context(ids: Sequence[list[int]], end: Sequence[int], context: int) -> tuple[list[list[int]], int]:
    """The sources, those longer than the context cut and closed with `end` again; and how many were cut."""
    cut = sum(len(source) > context for source in ids)
    return [source if len(source) <= context else [*source[: context - len(end)], *end] for source in ids], cut


def translate_texts(
    bundle: Bundle,
    texts: Sequence[str],
    search: Search,
    *,
    to: str | None = None,
    language: str = "en",
    carry: bool = True,
    first: int = 0,
) -> tuple[list[list[TranslatedText]], list[str]]:
    """For each text its translations, the best first; and notes on how the texts were changed.

    `to` is the target language, for a model that knows several; `language` is the source language, whose rules decide
    where sentences end. `carry` copies unseen words from the source if the translation lost them (`carry_over`).
    `first` is the index of the first text in the whole input, on which sampling depends.
    """
    model = require_translator(bundle)
    tokenizer, end, (start, last) = bundle.tokenizer, end_of(bundle.tokenizer), bundle.start_and_end
    texts, tag_rows, notes = _read_tags(bundle, texts, to)
    parts_by_text = [split_sentences(text, language) for text in texts]
    spaced = [SURROUNDING_SPACE.findall(part)[0] for parts in parts_by_text for part in parts]
    tag_by_sentence = [tag for tag, parts in zip(tag_rows, parts_by_text, strict=True) for _ in parts]
    sentences = [sentence for _, sentence, _ in spaced]
    encoded = tokenizer.encode_batch(sentences) if sentences else []
    ids = [[*tokenizer.opening, *tag, *tokens, *end] for tag, tokens in zip(tag_by_sentence, encoded, strict=True)]
    sources, cut = fit_to_context(ids, end, model.context)
    nonempty = [index for index, sentence in enumerate(sentences) if sentence]
    search = replace(search, never={*search.never, *bundle.forbidden_ids})
    streams = [
        (first + text) * STREAMS_PER_TEXT + index
        for text, parts in enumerate(parts_by_text)
        for index in range(len(parts))
    ]
    translations = translate(
        model.eval(),
        [sources[index] for index in nonempty],
        search,
        start=start,
        end=last,
        numbers=[streams[index] for index in nonempty],
    )
    hypotheses = dict(zip(nonempty, translations, strict=True))
    notes += [f"{cut:,} sentences are longer than the context of {model.context:,} tokens; truncated."] if cut else []
    if unknown := dict.fromkeys(piece for text in sentences for piece in tokenizer.unknown_characters(text)):
        notes.append(f"not in the vocabulary, and read as unknown: {shortened_list(list(unknown))}.")
    rows = (
        _Sentence(before, text, after, source, hypotheses.get(index))
        for index, ((before, text, after), source) in enumerate(zip(spaced, sources, strict=True))
    )
    carry = carry and attends(model)
    results = [_join_sentences(bundle, list(islice(rows, len(parts))), search.best, carry) for parts in parts_by_text]
    if copied := dict.fromkeys(word for best in results for text in best for word in text.carried):
        listed = shortened_list(list(copied))
        notes.append(f"not known to the model and carried over as they stand: {listed}; --no-carry leaves them to it.")
    return results, notes


def _read_tags(bundle: Bundle, texts: Sequence[str], to: str | None) -> tuple[list[str], list[list[int]], list[str]]:
    """The texts without language tags; for each the ids of its own tag, or else of `to`; and notes."""
    known = target_languages(bundle)
    if to is not None and not known:
        raise InputError(f"--to {to}: this model translates into one language. Leave it out.")
    if to is not None and to not in known:
        raise InputError(f"language {to!r} is not known to this model; expected --to with one of {', '.join(known)}.")
    languages: list[str | None] = []
    untagged = []
    for text in texts:
        own, rest = written_tag(bundle.tokenizer, text.lstrip())
        languages.append(own or to)
        untagged.append(text if own is None else rest)
    without = languages.count(None) if known else 0
    if without and not tag_is_optional(bundle.tokenizer):
        raise InputError(f"no language was asked for; expected --to with one of {', '.join(known)}.")
    notes = [f"no language was asked for; this model knows --to {shortened_list(known)}."] if without else []
    tag_rows = [[] if language is None else tag_ids(bundle.tokenizer, [language]) for language in languages]
    return untagged, tag_rows, notes


def shortened_list(words: Sequence[str]) -> str:
    """The words, separated by commas; of many only the first ones."""
    return ", ".join(words[:MAX_LISTED]) + (" ..." if len(words) > MAX_LISTED else "")


class _Sentence(NamedTuple):
    space_before: str
    text: str
    space_after: str
    ids: list[int]
    hypotheses: list[Hypothesis] | None  # None: the sentence was only white space


def _join_sentences(bundle: Bundle, sentences: list[_Sentence], count: int, carry: bool) -> list[TranslatedText]:
    """The `count` best translations of a text; the k-th joins the k-th best translations of all sentences."""
    translations = []
    for rank in range(count):
        text, total, id_pairs, copied = "", 0.0, [], list[str]()
        for sentence in sentences:
            hypotheses = sentence.hypotheses
            best = hypotheses[min(rank, len(hypotheses) - 1)] if hypotheses else None
            written = bundle.tokenizer.decode(best.tokens).strip() if best else ""
            if best and carry and (unseen := unseen_words(bundle.tokenizer, sentence.text)):
                written, words = carry_over(written, unseen, _alignment(bundle, sentence.ids, best.tokens))
                copied += words
            text += sentence.space_before + written + sentence.space_after
            total += best.logprob if best else 0.0
            id_pairs += [(sentence.ids, best.tokens)] if best else []
        translations.append(TranslatedText(text, total, tuple(id_pairs), tuple(copied)))
    return translations


def alignments(bundle: Bundle, translation: TranslatedText) -> list[Alignment]:
    """For each sentence, which source words the model attended to while it wrote each target word."""
    return [_alignment(bundle, source, target) for source, target in translation.sentences]


def _alignment(bundle: Bundle, source: list[int], target: list[int]) -> Alignment:
    model, (start, _) = require_translator(bundle), bundle.start_and_end
    return align(model, bundle.tokenizer, source, target, start)


def join_alignments(alignments: Sequence[Alignment]) -> tuple[list[tuple[int, int]], list[str], list[str]]:
    """One alignment of the whole text: pairs of a source index and a target index, and the words of both languages."""
    pairs: list[tuple[int, int]] = []
    source_words: list[str] = []
    target_words: list[str] = []
    for alignment in alignments:
        pairs += [(len(source_words) + source, len(target_words) + target) for source, target in alignment.pairs]
        source_words += alignment.source.words
        target_words += alignment.target.words
    return pairs, source_words, target_words


def is_long(text: str) -> bool:
    """Whether a text may have several sentences."""
    return len(text) >= LONG_TEXT or "\n" in text


def split_sentences(text: str, language: str) -> list[str]:
    """The sentences of a long text, each with the white space after it; a short text stays as it is."""
    if not is_long(text):
        return [text]
    require_package("sentencex", SPLITTING)
    from sentencex import segment

    parts = [str(part) for part in segment(language, text)]
    return parts if "".join(parts) == text else [text]


_WORD = re.compile(WORD)
_SPACED_WORD = re.compile(r"[^\W_](?:\S*[^\W_])?|[^\w\s\x00-\x7f]+")  # between spaces, without punctuation around it
MIN_NAME_TOKENS = 4
MAX_LETTERS_PER_TOKEN = 2.0
MIN_VOCABULARY = 2000  # a smaller vocabulary splits every word nearly into letters


class UnseenWord(NamedTuple):
    """A word between spaces, such as 3.141, and the indices of its parts among the words of an alignment."""

    text: str
    indices: list[int]


def is_unseen(tokenizer: Tokenizer, word: str) -> bool:
    """Whether the training text is unlikely to have held this word, judging by the vocabulary."""
    digits = sum(character.isdecimal() for character in word)
    if digits >= 2 or any(_is_unseen_character(tokenizer, character) for character in set(word)):
        return True
    if tokenizer.kind == "words":
        return bool(tokenizer.unknown_characters(word))
    if tokenizer.kind not in ("bpe", *ONLY_READ) or tokenizer.vocabulary < MIN_VOCABULARY or word[0].islower():
        return False
    forms = tokenizer.encode_batch([word, f" {word}", word.lower(), f" {word.lower()}"])
    tokens = min(map(len, forms))
    return word[0].isupper() and tokens >= MIN_NAME_TOKENS and len(word) <= MAX_LETTERS_PER_TOKEN * tokens


def _is_unseen_character(tokenizer: Tokenizer, character: str) -> bool:
    """Whether a character can only be spelled byte by byte, or not at all."""
    if character.isascii():
        return False
    if tokenizer.kind in ("bpe", "sentencepiece"):
        encoded_forms = (tokenizer.encode(form) for form in (character, f" {character}"))
        return all(sum(len(tokenizer.spelled(token)) == 1 for token in ids) >= 2 for ids in encoded_forms)
    return tokenizer.kind in ("characters", "unigram") and bool(tokenizer.unknown_characters(character))


def unseen_words(tokenizer: Tokenizer, text: str) -> list[UnseenWord]:
    """The unseen words of a source, in the order of the text."""
    spans = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    unseen = []
    for match in _SPACED_WORD.finditer(text):
        if is_unseen(tokenizer, match[0]):
            indices = [i for i, (begin, end) in enumerate(spans) if begin < match.end() and end > match.start()]
            unseen.append(UnseenWord(match[0], indices))
    return unseen


def contains_word(text: str, word: str) -> bool:
    """Whether a translation contains a word; of numbers only the digits are compared, so 1,000 equals 1.000."""
    if re.search(rf"(?<!\d){re.escape(word)}(?!\d)", text):
        return True
    return word[0].isdecimal() and _digits(word) in {_digits(match[0]) for match in _SPACED_WORD.finditer(text)}


def _digits(word: str) -> str:
    return "".join(character for character in word if character.isdecimal())


def carry_over(text: str, unseen: Sequence[UnseenWord], alignment: Alignment) -> tuple[str, list[str]]:
    """A translation with the unseen source words that it lacked put in; and these words."""
    spans = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    lost = [word for word in unseen if word.indices and not contains_word(text, word.text)]
    if not spans or len(spans) != len(alignment.target.words) or not alignment.source.words:
        return text, []  # empty, or it ends within a character: the alignment does not match the words of the text
    attention = alignment.by_word()
    nearest = attention.argmax(1).tolist()
    replaced: set[int] = set()
    changes: list[tuple[int, int, str]] = []
    unaligned: list[UnseenWord] = []
    for word in lost:
        aligned_words = [
            index
            for index, (begin, end) in enumerate(spans)
            if nearest[index] in word.indices and any(map(str.isalnum, text[begin:end]))
        ]
        if aligned_words:
            run = _longest_run(aligned_words)
            replaced.update(run)
            changes.append((spans[run[0]][0], spans[run[-1]][1], word.text))
        else:
            unaligned.append(word)
    for word in unaligned:
        begin = spans[_most_attentive(word, attention, replaced)][0]
        changes.append((begin, begin, f"{word.text} "))
    for begin, end, replacement in sorted(changes, reverse=True):
        text = text[:begin] + replacement + text[end:]
    return text, [word.text for word in lost]


def _longest_run(indices: list[int]) -> list[int]:
    """The longest run of consecutive indices; of several, the first."""
    runs: list[list[int]] = []
    for index in indices:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return max(runs, key=len)


def _most_attentive(word: UnseenWord, attention: Float[Tensor, "T S"], replaced: set[int]) -> int:
    """The target word that attended most to the parts of `word`, apart from those that are replaced."""
    shares = attention[:, word.indices].sum(1)
    shares[sorted(replaced)] = -1.0
    return int(shares.argmax())
