"""All that the head finder knows, in one ranked table: roles, gold edges, alignments, then what the first are worth.

A head is worth the loss without it, and with it alone in its layer (Michel et al. 2019). It is taken out by setting its
output (`mixed`, before W_O) to zero. The loss is that of what the model learned: the next token; the masked tokens; the
model's own decision; of an encoder alone, how far its mean vector turns, 1 - cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.tap import hooked
from qkv.evaluation.vectors import CONTEXTS
from qkv.inspection.edges import Sentence, encoded, found_edges
from qkv.inspection.head_roles import CountedText, Head, found_roles, ranked, repeated
from qkv.inspection.subject import Inputs, StackName, Subject, forward, main_stack, stacks
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
    read = [encoded(subject.tokenizer, sentence)[0] for sentence in sentences[:TEXTS]] or read_texts(subject, texts)
    given = [inputs for inputs in read if 2 < len(inputs.tokens) <= subject.context()] or read_texts(subject, ())
    edges = found_edges(subject, main.name, sentences) if sentences else []
    rows = [*edges, *ranked(list(found_roles(subject, main.name, given)))]
    return ablated(subject, rows, given[:TEXTS], ablate)


def read_texts(subject: Subject, texts: Sequence[str]) -> list[Inputs]:
    """Texts as the model reads them; without any, the subject's own and the decks'."""
    tokenizer = subject.tokenizer
    lines = list(texts) or [subject.text, *(text for group in CONTEXTS.values() for text in group)]
    room = subject.context() - len(tokenizer.closing)
    rows = [[*tokenizer.opening, *ids][:room] for ids in tokenizer.encode_batch(lines[:TEXTS])]
    return [Inputs((*ids, *tokenizer.closing)) for ids in rows]


def _pair(subject: Subject, line: str) -> Inputs:
    """A line of a source and its translation, as the subject's own pair begins and ends."""
    source, target = line.split("\t")[:2]
    tokenizer, own = subject.tokenizer, subject.inputs
    assert own.source is not None
    room = subject.context()
    written = (own.tokens[0], *tokenizer.encode(target))[:room]
    return Inputs(written, source=(*tokenizer.encode(source)[: room - 1], own.source[-1]))


def ablated(subject: Subject, heads: Sequence[Head], texts: Sequence[Inputs], max_ablated: int) -> list[Head]:
    """The first `most` heads with their worth, where it matters: of induction heads on repeated tokens, and of heads
    that look at the place before as well, if the model has induction heads, which build on them (Elhage et al. 2021).
    In running text many heads know the place before, and one of them is hardly missed."""
    copies = subject.answer == "next" and any(head.role == "induction" and head.low > head.baseline for head in heads)
    roles = {"induction", "previous"} if copies else {"induction"}
    natural = Worth(subject, [(inputs, 0) for inputs in texts])
    again = Worth(subject, repeated(subject)) if any(head.role in roles for head in heads[:max_ablated]) else natural
    rows = list(heads)
    for place, head in enumerate(rows[:max_ablated]):
        worth = again if head.role in roles else natural
        at, measured = (head.stack, head.layer, head.head), "texts" if worth is natural else "repeated"
        without, only = worth.without(*at), worth.only(*at)
        rows[place] = replace(head, whole=worth.whole, without=without, only=only, measured=measured)
    return rows


@contextmanager
def silenced(model: nn.Module, stack: StackName, layer: int, heads: Sequence[int]) -> Iterator[None]:
    """Within it, these heads of a layer give zeros."""
    module = stacks(model)[stack].layers[layer]

    def hook(tap: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        if not isinstance(module, MultiHeadAttention):
            return torch.zeros_like(output)
        changed = output.clone()
        changed[:, list(heads)] = 0.0
        return changed

    with hooked([module.mixed.register_forward_hook(hook)]):
        yield


@torch.no_grad()
def loss(subject: Subject, texts: Sequence[CountedText]) -> float:
    """The mean loss over texts, in nats a token."""
    total, count = 0.0, 0
    for inputs, begin in texts:
        output = forward(subject.model, inputs)[0].float()
        targets = torch.tensor(inputs.tokens[1:], device=output.device)[begin:]
        total += float(F.cross_entropy(output[:-1][begin:], targets, reduction="sum"))
        count += len(targets)
    return total / max(1, count)


class Worth:
    """Measures a model on some texts with heads taken out: its loss, or how far its answers are from its own."""

    def __init__(self, subject: Subject, texts: Sequence[CountedText]) -> None:
        self.subject, self.texts = subject, texts
        self.answers = [] if subject.answer == "next" else [self._answer(inputs) for inputs, _ in texts]
        self.whole = self._measure()

    @torch.no_grad()
    def _answer(self, inputs: Inputs) -> Tensor:
        """Scores of labels, or the mean vector of what comes out."""
        output = forward(self.subject.model, inputs)[0].float()
        return output if self.subject.answer == "label" else output.mean(0)

    def _measure(self) -> float:
        if self.subject.answer == "next":
            return loss(self.subject, self.texts)
        total = 0.0
        for (inputs, _), expected in zip(self.texts, self.answers, strict=True):
            answer = self._answer(inputs)
            if self.subject.answer == "label":
                total += float(F.cross_entropy(answer.unsqueeze(0), expected.softmax(-1).unsqueeze(0)))
            else:
                total += 1 - float(F.cosine_similarity(answer, expected, dim=0))
        return total / max(1, len(self.texts))

    def without(self, stack: StackName, layer: int, head: int) -> float:
        with silenced(self.subject.model, stack, layer, [head]):
            return self._measure()

    def only(self, stack: StackName, layer: int, head: int) -> float:
        """With this head alone in its layer."""
        others = [other for other in range(stacks(self.subject.model)[stack].heads) if other != head]
        with silenced(self.subject.model, stack, layer, others):
            return self._measure() if others else self.whole
