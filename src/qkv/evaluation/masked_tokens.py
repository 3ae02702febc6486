"""Scores of a model that fills gaps: how many hidden pieces it tells, how sure it is, whether it knows what follows.

The gaps are drawn from a seed of their own and stay the same from model to model. Beside them stands what needs no
model: always the most frequent piece, with the frequencies of the training text as its probabilities. The
pseudo-perplexity hides each piece of a text in turn (Salazar et al. 2020): exp of the mean of -log p(piece | the rest).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from qkv.data.split import even_order
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked
from qkv.objectives.masked_language_modelling import (
    MaskedBatch,
    MaskedLanguageModelling,
    MaskedLanguageModellingConfig,
    MaskingVocabulary,
    encode,
)

SEED = 1_000_003  # of the gaps
TOKENS, NUMBERS = 2**13, 2**24  # computed at once: no more tokens, and no more logits, than that


@dataclass(frozen=True)
class MaskedScore:
    """Means over the hidden pieces of a text; shares with their 95 % intervals (Wilson 1927)."""

    loss: float  # nats a hidden piece
    perplexity: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    baseline_loss: float  # by frequency alone
    baseline_accuracy: float
    pieces: int  # that were hidden
    followed_accuracy: float  # of "does B follow A?"; none is asked: nan, and 0 pairs
    followed_low: float
    followed_high: float
    pairs: int
    pseudo_perplexity: float
    pseudo_pieces: int

    def values(self) -> dict[str, float]:
        return {name: value for name, value in asdict(self).items() if value == value}


def frequencies(stream: NDArray[Any], pieces: MaskingVocabulary) -> NDArray[np.float64]:
    """How often each piece is, of all that may be hidden; each counted once more, so that none is impossible."""
    counts = np.bincount(stream, minlength=len(pieces.ordinary)) + 1.0
    counts[~pieces.ordinary] = 0
    return counts / counts.sum()


@torch.inference_mode()
def score(
    model: Masked,
    stream: NDArray[Any],
    pieces: MaskingVocabulary,
    usual: NDArray[np.float64],
    config: MaskedLanguageModellingConfig,
    *,
    limit: int | None = None,
    pseudo: int = 512,
    autocast: Callable[[], AbstractContextManager[object]] = nullcontext,
    pace: Pace | None = None,
) -> MaskedScore:
    """Score a text, or a sample of about `limit` of its tokens; `usual`: `frequencies` of the training text.

    Samples are in a drawn order: where `pace` has no time for all, the first of them are as good as any.

    About `pseudo` pieces are hidden one by one; 0: none.
    """
    task = MaskedLanguageModelling(config, stream, pieces, model.context, SEED)
    samples = task.samples if limit is None else min(task.samples, max(1, limit // task.length))
    logits = model.vocabulary * max(1.0, config.share * model.context)  # of a sample
    together = max(1, min(TOKENS // model.context, int(NUMBERS / logits)))
    was = model.training
    model.eval()
    found: list[tuple[NDArray[Any], ...]] = []
    pace = pace or Pace()
    for start, stop in pace.part(2 if pseudo else 1).portions(samples, together):
        for first in range(start, stop, together):
            batch = task.batch(first, min(together, stop - first))
            with autocast():
                found.append(answers(model, batch))
            pace.reached(first + len(batch.tokens), samples)
    single: list[NDArray[Any]] = []
    with autocast():
        for each in one_by_one(model, stream, pieces, pseudo) if pseudo else ():
            single.append(each)
            if pace.now() > pace.ends_at:
                break
    model.train(was)
    losses, told, targets, known = (np.concatenate(each) for each in zip(*found, strict=True))
    return _summary(losses, told, targets, known, usual, single)


def answers(model: Masked, batch: MaskedBatch) -> tuple[NDArray[Any], ...]:
    """-log p of each hidden piece, whether it was told, which it is; for each pair, whether it was judged rightly."""
    batch = batch.to(str(next(model.parameters()).device)).trimmed()
    vectors = encode(model, batch)
    logits, targets = model.head(vectors[batch.asked]).float(), batch.targets[batch.asked]
    losses = F.cross_entropy(logits, targets, reduction="none")
    judges = not isinstance(model.order, nn.Identity) and bool((batch.segments > 0).any())
    known = model.followed(vectors).argmax(-1) == batch.strangers if judges else targets[:0]
    return tuple(each.cpu().numpy() for each in (losses, logits.argmax(-1) == targets, targets, known))


def one_by_one(model: Masked, stream: NDArray[Any], pieces: MaskingVocabulary, limit: int) -> Iterator[NDArray[Any]]:
    """-log p of each piece when it alone is hidden, in whole texts at even distances, for about `limit` pieces."""
    single = MaskedLanguageModellingConfig(next_sentence="none")
    task = MaskedLanguageModelling(single, stream, pieces, model.context, SEED)
    wanted = min(task.samples, max(1, limit // task.length))
    device = next(model.parameters()).device
    for sample in even_order(task.samples, wanted).tolist():
        ids = stream[sample * task.length : (sample + 1) * task.length].astype(np.int64)
        row = torch.tensor([pieces.opening, *ids, pieces.separator])
        places = torch.from_numpy(np.flatnonzero(pieces.ordinary[row]))
        for part in torch.split(places, max(1, TOKENS // len(row))):
            rows = row.repeat(len(part), 1)
            rows[torch.arange(len(part)), part] = pieces.mask
            vectors = model.encoder(rows.to(device))[torch.arange(len(part)), part]
            losses = F.cross_entropy(model.head(vectors).float(), row[part].to(device), reduction="none")
            yield losses.cpu().numpy()


def _summary(
    losses: NDArray[Any],
    told: NDArray[Any],
    targets: NDArray[Any],
    known: NDArray[Any],
    usual: NDArray[np.float64],
    single: list[NDArray[Any]],
) -> MaskedScore:
    loss = float(losses.mean(dtype=np.float64))
    alone = np.concatenate(single) if single else np.zeros(0)
    accuracy, followed = wilson(int(told.sum()), len(told)), wilson(int(known.sum()), len(known))
    return MaskedScore(
        loss=loss,
        perplexity=_exp(loss),
        accuracy=accuracy[0],
        accuracy_low=accuracy[1],
        accuracy_high=accuracy[2],
        baseline_loss=-float(np.log(usual[targets]).mean()),
        baseline_accuracy=float((targets == usual.argmax()).mean()),
        pieces=len(targets),
        followed_accuracy=followed[0],
        followed_low=followed[1],
        followed_high=followed[2],
        pairs=len(known),
        pseudo_perplexity=_exp(float(alone.mean(dtype=np.float64))) if len(alone) else math.nan,
        pseudo_pieces=len(alone),
    )


def wilson(right: int, of: int, deviations: float = 1.96) -> tuple[float, float, float]:
    """A share and the interval in which it lies; sound where normal intervals are not, near 0 and 1."""
    if not of:
        return math.nan, math.nan, math.nan
    share, spread = right / of, deviations**2 / of
    middle = share + spread / 2
    reach = math.sqrt(spread * (share * (1 - share) + spread / 4))
    return share, (middle - reach) / (1 + spread), (middle + reach) / (1 + spread)


def _exp(loss: float) -> float:
    return math.exp(min(loss, 700.0)) if math.isfinite(loss) else loss
