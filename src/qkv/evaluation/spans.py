"""Spans (names, chunks) in tagged words, and how many of them a tagger finds with the correct ends and type.

Tags are a letter and a type, as in B-PER: BIO, IOB1 and IO, IOBES, and its twin BILOU (L for E, U for S). Whatever the
scheme, and however broken the sequence, spans are read as conlleval.pl does it (Tjong Kim Sang 2000), so scores equal
those of the CoNLL shared tasks and of seqeval's default mode (Nakayama 2018): an I- that follows nothing of its type
begins a span. seqeval does not know L and U; BILOU equals what it gives for the same tags in IOBES.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qkv.errors import InputError
from qkv.evaluation.class_metrics import f1
from qkv.evaluation.classification_metrics import PrecisionRecall, by_class, class_table, macro, micro
from qkv.evaluation.intervals import Array, Estimate, Metrics, bootstrap_rows

OUTSIDE = "O"
NO_TYPE = "_"  # of a tag that is a letter alone
IOBES = {"L": "E", "U": "S"}
PREFIXED = re.compile(r"[BIESLU]-.+", re.DOTALL)


class Span(NamedTuple):
    """Words from `start` up to, but not including, `end`."""

    type: str
    start: int
    end: int


@dataclass(frozen=True)
class SpanScore(Metrics):
    """The scores of a tagger on some sentences. A span is correct if its type, start and end are."""

    accuracy: float  # of single tags
    f1: Estimate  # over all spans; the interval draws sentences
    micro: PrecisionRecall
    macro: PrecisionRecall
    by_type: Mapping[str, PrecisionRecall]
    tokens: int
    counts: NDArray[np.int64] = field(repr=False)  # of each sentence: correct, predicted and true spans

    reported: ClassVar = ("count", "tokens", "accuracy", "f1")
    titles: ClassVar = {
        "f1": "F1 of spans",
        "precision": "precision",
        "recall": "recall",
        "macro_f1": "macro-F1 of types",
        "accuracy": "tags right",
    }

    @property
    def count(self) -> int:
        """The number of sentences."""
        return len(self.counts)

    def values(self) -> dict[str, object]:
        overall = {name: getattr(self.micro, name) for name in ("precision", "recall", "support")}
        return {**super().values(), **overall, "macro_f1": self.macro.f1}

    def tables(self) -> Mapping[str, object]:
        """For JSON: the scores by type."""
        return {"types": class_table([*self.by_type], [*self.by_type.values()])}


def is_spans(labels: Iterable[str]) -> bool:
    """Whether these tags mark spans; parts of speech do not."""
    inside = [label for label in labels if label != OUTSIDE]
    return bool(inside) and all(PREFIXED.fullmatch(label) for label in inside)


def spans(tags: Sequence[str]) -> list[Span]:
    """The spans of a sentence, from left to right."""
    complete: list[Span] = []
    letter, kind, start = OUTSIDE, NO_TYPE, 0
    for index, tag in enumerate([*tags, OUTSIDE]):
        before, kind_before = letter, kind
        letter, kind = IOBES.get(tag[0], tag[0]), tag[1:].split("-", 1)[-1] or NO_TYPE
        if _ends(before, letter) or (before != OUTSIDE and kind != kind_before):
            complete.append(Span(kind_before, start, index))
        if _begins(before, letter) or (letter != OUTSIDE and kind != kind_before):
            start = index
    return complete


def _ends(before: str, letter: str) -> bool:
    """Whether a span ends between two words with these letters, whatever their types."""
    return before in "ES" or (before in "BI" and letter in "BSO")


def _begins(before: str, letter: str) -> bool:
    """Whether a span begins between two words with these letters, whatever their types."""
    return letter in "BS" or (before in "ESO" and letter in "EI")


def span_score(true_sequences: Sequence[Sequence[str]], predicted_sequences: Sequence[Sequence[str]]) -> SpanScore:
    """Score the tags of sentences, one for each word."""
    lengths = [[len(tags) for tags in sequences] for sequences in (true_sequences, predicted_sequences)]
    if lengths[0] != lengths[1] or not sum(lengths[0]):
        raise InputError(
            f"{len(lengths[0])} sentences of {sum(lengths[0])} words, and tags for {len(lengths[1])} of "
            f"{sum(lengths[1])}: expected one tag for each word, and one word at least."
        )
    correct, predicted, support = Counter[str](), Counter[str](), Counter[str]()
    counts = np.zeros((len(true_sequences), 3), np.int64)
    tags_right = 0
    for index, (true, tagged) in enumerate(zip(true_sequences, predicted_sequences, strict=True)):
        tags_right += sum(one == other for one, other in zip(true, tagged, strict=True))
        true_spans, tagged_spans = set(spans(true)), set(spans(tagged))
        both = true_spans & tagged_spans
        for total, found in ((correct, both), (predicted, tagged_spans), (support, true_spans)):
            total.update(span.type for span in found)
        counts[index] = len(both), len(tagged_spans), len(true_spans)
    types = sorted(predicted.keys() | support.keys())
    columns = [np.array([total[name] for name in types], np.int64) for total in (correct, predicted, support)]
    rows = by_class(*columns)
    (overall,) = bootstrap_rows(counts, lambda drawn, distinct: f1_of_totals(drawn @ distinct, len(counts))[:, None])
    return SpanScore(
        accuracy=tags_right / sum(lengths[0]),
        f1=overall,
        micro=micro(*columns),
        macro=macro(rows),
        by_type=dict(zip(types, rows, strict=True)),
        tokens=sum(lengths[0]),
        counts=counts,
    )


def f1_of_totals(totals: Array, rows: int) -> Array:
    """The F1 of sums of `counts`; `intervals.paired` compares two taggers by it."""
    return f1(*totals.T)
