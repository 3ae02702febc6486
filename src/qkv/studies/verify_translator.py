"""The proofs of a translator: those of verify.py, for a model that reads a source and writes a target.

cache       the target token by token with the state = all of it at once
padding     a source with padding = the source alone
batch       sources and targets of unequal length together = each pair alone
causality   a later token of the target never changes an earlier answer
"""

from __future__ import annotations

import torch
from torch import Tensor

from qkv.api import Model
from qkv.generation.beam import Translator
from qkv.interop.parity import padded
from qkv.interop.translator_parity import sources
from qkv.studies.verify import LONGEST, Found, Proofs

MORE = 8  # tokens of padding


def proofs_of(model: Model) -> Proofs:
    """The proofs that concern this kind of model."""
    return TranslatorProofs(model) if model.translates else Proofs(model)


class TranslatorProofs(Proofs):
    """The target of each source is the next sentence: its answers show the sums as well as a translation does."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        most = min(self.context, LONGEST)
        self.start, self.end = self.bundle.marks
        self.rows = sources(self.bundle, most)
        self.targets = [[self.start, *row[:-1][: most - 1]] for row in (*self.rows[1:], self.rows[0])]

    def answers(self) -> list[Tensor]:
        pairs = zip(self.rows, self.targets, strict=True)
        return [self._answer(torch.tensor([row]), torch.tensor([target])) for row, target in pairs]

    def cache(self) -> Found:
        model, largest = self.module, 0.0
        assert isinstance(model, Translator)
        for row, target, expected in list(zip(self.rows, self.targets, self.answers(), strict=True))[:2]:
            source = torch.tensor([row])
            there = torch.ones_like(source, dtype=torch.bool)
            memory, state = model.encode(source, there), model.state(1)
            steps = [model.decode(torch.tensor([[token]]), memory, there, state) for token in target]
            largest = max(largest, float((torch.cat(steps, 1)[0] - expected).abs().max()))
        return largest, "the state = the whole target"

    def padding(self) -> Found:
        largest = 0.0
        for row, target, expected in zip(self.rows, self.targets, self.answers(), strict=True):
            given = row[: max(1, self.context - MORE)]
            if len(given) < len(row):
                expected = self._answer(torch.tensor([given]), torch.tensor([target]))
            source, present = padded([given, [self.end] * (len(given) + MORE)], self.end)
            answer = self.module(source[:1], present[:1], torch.tensor([target]))[0]
            largest = max(largest, float((answer - expected).abs().max()))
        return largest, "a padded source = the source alone"

    def batch(self) -> Found:
        source, present = padded(self.rows, self.end)
        tokens, _ = padded(self.targets, self.end)
        gaps = [
            self._gap(answer, alone)
            for answer, alone in zip(self.module(source, present, tokens), self.answers(), strict=True)
        ]
        return max(gaps), f"{len(self.rows)} pairs of unequal length together = each alone"

    def causality(self) -> Found:
        source, target = torch.tensor(self.rows[:1]), self.targets[0]
        expected, largest = self.answers()[0], 0.0
        for place in range(1, len(target)):
            changed = [*target[:place], (target[place] + 1) % self.tokenizer.vocabulary, *target[place + 1 :]]
            answer = self._answer(source, torch.tensor([changed]))
            largest = max(largest, float((answer[:place] - expected[:place]).abs().max()))
        return largest, "another token of the target later = the same answer before it"

    def _answer(self, source: Tensor, target: Tensor) -> Tensor:
        answer: Tensor = self.module(source, torch.ones_like(source, dtype=torch.bool), target)[0]
        return answer
