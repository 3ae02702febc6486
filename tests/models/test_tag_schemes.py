"""Which tags may follow which."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from qkv.evaluation.spans import spans
from qkv.models.tag_schemes import follows, forbidden, scheme_of

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
IOBES = ("O", *(f"{letter}-{kind}" for kind in ("PER", "LOC") for letter in "BIES"))
BILOU = ("O", *(f"{letter}-{kind}" for kind in ("PER", "LOC") for letter in "BILU"))


def test_inside_needs_a_begin_of_its_type() -> None:
    assert follows("BIO", "B-PER", "I-PER")
    assert follows("BIO", "I-PER", "I-PER")
    assert not follows("BIO", "B-LOC", "I-PER")
    assert not follows("BIO", "O", "I-PER")
    assert not follows("BIO", None, "I-PER")
    assert follows("BIO", "I-PER", None)
    assert not follows("IOBES", "B-PER", "O")
    assert not follows("IOBES", "B-PER", None)
    assert follows("IOBES", "I-PER", "E-PER")
    assert follows("IOBES", "E-PER", "S-PER")
    assert follows("IOBES", "B-PER", "L-PER")
    assert not follows("IOBES", "U-PER", "I-PER")


@pytest.mark.parametrize(("labels", "scheme"), [(BIO, "BIO"), (IOBES, "IOBES"), (BILOU, "IOBES")])
def test_an_allowed_sequence_is_what_its_spans_are_written_as(labels: tuple[str, ...], scheme: str) -> None:
    """All sequences of three tags: the allowed ones are those that writing their spans gives back."""
    twins = {"E": "L", "S": "U"} if labels is BILOU else {}
    pairs, starts, ends = forbidden(labels, scheme)  # type: ignore[arg-type]
    for path in product(range(len(labels)), repeat=3):
        tags = [labels[tag] for tag in path]
        written = ["O"] * 3
        for kind, start, end in spans(tags):
            letters = ["B"] + ["I"] * (end - start - 1)
            if scheme == "IOBES":
                letters = ["S"] if end - start == 1 else [*letters[:-1], "E"]
            written[start:end] = [f"{twins.get(letter, letter)}-{kind}" for letter in letters]
        allowed = not starts[path[0]] and not ends[path[2]] and not any(pairs[a, b] for a, b in pairwise(path))
        assert allowed == (written == tags), tags


def test_the_scheme_is_that_of_the_corpus() -> None:
    assert scheme_of(BIO, [(None, "B-PER"), ("B-PER", "I-PER"), ("I-PER", None)]) == "BIO"
    assert scheme_of(BIO, [(None, "I-PER")]) == "none"  # IOB1, or a mistake
    assert scheme_of(IOBES, [("B-PER", "E-PER")]) == "IOBES"
    assert scheme_of(("NOUN", "VERB"), []) == "none"
    assert scheme_of(("B", "I", "O"), []) == "none"  # letters alone may be anything
