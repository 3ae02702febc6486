"""The Transformer that translates: sizes, padding, causality, the state, shared memories, learning."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

import translators
from qkv.blocks.attention import open_attention
from qkv.blocks.initialization import outline
from qkv.blocks.tap import taps
from qkv.config import parse, toml_values
from qkv.errors import ConfigError
from qkv.models.language_model import count
from qkv.models.transformer import PRESETS, TransformerConfig

SHAPE: dict[str, Any] = {"vocabulary": 19, "layers": 2, "heads": 3, "width": 24, "context": 12}
CONFIGS = {
    "post": TransformerConfig(**SHAPE),
    "post-learned": TransformerConfig(**SHAPE, positions="learned", activation="gelu", decoder_layers=1),
    "pre": TransformerConfig(**SHAPE, norm="pre", activation="silu", hidden=17, decoder_layers=3),
    "dropout": TransformerConfig(**SHAPE, dropout=0.2),
}
EVERY = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
EVERY_PROMISE = pytest.mark.parametrize("promise", translators.PROMISES, ids=lambda promise: promise.__name__)


@EVERY_PROMISE
@EVERY
def test_promises(config: TransformerConfig, promise: Any) -> None:
    promise(config)


@pytest.mark.parametrize(
    ("name", "vocabulary", "expected"),
    [
        ("transformer-tiny", 8_000, 2_357_056),
        ("transformer-small", 8_000, 6_009_664),
        ("transformer-base", 37_000, 63_119_496),
        ("transformer-big", 37_000, 214_282_376),
    ],
)
def test_presets_have_their_size(name: str, vocabulary: int, expected: int) -> None:
    """Vaswani et al. 2017, table 3, round base and big to 65 and 213 million, with about 37,000 pieces."""
    config = dataclasses.replace(PRESETS[name], vocabulary=vocabulary)
    with outline():
        assert count(config.build()) == expected
    d, hidden = config.width, config.hidden
    attention, feedforward = 4 * (d * d + d) + 2 * d, 2 * d * hidden + hidden + d + 2 * d
    assert expected == config.layers * (3 * attention + 2 * feedforward) + vocabulary * (d + 1)


@EVERY
def test_a_config_is_read_as_it_was_written(config: TransformerConfig) -> None:
    assert parse(TransformerConfig, toml_values(config), "config.json") == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": 50, "heads": 3}, "does not divide into 3 heads"),
        ({"norm": "both"}, "norm = 'both' does not fit; expected 'post' or 'pre'"),
        ({"positions": "rotary"}, "positions = 'rotary' does not fit"),
        ({"activation": "tanh"}, "activation = 'tanh' does not fit"),
        ({"layer": 2}, "did you mean 'layers'"),
    ],
)
def test_bad_values_are_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(TransformerConfig, values, "config.json")


def test_the_parts_follow_the_config() -> None:
    post, pre = (translators.built(CONFIGS[name]) for name in ("post", "pre"))
    assert (len(pre.encoder), len(pre.decoder), len(post.decoder)) == (2, 3, 2)
    names = set(post.state_dict())
    assert "encoder_norm.weight" in set(pre.state_dict()) - names
    assert not [name for name in names if name.startswith(("positions", "head.")) and name != "head.bias"]
    assert "positions.table.weight" in translators.built(CONFIGS["post-learned"]).state_dict()


@EVERY
@torch.no_grad()
def test_open_attention_is_the_fused_one(config: TransformerConfig) -> None:
    model, (source, present, tokens) = translators.built(config), translators.batch()
    expected = model(source, present, tokens)
    seen: list[Tensor] = []
    last = model.decoder[-1].crossing.sublayer.weights
    last.register_forward_hook(lambda module, given, made: seen.append(made))
    with open_attention(model):
        torch.testing.assert_close(model(source, present, tokens), expected, **translators.CLOSE)
    assert seen[0].shape == (3, config.heads, tokens.size(1), source.size(1))
    assert seen[0].masked_select(~present[:, None, None]).eq(0).all()
    assert "decoder.0.crossing.sublayer.weights" in taps(model)


def test_dropout_is_drawn_in_training_only() -> None:
    model, given = translators.built(CONFIGS["dropout"]), translators.batch()
    assert torch.equal(model(*given), model(*given))
    model.train()
    assert not torch.allclose(model(*given), model(*given))


@EVERY
def test_a_fresh_model_learns_to_reverse(config: TransformerConfig) -> None:
    """From its own start, some steps lower the loss on one batch, and every parameter moves."""
    torch.manual_seed(0)
    model, (source, present, _) = dataclasses.replace(config, dropout=0.0).build(), translators.batch()
    before = copy.deepcopy(model.state_dict())
    targets = source.flip(1)
    tokens = F.pad(targets[:, :-1], (1, 0))
    optimizer, losses = torch.optim.Adam(model.parameters(), 3e-3), []
    for _ in range(40):
        loss = F.cross_entropy(model(source, present, tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] < 6.0, "scores start about as large as the pieces are many; what was said last is likely at first"
    assert losses[-1] < 0.5 * losses[0]
    assert not [name for name, value in model.state_dict().items() if torch.equal(value, before[name])]


@EVERY
@torch.no_grad()
def test_it_can_be_saved_and_loaded(config: TransformerConfig, tmp_path: Path) -> None:
    model, given = translators.built(config), translators.batch()
    weights = model.state_dict()
    assert set(weights) == {name for name, _ in model.named_parameters()}, "buffers are not saved: they follow"
    save_file(weights, tmp_path / "model.safetensors")
    other = translators.built(config, seed=9)
    assert not torch.allclose(other(*given), model(*given))
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(*given), model(*given))
