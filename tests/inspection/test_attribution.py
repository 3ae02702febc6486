"""Attribution: against autograd and finite differences, its sum rule, and a model that reads one word only."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inspection.subjects import PIECES, subject
from qkv.errors import InputError
from qkv.inspection import attribution
from qkv.inspection.answer_scores import answers, logs
from qkv.inspection.subject import Inputs, forward


@pytest.mark.parametrize(
    "family", ["gpt", "modern", "classifier", "gpt-classifier", "transformer", "rnn-translator", "lstm"]
)
def test_gradients_are_those_of_finite_differences(family: str) -> None:
    """Moving all embeddings a little on their way from blanks changes log p by the gradient times the way."""
    given = subject(family)
    with torch.no_grad():
        target = int(answers(given, [given.inputs])[0].argmax())
    (x, base), (found, _) = attribution.slopes(given, target, [1.0, 0.0])
    assert attribution.gradient(given, target) == pytest.approx((x * found).sum(-1).tolist(), abs=1e-4)
    assert len(x) == len(given.inputs.read)

    def log(scale: float) -> float:
        with torch.no_grad(), attribution.replace_embeddings(given, [scale]):
            return float(answers(given, [given.inputs])[0].log_softmax(-1)[target])

    assert float((found * (x - base)).sum()) == pytest.approx((log(1.005) - log(0.995)) / 0.01, rel=0.05, abs=0.02)
    assert all(parameter.grad is None for parameter in given.model.parameters())
    whole = attribution.integrated_gradients(given, target, steps=64)
    assert sum(whole) == pytest.approx(log(1.0) - log(0.0), rel=0.1, abs=0.1), "the values sum to the difference"


@pytest.mark.parametrize("family", ["gpt", "modern", "classifier", "gpt-classifier", "transformer", "rnn-translator"])
def test_answers_in_a_batch_are_those_of_each_text(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of several lengths, padded; three of them in a pass."""
    given = subject(family)
    rows = [given.inputs.without(range(1, end)) for end in range(1, 6)]
    with torch.no_grad():
        passed = [forward(given.model, row)[0] for row in rows]
    each = [made if given.answer == "label" else made[-1] for made in passed]
    with torch.no_grad():
        torch.testing.assert_close(answers(given, rows), torch.stack(each), atol=1e-5, rtol=1e-5)
    monkeypatch.setattr("qkv.inspection.answer_scores.TOKENS", 3 * len(given.inputs.read))
    expected = [float(made.log_softmax(-1)[1]) for made in each]
    assert logs(given, 1, rows) == pytest.approx(expected, abs=1e-4)
    (left,) = logs(given, 1, [given.inputs.without(range(99))])
    assert (left == float("-inf")) == (given.answer == "label" or given.inputs.source is not None)


def test_long_texts_take_steps_and_groups_that_are_affordable() -> None:
    """Less and less may be spent: fewer steps, draws and groups, then no gradient x input; it is never the only one."""
    given = subject("classifier")
    words, before = len(attribution.why(given).words), 10**9
    assert attribution.affordable(given) == attribution.Effort()
    one = attribution.WORK / 100
    while one > 1:
        one /= 1.5
        effort = attribution.affordable(given, one)
        passes = effort.passes(words)
        assert passes <= before
        before = passes
        assert {"integrated", "occlusion"} <= set(effort.methods)
    assert effort == attribution.LEAST
    few = attribution.Effort(("occlusion", "integrated"), steps=4, groups=3, draws=4)
    found = attribution.why(given, effort=few)
    assert [each.name for each in sorted(found.methods, key=lambda each: each.name)] == [
        "integrated gradients",
        "occlusion",
    ]
    assert f"3 groups of {words / 3:.1f} words" in found.how
    assert "4 steps" in found.how
    assert "mean of 4" in found.verdict


def test_a_group_shares_what_is_lost_without_it() -> None:
    given = subject("classifier")
    found = attribution.why(given, effort=attribution.Effort(("occlusion",), groups=2))
    (method,), half = found.methods, (len(found.words) + 1) // 2
    values = found.of_words(method)
    for part in (values[:half], values[half:]):
        assert part == pytest.approx([part[0]] * len(part))
    target = given.labels.index(found.target)
    gone = [at for at, word in enumerate(found.places) if 0 <= word < half]
    whole, rest = logs(given, target, [given.inputs, given.inputs.without(gone)])
    assert sum(values[:half]) == pytest.approx(whole - rest, abs=1e-5)


def test_occlusion_is_what_is_lost() -> None:
    given = subject("classifier")
    found = attribution.why(given)
    occluded = next(each for each in found.methods if each.name == "occlusion")
    own = [place for place, word in enumerate(found.places) if word == 0]
    target = given.labels.index(found.target)
    with torch.no_grad():
        rest = forward(given.model, given.inputs.without(own))[0].log_softmax(-1)[target]
        whole = forward(given.model, given.inputs)[0].log_softmax(-1)[target]
    assert sum(occluded.values[at] for at in own) == pytest.approx(float(whole - rest), abs=1e-5)
    assert found.of_words(occluded)[0] == pytest.approx(float(whole - rest), abs=1e-5)
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

    def forward(self, tokens: Any, present: Any = None, segments: Any = None) -> Any:
        found = self.encoder.embedding(tokens)
        return (found if present is None else found * present[..., None]).sum(1)


def test_the_word_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = subject("classifier")
    monkeypatch.setattr(type(given), "answer", property(lambda self: "label"))
    ids = PIECES.encode("The river keeps the stone and nobody knows")
    piece = ids[4]
    made = type(given)(OneWord(piece), PIECES, "classifier", Inputs(tuple(ids)), "", "", ("bad", "good"))
    found = attribution.why(made)
    assert found.target == "good"
    word = found.places[4]
    for method in found.methods:
        values = found.of_words(method)
        assert max(range(len(values)), key=values.__getitem__) == word, method.name
        assert method.faithful, method.name
    assert "3 of 3 methods are faithful here" in found.verdict


def test_a_translator_is_explained_by_its_source() -> None:
    given = subject("transformer")
    found = attribution.why(given)
    assert all(len(each.values) == len(given.inputs.source or ()) for each in found.methods)


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(InputError, match="decides nothing"):
        attribution.why(subject("bert"))
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        attribution.why(subject("masked"))
    with pytest.raises(InputError, match="answer 7"):
        attribution.why(subject("classifier"), 7)
