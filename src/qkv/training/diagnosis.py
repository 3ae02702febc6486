"""A run diagnosed by its own metrics: what it is doing, since when, and whether more time would help.

Rules are tried in order, and the first that holds is the verdict: what makes a number meaningless comes before what the
number says. A change counts when it is larger than chance explains (history.py) and large enough to matter.
Decision 0006 has the reasons and the runs on which the limits below were set.

`EarlyWarning` follows a run while it goes on: one warning, at the evaluation that establishes that it goes wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from qkv.evaluation.text_baselines import Baselines
from qkv.training.history import Change, History, LogLine, Stage, change, error, together

Kind = Literal[
    "learning",  # still falling: more time would help
    "plateau",  # as good as this model gets on this text, or nearly
    "unclear",  # too little validation text to tell
    "overfitting",  # worse on validation text since a step, better on training text
    "memorised",  # the same, and the training text is memorised
    "unstable",  # losses rose on the way and came back
    "diverged",  # losses rose and stayed, or are no numbers
    "underfit",  # knows little more than how often each token occurs
    "leak",  # the validation text stands in the training text
    "repetitive",  # so it does, and so does the training text in itself
    "noise",  # the text holds nothing that could be learned beyond how often each token occurs
    "trivial",  # the text hardly varies
    "suspicious",  # better than training losses and counts can explain
    "unlike",  # the validation text is of another kind than the training text
]
KINDS: tuple[Kind, ...] = get_args(Kind)

MATTERS = 0.01  # of a loss: a smaller fall is none
WORSE = 0.025  # of a loss: a smaller rise is not called overfitting
JUMP = 0.1  # of the first loss: a rise of training losses by more is a spike
LEAK, REPEATS = 0.3, 0.5  # share of the validation text in the training text; of the training text in itself
UNLIKE = 1.3  # times a training loss: a validation loss above it comes from other text
MEMORISED = 0.3  # of the validation loss: with a training loss below it the text is memorised
GAP = 0.7  # of the validation loss: with a training loss below it, what is learned is the training text
SCATTER = 4.0  # standard deviations: two pairs among ten evaluations are rarely farther apart by chance
END = (0.85, 1.0)  # of a run
APART = 0.85  # of the validation loss: with a training loss below it, some of what is learned is the text itself


@dataclass(frozen=True)
class Diagnosis:
    """A verdict, and the figures it rests on. Losses are in nats per token."""

    kind: Kind
    since: int | None  # the step after which it went wrong
    best: int  # the step of the best model
    training: float  # the mean of the last steps
    validation: float  # of the best model, in the last evaluation: on more tokens than those while the run goes on
    lowest: float  # of the best model while the run went on
    last: float  # of the last step, on the same tokens as `lowest`
    fell: float  # by how much the validation loss fell in the second half of the run
    enough: bool = False  # the text was seen as often as helps a model of this size, by a study of many runs

    @property
    def gain(self) -> float:
        """What a run twice as long would bring, about: as much again, and less where text is memorised."""
        return 0.0 if self.enough else max(0.0, self.fell) * (0.5 if self.training < APART * self.validation else 1.0)

    @property
    def more_helps(self) -> bool:
        return self.kind in ("learning", "underfit", "unclear") and not self.enough


def diagnose(history: History, baselines: Baselines, loss: float, epoch: float) -> Diagnosis:
    """`loss` is that of the best model on the validation tokens of the baselines, `epoch` the steps in an epoch."""
    best, last = history.best, history.stages[-1] if history.stages else None
    kind, since = verdict(history, baselines, loss, epoch)
    return Diagnosis(
        kind=kind,
        since=since,
        best=best.step if best else 0,
        training=history.training(*END).mean,
        validation=loss,
        lowest=best.validation if best else math.nan,
        last=last.validation if last else math.nan,
        fell=trend(history, loss, epoch)[1],
    )


def verdict(history: History, baselines: Baselines, loss: float, epoch: float) -> tuple[Kind, int | None]:
    if (since := diverged(history)) is not None:
        return "diverged", since
    if kind := of_the_text(baselines, loss) or of_the_split(history, baselines, loss, epoch):
        return kind, None
    end = history.training(*END).mean
    if (since := overfitting(history, epoch)) is not None:
        return "memorised" if end < MEMORISED * history.stages[-1].validation else "overfitting", since
    if history.rise.height > JUMP * history.first:
        return "unstable", history.rise.since
    direction = trend(history, loss, epoch)[0]
    again = history.steps > epoch  # before, no training text was seen twice
    if again and end < (MEMORISED if direction == "learning" else GAP) * loss:
        return "memorised" if end < MEMORISED * loss else "overfitting", None
    return direction, None


def of_the_text(baselines: Baselines, loss: float) -> Kind | None:
    """What no training can change: there is nothing to learn."""
    alone = baselines.unigram
    if baselines.bits(alone) < 0.1:
        return "trivial"
    enough = baselines.counted >= 20 * baselines.vocabulary  # else counts of pairs say nothing yet
    incompressible = baselines.xz is None or baselines.xz > 0.95 * baselines.bits(alone)
    if enough and incompressible and baselines.ngram > 0.98 * alone and loss > 0.97 * alone:
        return "noise"
    return None


def of_the_split(history: History, baselines: Baselines, loss: float, epoch: float) -> Kind | None:
    """What makes the validation loss say something else than it seems to, or nothing."""
    end = history.training(*END).mean
    if underfit(baselines, loss, end):
        return "underfit"
    if baselines.shared >= LEAK:
        return "repetitive" if baselines.repeated >= REPEATS else "leak"
    chance = 3 * error(history.best) if history.best else math.inf
    if loss + chance < 0.6 * min(end, baselines.ngram) and baselines.ngram > 0.8 * end:
        return "suspicious"
    return "unlike" if unlike(history, baselines, epoch) else None


def underfit(baselines: Baselines, loss: float, training: float) -> bool:
    """Hardly better than the frequencies of single tokens, on training text as well."""
    way = baselines.unigram - baselines.ngram  # what a few tokens of context are worth
    gone = baselines.unigram - loss
    return gone < max(0.15 * way, 0.02 * baselines.unigram) and training > 0.9 * baselines.unigram


def unlike(history: History, baselines: Baselines, epoch: float) -> bool:
    """While every training text was new as well, validation text was much harder; so it is for counts."""
    first = [stage for stage in history.groups() if stage.step <= epoch]
    if not first:
        return False
    stage = first[-1]
    known = UNLIKE * (stage.training.mean + 3 * stage.training.error)
    return stage.validation - 3 * error(stage) > known and baselines.ngram > UNLIKE * stage.training.mean


def diverged(history: History) -> int | None:
    """The step after which losses left and did not come back."""
    if history.broken is not None:
        return history.broken
    if not history.bins:
        return None
    end, rise = history.training(0.9, 1.0), history.rise
    if rise.height > JUMP * history.first and end.mean > rise.start + 0.5 * rise.height:
        return rise.since
    lost = end.mean > 1.05 * history.first + 3 * end.error  # worse than before the first step
    return 1 if lost and history.steps > 1 else None


def overfitting(history: History, epoch: float) -> int | None:
    """The step after which validation got worse while training got better, or None while chance could explain it."""
    groups = history.groups()
    number = min(range(len(groups)), key=lambda index: groups[index].validation, default=0)
    after = groups[number + 1 :]
    if not after or history.best is None or history.steps <= epoch:
        return None
    best, last = groups[number], together(after[-2:])
    chance = math.hypot(best.training.error, last.training.error)
    if last.training.mean > min(best.training.mean - 2 * chance, last.validation):
        return None
    matters = max(WORSE * best.validation, SCATTER * jitter(groups))
    if len(after) == 1:
        return history.best.step if change(best, last).above(2 * matters, 5.0) else None
    near = groups[max(0, number - 1) : number + 2]  # one alone may be low by chance
    low = together(sorted(near, key=lambda group: group.validation)[:2])
    apart = last.training.mean < 0.75 * last.validation  # a wide gap is evidence of its own
    return history.best.step if change(low, last).above(matters, 2.0 if apart else 3.0) else None


def jitter(groups: list[Stage]) -> float:
    """The standard deviation of evaluations around a smooth curve, by what each misses its neighbours' middle by.

    Where the curve bends, at its start and at its lowest, nothing is measured.
    """
    losses = [group.validation for group in groups]
    lowest = losses.index(min(losses))
    places = range(1 + len(losses) // 2, len(losses) - 1)
    misses = [losses[at] - (losses[at - 1] + losses[at + 1]) / 2 for at in places if at != lowest]
    if not misses:
        return 0.0
    wide = 1 + 3 / len(misses)  # a few of them may all be close to the curve by chance
    return wide * math.sqrt(math.fsum(miss**2 for miss in misses) / (1.5 * len(misses)))


def trend(history: History, loss: float, epoch: float) -> tuple[Kind, float]:
    """Whether the loss still falls, and by how much it fell in the second half of the run.

    Where the validation text is too short to tell, training losses do, as long as no text was seen twice.
    """
    gone = second_half(history)
    if 3 * gone.error > 0.05 * loss and history.steps <= epoch:
        middle, end = history.training(0.4, 0.6), history.training(*END)
        gone = Change(middle.mean - end.mean, math.hypot(middle.error, end.error))
    if gone.above(MATTERS * loss):
        return "learning", gone.mean
    return "plateau" if 3 * gone.error < 0.05 * loss else "unclear", gone.mean


def second_half(history: History) -> Change:
    """By how much the validation loss fell from the middle of the run to its end."""
    groups = history.groups()
    if not groups:
        return Change(0.0, math.inf)
    middle = min(groups, key=lambda group: abs(group.step - history.steps / 2))
    return change(groups[-1], middle) if middle is not groups[-1] else Change(0.0, math.inf)


class EarlyWarning:
    def __init__(self, epoch: float, before: Iterable[LogLine] = ()) -> None:
        """`before`: lines of the log from an earlier session; those that will be done again do not count."""
        self.epoch = epoch
        self.history = History()
        self.warned = False
        self.before = list(before)

    def take(self, line: LogLine) -> str:
        """A line of the log in, a warning or nothing out."""
        earlier, self.before = self.before, []
        for old in earlier:
            if old["step"] < line["step"]:
                self.take(old)
        self.history.add(line)
        number = len(self.history.stages)
        if self.warned or "validation_loss" not in line or number % (1 + number // 40):
            return ""
        warning = self._diverging() or self._overfitting() or self._memorising()
        self.warned = bool(warning)
        return warning

    def _diverging(self) -> str:
        if diverged(self.history) is None:
            return ""
        now = self.history.stages[-1].training.mean if self.history.stages else math.nan
        was = self.history.rise.start or self.history.first
        return f"the training loss went up, from {was:.3f} to {now:.3f}: the learning rate may be too high"

    def _overfitting(self) -> str:
        since, best = overfitting(self.history, self.epoch), self.history.best
        if since is None or best is None:
            return ""
        last = self.history.stages[-1]
        return (
            f"overfitting: since step {since:,} the validation loss went from {best.validation:.3f} to "
            f"{last.validation:.3f} while the training loss fell; the model of step {since:,} is kept"
        )

    def _memorising(self) -> str:
        """The gap alone: far better on the training text than at the best evaluation, and no better on other text."""
        last, best = self.history.stages[-1], self.history.best
        if best is None or best is last or self.history.steps <= self.epoch:
            return ""
        if last.training.mean > min(0.5 * last.validation, 0.75 * best.training.mean):
            return ""
        return (
            f"the training text is being memorised: loss {last.training.mean:.3f} on it, "
            f"{last.validation:.3f} on the validation text; the model of step {best.step:,} is kept"
        )
