"""The decks' numbers: one attention head worked by hand: nothing learned, the learned U, queries, keys and values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks import masks
from qkv.blocks.attention import MultiHeadAttention, attend, learned_space, parameter_free, weights


def by_hand(x: list[list[float]], mask: list[list[bool]] | None = None) -> list[list[float]]:
    """Deck 003's two sums in plain Python: a_nm = exp(x_n·x_m) / Σ exp(x_n·x_m'), y_n = Σ a_nm x_m."""
    found = []
    for n, asking in enumerate(x):
        may = [mask is None or mask[n][m] for m in range(len(x))]
        likeness = [math.exp(sum(a * b for a, b in zip(asking, other, strict=True))) for other in x]
        total = sum(value for value, allowed in zip(likeness, may, strict=True) if allowed)
        shares = [value / total if allowed else 0.0 for value, allowed in zip(likeness, may, strict=True)]
        found.append([sum(s * row[d] for s, row in zip(shares, x, strict=True)) for d in range(len(x[0]))])
    return found


WORDS = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]


def test_the_worked_scores() -> None:
    """Deck 002, step 3: scores 92, 124, 22 and 8 over 8, through a softmax, are .018, .982, .000 and .000.

    The slide prints .08, .91, .01 and 0: illustrative, for no divisor gives them (13 fits the first two, and leaves
    .000 for the third).
    """
    found = weights(torch.tensor([[92.0, 124.0, 22.0, 8.0]]) / 8)[0]
    assert [f"{share:.3f}" for share in found.tolist()] == ["0.018", "0.982", "0.000", "0.000"]
    slide = torch.tensor([0.08, 0.91, 0.01, 0.0])
    assert not torch.allclose(found, slide, atol=0.05)
    assert found.argsort(descending=True).tolist() == slide.argsort(descending=True).tolist(), "the order is right"


def test_the_worked_scores_come_from_keys_of_64_numbers() -> None:
    """Deck 002, step 3: the 8 is sqrt(len(k)), so keys have 64 numbers; attention scales by itself."""
    query = torch.zeros(1, 64)
    query[0, 0] = 1.0
    keys = torch.zeros(4, 64)
    keys[:, 0] = torch.tensor([92.0, 124.0, 22.0, 8.0])
    values = torch.eye(4)
    found = attend(query, keys, values)[0]
    torch.testing.assert_close(found, torch.tensor([0.01799, 0.98201, 0.0, 0.0]), atol=1e-5, rtol=0)


def test_without_parameters() -> None:
    """Decks 000, 003 and 004: Y = softmax(X Xᵀ) X; the third word, like both others, keeps most of itself."""
    found = parameter_free(torch.tensor(WORDS))
    torch.testing.assert_close(found, torch.tensor(by_hand(WORDS)), atol=1e-6, rtol=1e-5)
    e = math.e
    torch.testing.assert_close(found[2], torch.full((2,), (e + e * e) / (2 * e + e * e)), atol=1e-6, rtol=1e-5)


def test_only_previous_and_current_words() -> None:
    """Deck 000: α_ij for all j ≤ i; the first word can only look at itself."""
    found = parameter_free(torch.tensor(WORDS), masks.causal(torch.arange(3), 3))
    mask = [[j <= i for j in range(3)] for i in range(3)]
    torch.testing.assert_close(found, torch.tensor(by_hand(WORDS, mask)), atol=1e-6, rtol=1e-5)
    assert found[0].tolist() == WORDS[0]


def test_weights_are_shares() -> None:
    """Deck 003: a_nm ≥ 0 and Σ_m a_nm = 1; deck 004: non-negative, and summing to 1.0."""
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    shares = weights(x @ x.T)
    assert (shares >= 0).all()
    torch.testing.assert_close(shares.sum(-1), torch.ones(5))


def test_bank_moves_towards_river() -> None:
    """Deck 000: "this is how bank gets more river in it"; deck 004: train exerts a pull on station."""
    river, account, bank = torch.tensor([2.0, 0.0]), torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0])
    by_the_river = parameter_free(torch.stack([river, bank]))[1]
    with_the_account = parameter_free(torch.stack([account, bank]))[1]
    assert by_the_river[0] > bank[0] > by_the_river[1]
    assert with_the_account[1] > bank[1] > with_the_account[0]


def test_the_learned_space() -> None:
    """Deck 003, "back to learning, hence parameters": Y = softmax(X U Uᵀ Xᵀ) X U."""
    generator = torch.Generator().manual_seed(1)
    x, u = torch.randn(4, 3, generator=generator), torch.randn(3, 2, generator=generator, requires_grad=True)
    expected = (x @ u @ u.T @ x.T).softmax(-1) @ x @ u
    torch.testing.assert_close(learned_space(x, u), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(learned_space(x, torch.eye(3)), parameter_free(x))
    learned_space(x, u).sum().backward()
    assert u.grad is not None
    assert u.grad.abs().sum() > 0, "U is learned"


def head(width: int, heads: int, head_width: int, output: nn.Module) -> MultiHeadAttention:
    query, key, value = (nn.Linear(width, heads * head_width, bias=False) for _ in range(3))
    return MultiHeadAttention(query, key, value, output, heads=heads)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_one_head(scale: float | None) -> None:
    """Deck 003: Q = X W_q, K = X W_k, V = X W_v, Y = softmax(Q Kᵀ) V; decks 000 and 001 divide by √d."""
    torch.manual_seed(2)
    x, module = torch.randn(1, 5, 6), head(6, 1, 6, nn.Identity())
    module.scale = 6**-0.5 if scale is None else scale
    queries, keys, values = (x[0] @ layer.weight.T for layer in (module.query, module.key, module.value))
    expected = (queries @ keys.T / (math.sqrt(6) if scale is None else 1)).softmax(-1) @ values
    torch.testing.assert_close(module(x)[0], expected, atol=1e-6, rtol=1e-5)


def one_by_one(module: MultiHeadAttention, x: Tensor, width: int) -> Tensor:
    """Each head alone, then side by side."""
    outputs = []
    for number in range(module.heads):
        part = slice(number * width, (number + 1) * width)
        projections = (x @ layer.weight[part].T for layer in (module.query, module.key, module.value))
        outputs.append(attend(*projections))
    return torch.cat(outputs, -1)


def test_heads_of_the_full_size() -> None:
    """Deck 000: h heads of size d, so W_O is hd x d and "projects the hd output back down to d"."""
    torch.manual_seed(3)
    d, h = 8, 3
    x, output = torch.randn(2, 5, d), nn.Linear(h * d, d, bias=False)
    module = head(d, h, d, output)
    assert module.head_width == d
    assert output.weight.T.shape == (h * d, d)
    assert module(x).shape == (2, 5, d)
    torch.testing.assert_close(module(x), one_by_one(module, x, d) @ output.weight.T, atol=1e-6, rtol=1e-5)


def test_heads_of_a_share_and_no_output_matrix() -> None:
    """Deck 001: d_attn = d / n, concatenated to T x d; there is no W_O on that slide."""
    torch.manual_seed(4)
    d, h = 12, 3
    x, module = torch.randn(2, 5, d), head(d, h, d // h, nn.Identity())
    assert not list(module.output.parameters())
    assert module(x).shape == (2, 5, d)
    torch.testing.assert_close(module(x), one_by_one(module, x, d // h), atol=1e-6, rtol=1e-5)


def test_attention_of_a_decoder_state() -> None:
    """Deck 001, building block 8: p_t = softmax(hᵀ x_t), c = Σ p_t x_t; the query is the decoder's state."""
    generator = torch.Generator().manual_seed(5)
    states, asking = torch.randn(6, 4, generator=generator), torch.randn(1, 4, generator=generator)
    shares = (states @ asking[0]).softmax(0)
    torch.testing.assert_close(attend(asking, states, states, scale=1.0)[0], shares @ states, atol=1e-6, rtol=1e-5)
