"""Which labelled examples and which pairs of texts are held out, and what is in both.

A hash of its text decides where an example goes, so the split does not depend on the order of the rows, and copies
are never in both parts. Every class gives its share, and keeps one example for training at least. Pairs with an equal
source go to the same part; where both directions are learned, those with an equal target too. So no copy crosses the
split, in whatever language it is met.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qkv.data.corpus import ParallelConfig
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, Pairs, Parallel, TagExamples
from qkv.data.findings import Caution, Leak
from qkv.data.identity import Keys, component_keys, fmix64
from qkv.data.split import Mask
from qkv.errors import DataError

MIN_TRAIN_EXAMPLES, MIN_VALID_EXAMPLES = 8, 2
"""Distinct examples that a model is trained on, and evaluated on, at least: a score of one example means nothing."""


def require_enough(train: Keys, valid: Keys, fraction: float | None, where: str, what: str = "examples") -> None:
    """Refuse splits that are too small; `fraction` is the part held out, None where a validation set was given."""
    counts = [len(np.unique(keys)) for keys in (train, valid)]
    if counts[0] >= MIN_TRAIN_EXAMPLES and counts[1] >= MIN_VALID_EXAMPLES:
        return
    if fraction is None:
        short = counts[0] < MIN_TRAIN_EXAMPLES
        count, needed = (counts[0], MIN_TRAIN_EXAMPLES) if short else (counts[1], MIN_VALID_EXAMPLES)
        split = "training" if short else "validation"
        raise DataError(where, f"{count:,} {split} {what} that differ are too few", f"Give at least {needed}.")
    needed = max(MIN_TRAIN_EXAMPLES + MIN_VALID_EXAMPLES, math.ceil((MIN_VALID_EXAMPLES - 0.5) / fraction))
    problem = f"{sum(counts):,} {what} that differ are too few to train on and to hold some out"
    raise DataError(where, problem, f"Give at least {needed}.")


def choose_held_out(keys: Keys, classes: npt.NDArray[np.int32], fraction: float, seed: int) -> Mask:
    """Which rows are held out; there must be two distinct keys at least."""
    own, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    strata = classes[first]
    order = np.lexsort((fmix64(own ^ fmix64(np.array([seed], dtype=np.uint64))), strata))
    sorted_strata = strata[order]
    begins = np.concatenate([[True], sorted_strata[1:] != sorted_strata[:-1]])
    free = order[~begins]
    if not len(free):  # as many classes as texts
        free = order[1:]
    count = min(max(1, round(fraction * len(own))), len(free))
    # every n-th of the texts, sorted by class, so that each class gives its share
    places = ((np.arange(count) + 0.5) * len(free) / count).astype(np.int64)
    chosen = np.zeros(len(own), dtype=np.bool_)
    chosen[free[places]] = True
    return chosen[inverse]


def example_notes(found: Labelled) -> Iterator[str]:
    """Copies among the training examples, and between the splits: scores on such examples say little."""
    what = {TagExamples: "sentences", ImageExamples: "images", NumberExamples: "rows"}.get(type(found.train), "texts")
    copies = len(found.train) - len(np.unique(found.train.keys))
    if copies:
        conflicts = _conflicts(found.train)
        twice = f"; with more than one label: {conflicts:,}" if conflicts else ""
        share = f"{copies / len(found.train):.1%}"
        yield f"{copies:,} of {len(found.train):,} training {what} ({share}) are copies of others{twice}."
    for name, split in found.splits[1:]:
        shared = int(np.isin(split.keys, found.train.keys).sum())
        if shared:
            some = f"{shared:,} of {len(split):,} {name} {what} ({shared / len(split):.1%})"
            yield Leak(f"leak: {some} also stand in the training examples.")


def _conflicts(examples: Examples) -> int:
    """How many distinct texts carry more than one class."""
    if isinstance(examples, TagExamples) or examples.targets.dtype != np.int32:
        return 0
    order = np.lexsort((examples.targets, examples.keys))
    keys, targets = examples.keys[order], examples.targets[order]
    return len(np.unique(keys[1:][(keys[1:] == keys[:-1]) & (targets[1:] != targets[:-1])]))


PAIR_FRACTION, MOST_PAIRS = 0.05, 2000  # that are held out by default
SLIPPED = 0.1  # a lower correlation of lengths means that the files have slipped against each other
_ENOUGH = 1000


def split_pairs(train: Pairs, config: ParallelConfig) -> tuple[Pairs, Pairs]:
    """Training pairs and those held out."""
    keys = train.source_keys[train.rows]
    if config.directions == "both":
        keys = component_keys(keys, train.target_keys[train.rows])
    count = len(np.unique(keys))
    if count < 2:
        same = "every source is the same, so that nothing can be held out"
        problem = same if len(train) > 1 else "one pair is too little"
        raise DataError(config.files[0], problem, "Give more pairs, or name a validation set with --valid.")
    fraction = config.valid_fraction or min(PAIR_FRACTION, MOST_PAIRS / len(keys))
    out = choose_held_out(keys, np.zeros(len(keys), dtype=np.int32), fraction, config.seed)
    return train.select(~out), train.select(out)


def pair_notes(found: Parallel) -> Iterator[str]:
    """Copies among the training pairs, and between the splits: scores on such pairs say little."""
    train = found.train.select(~found.train.backward)
    copies = len(train) - len(np.unique(train.keys))
    if copies:
        yield f"{copies:,} of {len(train):,} training pairs ({copies / len(train):.1%}) are copies of others."
    if (together := _together(train)) is not None and together < SLIPPED:
        yield Caution(
            f"long sources do not have long targets (correlation {together:.2f}); "
            "check that the files are translations of each other, line by line."
        )
    for name, split in found.splits[1:]:
        own = split.select(~split.backward)
        pairs = int(np.isin(own.keys, train.keys).sum())
        sources = int(np.isin(own.source_keys[own.rows], train.source_keys[train.rows]).sum())
        if sources:
            share = f"{sources / len(own):.1%}"
            also = f"{pairs:,} of them with the same translation" if pairs else "none with the same translation"
            yield Leak(f"leak: {sources:,} of {len(own):,} {name} sources ({share}) also stand in training; {also}.")


def _together(train: Pairs) -> float | None:
    """How lengths go together, from -1 to 1, on a sample; None where there is too little to tell."""
    some = train.rows[:: max(1, len(train) // (4 * _ENOUGH))]
    lengths = np.array([(len(train.source[row]), len(train.target[row])) for row in some.tolist()], dtype=np.float64)
    if len(some) < _ENOUGH or not lengths.std(0).all():
        return None
    return float(np.asarray(np.corrcoef(lengths.T))[0, 1])
