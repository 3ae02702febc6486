"""A translator on any text: cut into sentences, which go through the model together, and put back as they stood."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from qkv.data.encode import end_of, tag_ids
from qkv.errors import InputError, require_package
from qkv.generation.beam import Hypothesis, Search, Translator, translate
from qkv.inspection.translator_heads import Alignment, aligned, attends
from qkv.recipe.bundle import Bundle
from qkv.tasks.translation.carrying import carried, strange_units
from qkv.text.vocabulary import may_be_left_out, tags, written_tag

SHOWN = 8  # words that are named in a note
APART = 1024  # numbers between one text and the next: its sentences draw by them
LONG = 120  # characters, from which on a text is looked at for several sentences
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
    """Words of the source that the model lost and that were put back (`carrying.py`)."""


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
    the texts, by which they are cut into sentences; `carry`: strange words are carried over (`carrying.py`); `first`:
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
    """Texts without tags, for each the tag of the language that it, or `to`, asks for, and what was not said."""
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
    """Where the model looked while it wrote: of each sentence of a translation."""
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
