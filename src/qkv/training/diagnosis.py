"""Diagnoses a run by its metrics: what happened, since which step, and whether more time would help.

Rules are tried in order, and the first that applies gives the verdict: rules about data that make a loss meaningless
come before rules about the loss. A change counts if it is larger than chance explains (`history.py`) and large enough
to matter. Decision 0006 has the reasons, and the runs from which the thresholds below were chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from qkv.evaluation.intervals import Z_95
from qkv.evaluation.text_baselines import Baselines
from qkv.training.history import Change, History, Stage, compare, merge, sampling_error

Kind = Literal[
    "learning",  # the validation loss is still falling: more time would help
    "plateau",  # the validation loss neither falls nor rises: its curve is measured to be flat
    "rising",  # the validation loss rose, and not because of the training text
    "unclear",  # there are too few evaluations, or too few validation rows, to tell
    "overfitting",  # since a step, the loss grew on the validation text and fell on the training text
    "memorised",  # the same, and the training text is memorised
    "unstable",  # training losses rose for a while and came back
    "diverged",  # training losses rose and stayed high, or are not finite
    "underfit",  # the model predicts little more than the frequencies of tokens
    "leak",  # the training text contains much of the validation text
    "repetitive",  # the same, and the training text also repeats itself
    "noise",  # nothing can be learned from the text but the frequencies of tokens
    "trivial",  # the text hardly varies
    "suspicious",  # the validation loss is lower than training losses and n-gram counts can explain
    "unlike",  # the validation text is of another kind than the training text
]
KINDS: tuple[Kind, ...] = get_args(Kind)

# Fractions of the validation loss.
MIN_FALL = 0.01  # a smaller fall counts as none
FLAT = 0.025  # a curve is flat if its interval holds no larger change
MIN_RISE = 0.025  # a smaller rise is not called overfitting
MEMORISED = 0.3  # with a training loss below this, the text is memorised
OVERFITTED = 0.7  # with a training loss below this, mostly the training text itself is learned
PARTLY_MEMORISED = 0.85  # with a training loss below this, some of the training text is memorised

SPIKE = 0.1  # of the first training loss: a larger rise of training losses is a spike
LEAK, REPETITIVE = 0.3, 0.5  # shares of the validation text, and of the training text, found in (other) training text
UNLIKE = 1.3  # times the training loss: a validation loss above this comes from another kind of text
MAX_SCATTER = 4.0  # standard deviations; two means of two evaluations each rarely differ by more, by chance
MIN_SPAN = 0.25  # of a run's steps: evaluations that are closer do not show how its second half went
END = (0.85, 1.0)  # the last part of a run


@dataclass(frozen=True)
class Fall(Change):
    """By how much a loss fell between two steps; a rise is a negative fall."""

    of: Literal["validation", "training"] = "validation"
    first: int = 0  # the steps
    last: int = 0

    @property
    def known(self) -> bool:
        return math.isfinite(self.error)

    @property
    def low(self) -> float:
        return self.mean - Z_95 * self.error

    @property
    def high(self) -> float:
        return self.mean + Z_95 * self.error


@dataclass(frozen=True)
class Diagnosis:
    """A verdict, and the values that it is based on. Losses of language models are in nats per token."""

    kind: Kind
    since: int | None  # the step after which it went wrong
    best: int  # the step of the best model
    training: float  # mean training loss of the last steps
    validation: float  # final validation loss of the best model, on more tokens than the evaluations during the run
    lowest: float  # validation loss of the best model during the run
    last: float  # validation loss after the last step, on the same tokens as `lowest`
    fall: Fall  # of the loss, in the second half of the run

    @property
    def more_may_help(self) -> bool:
        return self.kind in ("learning", "underfit", "unclear")


def diagnose(history: History, baselines: Baselines, loss: float, epoch: float) -> Diagnosis:
    """`loss` is the final loss of the best model on the validation tokens of the baselines, `epoch` is in steps."""
    return _diagnosis(history, verdict(history, baselines, loss, epoch), loss, epoch)


def diagnose_curve(history: History, epoch: float) -> Diagnosis:
    """The diagnosis by the losses alone, for tasks without baselines of the loss."""
    loss = history.best.validation if history.best else math.nan
    if (since := divergence_step(history)) is not None:
        return _diagnosis(history, ("diverged", since), loss, epoch)
    if (since := overfitting_step(history, epoch)) is not None:
        return _diagnosis(history, ("overfitting", since), loss, epoch)
    return _diagnosis(history, (trend(history, loss, epoch)[0], None), loss, epoch)


def _diagnosis(history: History, found: tuple[Kind, int | None], loss: float, epoch: float) -> Diagnosis:
    best, last = history.best, history.stages[-1] if history.stages else None
    kind, since = found
    return Diagnosis(
        kind=kind,
        since=since,
        best=best.step if best else 0,
        training=history.training_losses(*END).mean,
        validation=loss,
        lowest=best.validation if best else math.nan,
        last=last.validation if last else math.nan,
        fall=trend(history, loss, epoch)[1],
    )


def verdict(history: History, baselines: Baselines, loss: float, epoch: float) -> tuple[Kind, int | None]:
    """The kind of run and, if it went wrong, the step after which it did."""
    if (since := divergence_step(history)) is not None:
        return "diverged", since
    if kind := text_verdict(baselines, loss) or split_verdict(history, baselines, loss, epoch):
        return kind, None
    end = history.training_losses(*END).mean
    if (since := overfitting_step(history, epoch)) is not None:
        return "memorised" if end < MEMORISED * history.stages[-1].validation else "overfitting", since
    if history.rise.height > SPIKE * history.first_loss:
        return "unstable", history.rise.since
    direction = trend(history, loss, epoch)[0]
    seen_twice = history.steps > epoch
    if seen_twice and end < (MEMORISED if direction == "learning" else OVERFITTED) * loss:
        return "memorised" if end < MEMORISED * loss else "overfitting", None
    return direction, None


def text_verdict(baselines: Baselines, loss: float) -> Kind | None:
    """The verdict if the text holds nothing to learn."""
    unigram = baselines.unigram
    if baselines.bits(unigram) < 0.1:
        return "trivial"
    enough_counted = baselines.counted >= 20 * baselines.vocabulary  # for n-gram counts to mean something
    incompressible = baselines.xz is None or baselines.xz > 0.95 * baselines.bits(unigram)
    if enough_counted and incompressible and baselines.ngram > 0.98 * unigram and loss > 0.97 * unigram:
        return "noise"
    return None


def split_verdict(history: History, baselines: Baselines, loss: float, epoch: float) -> Kind | None:
    """The verdict if the validation loss does not show how well the model has learned, or shows that it has not."""
    end = history.training_losses(*END).mean
    if is_underfit(baselines, loss, end):
        return "underfit"
    if baselines.shared >= LEAK:
        return "repetitive" if baselines.repeated >= REPETITIVE else "leak"
    chance = 3 * sampling_error(history.best) if history.best else math.inf
    if loss + chance < 0.6 * min(end, baselines.ngram) and baselines.ngram > 0.8 * end:
        return "suspicious"
    return "unlike" if is_unlike(history, baselines, epoch) else None


def is_underfit(baselines: Baselines, loss: float, training: float) -> bool:
    """Whether the model is hardly better than the frequencies of tokens, on the training text as well."""
    context_gain = baselines.unigram - baselines.ngram  # what a few tokens of context are worth
    gain = baselines.unigram - loss
    return gain < max(0.15 * context_gain, 0.02 * baselines.unigram) and training > 0.9 * baselines.unigram


def is_unlike(history: History, baselines: Baselines, epoch: float) -> bool:
    """Whether the validation text was much harder than new training text in the first epoch, and is so for n-grams."""
    first_epoch = [stage for stage in history.groups() if stage.step <= epoch]
    if not first_epoch:
        return False
    stage = first_epoch[-1]
    limit = UNLIKE * (stage.training.mean + 3 * stage.training.error)
    return stage.validation - 3 * sampling_error(stage) > limit and baselines.ngram > UNLIKE * stage.training.mean


def divergence_step(history: History) -> int | None:
    """The step after which training losses rose and did not come back."""
    if history.not_finite_at is not None:
        return history.not_finite_at
    if not history.bins:
        return None
    end, rise = history.training_losses(0.9, 1.0), history.rise
    if rise.height > SPIKE * history.first_loss and end.mean > rise.start + 0.5 * rise.height:
        return rise.since
    # the first loss is that of a single step, before the losses of a run that diverges scatter without bounds
    chance = 3 * math.hypot(end.error, min(history.all_losses.noise, abs(history.first_loss)))
    worse_than_untrained = end.mean > 1.05 * history.first_loss + chance
    return 1 if worse_than_untrained and history.steps > 1 else None


def overfitting_step(history: History, epoch: float) -> int | None:
    """The step after which the validation loss rose while the training loss fell; None if chance could explain it."""
    groups = history.groups()
    best_index = min(range(len(groups)), key=lambda index: groups[index].validation, default=0)
    after = groups[best_index + 1 :]
    if not after or history.best is None or history.steps <= epoch:
        return None
    best, last = groups[best_index], merge(after[-2:])
    error = math.hypot(best.training.error, last.training.error)
    if last.training.mean > min(best.training.mean - 2 * error, last.validation):
        return None
    least = max(MIN_RISE * best.validation, MAX_SCATTER * jitter(groups))
    if len(after) == 1:
        return history.best.step if compare(best, last).is_above(2 * least, 5.0) else None
    near_best = groups[max(0, best_index - 1) : best_index + 2]
    low = merge(sorted(near_best, key=lambda group: group.validation)[:2])  # one evaluation may be low by chance
    wide_gap = last.training.mean < 0.75 * last.validation  # with it, a less certain rise is enough
    return history.best.step if compare(low, last).is_above(least, 2.0 if wide_gap else 3.0) else None


def jitter(groups: list[Stage]) -> float:
    """The standard deviation of evaluations around a smooth curve, from their distances to their neighbours' means.

    The first half of the run and the lowest evaluation, where the curve bends, are left out.
    """
    losses = [group.validation for group in groups]
    lowest = losses.index(min(losses))
    inner = range(1 + len(losses) // 2, len(losses) - 1)
    distances = [losses[i] - (losses[i - 1] + losses[i + 1]) / 2 for i in inner if i != lowest]
    if not distances:
        return 0.0
    factor = 1 + 3 / len(distances)  # a few evaluations may all be close to the curve by chance
    return factor * math.sqrt(math.fsum(distance**2 for distance in distances) / (1.5 * len(distances)))


def trend(history: History, loss: float, epoch: float) -> tuple[Kind, Fall]:
    """Whether the loss is still falling, and by how much it fell in the second half of the run.

    If there is too little validation text to tell, training losses decide, as long as no text was seen twice.
    """
    fall = validation_fall(history)
    if 3 * fall.error > 0.05 * loss and history.steps <= epoch and len(history.bins) > 1:
        middle, end = history.training_losses(0.4, 0.6), history.training_losses(*END)
        steps = history.steps // 2, history.steps
        fall = Fall(middle.mean - end.mean, math.hypot(middle.error, end.error), "training", *steps)
    if fall.is_above(MIN_FALL * loss, Z_95):
        return "learning", fall
    if fall.of == "validation" and Change(-fall.mean, fall.error).is_above(MIN_RISE * loss, Z_95):
        return "rising", fall
    return "plateau" if max(-fall.low, fall.high) < FLAT * loss else "unclear", fall


def validation_fall(history: History) -> Fall:
    """By how much the validation loss fell from the middle of the run to its end.

    Two evaluations differ by chance because other rows would score otherwise, which the parts show, and because the
    model moves from step to step, which the scatter of the curve shows.
    """
    groups = history.groups()
    middle = min(groups, key=lambda group: abs(group.step - history.steps / 2), default=None)
    if middle is None or groups[-1].step - middle.step < MIN_SPAN * history.steps:
        return Fall(0.0, math.inf)
    change = compare(groups[-1], middle)
    error = math.hypot(change.error, math.sqrt(2) * jitter(groups))
    return Fall(change.mean, error, "validation", middle.step, groups[-1].step)
