"""Is a copy of a translator the same translator? Both read the same sources and score the same targets.

The targets are real sentences, which a translator need not have written, and what the original translates greedily:
the copy must choose every token of it, the end too, or one that is as likely within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.data.parallel.encoding import end_of
from qkv.generation.beam import Search, translate
from qkv.generation.sampling import NEVER
from qkv.interop.folder import Exportable
from qkv.interop.parity import SENTENCES, TOLERANCE, Comparison, padded
from qkv.text.tags import tags

# sources (B, S), who is present (B, S), what is written (B, T), to scores (B, T, V)
Translates = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Sources, targets as they are fed, which of these are real, and what comes next, where that is asked."""

    source: Tensor
    present: Tensor
    tokens: Tensor
    there: Tensor
    next: Tensor | None = None


def sources(bundle: Exportable, most: int) -> list[list[int]]:
    """Real sentences as a translator reads them, one language after the other where it knows several."""
    tokenizer, end, known = bundle.tokenizer, end_of(bundle.tokenizer), list(tags(bundle.tokenizer).values())
    inside = [ids for ids in tokenizer.encode_batch(SENTENCES) if ids]
    asked = [[tokenizer.named[known[number % len(known)]]] if known else [] for number in range(len(inside))]
    before = [[*tokenizer.opening, *tag] for tag in asked]
    rows = [[*opening, *ids] for opening, ids in zip(before, inside, strict=True)]
    return [[*row[: max(1, most - len(end))], *end] for row in rows]


def forced(bundle: Exportable, rows: list[list[int]], most: int) -> Case:
    """Each source with the next sentence as its translation."""
    start, end = bundle.marks
    inside = [row[:-1][: most - 1] for row in (*rows[1:], rows[0])]
    return Case(*padded(rows, end), *padded([[start, *ids] for ids in inside], end))


def greedy(bundle: Exportable, rows: list[list[int]]) -> Case:
    """Each source with what the model makes of it."""
    start, end = bundle.marks
    search = Search(never=bundle.unwritten)
    made = [each[0] for each in translate(bundle.model, rows, search, start=start, end=end)]
    wanted = [[*each.tokens, *([end] if each.ended else [])] for each in made]
    tokens, there = padded([[start, *ids[:-1]] for ids in wanted], end)
    return Case(*padded(rows, end), tokens, there, padded(wanted, end)[0])


@torch.inference_mode()
def compare(bundle: Exportable, others: Mapping[str, Translates]) -> list[Comparison]:
    """The scores of each reader beside the model's own."""
    model: Any = bundle.model.eval()
    most = bundle.config.context
    rows = sources(bundle, most)
    cases = [forced(bundle, rows, most), greedy(bundle, rows)]
    expected = [model(case.source, case.present, case.tokens) for case in cases]
    return [_one(name, reader, cases, expected, bundle.unwritten) for name, reader in others.items()]


def _one(
    name: str, reader: Translates, cases: list[Case], expected: list[Tensor], unwritten: frozenset[int]
) -> Comparison:
    largest = scale = 0.0
    count = written = agreed = 0
    for case, answer in zip(cases, expected, strict=True):
        found = reader(case.source, case.present, case.tokens).float()
        assert found.shape == answer.shape, f"{tuple(found.shape)} answers instead of {tuple(answer.shape)}"
        gap = (found - answer)[case.there].abs().max()
        largest = max(largest, float("inf") if gap.isnan() else float(gap))
        scale = max(scale, float(answer[case.there].abs().max()))
        count += int(case.present.sum() + case.there.sum())
        if case.next is not None:
            scores = found.index_fill(2, torch.tensor(sorted(unwritten), dtype=torch.long), NEVER)
            taken = scores.gather(2, case.next.unsqueeze(2)).squeeze(2)
            chosen = taken >= scores.amax(2) - TOLERANCE * max(1.0, scale)
            written, agreed = int(case.there.sum()), int(chosen[case.there].sum())
    return Comparison(name, largest, scale, count, written, agreed)
