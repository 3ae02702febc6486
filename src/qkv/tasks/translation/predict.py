"""A translator on any text: cut into sentences, which go through the model together, and put back as they stood.

Words that no training taught, carried over from the source: names, numbers, characters never seen.

    of a source word i that is strange and is not in the translation: the words j with argmax_i' share(j, i') = i are
    what the model wrote in its place; the longest run of them gives way to the word itself

The replacement of unknown words by alignment (Luong et al. 2015, arXiv 1410.8206), the alignment being the attention
(`inspection/translator_heads.py`). A vocabulary over bytes has no unknown words, so strange is what it has no tokens
for: a number of two digits or more, a character that it can only spell byte by byte, and a capitalised word that
it cuts nearly into letters. It is a rule of thumb: the word survives, its place is as good as the alignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor

from qkv.data.encode import end_of, tag_ids
from qkv.errors import InputError, require_package
from qkv.generation.beam import Hypothesis, Search, Translator, translate
from qkv.inspection.translator_heads import Alignment, aligned, attends
from qkv.recipe.bundle import Bundle
from qkv.text.pipelines import ONLY_READ, WORD
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import may_be_left_out, tags, written_tag

SHOWN = 8  # words that are named in a note
APART = 1024  # numbers between one text and the next: its sentences draw by them
LONG = 120  # characters, from which on a text is cut into sentences
SPLITTING = "translating long texts sentence by sentence"
AROUND = re.compile(r"^(\s*)(.*?)(\s*)$", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """A translation of a text, and its log-probability, the sum over its sentences."""

    text: str
    logprob: float
    sentences: tuple[tuple[list[int], list[int]], ...] = ()
    """Of each sentence the source's ids, with what stands around them, and those of its translation."""
    carried: tuple[str, ...] = ()
    """Words of the source that the model lost and that were put back (`carried`)."""


def require(bundle: Bundle) -> Any:
    """The model, where it is one that translates."""
    if not isinstance(bundle.model, Translator):
        raise InputError(
            f"this model is of kind {bundle.config.kind}; `qkv translate` needs a translator. Train one on two "
            "line-aligned files: qkv train train.en train.de"
        )
    return bundle.model


def targets(bundle: Bundle) -> list[str]:
    """The languages that it can be asked for; none where there is one only."""
    return list(tags(bundle.tokenizer))


def fitted(ids: Sequence[list[int]], end: Sequence[int], room: int) -> tuple[list[list[int]], int]:
    """Sources that fit into the context, with their end; and how many were cut."""
    cut = sum(len(each) > room for each in ids)
    return [each if len(each) <= room else [*each[: room - len(end)], *end] for each in ids], cut


def translated(
    bundle: Bundle,
    texts: Sequence[str],
    search: Search,
    *,
    to: str | None = None,
    language: str = "en",
    carry: bool = True,
    first: int = 0,
) -> tuple[list[list[Said]], list[str]]:
    """For each text its translations, the best first, and what was done to the texts, in words. `language` is that of
    the texts, by which they are cut into sentences; `carry`: strange words are carried over (`carried`); `first`:
    the number of the first text, by which it draws."""
    model = require(bundle)
    tokenizer, end, (start, last) = bundle.tokenizer, end_of(bundle.tokenizer), bundle.marks
    texts, before, notes = _tagged(bundle, texts, to)
    parts = [sentences(text, language) for text in texts]
    flat = [AROUND.match(part) for each in parts for part in each]
    tag_of_each = [tag for tag, each in zip(before, parts, strict=True) for _ in each]
    cores = [match[2] if match else "" for match in flat]
    inside = tokenizer.encode_batch(cores) if cores else []
    ids = [[*tokenizer.opening, *tag, *core, *end] for tag, core in zip(tag_of_each, inside, strict=True)]
    room = model.context
    given, cut = fitted(ids, end, room)
    asked = [number for number, core in enumerate(cores) if core]
    search = replace(search, never={*search.never, *bundle.unwritten})
    drawn = [(first + text) * APART + each for text, part in enumerate(parts) for each in range(len(part))]
    chosen = [drawn[number] for number in asked]
    made = translate(model.eval(), [given[number] for number in asked], search, start=start, end=last, numbers=chosen)
    found_of = dict(zip(asked, made, strict=True))
    notes += [f"{cut:,} sentences are longer than the context of {room:,} tokens; cut there."] if cut else []
    if unknown := dict.fromkeys(each for core in cores for each in tokenizer.unknown_characters(core)):
        notes.append(f"not in the vocabulary, and read as unknown: {listed(list(unknown))}.")
    results, place = [], 0
    for each in parts:
        pieces = []
        for number in range(place, place + len(each)):
            match = flat[number]
            assert match is not None
            pieces.append(_Sentence(match[1], match[2], given[number], found_of.get(number), match[3]))
        place += len(each)
        results.append(_joined(bundle, pieces, search.best, carry and attends(model)))
    if kept := dict.fromkeys(word for each in results for said in each for word in said.carried):
        said = "not known to the model and carried over as they stand"
        notes.append(f"{said}: {listed(list(kept))}; --no-carry leaves them to it.")
    return results, notes


def _tagged(bundle: Bundle, texts: Sequence[str], to: str | None) -> tuple[list[str], list[list[int]], list[str]]:
    """Texts without tags, for each the tag of the language that it, or `to`, asks for, and notes."""
    known = targets(bundle)
    if to is not None and not known:
        raise InputError(f"--to {to}: this model translates into one language. Leave it out.")
    if to is not None and to not in known:
        raise InputError(f"language {to!r} is not known to this model; expected --to with one of {', '.join(known)}.")
    split = [(own or to, rest) for own, rest in (_split(bundle, text) for text in texts)]
    unsaid = sum(language is None for language, _ in split) if known else 0
    if unsaid and not may_be_left_out(bundle.tokenizer):
        raise InputError(f"no language was asked for; expected --to with one of {', '.join(known)}.")
    notes = [f"no language was asked for; this model knows --to {listed(known)}."] if unsaid else []
    before = [[] if language is None else tag_ids(bundle.tokenizer, [language]) for language, _ in split]
    return [rest for _, rest in split], before, notes


def _split(bundle: Bundle, text: str) -> tuple[str | None, str]:
    language, rest = written_tag(bundle.tokenizer, text.lstrip())
    return (language, rest) if language is not None else (None, text)


def listed(words: Sequence[str]) -> str:
    """The first words of many, for a note."""
    return ", ".join(words[:SHOWN]) + (" ..." if len(words) > SHOWN else "")


class _Sentence(NamedTuple):
    before: str
    text: str
    ids: list[int]
    hypotheses: list[Hypothesis] | None  # None: there was nothing but white space
    after: str


def _joined(bundle: Bundle, parts: list[_Sentence], best: int, carry: bool) -> list[Said]:
    """The k-th best of all sentences together, with their spacing."""
    found = []
    for rank in range(best):
        text, total, pairs, kept = "", 0.0, [], list[str]()
        for part in parts:
            chosen = part.hypotheses[min(rank, len(part.hypotheses) - 1)] if part.hypotheses else None
            written = bundle.tokenizer.decode(chosen.tokens).strip() if chosen else ""
            if chosen and carry and (units := strange_units(bundle.tokenizer, part.text)):
                written, words = carried(written, units, _alignment(bundle, part.ids, chosen.tokens))
                kept += words
            text += part.before + written + part.after
            total += chosen.logprob if chosen else 0.0
            pairs += [(part.ids, chosen.tokens)] if chosen else []
        found.append(Said(text, total, tuple(pairs), tuple(kept)))
    return found


def alignments(bundle: Bundle, said: Said) -> list[Alignment]:
    """The alignment of each sentence of a translation: what the model attended to while it wrote."""
    return [_alignment(bundle, source, target) for source, target in said.sentences]


def _alignment(bundle: Bundle, source: list[int], target: list[int]) -> Alignment:
    model, (start, _) = require(bundle), bundle.marks
    return aligned(model, bundle.tokenizer, source, target, start)


def pharaoh(found: Sequence[Alignment]) -> tuple[list[tuple[int, int]], list[str], list[str]]:
    """Source word and target word by their numbers in the whole text, and the words of both sides."""
    pairs: list[tuple[int, int]] = []
    sources: list[str] = []
    written: list[str] = []
    for each in found:
        pairs += [(len(sources) + one, len(written) + other) for one, other in each.pairs]
        sources += each.source.words
        written += each.target.words
    return pairs, sources, written


def long(text: str) -> bool:
    """Whether a text may have several sentences."""
    return len(text) >= LONG or "\n" in text


def sentences(text: str, language: str) -> list[str]:
    """A long text in sentences, each with the spacing behind it; together they are the text."""
    if not long(text):
        return [text]
    require_package("sentencex", SPLITTING)
    from sentencex import segment

    parts = [str(part) for part in segment(language, text)]
    return parts if "".join(parts) == text else [text]


_WORD = re.compile(WORD)
_UNIT = re.compile(r"[^\W_](?:\S*[^\W_])?|[^\w\s\x00-\x7f]+")  # what stands between blanks, without the marks around it
LEAST_PIECES = 4
LETTERS_A_PIECE = 2.0
LEAST_VOCABULARY = 2000  # a smaller one cuts every word nearly into letters


class Unit(NamedTuple):
    """A word of the source as it stands, 3.141 for one, and the numbers of those that an alignment knows."""

    text: str
    words: list[int]


def strange(tokenizer: Tokenizer, word: str) -> bool:
    """Whether a vocabulary shows that its training text had no such word."""
    digits = sum(character.isdecimal() for character in word)
    if digits >= 2 or any(_unseen(tokenizer, each) for each in set(word)):
        return True
    if tokenizer.kind == "words":
        return bool(tokenizer.unknown_characters(word))
    if tokenizer.kind not in ("bpe", *ONLY_READ) or tokenizer.vocabulary < LEAST_VOCABULARY or word[0].islower():
        return False
    forms = tokenizer.encode_batch([word, f" {word}", word.lower(), f" {word.lower()}"])
    pieces = min(map(len, forms))
    return word[0].isupper() and pieces >= LEAST_PIECES and len(word) <= LETTERS_A_PIECE * pieces


def _unseen(tokenizer: Tokenizer, character: str) -> bool:
    """Whether a character can only be spelled byte by byte, or not at all."""
    if character.isascii():
        return False
    if tokenizer.kind in ("bpe", "sentencepiece"):
        alone = (tokenizer.encode(form) for form in (character, f" {character}"))
        return all(sum(len(tokenizer.spelled(each)) == 1 for each in ids) >= 2 for ids in alone)
    return tokenizer.kind in ("characters", "unigram") and bool(tokenizer.unknown_characters(character))


def strange_units(tokenizer: Tokenizer, text: str) -> list[Unit]:
    """The strange words of a source, in their order."""
    places = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    found = []
    for match in _UNIT.finditer(text):
        if strange(tokenizer, match[0]):
            within = [place for place, each in enumerate(places) if each[0] < match.end() and each[1] > match.start()]
            found.append(Unit(match[0], within))
    return found


def there(word: str, text: str) -> bool:
    """Whether a translation holds a word: a number whatever its commas, 1,000 as 1.000."""
    if re.search(rf"(?<!\d){re.escape(word)}(?!\d)", text):
        return True
    return word[0].isdecimal() and _digits(word) in {_digits(each[0]) for each in _UNIT.finditer(text)}


def _digits(word: str) -> str:
    return "".join(character for character in word if character.isdecimal())


def carried(text: str, units: Sequence[Unit], alignment: Alignment) -> tuple[str, list[str]]:
    """A translation with the words of its source that it had lost, and which they are."""
    spans = [match.span() for match in _WORD.finditer(text) if match[0].strip()]
    lost = [unit for unit in units if unit.words and not there(unit.text, text)]
    if not spans or len(spans) != len(alignment.target.words) or not alignment.source.words:
        return text, []  # half a character was written, or nothing: no word has a place
    looks = alignment.by_word()
    nearest = looks.argmax(1).tolist()
    taken: set[int] = set()
    changes: list[tuple[int, int, str]] = []
    unwritten: list[Unit] = []
    for unit in lost:
        own = [
            word
            for word, (begin, end) in enumerate(spans)
            if nearest[word] in unit.words and any(map(str.isalnum, text[begin:end]))
        ]
        if own:
            run = _longest(own)
            taken.update(run)
            changes.append((spans[run[0]][0], spans[run[-1]][1], unit.text))
        else:
            unwritten.append(unit)
    for unit in unwritten:
        begin = spans[_closest(unit, looks, taken)][0]
        changes.append((begin, begin, f"{unit.text} "))
    for begin, end, word in sorted(changes, reverse=True):
        text = text[:begin] + word + text[end:]
    return text, [unit.text for unit in lost]


def _longest(numbers: list[int]) -> list[int]:
    """The longest run of neighbours; of several, the first."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return max(runs, key=len)


def _closest(unit: Unit, looks: Float[Tensor, "T S"], taken: set[int]) -> int:
    """The word that attended most to a unit for which nothing was written: the unit goes before it."""
    shares = looks[:, unit.words].sum(1)
    shares[sorted(taken)] = -1.0
    return int(shares.argmax())
