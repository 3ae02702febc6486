"""A config that cannot be built is refused at the door, in words."""

from __future__ import annotations

from typing import Any

import pytest

from qkv.config import parse, toml_values
from qkv.errors import ConfigError
from qkv.models.cnn import CNNConfig
from qkv.models.gpt import PRESETS, GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig

BAD = [
    (GPTConfig, {"width": 50, "heads": 3}, "width 50 does not divide into 3 heads; choose a multiple of 3"),
    (GPTConfig, {"layers": 0}, "layers = 0 does not fit; expected greater than or equal to 1"),
    (GPTConfig, {"heads": -1}, "heads = -1"),
    (GPTConfig, {"width": "128"}, "width = '128' does not fit; expected a valid integer"),
    (GPTConfig, {"width": 12.5}, "width = 12.5"),
    (GPTConfig, {"layers": True}, "layers = True"),
    (GPTConfig, {"context": 2**40}, "context = "),
    (GPTConfig, {"dropout": 1.5}, "dropout = 1.5 does not fit; expected less than or equal to 1"),
    (GPTConfig, {"dropout": -0.1}, "dropout = -0.1"),
    (GPTConfig, {"dropout": float("nan")}, "dropout"),
    (GPTConfig, {"vocabulary": -5}, "vocabulary = -5"),
    (GPTConfig, {"kind": "bert"}, "kind = 'bert'"),
    (GPTConfig, {"layer": 3}, "unknown key 'layer'; did you mean 'layers'?"),
    (GPTConfig, {"zebra": 3}, "unknown key 'zebra'; known here: context, dropout, heads"),
    (ModernConfig, {"heads": 4, "key_heads": 3}, "heads = 4 must be a multiple of key_heads = 3"),
    (ModernConfig, {"heads": 2, "key_heads": 4}, "heads = 2 must be a multiple of key_heads = 4"),
    (ModernConfig, {"width": 12, "heads": 4}, "the head width .* must be even"),
    (ModernConfig, {"head_width": 7}, "must be even"),
    (ModernConfig, {"width": 50, "heads": 3}, "width 50 does not divide into 3 heads"),
    (ModernConfig, {"head": "shared"}, "head = 'shared' does not fit; expected 'tied' or 'own'"),
    (ModernConfig, {"rotary_base": 0}, "rotary_base = 0"),
    (ModernConfig, {"norm_epsilon": -1e-6}, "norm_epsilon"),
    (LlamaConfig, {"kind": "mistral"}, "kind = 'mistral' does not fit; expected 'llama' or 'qwen2'"),
    (LlamaConfig, {"heads": 4, "key_heads": 3}, "heads = 4 must be a multiple of key_heads = 3"),
    (LlamaConfig, {"head_width": 7}, "must be even"),
    (LlamaConfig, {"rotary_factor": 0}, "rotary_factor = 0"),
    (LlamaConfig, {"rotary_low": 4.0, "rotary_high": 4.0}, "rotary_high = 4.0 must be above rotary_low = 4.0"),
    (GPTConfig, {"window": -1}, "window = -1 does not fit; expected greater than or equal to 0"),
    (MLPConfig, {"heads": 4}, "unknown key 'heads'"),
    (MLPConfig, {"embedding_width": -1}, "embedding_width = -1"),
    (CNNConfig, {"kernel": 0}, "kernel = 0 does not fit; expected greater than or equal to 1"),
    (CNNConfig, {"growth": 0}, "growth = 0"),
    (RecurrentConfig, {"kind": "transformer"}, "kind = 'transformer' does not fit; expected 'rnn', 'gru' or 'lstm'"),
    (RecurrentConfig, {"input": "bytes"}, "input = 'bytes' does not fit; expected 'embedding' or 'one-hot'"),
    (RecurrentConfig, {"start": None}, "start = None"),
    (RecurrentConfig, {"heads": 4}, "unknown key 'heads'"),
]


@pytest.mark.parametrize(("kind", "values", "words"), BAD)
def test_bad_values_are_refused_in_words(kind: Any, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse(kind, values, "recipe.toml")
    assert str(caught.value).startswith("recipe.toml: ")
    assert "\n" not in str(caught.value)


def test_a_config_made_in_python_is_checked_too() -> None:
    with pytest.raises(ValueError, match="does not divide"):
        GPTConfig(width=50, heads=3)
    with pytest.raises(ValueError, match="multiple of key_heads"):
        ModernConfig(heads=4, key_heads=3)


@pytest.mark.parametrize(
    "config",
    [
        *PRESETS.values(),
        ModernConfig(key_heads=2, window=8),
        LlamaConfig(kind="qwen2", rotary_factor=32.0),
        RecurrentConfig(kind="gru"),
        MLPConfig(),
        CNNConfig(),
    ],
)
def test_a_config_is_read_as_it_was_written(config: Any) -> None:
    assert parse(type(config), toml_values(config), "recipe.toml") == config


def test_a_head_width_of_its_own_frees_the_width() -> None:
    config = parse(ModernConfig, {"width": 50, "heads": 3, "head_width": 8, "vocabulary": 5}, "recipe.toml")
    assert config.build().blocks[0].attention.sublayer.query.weight.shape == (24, 50)


@pytest.mark.parametrize("width", [2, 4, 6, 8, 48])
def test_a_small_width_still_has_a_feed_forward(width: int) -> None:
    model = ModernConfig(width=width, heads=1, vocabulary=5).build()
    assert model.blocks[0].feedforward.sublayer.gate.out_features >= width
