"""The head finder: what each head looks at, over many texts, with intervals (deck 001, "what do heads learn?").

    previous, next, first, itself    the weight on that place, beside that of a head which looks at all places alike
    same                            the weight on the same piece elsewhere, beside the best fixed distance
    induction                       in a b c … a, the weight on what came after the first a (Olsson et al. 2022), on
                                    random pieces that repeat after a distance drawn anew for each text, so that no
                                    fixed distance can guess it; beside the best fixed distance

Intervals are of the bootstrap over texts. A role that only a later place could play is left out for causal models.

All that the head finder knows, in one ranked table: roles, gold edges, alignments, then what the first are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.evaluation.intervals import bootstrap
from qkv.inspection.attention_pass import Attended, walk
from qkv.inspection.subject import Inputs, StackName, Subject, stacks

RANDOM_TEXTS = 12
PERIODS = (12, 40)  # of repeated random pieces, drawn for each text
REACH = 48  # fixed distances that are tried
SEED = 11
Array = NDArray[Any]
Target = Callable[[Sequence[int]], Tensor]  # ids -> (T, T), True where a head with this role looks


@dataclass(frozen=True)
class Head:
    """One head's best role. `without` and `only`: the loss with it taken out, and with it alone in its layer."""

    stack: StackName
    layer: int
    head: int
    role: str
    score: float
    baseline: float
    low: float
    high: float
    whole: float | None = None
    without: float | None = None
    only: float | None = None
    measured: str | None = None  # on which texts: those that were read, or random pieces that repeat

    @property
    def name(self) -> str:
        """As people count, from 1."""
        return f"{self.layer + 1}.{self.head + 1}"

    def values(self) -> dict[str, Any]:
        """For JSON: as people count, from 1."""
        return {**asdict(self), "layer": self.layer + 1, "head": self.head + 1}


def offset(distance: int) -> Target:
    def target(ids: Sequence[int]) -> Tensor:
        return torch.ones(len(ids), len(ids)).triu(distance).tril(distance).bool()

    return target


def first(ids: Sequence[int]) -> Tensor:
    found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    found[1:, 0] = True
    return found


def same(ids: Sequence[int]) -> Tensor:
    """The same piece elsewhere."""
    row = torch.tensor(list(ids))
    return (row.unsqueeze(0) == row.unsqueeze(1)) & ~torch.eye(len(ids), dtype=torch.bool)


def induction(ids: Sequence[int]) -> Tensor:
    """What came after this piece before: (t, s) where ids[s - 1] == ids[t] and s ≤ t."""
    row = torch.tensor(list(ids))
    found = torch.zeros(len(ids), len(ids), dtype=torch.bool)
    found[:, 1:] = row[:-1].unsqueeze(0) == row.unsqueeze(1)
    return found.tril(0)


PLACES: dict[str, Target] = {"previous": offset(-1), "next": offset(1), "first": first, "itself": offset(0)}


def repeated(subject: Subject, number: int = RANDOM_TEXTS) -> tuple[list[Inputs], list[int]]:
    """Random pieces twice in a row, each text with its own distance; and from where on each repeats."""
    drawn, context = np.random.default_rng(SEED), subject.context(2 * PERIODS[1])
    special = set(subject.tokenizer.named.values())
    known = [each for each in range(subject.tokenizer.vocabulary) if each not in special]
    opening, closing = subject.tokenizer.opening, subject.tokenizer.closing
    high = max(3, min(PERIODS[1], (context - len(opening) - len(closing)) // 2))
    texts, begin = [], []
    for _ in range(number):
        period = int(drawn.integers(min(PERIODS[0], high - 1), high))
        ids = [known[each] for each in drawn.integers(0, len(known), period)]
        texts.append(Inputs((*opening, *ids, *ids, *closing)))
        begin.append(len(opening) + period)
    return texts, begin


class Tally:
    """The weight that each head of a tower puts on targets, text by text."""

    def __init__(self, subject: Subject, stack: StackName) -> None:
        self.subject, self.stack = subject, stack
        self.causal = False

    def shares(
        self, texts: Sequence[Inputs], targets: Mapping[str, Target], begin: Sequence[int] | None = None
    ) -> dict[str, Array]:
        """(N, L H) for each target: the mean weight on it over the places that have one; nan where a text has none."""
        tower = stacks(self.subject.model)[self.stack]
        found = {name: np.full((len(texts), len(tower.layers), tower.heads), np.nan) for name in targets}
        for number, inputs in enumerate(texts):
            wanted = {name: target(inputs.tokens) for name, target in targets.items()}
            for each in wanted.values():
                each[: 0 if begin is None else begin[number]] = False
            see = partial(self._see, wanted=wanted, found={name: table[number] for name, table in found.items()})
            walk(self.subject.reading(inputs), see, layers={self.stack: range(len(tower.layers))})
        return {name: table.reshape(len(texts), -1) for name, table in found.items()}

    def _see(self, each: Attended, wanted: dict[str, Tensor], found: dict[str, Array]) -> None:
        self.causal = each.causal
        for name, target in wanted.items():
            reachable = target.to(each.allowed.device) & each.allowed
            rows = reachable.any(-1)
            if rows.any():
                mass = (each.weights * reachable).sum(-1)[:, rows].mean(-1)
                found[name][each.layer] = mass.cpu().numpy()


def best_distance(texts: Sequence[Inputs], target: Target, begin: Sequence[int] | None, causal: bool) -> float:
    """How often the best fixed distance finds the target: the share of places, over all texts."""
    hits: dict[int, int] = {}
    places = 0
    for number, inputs in enumerate(texts):
        wanted = target(inputs.tokens)
        if begin is not None:
            wanted[: begin[number]] = False
        wanted = wanted.tril(0) if causal else wanted
        places += int(wanted.any(-1).sum())
        reach = min(REACH, len(wanted) - 1)
        for distance in range(-reach, 1 if causal else reach + 1):
            hits[distance] = hits.get(distance, 0) + int(wanted.diagonal(distance).sum())
    return max(hits.values(), default=0) / max(1, places)


def by_chance(texts: Sequence[Inputs], target: Target, causal: bool) -> float:
    """What a head that looks at all places alike gives to the target."""
    total, count = 0.0, 0
    for inputs in texts:
        wanted, length = target(inputs.tokens), len(inputs.tokens)
        rows = wanted.any(-1)
        seen = torch.arange(1, length + 1).float() if causal else torch.full((length,), float(length))
        total += float((wanted.sum(-1)[rows] / seen[rows]).sum())
        count += int(rows.sum())
    return total / max(1, count)


def found_roles(subject: Subject, stack: StackName, texts: Sequence[Inputs]) -> Iterator[Head]:
    """Every head with every role it can have, with intervals."""
    tally, tower = Tally(subject, stack), stacks(subject.model)[stack]
    drawn, begin = repeated(subject)
    contents: dict[str, Target] = {"same": same, "induction": induction}
    tables = {**tally.shares(texts, PLACES), **tally.shares(drawn, contents, begin)}
    for role, table in tables.items():
        if role in PLACES:
            baseline = by_chance(texts, PLACES[role], tally.causal)
        else:
            baseline = best_distance(drawn, contents[role], begin, tally.causal)
        there = table[~np.isnan(table).any(1)]  # nobody who may not look ahead has a next place
        if not len(there):
            continue
        for place, each in enumerate(shares(there, np.ones(len(there)))):
            yield Head(stack, *divmod(place, tower.heads), role, each.value, baseline, each.low, each.high)


@dataclass(frozen=True)
class HeadShare:
    """A share and its interval; where that is unknown, the share alone."""

    value: float
    low: float
    high: float


def shares(hits: Array, count: Array) -> list[HeadShare]:
    """Of each column of `hits`, (texts, columns), its share of what `count` counts, with its interval over texts."""

    def statistic(drawn: Array) -> Array:
        found: Array = (drawn @ hits) / np.maximum(1, drawn @ count)[:, None]
        return found

    estimates = bootstrap(np.ones(len(count), dtype=np.int64), statistic)
    values = [(each.value or 0.0, each.low, each.high) for each in estimates]
    return [HeadShare(v, v if low is None else low, v if high is None else high) for v, low, high in values]


def ranked(heads: Sequence[Head]) -> list[Head]:
    """Of each head its clearest role, the heads that are furthest above their baseline first."""
    best: dict[tuple[StackName, int, int], Head] = {}
    for each in heads:
        key = each.stack, each.layer, each.head
        if key not in best or _above(each) > _above(best[key]):
            best[key] = each
    return sorted(best.values(), key=_above, reverse=True)


def _above(head: Head) -> float:
    """How much of what is left above the baseline is reached."""
    return (head.score - head.baseline) / max(1e-9, 1 - head.baseline)
