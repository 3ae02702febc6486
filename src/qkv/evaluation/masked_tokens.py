"""Scores of a masked language model: how many masked tokens it predicts, how sure it is, whether it knows what follows.

What is masked is drawn from a fixed seed and stays the same from model to model. The baseline needs no model: always
the most frequent token, with the frequencies of the training text as its probabilities. The pseudo-perplexity masks
each token of a text in turn (Salazar et al. 2020): exp of the mean of -log p(token | the rest).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from qkv.blocks.fast_paths import evaluating
from qkv.data.split import even_order
from qkv.evaluation.intervals import SHARE, Array, Difference, bootstrap_rows, paired, share, share_of_totals
from qkv.evaluation.perplexity import NUMBERS, TOKENS, perplexity
from qkv.evaluation.perplexity import parts as stretches
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked
from qkv.objectives.masked_language_modelling import (
    MaskedBatch,
    MaskedLanguageModelling,
    MaskedLanguageModellingConfig,
    MaskingVocabulary,
    encode,
)
from qkv.visible import ShownResult

SEED = 1_000_003  # of what is masked


@dataclass(frozen=True, repr=False)
class MaskedScore(ShownResult):
    """Means over the masked tokens of a text, with their 95 % intervals; for masked tokens these are drawn from passage
    to passage, because the tokens of a passage depend on each other."""

    loss: float  # nats a masked token
    loss_low: float
    loss_high: float
    perplexity: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    baseline_loss: float  # by frequency alone
    baseline_accuracy: float
    masked_tokens: int
    followed_accuracy: float  # of "does B follow A?"; none is asked: nan, and 0 pairs
    followed_low: float
    followed_high: float
    pairs: int
    pseudo_perplexity: float
    pseudo_tokens: int
    compared: Difference  # the accuracy less that of the most frequent token
    parts: tuple[float, ...] = field(default=(), repr=False)  # the losses of some stretches of the text
    passages: Array = field(default_factory=lambda: np.zeros((0, 4)), repr=False, compare=False)
    """Of each passage: the sum of losses, masked tokens that are right, those the baseline has right, masked tokens."""
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of one's own

    def values(self) -> dict[str, float]:
        known = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        return {name: value for name, value in {**known, **self.own}.items() if value == value}


def frequencies(stream: Array, vocabulary: MaskingVocabulary) -> NDArray[np.float64]:
    """How often each token is, of all that may be masked; each counted once more, so that none is impossible."""
    counts = np.bincount(stream, minlength=len(vocabulary.ordinary)) + 1.0
    counts[~vocabulary.ordinary] = 0
    return counts / counts.sum()


@torch.inference_mode()
def score(
    model: Masked,
    stream: Array,
    vocabulary: MaskingVocabulary,
    frequency: NDArray[np.float64],
    config: MaskedLanguageModellingConfig,
    *,
    limit: int | None = None,
    pseudo: int = 512,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    pace: Pace | None = None,
) -> MaskedScore:
    """Score a text, or a sample of about `limit` of its tokens; `frequency`: `frequencies` of the training text.

    Samples are in a drawn order: where `pace` has no time for all, the first of them are as good as any.

    About `pseudo` tokens are masked one by one; 0: none.
    """
    task = MaskedLanguageModelling(config, stream, vocabulary, model.context, SEED)
    samples = task.samples if limit is None else min(task.samples, max(1, limit // task.length))
    logits = model.vocabulary * max(1.0, config.share * model.context)  # of a sample
    together = max(1, min(TOKENS // model.context, int(NUMBERS / logits)))
    parts: list[tuple[Array, ...]] = []
    single: list[Array] = [np.zeros(0)]
    pace = pace or Pace()
    with evaluating(model):
        for start, stop in pace.part(2 if pseudo else 1).portions(samples, together):
            for first in range(start, stop, together):
                batch = task.batch(first, min(together, stop - first))
                with autocast():
                    parts.append(answers(model, batch))
                pace.reached(first + len(batch.tokens), samples)
        with autocast():
            for losses in one_by_one(model, stream, vocabulary, pseudo) if pseudo else ():
                single.append(losses)
                if pace.now() > pace.ends_at:
                    break
    losses, right, targets, known, masked = (np.concatenate(column) for column in zip(*parts, strict=True))
    usual, alone = targets == frequency.argmax(), np.concatenate(single)
    own = np.repeat(np.arange(len(masked)), masked)
    columns = (losses.astype(np.float64), right, usual)
    passages = np.stack([*(np.bincount(own, column, len(masked)) for column in columns), masked], axis=1)
    worst = max(math.log(model.vocabulary), float((passages[:, 0] / np.maximum(1, masked)).max(initial=0.0)))

    def means(drawn: Array, kinds: Array) -> Array:
        totals = drawn @ kinds
        return totals[:, :2] / np.maximum(1, totals[:, 3:])

    loss, accuracy = bootstrap_rows(passages, means, [(0.0, worst), SHARE])
    followed = share(int(known.sum()), len(known))
    return MaskedScore(
        loss=number(loss.value),
        loss_low=number(loss.low),
        loss_high=number(loss.high),
        perplexity=perplexity(number(loss.value)),
        accuracy=number(accuracy.value),
        accuracy_low=number(accuracy.low),
        accuracy_high=number(accuracy.high),
        baseline_loss=-float(np.log(frequency[targets]).mean()),
        baseline_accuracy=float(usual.mean()),
        masked_tokens=len(targets),
        followed_accuracy=number(followed.value),
        followed_low=number(followed.low),
        followed_high=number(followed.high),
        pairs=len(known),
        pseudo_perplexity=perplexity(float(alone.mean(dtype=np.float64))) if len(alone) else math.nan,
        pseudo_tokens=len(alone),
        compared=paired(passages[:, [1, 3]], passages[:, [2, 3]], share_of_totals),
        parts=stretches(passages[:, 0], masked),
        passages=passages,
    )


def number(value: float | None) -> float:
    return math.nan if value is None else value


def answers(model: Masked, batch: MaskedBatch) -> tuple[Array, ...]:
    """-log p of each masked token, whether it was predicted, which it is; for each pair, whether it is right; how many
    tokens of each passage are masked."""
    batch = batch.to(str(next(model.parameters()).device)).trimmed()
    vectors = encode(model, batch)
    logits, targets = model.head(vectors[batch.predicted]).float(), batch.targets[batch.predicted]
    losses = F.cross_entropy(logits, targets, reduction="none")
    pairs = not isinstance(model.order, nn.Identity) and bool((batch.segments > 0).any())
    known = model.followed(vectors).argmax(-1) == batch.unrelated if pairs else targets[:0]
    masked = batch.predicted.sum(1)
    return tuple(column.cpu().numpy() for column in (losses, logits.argmax(-1) == targets, targets, known, masked))


def one_by_one(model: Masked, stream: Array, vocabulary: MaskingVocabulary, limit: int) -> Iterator[Array]:
    """-log p of each token when it alone is masked, in whole texts at even distances, for about `limit` tokens."""
    single = MaskedLanguageModellingConfig(next_sentence="none")
    task = MaskedLanguageModelling(single, stream, vocabulary, model.context, SEED)
    wanted = min(task.samples, max(1, limit // task.length))
    device = next(model.parameters()).device
    for sample in even_order(task.samples, wanted).tolist():
        ids = stream[sample * task.length : (sample + 1) * task.length].astype(np.int64)
        row = torch.tensor([vocabulary.opening, *ids, vocabulary.separator])
        places = torch.from_numpy(np.flatnonzero(vocabulary.ordinary[row]))
        for part in torch.split(places, max(1, TOKENS // len(row))):
            rows = row.repeat(len(part), 1)
            rows[torch.arange(len(part)), part] = vocabulary.mask
            vectors = model.encoder(rows.to(device))[torch.arange(len(part)), part]
            losses = F.cross_entropy(model.head(vectors).float(), row[part].to(device), reduction="none")
            yield losses.cpu().numpy()
