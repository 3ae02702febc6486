"""Decodes translations: greedy decoding, sampling, or beam search (Sutskever et al. 2014).

    score(y) = Σ_t log p(y_t | y_<t, x) / |y|^penalty        |y| includes the end token

This length penalty is Marian's and Hugging Face's; Wu et al. 2016, eq. 14, divide by ((5 + |y|) / 6)^α. The search
keeps the best `beams` unfinished hypotheses of each source. It stops when `beams` hypotheses are finished and the best
unfinished one, with the penalty for its present length, is no better than the worst of them. With one beam it is
greedy.

The encoder's output for a source is stored once, however many hypotheses (rows) it has, and finished sources leave the
batch. The best next tokens of each row are found by compiled C (`beam.c`), which needs no table of all log
probabilities, or else by torch. Letters: R rows, n for each of B sources, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv import ranges
from qkv.blocks.fast_paths import packed
from qkv.blocks.state import State
from qkv.errors import InputError
from qkv.generation.branches import branching
from qkv.generation.compiler import address, library
from qkv.generation.sampling import NEVER, Sampling, pick
from qkv.objectives.objective import padded

BLOCK = 32  # `largest` first finds the maximum of each block of this many scores
Candidates = tuple[Float[Tensor, "R m"], Int[Tensor, "R m"]]


def candidates(logits: Float[Tensor, "R V"], count: int, never: Int[Tensor, " n"]) -> Candidates:
    """The log-probabilities of the best `count` tokens of each row, and the tokens. `never` are tokens that must not be
    generated. Of equally good tokens, C takes the first."""
    enough = logits.size(1) >= count + len(never)
    if logits.device.type != "cpu" or logits.dtype != torch.float32 or not enough or library() is None:
        return largest(logits.log_softmax(-1).index_fill_(1, never, NEVER), count)
    logits = logits.contiguous()
    top, tokens = logits.new_empty(len(logits), count), never.new_empty(len(logits), count)
    library().candidates(
        address(logits), *logits.shape, address(never), len(never), count, address(top), address(tokens),
        torch.get_num_threads(),
    )  # fmt: skip
    return top, tokens


def largest(scores: Float[Tensor, "R V"], count: int) -> Candidates:
    """The largest scores of each row and their positions. In a large vocabulary only the blocks with the largest maxima
    are searched further."""
    vocabulary = scores.size(1)
    blocks = vocabulary // BLOCK
    if blocks < 2 * count:
        return scores.topk(min(count, vocabulary))
    whole = blocks * BLOCK
    parts = scores[:, :whole].reshape(-1, blocks, BLOCK)
    chosen = parts.amax(2).topk(count).indices
    positions = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    rest = torch.arange(whole, vocabulary, device=scores.device).expand(len(scores), -1)
    positions = torch.cat([positions, rest], 1)
    top, index = scores.gather(1, positions).topk(count)
    return top, positions.gather(1, index)


GREEDY = Sampling(temperature=0.0)


@runtime_checkable
class Translator(Protocol):
    """The interface of a translation model. Several neighbouring rows share the memory (encoder output) of one source.

    Unlike a language model it has no `vocabulary`, so that it is not mistaken for one.
    """

    context: int

    def encode(self, source: Int[Tensor, "B S"], present: Bool[Tensor, "B S"]) -> Float[Tensor, "B S D"]: ...
    def decode(
        self,
        tokens: Int[Tensor, "R T"],
        memory: Float[Tensor, "B S D"],
        present: Bool[Tensor, "B S"],
        state: Any = None,  # its own kind of `State`
    ) -> Float[Tensor, "R T V"]: ...
    def state(self, rows: int, capacity: int | None = None) -> State: ...


@dataclass(frozen=True)
class Hypothesis:
    """One translation: its ids without the start and end tokens, their log-probability (with the end token), its
    score."""

    tokens: list[int]
    logprob: float
    score: float
    ended: bool  # False: it was cut off at the longest length


@dataclass(frozen=True)
class Search:
    """The settings of the search. With `sampling`, `best` translations are sampled, each with its own random
    generator."""

    beams: int = 1
    penalty: float = 1.0
    best: int = 1  # how many translations of each source
    sampling: Sampling | None = None
    seed: int = 0
    ratio: float = 2.0  # a translation has at most ratio · source + room tokens, and never more than the context
    room: int = 10
    never: Collection[int] = field(default=())  # ids that are not generated: padding, or a start that is not the end

    def __post_init__(self) -> None:
        ranges.BEAMS.require("beams", self.beams)
        ranges.BEAMS.require("best", self.best)
        ranges.LENGTH_PENALTY.require("penalty", self.penalty)
        if self.sampling is None and self.best > self.beams:
            raise InputError(f"the {self.best} best of {self.beams} beams: ask for at least {self.best} beams.")

    def limit(self, length: int, context: int) -> int:
        return max(1, min(context, int(self.ratio * length) + self.room))


def translate(
    model: Translator,
    sources: Sequence[Sequence[int]],
    search: Search,
    *,
    start: int,
    end: int,
    rows: int = 64,
    numbers: Sequence[int] | None = None,
    device: str = "cpu",
    on_progress: Callable[[int], None] | None = None,
) -> list[list[Hypothesis]]:
    """The translations of each source, best first, in the order of the sources. A batch has sources of similar length;
    `on_progress` is called with the number of sources that are done.

    For sampling, each source has its own random numbers, which depend on its number: its index, or that in `numbers`.
    """
    by_source: list[list[Hypothesis]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda number: -len(sources[number]))
    steps = branching(model)  # before the weights are packed, which replaces `forward` of the linear layers
    with torch.inference_mode(), packed(model) if isinstance(model, nn.Module) else nullcontext():
        for first in range(0, len(order), rows):
            batch = order[first : first + rows]
            source, present = (table.to(device) for table in padded([sources[number] for number in batch], end))
            limits = [search.limit(len(sources[number]), model.context) for number in batch]
            rest = UnfinishedSources(steps, steps.encode(source, present), present, limits, start)
            drawn = batch if numbers is None else [numbers[number] for number in batch]
            texts = beam_search(rest, search, end) if search.sampling is None else sample(rest, search, end, drawn)
            for number, hypotheses in zip(batch, texts, strict=True):
                by_source[number] = hypotheses
            if on_progress:
                on_progress(first + len(batch))
    return by_source


class UnfinishedSources:
    """The sources of a batch that are not done: their memories, the state of their rows, and the last tokens."""

    def __init__(self, model: Translator, memory: Tensor, present: Tensor, limits: list[int], start: int) -> None:
        self.model, self.memory, self.present, self.limits = model, memory, present, limits
        self.sources = list(range(len(memory)))  # their numbers in the batch
        self.state = model.state(len(memory), max(limits))
        self.tokens = torch.full((len(memory), 1), start, device=memory.device)
        self.length = 0

    def logits(self) -> Float[Tensor, "R V"]:
        self.length += 1
        return self.model.decode(self.tokens, self.memory, self.present, self.state)[:, -1].float()

    def keep(self, open_: list[int], rows: list[int], tokens: Int[Tensor, "R"]) -> None:
        """Keep only the `open_` sources and these rows, each with its new token. All indices count the present ones."""
        if not open_:
            self.sources = []
            return
        if len(open_) < len(self.sources):
            which = torch.tensor(open_, device=self.memory.device)
            self.memory, self.present = self.memory[which], self.present[which]
            self.sources, self.limits = ([own[row] for row in open_] for own in (self.sources, self.limits))
        if rows != list(range(len(self.tokens))):
            self.state = self.state.rows(rows)
        self.tokens = tokens.unsqueeze(1)


def beam_search(rest: UnfinishedSources, search: Search, end: int) -> list[list[Hypothesis]]:
    """The best translations of each source, best first."""
    beams, device = search.beams, rest.memory.device
    never = torch.tensor(list(search.never), dtype=torch.long, device=device)
    finished: list[list[Hypothesis]] = [[] for _ in rest.sources]
    totals = torch.zeros(len(finished), 1, device=device)  # (B, n): one row a source before the first token
    written = rest.tokens.new_empty(len(finished), 1, 0)  # (B, n, T)
    while rest.sources:
        top, tokens = candidates(rest.logits(), 2 * beams, never)  # twice as many: half of them may end
        divisor = rest.length**search.penalty
        sums = (top.view(*totals.shape, -1) + totals.unsqueeze(2)).flatten(1)  # (R, m) -> (B, n m)
        best, positions = sums.topk(min(2 * beams, sums.size(1)))
        beam, token = positions // top.size(1), tokens.view(len(totals), -1).gather(1, positions)
        over = torch.tensor(rest.limits, device=device).unsqueeze(1) <= rest.length
        ending = (token == end) | over
        longer = torch.cat([written.take_along_dim(beam.unsqueeze(2), 1), token.unsqueeze(2)], 2)
        done = (ending & best.isfinite())[:, :beams]
        numbers = [rest.sources[row] for row in done.nonzero()[:, 0].tolist()]
        texts = zip(longer[:, :beams][done].tolist(), best[:, :beams][done].tolist(), strict=True)
        for number, (ids, total) in zip(numbers, texts, strict=True):
            finished[number].append(hypothesis(ids, total, total / divisor, end))
        for number in set(numbers):
            finished[number] = sorted(finished[number], key=lambda text: -text.score)[:beams]
        order = ending.int().argsort(stable=True, dim=1)[:, :beams]  # the unfinished ones first, the best of them first
        totals = best.masked_fill(ending, NEVER).gather(1, order)
        leading = (totals[:, 0] / divisor).tolist()
        going = [row for row, number in enumerate(rest.sources) if can_win(leading[row], finished[number], beams)]
        kept = torch.tensor(going, dtype=torch.long, device=device)
        order, totals = order[kept], totals[kept]
        rows = beam[kept].gather(1, order) + kept.unsqueeze(1) * written.size(1)
        written = longer[kept].take_along_dim(order.unsqueeze(2), 1)
        rest.keep(going, rows.flatten().tolist(), written[:, :, -1].flatten())
    return [hypotheses[: search.best] for hypotheses in finished]


def can_win(score: float, finished: list[Hypothesis], beams: int) -> bool:
    """Whether an unfinished hypothesis with this score may still become one of the best."""
    return score > NEVER and (len(finished) < beams or score > finished[-1].score)


def hypothesis(ids: list[int], logprob: float, score: float, end: int) -> Hypothesis:
    ended = ids[-1] == end
    return Hypothesis(ids[:-1] if ended else ids, logprob, score, ended)


def sample(rest: UnfinishedSources, search: Search, end: int, numbers: Sequence[int]) -> list[list[Hypothesis]]:
    """`search.best` sampled translations of each source, not sorted. At temperature 0 each step takes the likeliest
    token.

    The random numbers depend on the number of the source, so its translations do not depend on the rest of the batch.
    """
    sampling, best = search.sampling or GREEDY, search.best
    device, count = rest.memory.device, len(rest.sources) * best
    never = torch.tensor(list(search.never), dtype=torch.long, device=device)
    seeds = [search.seed * 1_000_003 + number * best + k for number in numbers for k in range(best)]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    done: dict[int, Hypothesis] = {}
    totals, written = torch.zeros(count, device=device), rest.tokens.new_empty(count, 0)
    running = list(range(count))
    rest.keep(rest.sources, [row // best for row in running], rest.tokens.squeeze(1).repeat_interleave(best))
    while rest.sources:
        logits = rest.logits()
        drawn = [
            0.0 if sampling.temperature == 0 else torch.rand(1, generator=generators[row]).item() for row in running
        ]
        uniform = torch.tensor(drawn, device=device)
        chosen = pick(logits.index_fill(1, never, NEVER), sampling, written, uniform)
        totals = totals + logits.log_softmax(-1).gather(1, chosen.unsqueeze(1)).squeeze(1)
        written = torch.cat([written, chosen.unsqueeze(1)], 1)
        for row, token in enumerate(chosen.tolist()):
            number = running[row]
            if number not in done and (token == end or rest.length >= rest.limits[row // best]):
                total = float(totals[row])
                done[number] = hypothesis(written[row].tolist(), total, total / rest.length**search.penalty, end)
        going = [
            source for source in range(len(running) // best)
            if not done.keys() >= set(running[source * best : (source + 1) * best])
        ]  # fmt: skip
        rows = [source * best + k for source in going for k in range(best)]
        running = [running[row] for row in rows]
        totals, written = totals[rows], written[rows]
        rest.keep(going, rows, chosen[rows])
    return [[done[number] for number in range(first, first + best)] for first in range(0, count, best)]
