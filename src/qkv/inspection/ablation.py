"""What a head is worth: the loss without it, and with it alone in its layer (Michel et al. 2019).

A head is taken out by setting what it gives (`mixed`, before W_O) to zero. The loss is that of what the model learned:
the next piece; hidden pieces; the model's own decision; of an encoder alone, how far its mean vector turns, 1 - cosine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.inspection.subject import Inputs, StackName, Subject, forward, hooked, stacks


@contextmanager
def silenced(model: nn.Module, stack: StackName, layer: int, heads: Sequence[int]) -> Iterator[None]:
    """Within it, these heads of a layer give zeros."""
    module = stacks(model)[stack].layers[layer]

    def hook(tap: nn.Module, given: Any, made: Tensor) -> Tensor:
        if not isinstance(module, MultiHeadAttention):
            return torch.zeros_like(made)
        changed = made.clone()
        changed[:, list(heads)] = 0.0
        return changed

    with hooked([module.mixed.register_forward_hook(hook)]):
        yield


@torch.no_grad()
def loss(subject: Subject, texts: Sequence[Inputs], begin: Sequence[int] | None = None) -> float:
    """The mean loss over texts, in nats a piece; `begin` says from which place on a text counts."""
    total, count = 0.0, 0
    for number, inputs in enumerate(texts):
        output = forward(subject.model, inputs)[0].float()
        start = 0 if begin is None else begin[number]
        targets = torch.tensor(inputs.tokens[1:], device=output.device)[start:]
        if not len(targets):
            continue
        total += float(F.cross_entropy(output[:-1][start:], targets, reduction="sum"))
        count += len(targets)
    return total / max(1, count)


@torch.no_grad()
def turned(subject: Subject, texts: Sequence[Inputs], whole: Sequence[Tensor]) -> float:
    """How far what comes out is from `whole`: 1 - cosine of vectors; of decisions, the loss beside the model's own."""
    total = 0.0
    for inputs, expected in zip(texts, whole, strict=True):
        found = answered(subject, inputs)
        if subject.answer == "label":
            total += float(F.cross_entropy(found.unsqueeze(0), expected.softmax(-1).unsqueeze(0)))
        else:
            total += 1 - float(F.cosine_similarity(found, expected, dim=0))
    return total / max(1, len(texts))


@torch.no_grad()
def answered(subject: Subject, inputs: Inputs) -> Tensor:
    """What a model says about a text: scores of labels, or the mean vector of what comes out."""
    output = forward(subject.model, inputs)[0].float()
    return output if subject.answer == "label" else output.mean(0)


class Worth:
    """Measures a model on some texts with heads taken out."""

    def __init__(self, subject: Subject, texts: Sequence[Inputs], begin: Sequence[int] | None = None) -> None:
        self.subject, self.texts, self.begin = subject, texts, begin
        self.writes = subject.answer == "next"
        self.answers = [] if self.writes else [answered(subject, each) for each in texts]
        self.whole = self._measure()

    def _measure(self) -> float:
        if self.writes:
            return loss(self.subject, self.texts, self.begin)
        return turned(self.subject, self.texts, self.answers)

    def without(self, stack: StackName, layer: int, head: int) -> float:
        with silenced(self.subject.model, stack, layer, [head]):
            return self._measure()

    def only(self, stack: StackName, layer: int, head: int) -> float:
        """With this head alone in its layer."""
        others = [each for each in range(stacks(self.subject.model)[stack].heads) if each != head]
        with silenced(self.subject.model, stack, layer, others):
            return self._measure() if others else self.whole
