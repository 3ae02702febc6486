"""One ranked table of heads: their roles, grammatical relations and alignments, and the loss without the first ones.

The importance of a head is the loss without it, and with it alone in its layer (Michel et al. 2019). It is removed by
setting its output (`mixed`, before W_O) to zero. The loss is that of the next token or of the masked tokens, for a
classifier copiedst its own decision; for an encoder without a head, 1 - cosine of its mean vector.
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
from qkv.inspection.edges import Sentence, encode_sentence, find_edges
from qkv.inspection.head_roles import CountedText, Head, find_roles, ranked, repeated
from qkv.inspection.subject import Inputs, StackName, Subject, forward, main_stack, stacks
from qkv.inspection.translator_heads import find_alignments

MAX_TEXTS = 48  # on which roles and losses are measured


def rank_heads(
    subject: Subject, *, texts: Sequence[str] = (), sentences: Sequence[Sentence] = (), ablate: int = 5
) -> list[Head]:
    """Relations with their best heads, then every head's best role; the first `ablate` of all with their importance."""
    main = main_stack(stacks(subject.model))
    if subject.inputs.source is not None:
        given = [subject.inputs, *(_pair(subject, line) for line in texts if "\t" in line)]
        rows = find_alignments(subject, given)
        return measure_ablation(subject, rows, given[:MAX_TEXTS], ablate)
    read = [encode_sentence(subject.tokenizer, sentence)[0] for sentence in sentences[:MAX_TEXTS]] or read_texts(
        subject, texts
    )
    given = [inputs for inputs in read if 2 < len(inputs.tokens) <= subject.context()] or read_texts(subject, ())
    edges = find_edges(subject, main.name, sentences) if sentences else []
    rows = [*edges, *ranked(list(find_roles(subject, main.name, given)))]
    return measure_ablation(subject, rows, given[:MAX_TEXTS], ablate)


def read_texts(subject: Subject, texts: Sequence[str]) -> list[Inputs]:
    """Texts as the model reads them; without any, the subject's own and the decks'."""
    tokenizer = subject.tokenizer
    lines = list(texts) or [subject.text, *(text for group in CONTEXTS.values() for text in group)]
    room = subject.context() - len(tokenizer.closing)
    rows = [[*tokenizer.opening, *ids][:room] for ids in tokenizer.encode_batch(lines[:MAX_TEXTS])]
    return [Inputs((*ids, *tokenizer.closing)) for ids in rows]


def _pair(subject: Subject, line: str) -> Inputs:
    """A source and its translation, separated by a tab, with the special tokens of the subject's own pair."""
    source, target = line.split("\t")[:2]
    tokenizer, own = subject.tokenizer, subject.inputs
    assert own.source is not None
    room = subject.context()
    written = (own.tokens[0], *tokenizer.encode(target))[:room]
    return Inputs(written, source=(*tokenizer.encode(source)[: room - 1], own.source[-1]))


def measure_ablation(subject: Subject, heads: Sequence[Head], texts: Sequence[Inputs], max_ablated: int) -> list[Head]:
    """The first `max_ablated` heads with their importance: that of induction heads on repeated tokens, and also that of
    previous-token heads if the model has induction heads, which build on them (Elhage et al. 2021). In running text
    many heads attend to the previous token, and one of them is hardly missed."""
    copies = subject.answer == "next" and any(head.role == "induction" and head.low > head.baseline for head in heads)
    roles = {"induction", "previous"} if copies else {"induction"}
    own = Importance(subject, [(inputs, 0) for inputs in texts])
    copied = Importance(subject, repeated(subject)) if any(head.role in roles for head in heads[:max_ablated]) else own
    rows = list(heads)
    for place, head in enumerate(rows[:max_ablated]):
        importance = copied if head.role in roles else own
        at, measured = (head.stack, head.layer, head.head), "texts" if importance is own else "repeated"
        without, only = importance.without(*at), importance.only(*at)
        rows[place] = replace(head, whole=importance.whole, without=without, only=only, measured=measured)
    return rows


@contextmanager
def without_heads(model: nn.Module, stack: StackName, layer: int, heads: Sequence[int]) -> Iterator[None]:
    """Within it, the output of these heads of a layer is zero."""
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
    """The mean loss over texts, in nats per token."""
    total, count = 0.0, 0
    for inputs, begin in texts:
        output = forward(subject.model, inputs)[0].float()
        targets = torch.tensor(inputs.tokens[1:], device=output.device)[begin:]
        total += float(F.cross_entropy(output[:-1][begin:], targets, reduction="sum"))
        count += len(targets)
    return total / max(1, count)


class Importance:
    """Measures a model on some texts without some heads: its loss, or how far its answers are from the whole
    model's."""

    def __init__(self, subject: Subject, texts: Sequence[CountedText]) -> None:
        self.subject, self.texts = subject, texts
        self.answers = [] if subject.answer == "next" else [self._answer(inputs) for inputs, _ in texts]
        self.whole = self._measure()

    @torch.no_grad()
    def _answer(self, inputs: Inputs) -> Tensor:
        """The scores of labels, or the mean output vector."""
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
        with without_heads(self.subject.model, stack, layer, [head]):
            return self._measure()

    def only(self, stack: StackName, layer: int, head: int) -> float:
        """With this head alone in its layer."""
        others = [other for other in range(stacks(self.subject.model)[stack].heads) if other != head]
        with without_heads(self.subject.model, stack, layer, others):
            return self._measure() if others else self.whole
