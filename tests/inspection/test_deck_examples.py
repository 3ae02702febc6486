"""The decks' sums before a model: its words and first layer on the ladder, deck 002's slide, the variants' sizes."""

from __future__ import annotations

import pytest
import torch

from inspection.subjects import subject
from qkv.cli.deck_tables import LADDER_COLUMNS, print_decks
from qkv.errors import InputError
from qkv.inspection.trace import trace
from qkv.inspection.worked_example import decks


@pytest.mark.parametrize("family", ["gpt", "modern", "bert", "classifier", "transformer"])
def test_the_ladder_stands_on_the_models_own_words(family: str) -> None:
    """First rung by hand from what enters the first block; last rung the mean of the layer's own heads."""
    given = subject(family)
    stack = "encoder" if family == "transformer" else "self"
    seen = trace(given, layers=[0])
    words, layer = seen.residual(stack)[0], seen.layer(0, stack)
    found = decks(given, token=2)
    first, last = found.shares(found.ladder[0]), found.shares(found.ladder[-1])
    torch.testing.assert_close(torch.tensor(first), (words @ words[2]).softmax(-1), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(torch.tensor(last), layer.weights[:, 2].mean(0))
    assert len(found.tokens) == len(first) == len(words)
    assert found.variants[0].parameters == 4 * words.size(1) ** 2
    for step in found.document()["ladder"]:
        assert sum(step["weights"]) == pytest.approx(1, abs=1e-5)


def test_it_is_shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    print_decks(decks(subject("gpt")))
    said = capsys.readouterr()
    assert "brown  124    15.5    0.982     0.91" in said.out
    assert all(each in said.out for each in LADDER_COLUMNS)
    assert "heads of d/h, no W_O" in said.out
    assert "illustrative" in said.err


@pytest.mark.parametrize("family", ["rnn-translator", "lstm"])
def test_without_self_attention_it_is_refused(family: str) -> None:
    with pytest.raises(InputError, match="needs one with self-attention"):
        decks(subject(family))


def test_a_token_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="token 99"):
        decks(subject("gpt"), token=99)
