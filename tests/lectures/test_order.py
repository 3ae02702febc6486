"""Order: without positions attention is a bag of words, with them it is not (decks 001-004)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import Block, FeedForward, PostNorm, PreNorm
from qkv.blocks.embeddings import Embedding
from qkv.blocks.heads import MeanPooling
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions, NoPositions, RotaryPositions, SinusoidalPositions
from qkv.blocks.recurrent import Recurrent, ZeroStart

PAIRS = {
    "good and bad": ("the food was good not bad at all", "the food was bad not good at all"),  # deck 003
    "dog and cat": ("the dog chased the cat", "the cat chased the dog"),  # deck 004
    "only she": ("she only eats pizza", "only she eats pizza"),  # deck 004
}
WORDS = sorted({word for pair in PAIRS.values() for sentence in pair for word in sentence.split()})
WIDTH, CONTEXT = 12, 8


class Encoder(nn.Module):
    """Deck 004's classifier up to its last layer: embeddings, positions, Transformer layers, the mean."""

    def __init__(self, positions: nn.Module, turning: nn.Module, wrap: Any) -> None:
        super().__init__()
        self.embedding, self.positions, self.pooling = Embedding(len(WORDS), WIDTH), positions, MeanPooling()

        def block() -> Block:
            linear = [nn.Linear(WIDTH, WIDTH) for _ in range(4)]
            attention = MultiHeadAttention(*linear, heads=3, positions=turning)
            feedforward = FeedForward(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            return Block(wrap(attention, LayerNorm(WIDTH)), wrap(feedforward, LayerNorm(WIDTH)))

        self.blocks = nn.ModuleList([block(), block()])

    def vectors(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1))
        x = self.positions(self.embedding(tokens), positions)
        for block in self.blocks:
            x = block(x, positions=positions)
        return x

    def forward(self, tokens: Tensor) -> Tensor:
        return self.pooling(self.vectors(tokens), torch.ones_like(tokens, dtype=torch.bool))


def encoder(positions: str, wrap: Any = PostNorm) -> Encoder:
    torch.manual_seed(0)
    added = {
        "learned": LearnedPositions(CONTEXT, WIDTH),
        "interleaved": SinusoidalPositions(CONTEXT, WIDTH),
        "concatenated": SinusoidalPositions(CONTEXT, WIDTH, "concatenated"),
    }
    turning = RotaryPositions(CONTEXT, WIDTH // 3) if positions == "rotary" else NoPositions()
    model = Encoder(added.get(positions, NoPositions()), turning, wrap)
    for parameter in model.parameters():  # a start near zero would make every sentence look alike
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.5)
    return model.eval()


def ids(sentence: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in sentence.split()]])


@pytest.mark.parametrize("wrap", [PostNorm, PreNorm])
@pytest.mark.parametrize("pair", PAIRS)
def test_without_positions_two_meanings_are_one(pair: str, wrap: Any) -> None:
    """Decks 002, 003 and 004: words are weighted "as if a bag of words", so the two sentences pool to one vector."""
    model = encoder("none", wrap)
    first, second = (model(ids(sentence)) for sentence in PAIRS[pair])
    torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("wrap", [PostNorm, PreNorm])
@pytest.mark.parametrize("positions", ["learned", "interleaved", "concatenated", "rotary"])
@pytest.mark.parametrize("pair", PAIRS)
def test_with_positions_they_differ(pair: str, positions: str, wrap: Any) -> None:
    """Decks 001 to 004: positions tell the two apart, whichever kind is used."""
    model = encoder(positions, wrap)
    first, second = (model(ids(sentence)) for sentence in PAIRS[pair])
    assert (first - second).abs().max() > 0.01


@pytest.mark.parametrize("wrap", [PostNorm, PreNorm])
def test_a_permutation_goes_through_the_block(wrap: Any) -> None:
    """Deck 001: "both attention and feedforward layers are order invariant": permuted words, permuted vectors."""
    model = encoder("none", wrap)
    tokens = torch.arange(7).unsqueeze(0)
    for seed in range(5):
        order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(
            model.vectors(tokens[:, order]), model.vectors(tokens)[:, order], atol=1e-5, rtol=1e-4
        )
    order = torch.arange(6, -1, -1)
    apart = encoder("learned", wrap)
    assert not torch.allclose(apart.vectors(tokens[:, order]), apart.vectors(tokens)[:, order], atol=1e-2)


def test_a_mean_of_embeddings_knows_no_order() -> None:
    """Deck 004, "issues of word embeddings": the mean-pooled model does not take care of the order of the words."""
    table, pooling = Embedding(len(WORDS), WIDTH), MeanPooling()
    for first, second in PAIRS.values():
        one, two = (pooling(table(ids(s)), torch.ones_like(ids(s), dtype=torch.bool)) for s in (first, second))
        torch.testing.assert_close(one, two)


@pytest.mark.parametrize(("layer", "parts"), [(nn.RNN, 1), (nn.GRU, 1), (nn.LSTM, 2)])
def test_a_recurrence_needs_no_positions(layer: Any, parts: int) -> None:
    """Deck 001: "RNN assumes sequence order is what matters"."""
    torch.manual_seed(1)
    table = Embedding(len(WORDS), WIDTH)
    model = Recurrent(layer(WIDTH, WIDTH, batch_first=True), ZeroStart(parts, 1, WIDTH))
    for first, second in PAIRS.values():
        assert (model(table(ids(first)))[:, -1] - model(table(ids(second)))[:, -1]).abs().max() > 0.001
