"""The head finder: what each head attends to, over many texts, with intervals (deck 001, "what do heads learn?").

    previous, next, first, itself    the weight on that position, compared with a head with equal weights
    same                            the weight on the same token elsewhere, compared with the best fixed distance
    induction                       in a b c … a, the weight on what came after the first a (Olsson et al. 2022), on
                                    random tokens that repeat after a random distance in each text, so that no
                                    fixed distance can find it; compared with the best fixed distance

Intervals are bootstrapped over texts. Roles that need a later position are left out for causal models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.evaluation.intervals import bootstrap
from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.subject import Inputs, StackName, Subject, stacks

RANDOM_TEXTS = 12
PERIODS = (12, 40)  # of repeated random tokens, drawn for each text
REACH = 48  # the fixed distances to compare with
SEED = 11
Array = NDArray[Any]
Target = Callable[[Sequence[int]], Tensor]  # ids -> (T, T), True where a head with this role attends
CountedText = tuple[Inputs, int]  # a text, and the first position that counts


@dataclass(frozen=True)
class Head:
    """One head's best role. `without` and `only`: the loss with it taken out, and with it alone in its layer."""

    stack: StackName
    layer: int
    head: int
    role: str
    score: float
    low: float
    high: float
    baseline: float
    whole: float | None = None
    without: float | None = None
    only: float | None = None
    measured: str | None = None  # on which texts: those given, or random tokens that repeat

    @property
    def name(self) -> str:
        """As people count, from 1."""
        return f"{self.layer + 1}.{self.head + 1}"

    def values(self) -> dict[str, Any]:
        """For JSON: as people count, from 1."""
        return {**asdict(self), "layer": self.layer + 1, "head": self.head + 1}


def offset(distance: int) -> Target:
    return lambda ids: torch.ones(len(ids), len(ids)).triu(distance).tril(distance).bool()


def first(ids: Sequence[int]) -> Tensor:
    target = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    target[1:, 0] = True
    return target


def same(ids: Sequence[int]) -> Tensor:
    """The same token elsewhere."""
    row = torch.tensor(list(ids))
    return (row.unsqueeze(0) == row.unsqueeze(1)) & ~torch.eye(len(ids), dtype=torch.bool)


def induction(ids: Sequence[int]) -> Tensor:
    """What came after this token before: (t, s) where ids[s - 1] == ids[t] and s ≤ t."""
    row = torch.tensor(list(ids))
    target = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    target[:, 1:] = row[:-1].unsqueeze(0) == row.unsqueeze(1)
    return target.tril(0)


PLACES: dict[str, Target] = {"previous": offset(-1), "next": offset(1), "first": first, "itself": offset(0)}
CONTENTS: dict[str, Target] = {"same": same, "induction": induction}


def repeated(subject: Subject, number: int = RANDOM_TEXTS) -> list[CountedText]:
    """Random tokens twice in a row, each text with its own distance; they count from where they repeat."""
    drawn, context = np.random.default_rng(SEED), subject.context(2 * PERIODS[1])
    special = set(subject.tokenizer.named.values())
    known = [token for token in range(subject.tokenizer.vocabulary) if token not in special]
    opening, closing = subject.tokenizer.opening, subject.tokenizer.closing
    high = max(3, min(PERIODS[1], (context - len(opening) - len(closing)) // 2))
    texts = []
    for _ in range(number):
        period = int(drawn.integers(min(PERIODS[0], high - 1), high))
        ids = [known[place] for place in drawn.integers(0, len(known), period)]
        texts.append((Inputs((*opening, *ids, *ids, *closing)), len(opening) + period))
    return texts


def targets_in(text: CountedText, target: Target) -> Tensor:
    inputs, begin = text
    places = target(inputs.tokens)
    places[:begin] = False
    return places


def mean_weights(
    subject: Subject, stack: StackName, texts: Sequence[CountedText], targets: Mapping[str, Target]
) -> tuple[dict[str, Array], bool]:
    """(N, L H) for each target: the mean weight on it over the positions that have one; nan where a text has
    none. And whether the attention is causal."""
    attention, causal = stacks(subject.model)[stack], False
    tables = {name: np.full((len(texts), len(attention.layers), attention.heads), np.nan) for name in targets}

    def record(layer: AttentionValues) -> None:
        nonlocal causal
        causal = layer.causal
        for name, target in wanted.items():
            reachable = target.to(layer.allowed.device) & layer.allowed
            rows = reachable.any(-1)
            if rows.any():
                weights = (layer.weights * reachable).sum(-1)[:, rows].mean(-1)
                tables[name][number, layer.layer] = weights.cpu().numpy()

    for number in range(len(texts)):
        wanted = {name: targets_in(texts[number], target) for name, target in targets.items()}
        trace_attention(subject.reading(texts[number][0]), record, layers={stack: None})
    return {name: table.reshape(len(texts), -1) for name, table in tables.items()}, causal


def best_distance(texts: Sequence[CountedText], target: Target, causal: bool) -> float:
    """How often the best fixed distance finds the target: the fraction of positions, over all texts."""
    hits: dict[int, int] = {}
    places = 0
    for text in texts:
        wanted = targets_in(text, target)
        wanted = wanted.tril(0) if causal else wanted
        places += int(wanted.any(-1).sum())
        reach = min(REACH, len(wanted) - 1)
        for distance in range(-reach, 1 if causal else reach + 1):
            hits[distance] = hits.get(distance, 0) + int(wanted.diagonal(distance).sum())
    return max(hits.values(), default=0) / max(1, places)


def by_chance(texts: Sequence[CountedText], target: Target, causal: bool) -> float:
    """The weight on the target of a head with equal weights."""
    total, count = 0.0, 0
    for text in texts:
        wanted = targets_in(text, target)
        rows, length = wanted.any(-1), len(wanted)
        seen = torch.arange(1, length + 1).float() if causal else torch.full((length,), float(length))
        total += float((wanted.sum(-1)[rows] / seen[rows]).sum())
        count += int(rows.sum())
    return total / max(1, count)


def find_roles(subject: Subject, stack: StackName, texts: Sequence[Inputs]) -> Iterator[Head]:
    """Every head with every role it can have, with intervals."""
    heads = stacks(subject.model)[stack].heads
    for given, targets, chance in (
        ([(inputs, 0) for inputs in texts], PLACES, by_chance),
        (repeated(subject), CONTENTS, best_distance),
    ):
        tables, causal = mean_weights(subject, stack, given, targets)
        for role, table in tables.items():
            known = table[~np.isnan(table).any(1)]  # causal attention has no next position
            baseline = chance(given, targets[role], causal)
            for place, share in enumerate(shares(known, np.ones(len(known))) if len(known) else ()):
                yield Head(stack, *divmod(place, heads), role, *share, baseline)


def shares(hits: Array, count: Array) -> list[tuple[float, float, float]]:
    """For each column of `hits`, (texts, columns), its fraction of `count`, and both ends of the interval over texts;
    the fraction itself where there is no interval."""
    estimates = bootstrap(
        np.ones(len(count), dtype=np.int64), lambda drawn: (drawn @ hits) / np.maximum(1, drawn @ count)[:, None]
    )
    values = [(estimate.value or 0.0, estimate.low, estimate.high) for estimate in estimates]
    return [(v, v if low is None else low, v if high is None else high) for v, low, high in values]


def ranked(heads: Sequence[Head]) -> list[Head]:
    """The clearest role of each head, the heads furthest above their baseline first."""
    best: dict[tuple[StackName, int, int], Head] = {}
    for head in heads:
        key = head.stack, head.layer, head.head
        if key not in best or _above(head) > _above(best[key]):
            best[key] = head
    return sorted(best.values(), key=_above, reverse=True)


def _above(head: Head) -> float:
    """The score above the baseline, as a fraction of what is possible."""
    return (head.score - head.baseline) / max(1e-9, 1 - head.baseline)
