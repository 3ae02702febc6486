"""All that the head finder knows, in one ranked table: roles, gold edges, alignments, then what the first are worth."""

from __future__ import annotations

from collections.abc import Sequence

from qkv.evaluation.word_senses import CONTEXTS
from qkv.inspection.edges import Sentence, encoded, found_edges
from qkv.inspection.head_roles import Head, ablated, found_roles, ranked
from qkv.inspection.subject import Inputs, Subject, main_stack, stacks
from qkv.inspection.translator_heads import found_alignments

TEXTS = 48  # of many, that places are looked up in and losses measured on


def found(
    subject: Subject, *, texts: Sequence[str] = (), sentences: Sequence[Sentence] = (), ablate: int = 5
) -> list[Head]:
    """Relations with their best heads, then every head's best role; the first `ablate` of all with their worth."""
    main = main_stack(stacks(subject.model))
    if subject.inputs.source is not None:
        given = [subject.inputs, *(_pair(subject, line) for line in texts if "\t" in line)]
        rows = found_alignments(subject, given)
        return ablated(subject, rows, given[:TEXTS], ablate)
    given = (
        [encoded(subject.tokenizer, each)[0] for each in sentences[:TEXTS]] if sentences else read_texts(subject, texts)
    )
    most = int(getattr(subject.inside, "context", 10**9))
    given = [each for each in given if 2 < len(each.tokens) <= most] or read_texts(subject, ())
    edges = found_edges(subject, main.name, sentences) if sentences else []
    rows = [*edges, *ranked(list(found_roles(subject, main.name, given)))]
    return ablated(subject, rows, given[:TEXTS], ablate)


def read_texts(subject: Subject, texts: Sequence[str]) -> list[Inputs]:
    """Texts as the model reads them; without any, the subject's own and the decks'."""
    tokenizer = subject.tokenizer
    lines = list(texts) or [subject.text, *(text for group in CONTEXTS.values() for text in group)]
    room = int(getattr(subject.inside, "context", 10**9)) - len(tokenizer.closing)
    rows = [[*tokenizer.opening, *ids][:room] for ids in tokenizer.encode_batch(lines[:TEXTS])]
    return [Inputs((*ids, *tokenizer.closing)) for ids in rows]


def _pair(subject: Subject, line: str) -> Inputs:
    """A line of a source and its translation, as the subject's own pair begins and ends."""
    source, target = line.split("\t")[:2]
    tokenizer, own = subject.tokenizer, subject.inputs
    assert own.source is not None
    room = int(getattr(subject.inside, "context", 10**9))
    written = (own.tokens[0], *tokenizer.encode(target))[:room]
    return Inputs(written, source=(*tokenizer.encode(source)[: room - 1], own.source[-1]))
