"""Exact numbers of parameters. Built on the meta device: nothing is allocated."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from qkv.models.cnn import CNNConfig
from qkv.models.gpt import PRESETS
from qkv.models.language_model import count
from qkv.models.llama import LlamaConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig


def parameters(config: Any, vocabulary: int) -> int:
    with torch.device("meta"):
        return count(dataclasses.replace(config, vocabulary=vocabulary).build())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpt2", 124_439_808),
        ("gpt2-medium", 354_823_168),
        ("gpt2-large", 774_030_080),
        ("gpt2-xl", 1_557_611_200),
    ],
)
def test_gpt2_has_its_size(name: str, expected: int) -> None:
    """Deck 004's table says 117, 345, 762 and 1542 million; these are the released models."""
    assert parameters(PRESETS[name], 50257) == expected


@pytest.mark.parametrize("name", PRESETS)
def test_gpt_by_formula(name: str) -> None:
    """Twelve width² and thirteen width a block (matrices; biases and norms), two tables, a last norm."""
    config = PRESETS[name]
    d, vocabulary = config.width, 1000
    block = 12 * d * d + 13 * d
    assert parameters(config, vocabulary) == (vocabulary + config.context) * d + config.layers * block + 2 * d


def test_nano_is_the_decks() -> None:
    nano = PRESETS["gpt-nano"]
    assert (nano.layers, nano.heads, nano.width) == (3, 3, 48)


SMOLLM2 = LlamaConfig(layers=30, heads=9, key_heads=3, width=576, hidden=1536, context=8192, head="tied")
QWEN2 = LlamaConfig(kind="qwen2", layers=24, heads=14, key_heads=2, width=896, hidden=4864, context=32768, head="tied")


def test_llamas_have_their_sizes() -> None:
    """SmolLM2-135M and Qwen2-0.5B, as released."""
    assert parameters(SMOLLM2, 49152) == 134_515_008
    assert parameters(QWEN2, 151936) == 494_032_768


@pytest.mark.parametrize("head", ["own", "tied"])
def test_modern_by_formula(head: Any) -> None:
    config = ModernConfig(layers=3, heads=8, key_heads=2, width=64, head_width=16, hidden=100, head=head)
    d, k, vocabulary = 64, 16, 1000
    attention = d * 8 * k + 2 * d * 2 * k + 8 * k * d + 2 * k
    block = attention + 3 * d * 100 + 2 * d
    tables = vocabulary * d * (2 if head == "own" else 1)
    assert parameters(config, vocabulary) == tables + 3 * block + d


@pytest.mark.parametrize(("kind", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
def test_recurrent_by_formula(kind: Any, gates: int) -> None:
    """For each gate W_x, W_h and torch's two biases; a head with a bias; the learned start."""
    d, vocabulary = 32, 50
    layer = gates * (2 * d * d + 2 * d)
    head = vocabulary * d + vocabulary
    assert parameters(RecurrentConfig(kind=kind, width=d, layers=2), vocabulary) == vocabulary * d + 2 * layer + head
    start = (2 if kind == "lstm" else 1) * d
    first = gates * (vocabulary * d + d * d + 2 * d)
    config = RecurrentConfig(kind=kind, width=d, input="one-hot", start="learned")
    assert parameters(config, vocabulary) == first + start + head


def test_mlp_by_formula() -> None:
    """Embeddings; context times their width into the network (and a bias); two matrices and a norm a layer; a head."""
    config = MLPConfig(layers=3, width=32, hidden=50, context=10, embedding_width=7)
    layers = 3 * (2 * 32 * 50 + 32)
    assert parameters(config, 40) == 40 * 7 + (10 * 7 * 32 + 32) + layers + 32 + 40 * 32


def test_cnn_by_formula() -> None:
    """Gate and up, each a kernel and a bias; down; a norm."""
    config = CNNConfig(layers=5, width=32, hidden=20, kernel=4)
    layer = 2 * (4 * 32 * 20 + 20) + 20 * 32 + 32
    assert parameters(config, 40) == 2 * 40 * 32 + 5 * layer + 32


@pytest.mark.parametrize(
    ("values", "dilations", "reach"),
    [
        ({"kernel": 2, "growth": 2, "layers": 5, "context": 32}, [1, 2, 4, 8, 16], 32),
        ({"kernel": 3, "growth": 3, "layers": 3, "context": 27}, [1, 3, 9], 27),
        ({"kernel": 3, "growth": 2, "layers": 5, "context": 12}, [1, 2, 4, 1, 2], 21),
        ({"kernel": 3, "growth": 1, "layers": 3, "context": 12}, [1, 1, 1], 7),
        ({"kernel": 9, "layers": 2, "context": 4}, [1, 1], 17),
        ({"kernel": 1, "layers": 4, "context": 8}, [1, 2, 4, 8], 1),
    ],
)
def test_how_far_a_cnn_sees(values: dict[str, int], dilations: list[int], reach: int) -> None:
    """With growth = kernel, n layers see kernelⁿ tokens."""
    config = CNNConfig(**values)
    assert (config.dilations, config.reach) == (dilations, reach)
