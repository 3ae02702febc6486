"""Holds out labelled examples or pairs of texts for validation, and notes duplicates within and between the splits.

A hash of its text decides where an example goes, so that the split does not depend on the order of the rows, and
duplicates are never in both parts. The same share of every class is held out, and each keeps at least one training
example, unless all texts have different classes. Pairs with equal sources go to the same part. Where both directions
are learned, pairs with equal targets do too, so that no source and no target is in both parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, Pairs, Parallel, TagExamples
from qkv.data.findings import Caution, Leak
from qkv.data.identity import Keys, component_keys, fmix64
from qkv.data.split import Mask, even_order
from qkv.errors import DataError
from qkv.visible import percent

MIN_TRAIN_EXAMPLES, MIN_SCORED_EXAMPLES = 8, 2
"""How many distinct examples are needed for training, and for a score."""
PAIR_FRACTION, MAX_HELD_OUT_PAIRS = 0.05, 2000
"""How many pairs are held out by default: this share, or about this number if that is less."""
MIN_LENGTH_CORRELATION = 0.1
"""If lengths of sources and targets correlate less, the lines of the files have probably shifted against each other."""
_MIN_CORRELATED_PAIRS = 1000


def require_enough(data: Labelled | Parallel, fraction: float, where: str) -> None:
    """Refuse splits that are too small to train on or to be scored. `fraction` is the share that was held out for each
    split that is a part of the training rows."""
    what = "pairs" if isinstance(data, Parallel) else "examples"
    counts = {name: len(np.unique(split.keys)) for name, split in data.splits}
    if parts := data.splits_from_train:
        total, needed = counts["train"] + sum(counts[name] for name in parts), fewest_examples(fraction, len(parts))
        if total < needed:
            problem = f"{total:,} {what} that differ are too few to train on and to hold out some"
            raise DataError(where, problem, f"Give at least {needed}.")
    least = dict.fromkeys(counts, MIN_SCORED_EXAMPLES) | {"train": MIN_TRAIN_EXAMPLES}
    lacking = [name for name, count in counts.items() if count < least[name]]
    if not lacking:
        return
    if lacking[0] in parts:
        problem = f"of {total:,} {what}, {counts[lacking[0]]} can be held out, because the classes have too few others"
        raise DataError(where, problem, "Give more examples of each class.")
    name = {"train": "training", "valid": "validation"}.get(lacking[0], lacking[0])
    problem = f"{counts[lacking[0]]:,} {name} {what} that differ are too few"
    raise DataError(where, problem, f"Give at least {least[lacking[0]]}.")


def fewest_examples(fraction: float = ExamplesConfig.valid_fraction, splits: int = 1) -> int:
    """The smallest number of distinct examples, if this share of them is held out for one split after the other."""
    for total in count(MIN_TRAIN_EXAMPLES):
        sizes = [total]
        for _ in range(splits):
            held_out = round(fraction * sizes[0])
            sizes = [sizes[0] - held_out, held_out, *sizes[1:]]
        if sizes[0] >= MIN_TRAIN_EXAMPLES and min(sizes) >= MIN_SCORED_EXAMPLES:
            break
    return total


def require_scorable(examples: Examples | Pairs, where: str) -> None:
    """Refuse evaluation data with too few distinct examples for a score."""
    if (distinct := len(np.unique(examples.keys))) < MIN_SCORED_EXAMPLES:
        problem = f"{distinct} {'pair' if isinstance(examples, Pairs) else 'example'} is too few to be scored"
        raise DataError(where, problem, f"Give at least {MIN_SCORED_EXAMPLES} that differ.")


def choose_held_out(keys: Keys, classes: npt.NDArray[np.int32], fraction: float, seed: int) -> Mask:
    """Choose the rows to hold out; there must be at least two distinct keys."""
    distinct_keys, first_rows, inverse = np.unique(keys, return_index=True, return_inverse=True)
    key_classes = classes[first_rows]
    order = np.lexsort((fmix64(distinct_keys ^ fmix64(np.array([seed], dtype=np.uint64))), key_classes))
    sorted_classes = key_classes[order]
    is_first_of_class = np.concatenate([[True], sorted_classes[1:] != sorted_classes[:-1]])
    candidates = order[~is_first_of_class]
    if not len(candidates):  # every text has a class of its own
        candidates = order[1:]
    count = min(max(MIN_SCORED_EXAMPLES, round(fraction * len(distinct_keys))), len(candidates))
    # every n-th text, sorted by class, so that each class gives its share
    positions = ((np.arange(count) + 0.5) * len(candidates) / count).astype(np.int64)
    chosen = np.zeros(len(distinct_keys), dtype=np.bool_)
    chosen[candidates[positions]] = True
    return chosen[inverse]


def count_copies(split: Examples | Pairs) -> int:
    """How many examples of a split repeat others of it."""
    return len(split) - len(np.unique(split.keys))


def _copies_in_words(data: Labelled | Parallel, what: str, part: str) -> str:
    """How many examples of the first split, which is for this part of the work, and of those that were given with it,
    repeat others of their split."""
    parts: list[str] = []
    for name, split in data.splits:
        forward = split.select(~split.backward) if isinstance(split, Pairs) else split
        if name not in data.splits_from_train and (copies := count_copies(forward)):
            share = percent(copies / len(forward))
            parts.append(f"{copies:,} of {len(forward):,} {part if name == 'train' else name} {what} ({share})")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def example_notes(data: Labelled, part: str = "training") -> Iterator[str]:
    """Notes on duplicates among the examples of the first split, which is for this part of the work, and between the
    splits: these make scores misleading."""
    what = {TagExamples: "sentences", ImageExamples: "images", NumberExamples: "rows"}.get(type(data.train), "texts")
    if subject := _copies_in_words(data, what, part):
        conflicts = _count_conflicts(data.train)
        conflict_note = f"; {part} {what} with more than one label: {conflicts:,}" if conflicts else ""
        yield f"{subject} are copies of others{conflict_note}."
    for name, split in data.splits[1:]:
        shared = int(np.isin(split.keys, data.train.keys).sum())
        if shared:
            subject = f"{shared:,} of {len(split):,} {name} {what} ({percent(shared / len(split))})"
            yield Leak(f"leak: {subject} are also in the training set.")


def _count_conflicts(examples: Examples) -> int:
    """How many distinct texts have more than one class."""
    if isinstance(examples, TagExamples) or examples.targets.dtype != np.int32:
        return 0
    order = np.lexsort((examples.targets, examples.keys))
    keys, targets = examples.keys[order], examples.targets[order]
    return len(np.unique(keys[1:][(keys[1:] == keys[:-1]) & (targets[1:] != targets[:-1])]))


def split_pairs(train: Pairs, config: ParallelConfig) -> tuple[Pairs, Pairs]:
    """Split pairs into those to train on and those that are held out."""
    keys = train.source_keys[train.rows]
    if config.directions == "both":
        keys = component_keys(keys, train.target_keys[train.rows])
    if len(np.unique(keys)) < 2:
        same = "every source is the same, so that nothing can be held out"
        problem = same if len(train) > 1 else "one pair is not enough"
        raise DataError(config.files[0], problem, "Give more pairs, or name a validation set with --valid.")
    fraction = config.valid_fraction or min(PAIR_FRACTION, MAX_HELD_OUT_PAIRS / len(keys))
    held_out = choose_held_out(keys, np.zeros(len(keys), dtype=np.int32), fraction, config.seed)
    return train.select(~held_out), train.select(held_out)


def pair_notes(data: Parallel, part: str = "training") -> Iterator[str]:
    """Notes on duplicates among the pairs of the first split, which is for this part of the work, between the splits,
    and on lengths that do not fit."""
    train = data.train.select(~data.train.backward)
    if subject := _copies_in_words(data, "pairs", part):
        yield f"{subject} are copies of others."
    if (correlation := _length_correlation(train)) is not None and correlation < MIN_LENGTH_CORRELATION:
        yield Caution(
            f"long sources do not have long targets (correlation {correlation:.2f}); "
            "check that the files are translations of each other, line by line."
        )
    for name, split in data.splits[1:]:
        forward = split.select(~split.backward)
        pairs = int(np.isin(forward.keys, train.keys).sum())
        sources = int(np.isin(forward.source_keys[forward.rows], train.source_keys[train.rows]).sum())
        if sources:
            share = percent(sources / len(forward))
            also = f"{pairs:,} of them with the same translation" if pairs else "none with the same translation"
            yield Leak(
                f"leak: {sources:,} of {len(forward):,} {name} sources ({share}) are also in the training set; {also}."
            )


def _length_correlation(train: Pairs) -> float | None:
    """The correlation of the lengths of sources and targets in a sample; None if there are too few pairs."""
    rows = train.rows[:: max(1, len(train) // (4 * _MIN_CORRELATED_PAIRS))]
    lengths = np.array([(len(train.source[row]), len(train.target[row])) for row in rows.tolist()], dtype=np.float64)
    if len(rows) < _MIN_CORRELATED_PAIRS or not lengths.std(0).all():
        return None
    return float(np.asarray(np.corrcoef(lengths.T))[0, 1])


Data = TypeVar("Data", Labelled, Parallel)


def with_fewer_examples(data: Data, most: int) -> Data:
    """The data with at most this many training examples, evenly spread, and a note; 0: all."""
    count = len(data.train)
    if not 0 < most < count:
        return data
    train = data.train.select(np.sort(even_order(count, most)))
    note = f"{most:,} of {count:,} training examples are used, evenly spread (corpus.max_train)."
    return replace(data, train=train, notes=(*data.notes, Caution(note)))
