"""Encoders of pictures: parts by hand, shapes, gradients, configs, and that they learn."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.attention import open_attention
from qkv.blocks.image_patches import Patches, RandomShift
from qkv.blocks.tap import taps
from qkv.config import parse, toml_values
from qkv.models.classifier import ClassifierConfig
from qkv.models.encoders import build
from qkv.models.image_cnn import PictureCNNConfig
from qkv.models.registry import IMAGE_ENCODERS
from qkv.models.vision import PatchesConfig

SIZE: dict[str, Any] = {"height": 8, "width_pixels": 12, "channels": 3, "width": 16}
LABELS = ("left", "right")
CONFIGS: dict[str, Any] = {
    "cnn": PictureCNNConfig(**SIZE),
    "cnn-grid": PictureCNNConfig(**SIZE, joined="grid", layers=1, kernel=5),
    "cnn-three": PictureCNNConfig(**SIZE, layers=3),
    "patches": PatchesConfig(**SIZE, layers=2),
    "patches-small": PatchesConfig(**SIZE, layers=1, patch=2, heads=2, hidden=9, dropout=0.1),
}
VECTORS = {"cnn": 1, "cnn-grid": 24, "cnn-three": 1, "patches": 6, "patches-small": 24}
EVERY = pytest.mark.parametrize("name", CONFIGS)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def pixels(rows: int = 5) -> Tensor:
    return torch.rand(rows, 8, 12, 3, generator=torch.Generator().manual_seed(1))


def randomized(model: Any) -> Any:
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return model.eval()


def test_every_kind_of_the_union_is_here() -> None:
    assert {type(config) for config in CONFIGS.values()} == set(IMAGE_ENCODERS.values())


@EVERY
@torch.no_grad()
def test_vectors(name: str) -> None:
    model, x = randomized(build(CONFIGS[name], 2)), pixels()
    found = model(x)
    assert found.shape == (5, VECTORS[name], 16)
    assert (model.vocabulary, model.context, model.width) == (0, VECTORS[name], 16)
    torch.testing.assert_close(model(x[2:3])[0], found[2], **CLOSE)
    torch.testing.assert_close(model(x.flip(0)), found.flip(0), **CLOSE)
    with open_attention(model):
        torch.testing.assert_close(model(x), found, **CLOSE)
    assert "embedded" in taps(model)


@EVERY
@pytest.mark.parametrize("pooling", ["mean", "max", "attention", "first", "last"])
def test_a_classifier_of_pictures(name: str, pooling: Any) -> None:
    config = ClassifierConfig(encoder=CONFIGS[name], pooling=pooling, head="two-layer", labels=LABELS)
    assert parse(ClassifierConfig, toml_values(config), "config.json") == config
    assert (config.vocabulary, config.width, config.context) == (0, 16, VECTORS[name])
    model = randomized(config.build())
    assert model(pixels()).shape == (5, 2)
    model.train()(pixels()).square().sum().backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    allowed = ["pooling.query"] if VECTORS[name] == 1 else []  # of a single vector all shares are 1
    assert still in ([], allowed), f"no gradient: {still}"
    other = copy.deepcopy(model).eval()
    assert torch.equal(other(pixels()), model.eval()(pixels()))


@EVERY
def test_it_learns_where_something_is(name: str) -> None:
    """A bright square on the left or on the right."""
    torch.manual_seed(0)
    labels = torch.arange(64) % 2
    x = torch.rand(64, 8, 12, 3) * 0.5
    for row, label in enumerate(labels):
        x[row, 2:6, 1 + 6 * int(label) : 5 + 6 * int(label)] += 0.4
    model = ClassifierConfig(encoder=CONFIGS[name], labels=LABELS).build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (model.eval()(x).argmax(1) == labels).float().mean()
    assert accuracy > (0.5 if name == "cnn-grid" else 0.95)  # one layer and a mean hardly know where


@torch.no_grad()
def test_the_cnn_by_hand() -> None:
    model, x = randomized(CONFIGS["cnn"].build()), pixels()
    y = 2 * x.permute(0, 3, 1, 2) - 1
    for block in model.blocks:
        y = F.max_pool2d(F.conv2d(y, block[0].weight, block[0].bias, padding=1).relu(), 2)
    assert y.shape == (5, 16, 2, 3)
    torch.testing.assert_close(model(x)[:, 0], model.joined[1](y.flatten(1)).relu(), **CLOSE)


@torch.no_grad()
def test_patches_are_a_convolution() -> None:
    """ViT's first layer is a kernel that moves by its own size: the same as a linear layer on each patch."""
    x, linear, theirs = pixels(), nn.Linear(48, 10), nn.Conv2d(3, 10, 4, stride=4)
    theirs.weight.copy_(linear.weight.view(10, 4, 4, 3).permute(0, 3, 1, 2))
    theirs.bias.copy_(linear.bias)
    expected = theirs(x.permute(0, 3, 1, 2)).flatten(2).mT  # (B, D, H, W) -> (B, T, D)
    torch.testing.assert_close(linear(Patches(4)(x)), expected, **CLOSE)
    assert torch.equal(Patches(4)(x)[0, 1].view(4, 4, 3), x[0, :4, 4:8])


@torch.no_grad()
def test_patches_know_their_places() -> None:
    model, x = randomized(CONFIGS["patches"].build()), pixels()
    swapped = torch.cat([x[:, :, 6:], x[:, :, :6]], 2)
    assert not torch.allclose(model(swapped).mean(1), model(x).mean(1), **CLOSE)


def test_shifts_in_training_only() -> None:
    torch.manual_seed(0)
    shift, x = RandomShift(2), pixels(200)
    assert shift.eval()(x) is x
    assert RandomShift(0).train()(x) is x
    found = shift.train()(x)
    assert found.shape == x.shape
    frame = F.pad(x, (0, 0, 2, 2, 2, 2))
    seen = set()
    for row in range(200):
        places = [
            (a, b) for a in range(5) for b in range(5) if torch.equal(frame[row, a : a + 8, b : b + 12], found[row])
        ]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 25
