"""What a linear model on texts needs from the training rows: their n-grams, and what is best chosen on held-out rows.

The n-grams of letters, and the strength of the penalty λ/2 |W|², are chosen where the recipe leaves them open: models
are fitted to most of the training rows and compared on the rest. The validation rows choose nothing. The penalty is
written as training.weight_decay, λ = 1 / (C · examples) with scikit-learn's C.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.blocks.ngrams import Alphabet
from qkv.blocks.sparse_rows import SparseRows
from qkv.data.encode import EncodedRows
from qkv.data.split import even_order
from qkv.models.classifier import ClassifierConfig
from qkv.models.linear import LinearConfig
from qkv.objectives.classification import ClassificationConfig, Targets
from qkv.objectives.ngram_rows import NgramCounts, count_ngrams
from qkv.objectives.whole_data import WholeData
from qkv.text.tokenizer import Tokenizer
from qkv.training import loop
from qkv.training.settings import TrainingConfig

LEAST = 2  # training texts that have an n-gram which is kept
MOST_FEATURES, MOST_WEIGHTS = 2**20, 2**24  # n-grams that are kept, and with as many labels fewer
LETTERS = (5, 0)  # of the longest n-gram of letters
STRENGTHS = (1.0, 4.0, 16.0, 64.0)  # scikit-learn's C, the strongest penalty first
USUAL_STRENGTH, FEW = 16.0, 50  # without a choice, because there are fewer examples than this
HELD_OUT, MOST_HELD_OUT = 0.2, 5000  # of the training rows, which choose
UNTIMED = 120.0  # seconds that a run without a time budget is thought to have
CHOSEN_ON, WITH_LETTERS = 8_000, 50_000  # characters for each second that a run has
SLOWER, TIME_SHARE = 30.0, 0.3  # a fit with letters takes so many times as long as counting words, at most this share
FIT_STEPS, FIT_TOLERANCE = 60, 5e-5  # a fit that only compares need not be exact


@dataclass(frozen=True)
class Choice:
    """What held-out training rows chose: the n-grams and the penalty; the losses by letters and scikit-learn's C."""

    encoder: LinearConfig
    weight_decay: float
    strength: float
    losses: Mapping[tuple[int, float], float]
    held_out: int

    @property
    def in_words(self) -> str:
        letters = f" and of 2 to {self.encoder.letters} letters" if self.encoder.letters else ""
        chosen = f"n-grams of 1 to {self.encoder.ngrams} words{letters}, C = {self.strength:.3g}"
        how = f"the best of {len(self.losses)} fits on {self.held_out:,} held-out training examples"
        return f"linear: {chosen}: {how if self.losses else 'the usual ones'}."


@dataclass
class NgramRows:
    """The training rows of a linear model; counted once, and weighted once."""

    rows: EncodedRows
    alphabet: Alphabet
    targets: Targets
    _counted: dict[LinearConfig, NgramCounts] = field(default_factory=dict)
    _weighted: dict[LinearConfig, SparseRows] = field(default_factory=dict)
    _chosen: dict[object, Choice] = field(default_factory=dict)

    def counts(self, encoder: LinearConfig, labels: int) -> NgramCounts:
        """The n-grams that are kept, and how often each is in each text."""
        key = replace(encoder, features=0)
        if key not in self._counted:
            counts = count_ngrams(self.rows, self.alphabet, encoder.ngrams, encoder.letters)
            self._counted = {key: counts.kept(LEAST, most_features(labels))}
        return self._counted[key]

    def weighted(self, encoder: LinearConfig, labels: int) -> SparseRows:
        if encoder not in self._weighted:
            counts = self.counts(encoder, labels)
            self._weighted = {encoder: counts.weighted(rarity(counts))}
        return self._weighted[encoder]

    def choose(
        self,
        model: ClassifierConfig,
        task: ClassificationConfig,
        letters: int | None,
        weight_decay: float | None,
        seconds: float | None,
    ) -> Choice:
        """The n-grams and the penalty, as given or else as held-out rows choose, in a run of so many seconds."""
        key = (model, task, letters, weight_decay)
        if key not in self._chosen:
            choice = self._choose(model, task, letters, weight_decay, seconds)
            counts = self.counts(choice.encoder, len(model.labels))
            encoder = replace(choice.encoder, features=len(counts.keys))
            self._chosen[key] = replace(choice, encoder=encoder)
        return self._chosen[key]

    def _choose(
        self,
        model: ClassifierConfig,
        task: ClassificationConfig,
        letters: int | None,
        weight_decay: float | None,
        seconds: float | None,
    ) -> Choice:
        candidates = (letters,) if letters is not None else LETTERS
        if letters is None and not self._affords_letters(encoder_of(model), len(model.labels), seconds):
            candidates = (0,)
        terms = len(self.rows) * (len(model.labels) if model.problem == "multi" else 1)
        strengths = STRENGTHS if weight_decay is None else (1 / max(1e-12, weight_decay * terms),)
        usual = strengths[0] if len(strengths) == 1 else USUAL_STRENGTH
        losses, number = dict[tuple[int, float], float](), 0
        if len(self.rows) >= FEW and len(candidates) * len(strengths) > 1:
            some, targets = _some(self.rows, self.targets, int(CHOSEN_ON * (seconds or UNTIMED)))
            widest = replace(encoder_of(model), letters=max(candidates), features=0)
            if some is self.rows:
                counts = self.counts(widest, len(model.labels))
            else:
                counts = count_ngrams(some, self.alphabet, widest.ngrams, widest.letters)
            losses, number = compared(counts, targets, model, task, candidates, strengths)
        best = min(losses, key=losses.__getitem__) if losses else (candidates[0], usual)
        decay = weight_decay if weight_decay is not None else float(f"{1 / (best[1] * terms):.6g}")
        return Choice(replace(encoder_of(model), letters=best[0]), decay, best[1], losses, number)

    def _affords_letters(self, encoder: LinearConfig, labels: int, seconds: float | None) -> bool:
        """Whether a run has time for n-grams of letters: by how long counting words takes, or without a time budget by
        the length of the texts alone, so that the same command chooses the same."""
        if len(self.rows.ids) > WITH_LETTERS * (seconds or UNTIMED):
            return False
        if seconds is None:
            return True
        began = time.perf_counter()
        self.counts(replace(encoder, letters=0), labels)
        return SLOWER * (time.perf_counter() - began) < TIME_SHARE * seconds


def encoder_of(model: ClassifierConfig) -> LinearConfig:
    assert isinstance(model.encoder, LinearConfig)
    return model.encoder


def alphabet_of(tokenizer: Tokenizer) -> Alphabet:
    """The characters of a vocabulary, among which are no special tokens."""
    names: list[str | None] = [
        None if tokenizer.is_special(token) else tokenizer.token(token) for token in range(tokenizer.vocabulary)
    ]
    if tokenizer.unknown is not None:
        names[tokenizer.unknown] = ""
    return Alphabet.of(names)


def most_features(labels: int) -> int:
    return min(MOST_FEATURES, max(1, MOST_WEIGHTS // max(1, labels)))


def rarity(counts: NgramCounts) -> NDArray[np.float32]:
    """idf, smoothed as if one more text had every n-gram."""
    return (1 + np.log((1 + counts.texts) / (1 + counts.texts_with))).astype(np.float32)


def compared(
    whole: NgramCounts,
    targets: Targets,
    model: ClassifierConfig,
    task: ClassificationConfig,
    letters: Sequence[int],
    strengths: Sequence[float],
) -> tuple[dict[tuple[int, float], float], int]:
    """The losses of models with each of these n-grams and strengths on rows that they were not fitted to; and how many
    rows these are."""
    number = min(MOST_HELD_OUT, max(1, int(HELD_OUT * whole.texts)))
    held_out = np.sort(even_order(whole.texts, number))
    fitted = np.setdiff1d(np.arange(whole.texts), held_out)
    losses, usual = dict[tuple[int, float], float](), USUAL_STRENGTH
    for longest in letters:
        counts = whole if longest else whole.of_words
        known = counts.select(fitted).kept(LEAST, most_features(len(model.labels)))
        idf = rarity(known)
        shown = counts.select(held_out).only(known.keys).weighted(idf)
        encoder = replace(encoder_of(model), letters=longest, features=len(known.keys))
        fits = _Fits(replace(model, encoder=encoder), task, known.weighted(idf), targets[fitted])
        found = best_nearby(lambda c: fits.loss(c, shown, targets[held_out]), strengths, usual)  # noqa: B023
        usual = min(found, key=found.__getitem__)
        losses.update({(longest, strength): loss for strength, loss in found.items()})
    return losses, number


def best_nearby(loss: Callable[[float], float], strengths: Sequence[float], start: float) -> dict[float, float]:
    """The losses on the way from a strength to one whose neighbours are worse."""
    place = min(range(len(strengths)), key=lambda number: abs(math.log(strengths[number] / start)))
    found = {strengths[place]: loss(strengths[place])}
    for way in (1, -1):
        at = place + way
        while 0 <= at < len(strengths):
            found[strengths[at]] = loss(strengths[at])
            if found[strengths[at]] >= found[strengths[at - way]]:
                break
            at += way
        if len(found) > 2 or found[strengths[place]] > min(found.values()):
            break  # the loss has one valley
    return found


def _some(rows: EncodedRows, targets: Targets, characters: int) -> tuple[EncodedRows, Targets]:
    """Every n-th row, chosen to have about this number of characters."""
    every = min(-(-len(rows.ids) // max(1, characters)), max(1, len(rows) // FEW))
    if every <= 1:
        return rows, targets
    which = np.arange(0, len(rows), every)
    lengths = rows.lengths[which]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    taken = np.arange(int(starts[-1])) + np.repeat(rows.starts[which] - starts[:-1], lengths)
    seconds = None if rows.second_starts is None else rows.second_starts[which]
    return EncodedRows(rows.ids[taken], starts, seconds), targets[which]


class _Fits:
    """Fits of one model to the same rows, each of which starts from the one before."""

    def __init__(
        self, config: ClassifierConfig, task: ClassificationConfig, rows: SparseRows, targets: Targets
    ) -> None:
        self.config, self.model = config, config.build()
        self.objective = WholeData(task, rows, targets, config.problem)
        self.terms = len(rows) * (len(config.labels) if config.problem == "multi" else 1)

    def loss(self, strength: float, rows: SparseRows, targets: Targets) -> float:
        """The loss of the model with this strength on other rows."""
        training = replace(SOLVER, batch=len(self.objective.whole.targets), weight_decay=1 / (strength * self.terms))
        for step in loop.train(loop.initial_state(self.model, training), self.objective, training):
            if step.converged:
                break
        other = WholeData(ClassificationConfig(), rows, targets, self.config.problem)
        other.variance = self.objective.variance
        with torch.no_grad():
            return float(other.loss(self.model.eval(), other.whole)) / len(rows)


SOLVER = TrainingConfig(
    steps=FIT_STEPS,
    batch=1,
    optimizer="lbfgs",
    learning_rate=1.0,
    final_fraction=1.0,
    clip=0.0,
    tolerance=FIT_TOLERANCE,
)
