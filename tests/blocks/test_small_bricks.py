"""Norms, feed-forward layers, residuals, embeddings, heads, convolution, pooling, initialization: by their formulas."""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks import convolution, initialization
from qkv.blocks.block import FeedForward, GatedFeedForward, PostNorm, PreNorm, SquaredReLU, TanhGELU
from qkv.blocks.convolution import Convolution, GatedConvolution
from qkv.blocks.embeddings import Embedding, OneHot
from qkv.blocks.heads import FirstPooling, LastPooling, MaxPooling, MeanPooling, MultiLayerHead, TiedHead
from qkv.blocks.norms import LayerNorm, RMSNorm


@pytest.fixture
def x() -> Tensor:
    return torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0)) * 3 + 1


def test_layer_norm(x: Tensor) -> None:
    """y = (x - mean) / sqrt(variance + ε) · γ + β."""
    norm = LayerNorm(8)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    expected = (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), expected, atol=1e-5, rtol=1e-5)


def test_rms_norm(x: Tensor) -> None:
    """y = x / sqrt(mean(x²) + ε) · γ."""
    norm = RMSNorm(8, 1e-6)
    nn.init.normal_(norm.weight)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight
    torch.testing.assert_close(norm(x), expected, atol=1e-5, rtol=1e-5)


def test_activations() -> None:
    values = torch.tensor([-2.0, 0.0, 3.0])
    assert SquaredReLU()(values).tolist() == [0, 0, 9]
    tanh = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in values.tolist()]
    torch.testing.assert_close(TanhGELU()(values), torch.tensor(tanh), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.GELU(), TanhGELU(), SquaredReLU()])
def test_feed_forward(x: Tensor, activation: nn.Module) -> None:
    """W₂ f(W₁ x + b₁) + b₂, the same at every position."""
    layer = FeedForward(nn.Linear(8, 20), activation, nn.Linear(20, 8))
    inside = activation(x @ layer.inner.weight.T + layer.inner.bias)
    torch.testing.assert_close(layer(x), inside @ layer.outer.weight.T + layer.outer.bias, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(layer(x.flip(1)), layer(x).flip(1), atol=1e-6, rtol=1e-5)


def test_gated_feed_forward(x: Tensor) -> None:
    """W_down (silu(W_gate x) ⊙ W_up x)."""
    gate, up, down = (nn.Linear(*shape, bias=False) for shape in ((8, 20), (8, 20), (20, 8)))
    gated = x @ gate.weight.T
    expected = (gated * torch.sigmoid(gated) * (x @ up.weight.T)) @ down.weight.T
    torch.testing.assert_close(GatedFeedForward(gate, up, nn.SiLU(), down)(x), expected, atol=1e-5, rtol=1e-5)


def test_residuals(x: Tensor) -> None:
    sublayer, norm = nn.Linear(8, 8), LayerNorm(8)
    torch.testing.assert_close(PreNorm(sublayer, norm)(x), x + sublayer(norm(x)))
    torch.testing.assert_close(PostNorm(sublayer, norm)(x), norm(x + sublayer(x)))


@pytest.mark.parametrize("wrap", [PreNorm, PostNorm])
def test_residuals_drop_what_is_added_never_the_stream(x: Tensor, wrap: type[PreNorm] | type[PostNorm]) -> None:
    layer = wrap(nn.Linear(8, 8), nn.Identity(), dropout=1.0)
    torch.testing.assert_close(layer.train()(x), x)


def test_one_hot() -> None:
    assert OneHot(3)(torch.tensor([[2, 0]])).tolist() == [[[0, 0, 1], [1, 0, 0]]]


def test_a_tied_head_is_the_table_backwards(x: Tensor) -> None:
    embedding = Embedding(11, 8)
    head = TiedHead(embedding)
    torch.testing.assert_close(head(x), x @ embedding.weight.T)
    assert not list(head.parameters())
    assert not head.state_dict()
    embedding.weight.data = torch.ones(11, 8)  # as loading or moving to a device does
    torch.testing.assert_close(head(x), x.sum(-1, keepdim=True).expand(-1, -1, 11), atol=1e-5, rtol=1e-5)


def test_multi_layer_head(x: Tensor) -> None:
    head = MultiLayerHead(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 2))
    assert head(x).shape == (3, 5, 2)
    torch.testing.assert_close(head(x[:, 0]), head.outer(torch.relu(head.inner(x[:, 0]))))


@pytest.mark.parametrize("kernel", [1, 2, 3, 5, 9])
def test_a_convolution_of_the_past_never_sees_the_future(x: Tensor, kernel: int) -> None:
    layer = Convolution(8, kernel, "causal")
    before = layer(x)
    assert before.shape == x.shape
    for time in range(5):
        changed = x.clone()
        changed[:, time] += 1
        after = layer(changed)
        torch.testing.assert_close(after[:, :time], before[:, :time], atol=0, rtol=0)
        assert not torch.allclose(after[:, time], before[:, time])
        torch.testing.assert_close(after[:, time + kernel :], before[:, time + kernel :], atol=0, rtol=0)


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_a_convolution_looks_to_both_sides(x: Tensor, kernel: int) -> None:
    layer = Convolution(8, kernel)
    before = layer(x)
    assert before.shape == x.shape
    changed = x.clone()
    changed[:, 2] += 1
    moved = (layer(changed) != before).any(-1).any(0).nonzero().flatten().tolist()
    # y_t sees x_{t - before} ... x_{t + after}, so x_2 is seen by y_{2 - after} ... y_{2 + before}
    assert moved == [time for time in range(5) if 2 - layer.after <= time <= 2 + layer.before]


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 2), (2, 4), (5, 1)])
def test_a_convolution_by_hand(x: Tensor, kernel: int, dilation: int) -> None:
    """y_t = Σ_j W_j x_{t+j·dilation} + b, at the last place; the kernel is one matrix, its parts side by side."""
    layer = Convolution(8, kernel, "causal", outputs=6, dilation=dilation)
    parts = layer.weight.split(8, 1)
    neighbours = [x[:, 4 - back * dilation] for back in reversed(range(kernel))]
    expected = sum(seen @ part.T for seen, part in zip(neighbours, parts, strict=True)) + layer.bias
    torch.testing.assert_close(layer(x)[:, 4], expected, atol=1e-5, rtol=1e-5)
    both = Convolution(8, kernel, "same", outputs=6, dilation=dilation)
    both.load_state_dict(layer.state_dict())
    assert both(x).shape == (3, 5, 6)
    moved = layer.before - both.before
    torch.testing.assert_close(both(x)[:, : 5 - moved], layer(x)[:, moved:], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("padding", ["same", "causal"])
@pytest.mark.parametrize(("kernel", "dilation"), [(1, 1), (3, 1), (3, 2), (4, 1), (8, 1)])
def test_one_product_is_the_kernel_that_slides(
    x: Tensor, kernel: int, dilation: int, padding: Literal["same", "causal"], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = Convolution(8, kernel, padding, outputs=6, dilation=dilation)
    found = layer(x)
    gradients = torch.autograd.grad(found.square().sum(), list(layer.parameters()))
    monkeypatch.setattr(convolution, "SHORT", 0)
    slid = layer(x)
    torch.testing.assert_close(slid, found, atol=1e-5, rtol=1e-5)
    wanted = torch.autograd.grad(slid.square().sum(), list(layer.parameters()))
    torch.testing.assert_close(gradients, wanted, atol=1e-4, rtol=1e-4)


def test_a_gated_convolution(x: Tensor) -> None:
    """W_down (σ(gate(x)) ⊙ up(x))."""
    gate, up = (Convolution(8, 3, "causal", outputs=6, dilation=2) for _ in range(2))
    down = nn.Linear(6, 8)
    expected = down(torch.sigmoid(gate(x)) * up(x))
    torch.testing.assert_close(GatedConvolution(gate, up, nn.Sigmoid(), down)(x), expected, atol=1e-5, rtol=1e-5)


PRESENT = torch.arange(5) < torch.tensor([[5], [3], [1]])


@pytest.mark.parametrize("pooling", [MeanPooling(), MaxPooling(), FirstPooling(), LastPooling()])
@pytest.mark.parametrize("rubbish", [0.0, 1e9, -1e9, float("inf"), float("nan")])
def test_padding_never_counts(x: Tensor, pooling: nn.Module, rubbish: float) -> None:
    padded = x.masked_fill(~PRESENT.unsqueeze(-1), rubbish)
    found = pooling(padded, PRESENT)
    for row, length in enumerate((5, 3, 1)):
        alone = pooling(x[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(found[row], alone[0], atol=1e-6, rtol=1e-6)


def test_poolings_by_hand(x: Tensor) -> None:
    torch.testing.assert_close(MeanPooling()(x, PRESENT)[1], x[1, :3].mean(0))
    torch.testing.assert_close(MaxPooling()(x, PRESENT)[1], x[1, :3].amax(0))
    torch.testing.assert_close(FirstPooling()(x, PRESENT)[1], x[1, 0])
    torch.testing.assert_close(LastPooling()(x, PRESENT)[1], x[1, 2])


def test_an_empty_row_has_a_mean_of_zero(x: Tensor) -> None:
    assert MeanPooling()(x, torch.zeros(3, 5, dtype=torch.bool)).eq(0).all()


def test_initialization() -> None:
    torch.manual_seed(0)
    linear, embedding = nn.Linear(400, 300), nn.Embedding(400, 300)
    initialization.normal_([linear, embedding], 0.02)
    assert linear.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert embedding.weight.std().item() == pytest.approx(0.02, rel=0.02)
    assert linear.bias.eq(0).all()
    initialization.fan_in_([linear], 0.5)
    assert linear.weight.std().item() == pytest.approx(0.5 / 20, rel=0.02)
    initialization.zero_([linear])
    assert linear.weight.eq(0).all()


def test_rms_norm_is_exact_where_products_are_not() -> None:
    """Under autocast bf16 values meet an f32 weight: the sums are f32's, and torch has nothing to warn of."""
    norm, x = RMSNorm(24, eps=1e-6), torch.randn(3, 5, 24).bfloat16()
    nn.init.uniform_(norm.weight)
    true = x.float() * (x.float().pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * norm.weight
    found = norm(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, true.bfloat16())
    torch.testing.assert_close(norm(x.float()), true)
