"""Alignments: the shares are the model's own attention, words are put together of their pieces, both families."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import translators
from qkv.blocks.attention import open_attention
from qkv.errors import InputError
from qkv.inspection.translator_heads import Alignment, align
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.models.transformer import TransformerConfig
from qkv.text.decoding import Words
from text.kinds import tokenizer

PIECES = tokenizer("bpe")
SHAPE: dict[str, Any] = {"vocabulary": PIECES.vocabulary, "width": 12}
CONFIGS = {
    "transformer": TransformerConfig(**SHAPE, layers=2, heads=3, context=64),
    "rnn": RNNTranslatorConfig(**SHAPE, attention="dot"),
}
SOURCE, TARGET = PIECES.encode("The river keeps it."), PIECES.encode("stone, she said")


def looked(model: Any, layer: int = -1) -> Alignment:
    return align(model, PIECES, [*SOURCE, PIECES.separator], TARGET, PIECES.separator, layer)


@pytest.mark.parametrize("kind", CONFIGS)
def test_shares_are_the_attention_of_a_forced_pass(kind: str) -> None:
    model = translators.built(CONFIGS[kind])
    found = looked(model)
    assert found.shares.shape == (len(TARGET), len(SOURCE) + 1)
    torch.testing.assert_close(found.shares.sum(1), torch.ones(len(TARGET)))
    place = model.decoder[-1].crossing.sublayer if kind == "transformer" else model.attention
    seen: list[Tensor] = []
    place.weights.register_forward_hook(lambda module, given, made: seen.append(made))
    given = torch.tensor([[*SOURCE, PIECES.separator]])
    with open_attention(model), torch.no_grad():
        model(given, torch.ones_like(given, dtype=torch.bool), torch.tensor([[PIECES.separator, *TARGET[:-1]]]))
    expected = seen[0][0].mean(0) if kind == "transformer" else seen[0][0]
    torch.testing.assert_close(found.shares, expected)


def test_another_layer_and_none_at_all() -> None:
    model = translators.built(CONFIGS["transformer"])
    assert not torch.allclose(looked(model, 0).shares, looked(model, 1).shares)
    assert torch.equal(looked(model, 1).shares, looked(model).shares)
    with pytest.raises(InputError, match="cross layer 2 of 2: expected 0 to 1"):
        looked(model, 2)
    silent = RNNTranslatorConfig(**SHAPE, attention="none").build()
    with pytest.raises(InputError, match="no attention to its source"):
        looked(silent)


def test_nothing_stays_behind() -> None:
    model = translators.built(CONFIGS["transformer"])
    before = [module.mix for module in model.modules() if hasattr(module, "mix")]
    looked(model)
    assert [module.mix for module in model.modules() if hasattr(module, "mix")] == before
    assert not any(module._forward_hooks for module in model.modules())


def test_words_are_put_together_of_their_pieces() -> None:
    source = Words(["un", "like", "ly", " it", "<end>"], [0, 0, 0, 1, -1], ["unlikely", "it"])
    target = Words(["es", " ist", " ", "unwahr"], [0, 1, -1, 2], ["es", "ist", "unwahr"])
    shares = torch.tensor(
        [
            [0.1, 0.1, 0.1, 0.4, 0.3],
            [0.2, 0.2, 0.1, 0.4, 0.1],  # three pieces together outweigh one
            [0.0, 0.0, 0.0, 1.0, 0.0],  # white space is no word
            [0.0, 0.1, 0.0, 0.0, 0.9],  # the end is no word either
        ]
    )
    found = Alignment(source, target, shares)
    assert found.pairs == [(1, 0), (0, 1), (0, 2)]
    assert found.values()["weights"][3][4] == pytest.approx(0.9)
    assert Alignment(Words([], [], []), target, shares[:, :0]).pairs == []
    assert Alignment(source, Words([], [], []), shares[:0]).pairs == []
