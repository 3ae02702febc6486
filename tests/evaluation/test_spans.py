"""Spans and their scores equal seqeval's, for every scheme and for broken sequences."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from seqeval import metrics
from seqeval.metrics.sequence_labeling import get_entities

from qkv.errors import InputError
from qkv.evaluation.intervals import paired
from qkv.evaluation.spans import Span, f1_of_totals, is_spans, span_score, spans

SCHEMES = ["BI", "I", "BIES", "BE", "BILU", "IE", "S"]
TYPES = ["PER", "LOC", "MISC-OTHER"]


@some.composite
def sentences(draw: some.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    """True and predicted tags in one scheme, in any order: most are broken."""
    letters = draw(some.sampled_from(SCHEMES))
    types = draw(some.sampled_from([TYPES, TYPES[:1], ["_"]]))
    tag = some.sampled_from(["O", *(f"{letter}-{each}" for letter in letters for each in types)])
    pair = some.lists(some.tuples(tag, tag), max_size=10)
    both = draw(some.lists(pair, min_size=1, max_size=5).filter(any))
    return [[one for one, _ in rows] for rows in both], [[other for _, other in rows] for rows in both]


def iobes(sequences: list[list[str]]) -> list[list[str]]:
    """seqeval does not know L and U."""
    names = {"L": "E", "U": "S"}
    return [[names.get(tag[0], tag[0]) + tag[1:] for tag in tags] for tags in sequences]


@given(sentences())
@settings(max_examples=400)
def test_spans_as_seqeval_reads_them(case: tuple[list[list[str]], list[list[str]]]) -> None:
    for tags in case[0]:
        theirs = [Span(name, start, end + 1) for name, start, end in get_entities(iobes([tags])[0])]
        assert spans(tags) == theirs


@given(sentences())
def test_scores_as_seqeval_gives_them(case: tuple[list[list[str]], list[list[str]]]) -> None:
    true, predicted = case
    score = span_score(true, predicted)
    old, new = iobes(true), iobes(predicted)
    assert score.accuracy == pytest.approx(metrics.accuracy_score(true, predicted))
    if not score.by_type:  # seqeval divides by nothing
        assert (score.f1.value, score.macro.f1, score.micro.support) == (0, 0, 0)
        return
    report = metrics.classification_report(old, new, output_dict=True, zero_division=0)
    wanted = {name: list(row.values()) for name, row in report.items()}
    ours = {**score.by_type, "micro avg": score.micro, "macro avg": score.macro}
    assert set(ours) == set(wanted) - {"weighted avg"}
    for name, each in ours.items():
        assert list(asdict(each).values()) == pytest.approx(wanted[name])
    assert score.f1.value == pytest.approx(metrics.f1_score(old, new, zero_division=0))
    json.dumps(score.values() | score.tables(), allow_nan=False)


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("I-PER I-PER B-PER I-LOC", [("PER", 0, 2), ("PER", 2, 3), ("LOC", 3, 4)]),  # IOB1, and a change of type
        ("O I-PER", [("PER", 1, 2)]),
        ("S-PER B-PER I-PER E-PER S-LOC", [("PER", 0, 1), ("PER", 1, 4), ("LOC", 4, 5)]),
        ("U-PER U-PER B-LOC L-LOC", [("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 4)]),
        ("B I O B", [("_", 0, 2), ("_", 3, 4)]),
        ("", []),
    ],
)
def test_spans_by_hand(tags: str, wanted: list[tuple[str, int, int]]) -> None:
    assert spans(tags.split()) == wanted


def test_a_span_ends_with_its_sentence() -> None:
    assert span_score([["B-PER"], ["I-PER"]], [["B-PER"], ["I-PER"]]).micro.support == 2


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["O", "B-PER", "I-PER"], True),
        (["I-NP", "O"], True),
        (["B-NP", "I-NP"], True),
        (["U-PER", "B-PER", "L-PER", "O"], True),
        (["NOUN", "VERB", "O"], False),
        (["O"], False),
        ([], False),
        (["B-PER", "I-PER", "X"], False),
        (["NN", "NNS", "-LRB-", "B"], False),
    ],
)
def test_which_tags_mark_spans(labels: list[str], wanted: bool) -> None:
    assert is_spans(labels) is wanted


def test_the_interval_draws_sentences() -> None:
    random = np.random.default_rng(6)
    tags = np.array(["O", "O", "B-PER", "I-PER", "B-LOC"])
    true = [tags[random.integers(0, 5, 12)].tolist() for _ in range(200)]
    better, worse = (
        [[tag if random.random() < share else "O" for tag in tags] for tags in true] for share in (0.95, 0.8)
    )
    one, other = span_score(true, better), span_score(true, worse)
    assert one.f1.low is not None
    assert one.f1.value is not None
    assert one.f1.high is not None
    assert one.f1.low < one.f1.value < one.f1.high
    found = paired(one.counts, other.counts, f1_of_totals)
    assert (found.first, found.second) == pytest.approx((one.f1.value, other.f1.value))
    assert not found.includes_zero


def test_a_tag_for_each_word() -> None:
    with pytest.raises(InputError, match="one tag for each word"):
        span_score([["O", "O"]], [["O"]])
    with pytest.raises(InputError, match="one word at least"):
        span_score([[]], [[]])
