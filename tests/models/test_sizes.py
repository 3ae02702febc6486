"""Exact numbers of parameters. Built on the meta device: nothing is allocated."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from qkv.models.gpt import PRESETS
from qkv.models.language_model import count
from qkv.models.modern import ModernConfig
from qkv.models.recurrent import RecurrentConfig


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
