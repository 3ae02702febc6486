"""BERT and what is built on it: sizes, padding, segments, both sides, gradients, learning."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.blocks.initialization import outline
from qkv.blocks.tap import taps
from qkv.config import parse, toml_values
from qkv.errors import ConfigError
from qkv.models.bert import PRESETS, BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.language_model import count
from qkv.models.masked import MaskedConfig
from qkv.models.tagger import TaggerConfig

SHAPE: dict[str, Any] = {"vocabulary": 19, "layers": 2, "heads": 3, "width": 24, "context": 12}
PLAIN, POOLED = BertConfig(**SHAPE), BertConfig(**SHAPE, pooler="first")
LABELS = ("bad", "so", "good")
CONFIGS: dict[str, Any] = {
    "bert": PLAIN,
    "no segments": BertConfig(**SHAPE, segments=0, hidden=17, dropout=0.2),
    "masked": MaskedConfig(encoder=PLAIN),
    "masked, next sentence": MaskedConfig(encoder=POOLED, next_sentence="linear"),
    "classifier, pooler": ClassifierConfig(encoder=POOLED, pooling="pooler", labels=LABELS),
    "classifier, first": ClassifierConfig(encoder=PLAIN, pooling="first", head="two-layer", labels=LABELS, dropout=0.2),
    "classifier, mean": ClassifierConfig(encoder=PLAIN, labels=LABELS, problem="multi"),
    "classifier, last": ClassifierConfig(encoder=PLAIN, pooling="last", labels=LABELS, problem="regression"),
    "tagger": TaggerConfig(encoder=PLAIN, labels=LABELS, dropout=0.1),
}
EVERY = pytest.mark.parametrize("name", CONFIGS)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def built(config: Any, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    model = config.build()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def text(rows: int = 3, length: int = 12) -> Tensor:
    return torch.randint(19, (rows, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bert-tiny", 4_385_920),
        ("bert-mini", 11_170_560),
        ("bert-small", 28_763_648),
        ("bert-medium", 41_373_184),
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
    ],
)
def test_bert_has_its_size(name: str, expected: int) -> None:
    """The released models, with the uncased vocabulary and the pooler."""
    config = dataclasses.replace(PRESETS[name], vocabulary=30522)
    with outline():
        assert count(config.build()) == expected
    assert config.width == 64 * config.heads
    d = config.width
    assert expected == (30522 + 512 + 2 + 2) * d + config.layers * (12 * d * d + 13 * d) + d * d + d


@EVERY
def test_a_config_is_read_as_it_was_written(name: str) -> None:
    config = CONFIGS[name]
    assert parse(type(config), toml_values(config), "config.json") == config
    assert (config.vocabulary, config.layers, config.width, config.context) == (19, 2, 24, 12)


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        (BertConfig, {"width": 50, "heads": 3}, "does not divide into 3 heads"),
        (BertConfig, {"segments": -1}, "segments = -1"),
        (BertConfig, {"pooler": "mean"}, "pooler = 'mean' does not fit; expected 'none' or 'first'"),
        (MaskedConfig, {"next_sentence": "linear"}, "next_sentence = 'linear' needs encoder.pooler = 'first'"),
        (MaskedConfig, {"encoder": {"pooler": "first"}}, "needs encoder.pooler = 'none', not 'first'"),
        (ClassifierConfig, {"pooling": "pooler"}, "pooling = 'pooler' needs encoder.pooler = 'first'"),
        (ClassifierConfig, {"pooling": "sum"}, "pooling = 'sum'"),
        (ClassifierConfig, {"encoder": {"kind": "bert", "width": "7"}}, "encoder.width = '7'"),
        (ClassifierConfig, {"encoder": {"width": 7}}, "encoder.kind is missing"),
        (TaggerConfig, {"encoder": {"kind": "bert", "pooler": "first"}}, "a tagger has no use for a pooler"),
        (TaggerConfig, {"labels": [1]}, "labels"),
    ],
)
def test_bad_values_are_refused_in_words(kind: Any, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(kind, values, "config.json")


@EVERY
@torch.no_grad()
def test_padding_changes_nothing(name: str) -> None:
    """A text alone, without a mask, and beside longer ones: the same answer."""
    model, tokens = built(CONFIGS[name]), text()
    lengths = [12, 5, 1]
    present = torch.arange(12) < torch.tensor(lengths).unsqueeze(1)
    answers = model(tokens, present)
    for row, length in enumerate(lengths):
        alone = model(tokens[row : row + 1, :length])[0]
        found = answers[row, :length] if answers.dim() == 3 else answers[row]
        torch.testing.assert_close(found, alone, **CLOSE)
    changed = torch.where(present, tokens, (tokens + 1) % 19)
    again = model(changed, present)
    kept = present if answers.dim() == 3 else slice(None)
    torch.testing.assert_close(again[kept], answers[kept], **CLOSE)


@torch.no_grad()
def test_every_token_sees_both_sides() -> None:
    model, tokens = built(PLAIN), text()
    before = model(tokens)
    for place in (0, 6, 11):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % 19
        assert not torch.isclose(model(changed), before).all(-1).any(), "every vector must have moved"


@torch.no_grad()
def test_segments() -> None:
    model, tokens = built(PLAIN), text()
    zero = torch.zeros_like(tokens)
    assert torch.equal(model(tokens), model(tokens, None, zero))
    assert not torch.allclose(model(tokens), model(tokens, None, zero + 1))
    without = built(CONFIGS["no segments"])
    assert torch.equal(without(tokens), without(tokens, None, zero + 1))
    assert not [name for name in without.state_dict() if "segment" in name]


@EVERY
def test_gradients_reach_every_parameter(name: str) -> None:
    model, tokens = built(CONFIGS[name]).train(), text()
    loss = model(tokens, tokens > 3, tokens % 2).square().sum()
    if "next" in name:
        loss = loss + model.followed(model.encoder(tokens)).square().sum()
    loss.backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    expected = ["segments.table.weight"] if name == "no segments" else []
    assert still == expected or not still, f"no gradient: {still}"


@EVERY
@torch.no_grad()
def test_it_can_be_copied_saved_and_loaded(name: str, tmp_path: Path) -> None:
    """A copy keeps what it shares to itself; no two names share memory; a loaded model is the saved one."""
    model, tokens = built(CONFIGS[name]), text()
    expected = model(tokens)
    twin = copy.deepcopy(model)
    for parameter in twin.parameters():
        parameter.zero_()
    assert torch.equal(model(tokens), expected)
    assert twin(tokens).eq(0).all()
    weights = model.state_dict()
    assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == len(weights)
    assert set(weights) == {name for name, _ in model.named_parameters()}
    save_file(weights, tmp_path / "model.safetensors")
    other = built(CONFIGS[name], seed=9)
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other(tokens), expected)


def test_a_masked_model_learns_what_was_hidden() -> None:
    torch.manual_seed(0)
    model = CONFIGS["masked, next sentence"].build()
    tokens = torch.arange(12).add(torch.arange(8).unsqueeze(1)) % 18 + 1
    hidden = torch.zeros_like(tokens, dtype=torch.bool)
    hidden[:, ::4] = True
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(60):
        x = model.encoder(tokens.masked_fill(hidden, 0))
        order = F.cross_entropy(model.followed(x), torch.arange(8) % 2)
        loss = F.cross_entropy(model.head(x[hidden]), tokens[hidden]) + order
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


@torch.no_grad()
def test_taps_see_every_layer_and_open_attention_is_the_same() -> None:
    model, tokens = built(PLAIN), text()
    present = torch.arange(12) < torch.tensor([12, 5, 1]).unsqueeze(1)
    seen: dict[str, Tensor] = {}
    for name, tap in taps(model).items():
        tap.register_forward_hook(lambda module, given, made, name=name: seen.update({name: made}))
    fused = model(tokens, present)
    with open_attention(model):
        torch.testing.assert_close(model(tokens, present)[present], fused[present], **CLOSE)
    shares = seen["blocks.1.attention.sublayer.weights"]
    assert shares.shape == (3, 3, 12, 12)
    assert shares[1, :, :, 5:].eq(0).all(), "nobody looks at padding"
    torch.testing.assert_close(seen["blocks.1.feedforward.stream"][present], fused[present], **CLOSE)
