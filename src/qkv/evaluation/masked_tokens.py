"""Scores of a masked language model: masked-token accuracy, loss, and the accuracy of next-sentence prediction.

The masked positions are drawn with a fixed seed, so they are the same for every model. The baseline always predicts the
most frequent token, and its probabilities are the frequencies of tokens in the training text. The pseudo-perplexity
masks each token of a text in turn (Salazar et al. 2020): exp of the mean of -log p(token | the rest).
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
from qkv.evaluation import intervals
from qkv.evaluation.intervals import PROPORTION, Array, Difference, bootstrap_rows, paired, ratio_of_totals
from qkv.evaluation.perplexity import MAX_LOGITS, MAX_TOKENS, part_losses, perplexity
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

SEED = 1_000_003  # of the masked positions


@dataclass(frozen=True, repr=False)
class MaskedScore(ShownResult):
    """Means over the masked tokens of a text, with 95 % intervals. The bootstrap draws passages, because the tokens of
    one depend on each other."""

    loss: float  # nats a masked token
    loss_low: float
    loss_high: float
    perplexity: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    baseline_loss: float  # of the frequencies of tokens
    baseline_accuracy: float
    masked_tokens: int
    followed_accuracy: float  # of next-sentence prediction; nan without pairs
    followed_low: float
    followed_high: float
    pairs: int
    pseudo_perplexity: float
    pseudo_tokens: int
    compared: Difference  # the accuracy minus that of the most frequent token
    parts: tuple[float, ...] = field(default=(), repr=False)  # the losses of consecutive parts of the text
    passages: Array = field(default_factory=lambda: np.zeros((0, 4)), repr=False, compare=False)
    """Of each passage: the sum of losses, the correct predictions, those of the baseline, the masked tokens."""
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of the user's own

    def values(self) -> dict[str, float]:
        known = {name: value for name, value in vars(self).items() if isinstance(value, int | float)}
        return {name: value for name, value in {**known, **self.own}.items() if value == value}


def frequencies(stream: Array, vocabulary: MaskingVocabulary) -> NDArray[np.float64]:
    """The relative frequency of each token that may be masked; one is added to each count, so that none is zero."""
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
    """Score a text, or a sample of about `limit` of its tokens; `frequency` has the `frequencies` of the training text.

    Samples come in a random order, so that those for which `pace` has time represent all. About `pseudo` tokens are
    masked one by one; 0: none.
    """
    task = MaskedLanguageModelling(config, stream, vocabulary, model.context, SEED)
    samples = task.samples if limit is None else min(task.samples, max(1, limit // task.length))
    logits = model.vocabulary * max(1.0, config.share * model.context)  # of a sample
    together = max(1, min(MAX_TOKENS // model.context, int(MAX_LOGITS / logits)))
    results: list[tuple[Array, ...]] = []
    single: list[Array] = [np.zeros(0)]
    pace = pace or Pace()
    with evaluating(model):
        for start, stop in pace.next_share(2 if pseudo else 1).portions(samples, together):
            for first in range(start, stop, together):
                batch = task.batch(first, min(together, stop - first))
                with autocast():
                    results.append(batch_results(model, batch))
                pace.report(first + len(batch.tokens), samples)
        with autocast():
            for losses in pseudo_losses(model, stream, vocabulary, pseudo) if pseudo else ():
                single.append(losses)
                if pace.now() > pace.ends_at:
                    break
    losses, correct, targets, followed, masked = (np.concatenate(column) for column in zip(*results, strict=True))
    baseline_correct, pseudo_nats = targets == frequency.argmax(), np.concatenate(single)
    passage = np.repeat(np.arange(len(masked)), masked)  # of each masked token
    columns = (losses.astype(np.float64), correct, baseline_correct)
    passages = np.stack([*(np.bincount(passage, column, len(masked)) for column in columns), masked], axis=1)
    worst = max(math.log(model.vocabulary), float((passages[:, 0] / np.maximum(1, masked)).max(initial=0.0)))

    def means(drawn: Array, distinct: Array) -> Array:
        totals = drawn @ distinct
        return totals[:, :2] / np.maximum(1, totals[:, 3:])

    loss, accuracy = bootstrap_rows(passages, means, [(0.0, worst), PROPORTION])
    followed_accuracy = intervals.proportion(int(followed.sum()), len(followed))
    return MaskedScore(
        loss=or_nan(loss.value),
        loss_low=or_nan(loss.low),
        loss_high=or_nan(loss.high),
        perplexity=perplexity(or_nan(loss.value)),
        accuracy=or_nan(accuracy.value),
        accuracy_low=or_nan(accuracy.low),
        accuracy_high=or_nan(accuracy.high),
        baseline_loss=-float(np.log(frequency[targets]).mean()),
        baseline_accuracy=float(baseline_correct.mean()),
        masked_tokens=len(targets),
        followed_accuracy=or_nan(followed_accuracy.value),
        followed_low=or_nan(followed_accuracy.low),
        followed_high=or_nan(followed_accuracy.high),
        pairs=len(followed),
        pseudo_perplexity=perplexity(float(pseudo_nats.mean(dtype=np.float64))) if len(pseudo_nats) else math.nan,
        pseudo_tokens=len(pseudo_nats),
        compared=paired(passages[:, [1, 3]], passages[:, [2, 3]], ratio_of_totals),
        parts=part_losses(passages[:, 0], masked),
        passages=passages,
    )


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def batch_results(model: Masked, batch: MaskedBatch) -> tuple[Array, ...]:
    """For each masked token, -log p, whether it is predicted, and its id; for each pair, whether it is classified
    correctly; for each passage, the number of masked tokens."""
    batch = batch.to(str(next(model.parameters()).device)).trimmed()
    vectors = encode(model, batch)
    logits, targets = model.head(vectors[batch.predicted]).float(), batch.targets[batch.predicted]
    losses = F.cross_entropy(logits, targets, reduction="none")
    pairs = not isinstance(model.order, nn.Identity) and bool((batch.segments > 0).any())
    followed = model.followed(vectors).argmax(-1) == batch.unrelated if pairs else targets[:0]
    masked = batch.predicted.sum(1)
    return tuple(column.cpu().numpy() for column in (losses, logits.argmax(-1) == targets, targets, followed, masked))


def pseudo_losses(model: Masked, stream: Array, vocabulary: MaskingVocabulary, limit: int) -> Iterator[Array]:
    """Yield -log p of tokens masked one at a time, about `limit` of them, in evenly spaced samples."""
    single = MaskedLanguageModellingConfig(next_sentence="none")
    task = MaskedLanguageModelling(single, stream, vocabulary, model.context, SEED)
    wanted = min(task.samples, max(1, limit // task.length))
    device = next(model.parameters()).device
    for sample in even_order(task.samples, wanted).tolist():
        ids = stream[sample * task.length : (sample + 1) * task.length].astype(np.int64)
        row = torch.tensor([vocabulary.opening, *ids, vocabulary.separator])
        positions = torch.from_numpy(np.flatnonzero(vocabulary.ordinary[row]))
        for part in torch.split(positions, max(1, MAX_TOKENS // len(row))):
            rows = row.repeat(len(part), 1)
            rows[torch.arange(len(part)), part] = vocabulary.mask
            vectors = model.encoder(rows.to(device))[torch.arange(len(part)), part]
            losses = F.cross_entropy(model.head(vectors).float(), row[part].to(device), reduction="none")
            yield losses.cpu().numpy()
