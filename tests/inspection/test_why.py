"""Attribution: against autograd and finite differences, its sum rule, and a model that reads one word only."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inspection.subjects import PIECES, subject
from qkv.errors import InputError
from qkv.inspection import why
from qkv.inspection.subject import Inputs, forward


@pytest.mark.parametrize(
    "family", ["gpt", "modern", "classifier", "gpt-classifier", "transformer", "rnn-translator", "lstm"]
)
def test_gradients_are_those_of_finite_differences(family: str) -> None:
    """Moving all embeddings a little on their way from blanks changes log p by the gradient times the way."""
    given = subject(family)
    with torch.no_grad():
        target = int(why.answer(given, forward(given.model, given.inputs)).argmax())
    (x, found), (base, _) = why.slope(given, target, 1.0), why.slope(given, target, 0.0)
    assert why.gradient(given, target) == pytest.approx((x * found).sum(-1).tolist(), abs=1e-4)
    assert len(x) == len(given.inputs.read)

    def log(scale: float) -> float:
        with torch.no_grad(), why.replaced(given, scale):
            return float(why.answer(given, forward(given.model, given.inputs)).log_softmax(-1)[target])

    assert float((found * (x - base)).sum()) == pytest.approx((log(1.005) - log(0.995)) / 0.01, rel=0.05, abs=0.02)
    assert all(parameter.grad is None for parameter in given.model.parameters())
    whole = why.integrated(given, target, steps=64)
    assert sum(whole) == pytest.approx(log(1.0) - log(0.0), rel=0.1, abs=0.1), "the values sum to the difference"


def test_occlusion_is_what_is_lost() -> None:
    given = subject("classifier")
    found = why.why(given)
    occluded = next(each for each in found.methods if each.name == "occlusion")
    own = [place for place, word in enumerate(found.places) if word == 0]
    target = given.labels.index(found.target)
    with torch.no_grad():
        rest = forward(given.model, given.inputs.without(own))[0].log_softmax(-1)[target]
        whole = forward(given.model, given.inputs)[0].log_softmax(-1)[target]
    assert occluded.values[own[0]] == pytest.approx(float(whole - rest), abs=1e-5)
    assert found.p == pytest.approx(float(whole.exp()), abs=1e-6)
    assert len(found.of_words(occluded)) == len(found.words)


class OneWord(torch.nn.Module):
    """Says "good" the more, the more often one piece stands in the text; every other piece is nothing to it."""

    def __init__(self, piece: int) -> None:
        super().__init__()
        self.encoder = torch.nn.Module()
        self.encoder.embedding = torch.nn.Embedding(PIECES.vocabulary, 2)
        with torch.no_grad():
            self.encoder.embedding.weight.fill_(0.0)
            self.encoder.embedding.weight[piece] = torch.tensor([-1.0, 3.0])

    def forward(self, tokens: Any) -> Any:
        return self.encoder.embedding(tokens).sum(1)


def test_the_word_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = subject("classifier")
    monkeypatch.setattr(type(given), "answer", property(lambda self: "label"))
    ids = PIECES.encode("The river keeps the stone and nobody knows")
    piece = ids[4]
    made = type(given)(OneWord(piece), PIECES, "classifier", Inputs(tuple(ids)), "", "", ("bad", "good"))
    found = why.why(made)
    assert found.target == "good"
    word = found.places[4]
    for method in found.methods:
        values = found.of_words(method)
        assert max(range(len(values)), key=values.__getitem__) == word, method.name
        assert method.faithful, method.name
    assert "3 of 3 methods are faithful here" in found.said


def test_a_translator_is_explained_by_its_source() -> None:
    given = subject("transformer")
    found = why.why(given)
    assert all(len(each.values) == len(given.inputs.source or ()) for each in found.methods)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(InputError, match="decides nothing"):
        why.why(subject("bert"))
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        why.why(subject("masked"))
    with pytest.raises(InputError, match="answer 7"):
        why.why(subject("classifier"), 7)
