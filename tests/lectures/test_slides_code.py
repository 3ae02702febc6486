"""Code and figures that stand on the slides, run against ours; where a slide slips, the test says how we differ."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks import masks
from qkv.blocks.attention import MultiHeadAttention, open_attention
from qkv.blocks.block import Block, FeedForward, PostNorm
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import OneHot
from qkv.blocks.heads import LastPooling, MeanPooling
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions
from qkv.blocks.recurrent import Recurrent, ZeroStart
from qkv.models.gpt import PRESETS, GPTConfig
from qkv.models.language_model import count
from qkv.models.rnn import RecurrentConfig


class RNNLayer(nn.Module):
    """Deck 003's class, as printed."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.W_ih = nn.Parameter(torch.randn(hidden_size, input_size))
        self.W_hh = nn.Parameter(torch.randn(hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.randn(hidden_size))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        B, seq_len, _ = x.shape
        h = torch.zeros(B, self.hidden_size)
        h_list = []
        for t in range(seq_len):
            h = torch.tanh(torch.mm(x[:, t], self.W_ih.T) + torch.mm(h, self.W_hh.T) + self.bias)
            h_list.append(h)
        return torch.stack(h_list, dim=1), h_list[-1]


def with_slides_weights(slide: RNNLayer, layer: nn.RNNBase) -> None:
    """torch has two biases that are always added; the slide has their sum, here split unevenly."""
    with torch.no_grad():
        layer.weight_ih_l0.copy_(slide.W_ih)
        layer.weight_hh_l0.copy_(slide.W_hh)
        layer.bias_ih_l0.copy_(0.3 * slide.bias)
        layer.bias_hh_l0.copy_(0.7 * slide.bias)


def test_the_slides_rnn_layer() -> None:
    """Deck 003: h_t = tanh(W_ih x_t + W_hh h_{t-1} + b) with a single bias equals `Recurrent` with the two merged."""
    torch.manual_seed(0)
    slide, layer = RNNLayer(5, 7), nn.RNN(5, 7, batch_first=True)
    with_slides_weights(slide, layer)
    x = torch.randn(3, 9, 5)
    all_h, last_h = slide(x)
    found = Recurrent(layer, ZeroStart(1, 1, 7))(x)
    torch.testing.assert_close(found, all_h, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(LastPooling()(found, torch.ones(3, 9, dtype=torch.bool)), last_h, atol=1e-5, rtol=1e-5)


def test_the_slides_character_model() -> None:
    """Deck 003's RNNCharPredictionModel: one-hot characters, one RNN layer, a linear layer on the last state.

    The slide writes `last_h = self.rnn(x)`, which unpacks a pair into one name; the last state is meant.
    """
    torch.manual_seed(1)
    model = RecurrentConfig(kind="rnn", input="one-hot", width=7, vocabulary=5).build()
    slide = RNNLayer(5, 7)
    with_slides_weights(slide, model.recurrent.layer)
    tokens = torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]])
    _, last_h = slide(OneHot(5)(tokens))
    expected = last_h @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model.eval()(tokens)[:, -1], expected, atol=1e-5, rtol=1e-5)


def test_the_slides_mean_counts_padding() -> None:
    """Deck 004: torch.mean(output, dim=1) averages padding in; with it left out, a padded sentence is itself."""
    torch.manual_seed(2)
    embedding = nn.Embedding(10, 4)
    tokens, present = torch.tensor([[3, 4, 0, 0]]), torch.tensor([[True, True, False, False]])
    alone = torch.mean(embedding(tokens[:, :2]), dim=1)
    torch.testing.assert_close(MeanPooling()(embedding(tokens), present), alone)
    assert not torch.allclose(torch.mean(embedding(tokens), dim=1), alone, atol=0.05)
    full = torch.ones(1, 4, dtype=torch.bool)
    torch.testing.assert_close(MeanPooling()(embedding(tokens), full), torch.mean(embedding(tokens), dim=1))


def test_the_slides_transformer_layer() -> None:
    """Deck 004's pseudo code: attention, dropout, add, norm; feed-forward (4 d, GELU), dropout, add, norm."""
    torch.manual_seed(3)
    d = 12
    attention = MultiHeadAttention(*[nn.Linear(d, d) for _ in range(4)], heads=3)
    feed_forward = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
    first, second, dropout = LayerNorm(d), LayerNorm(d), Dropout(0.1)
    block = Block(
        PostNorm(attention, first, 0.1), PostNorm(FeedForward(feed_forward[0], nn.GELU(), feed_forward[2]), second, 0.1)
    )
    inputs, table = torch.randn(2, 5, d), LearnedPositions(6, d)
    x = inputs + table.table(torch.arange(5))
    torch.testing.assert_close(table(inputs, torch.arange(5)), x)
    assert x.shape == (2, 5, d), "[batch_size, seq_len, embedding_dim]"

    torch.manual_seed(4)
    y = dropout(attention(x))
    z = first(x + y)
    y = dropout(feed_forward(z))
    expected = second(z + y)
    torch.manual_seed(4)
    torch.testing.assert_close(block(x), expected, atol=1e-6, rtol=1e-5)


def test_layer_norm_as_printed() -> None:
    """Deck 004: y = (x - E[x]) / sqrt(Var[x] + ε) · γ + β, and its words: mean 0 and deviation 1 to begin with."""
    x = torch.randn(2, 5, 64) * 7 + 3
    y = LayerNorm(64)(x)
    torch.testing.assert_close(y.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.std(-1, correction=0), torch.ones(2, 5), atol=1e-4, rtol=0)


def test_the_causal_mask_as_printed() -> None:
    """Deck 004: A_ij = mask_ij · exp<K w_i, Q w_j>, then normalized: the same as minus infinity before the softmax."""
    torch.manual_seed(5)
    module = MultiHeadAttention(*[nn.Linear(6, 6, bias=False) for _ in range(4)], heads=1, scale=1.0)
    x, seen = torch.randn(1, 4, 6), []
    module.weights.register_forward_hook(lambda layer, inputs, output: seen.append(output))
    mask = masks.causal(torch.arange(4), 4)
    with open_attention(module):
        module(x, mask=mask)
    kept = mask * torch.exp(module.query(x[0]) @ module.key(x[0]).T)
    torch.testing.assert_close(seen[0][0, 0], kept / kept.sum(-1, keepdim=True), atol=1e-6, rtol=1e-5)


def test_the_nano_model() -> None:
    """Deck 000: Transformer blocks = 3, heads = 3, d = 48."""
    nano = PRESETS["gpt-nano"]
    assert (nano.layers, nano.heads, nano.width) == (3, 3, 48)
    model = GPTConfig(layers=3, heads=3, width=48, vocabulary=100).build()
    assert len(model.blocks) == 3
    attention = model.blocks[0].attention.sublayer
    assert (attention.heads, attention.head_width) == (3, 16)
    assert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, 100), "the same size in as out, then scores"


def test_every_prefix_is_an_example() -> None:
    """Deck 000: The, The smooth, The smooth blue ... each predicts its next word; deck 004: "by one pass"."""
    torch.manual_seed(6)
    model = GPTConfig(layers=1, heads=3, width=48, vocabulary=9, context=9).build().eval()
    sentence = torch.randperm(9).unsqueeze(0)  # "The smooth blue lake became choppy in the wind"
    at_once = model(sentence)
    for length in range(1, 10):
        torch.testing.assert_close(model(sentence[:, :length])[:, -1], at_once[:, length - 1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "layers", "width", "millions", "real"),
    [
        ("gpt2", 12, 768, 117, 124.4),
        ("gpt2-medium", 24, 1024, 345, 354.8),
        ("gpt2-large", 36, 1280, 762, 774.0),
        ("gpt2-xl", 48, 1600, 1542, 1557.6),
    ],
)
def test_gpt2s_table(name: str, layers: int, width: int, millions: int, real: float) -> None:
    """Deck 004's table: layers and widths are right, the millions are the paper's and too small."""
    config = PRESETS[name]
    assert (config.layers, config.width, config.context) == (layers, width, 1024)
    with torch.device("meta"):
        found = count(GPTConfig(layers=layers, heads=config.heads, width=width, context=1024, vocabulary=50257).build())
    assert round(found / 1e6, 1) == real
    assert found / 1e6 > millions
