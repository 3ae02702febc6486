"""Taps: every place to look has a name, sees its value while attention is open, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.blocks.tap import taps
from qkv.models.cnn import CNNConfig
from qkv.models.gpt import GPTConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig

ATTENTION = ["queries", "keys", "values", "scores", "weights", "mixed"]
BLOCK = [
    *[f"blocks.0.attention.sublayer.{name}" for name in ATTENTION],
    "blocks.0.attention.update",
    "blocks.0.attention.stream",
    "blocks.0.feedforward.sublayer.hidden",
    "blocks.0.feedforward.update",
    "blocks.0.feedforward.stream",
]
SHAPES = {"vocabulary": 13, "layers": 1, "width": 16, "context": 6}
MODELS = {
    "gpt": (GPTConfig(**SHAPES, heads=2, dropout=0.3), ["embedded", *BLOCK, "logits"]),
    "modern": (ModernConfig(**SHAPES, heads=4, key_heads=2, dropout=0.3), ["embedded", *BLOCK, "logits"]),
    "gpt-window": (GPTConfig(**SHAPES, heads=2, window=3), ["embedded", *BLOCK, "logits"]),
    "mlp": (
        MLPConfig(**SHAPES, dropout=0.3),
        [
            "embedded",
            "joined.features",
            *[f"blocks.0.{name}" for name in ("sublayer.hidden", "update", "stream")],
            "logits",
        ],
    ),
    "cnn": (
        CNNConfig(**SHAPES, dropout=0.3),
        [
            "embedded",
            *[f"blocks.0.sublayer.{name}" for name in ("gate.features", "up.features", "hidden")],
            *["blocks.0.update", "blocks.0.stream", "logits"],
        ],
    ),
    "rnn": (RecurrentConfig(kind="rnn", **SHAPES), ["recurrent.vectors", "embedded", "logits"]),
    "gru": (RecurrentConfig(kind="gru", **SHAPES), ["recurrent.vectors", "embedded", "logits"]),
    "lstm": (RecurrentConfig(kind="lstm", **SHAPES), ["recurrent.vectors", "embedded", "logits"]),
}


def built(config: Any) -> nn.Module:
    torch.manual_seed(0)
    model = config.build()
    for parameter in model.parameters():  # modern starts with zeros, which would hide much
        nn.init.normal_(parameter, std=0.2)
    return model


def watched(model: nn.Module) -> tuple[dict[str, Tensor], list[Any]]:
    seen: dict[str, Tensor] = {}

    def look(name: str) -> Any:
        return lambda module, inputs, output: seen.__setitem__(name, output)

    return seen, [tap.register_forward_hook(look(name)) for name, tap in taps(model).items()]


TOKENS = torch.tensor([[1, 5, 2, 7, 0, 12], [3, 3, 9, 4, 8, 6]])


@pytest.mark.parametrize("name", MODELS)
def test_names(name: str) -> None:
    config, expected = MODELS[name]
    assert sorted(taps(built(config))) == sorted(expected)


@pytest.mark.parametrize("name", MODELS)
def test_every_tap_sees_a_value_while_attention_is_open(name: str) -> None:
    config, expected = MODELS[name]
    model = built(config).eval()
    seen, _ = watched(model)
    with open_attention(model):
        logits = model(TOKENS)
    assert sorted(seen) == sorted(expected)
    assert torch.equal(seen["logits"], logits)
    if "blocks.0.attention.sublayer.weights" in seen:
        weights = seen["blocks.0.attention.sublayer.weights"]
        assert weights.shape == (2, config.heads, 6, 6)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, config.heads, 6))
        assert weights.triu(1).eq(0).all(), "nobody looks at the future"
        torch.testing.assert_close(
            seen["blocks.0.attention.stream"], seen["embedded"] + seen["blocks.0.attention.update"]
        )


@pytest.mark.parametrize("name", MODELS)
def test_closed_attention_shows_all_but_scores_and_weights(name: str) -> None:
    config, expected = MODELS[name]
    model = built(config).eval()
    seen, _ = watched(model)
    model(TOKENS)
    assert set(expected) - set(seen) == {name for name in expected if name.endswith((".scores", ".weights"))}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", MODELS)
def test_taps_change_nothing(name: str, mode: str) -> None:
    """Watched and unwatched, to the last bit; open and fused within rounding, dropout included."""
    model = built(MODELS[name][0]).train(mode == "train")

    def run() -> Tensor:
        torch.manual_seed(1)
        return model(TOKENS)

    expected = run()
    seen, hooks = watched(model)
    assert torch.equal(run(), expected)
    with open_attention(model):
        torch.testing.assert_close(run(), expected, atol=1e-5, rtol=1e-5)
    assert seen
    for hook in hooks:
        hook.remove()
    assert torch.equal(run(), expected)


def test_a_hook_may_change_what_flows() -> None:
    """A tap is a place to intervene, too: without what the attention adds, tokens no longer see each other."""
    model = built(MODELS["gpt"][0]).eval()
    taps(model)["blocks.0.attention.update"].register_forward_hook(lambda module, inputs, output: output * 0)
    changed = TOKENS.clone()
    changed[:, 0] = 11
    torch.testing.assert_close(model(changed)[:, 1:], model(TOKENS)[:, 1:], atol=1e-6, rtol=1e-5)
