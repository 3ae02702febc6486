"""Modern-fast: the quickest way to a usable small model. It opens nowhere else: modern.py is the one to take away.

    x = E[tokens] + N[hash of the last 3];  N times: x += attention(shift(norm(x))), x += W₂ max(W₁ norm(x), 0)²

What a short training would have to learn first, it is given: the last tokens as one (n-gram table), the neighbour's
vector beside one's own (token shift). Few layers and little width are then enough. docs/measurements.md has what each
part brings.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, FeedForward, PreNorm, SquaredReLU
from qkv.blocks.bounded_state import PastState
from qkv.blocks.embeddings import NgramEmbedding, Shifted, ShiftedState, TokenShift
from qkv.blocks.norms import RMSNorm
from qkv.blocks.positions import RotaryPositions
from qkv.blocks.state import LayerStates, next_positions
from qkv.blocks.tap import Tap
from qkv.config import Context, Count, CountOrZero, Layers, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, OptimizerDefaults, adamw


@strict
class ModernFastConfig:
    kind: Literal["modern-fast"] = "modern-fast"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 2
    heads: Width = 2
    width: Width = 64
    hidden: WidthOrZero = 0  # of the feed-forward; 0: 4 width
    order: Count = 3  # tokens of an n-gram
    table: Count = 32_768  # rows of the n-grams' table
    context: Context = 64
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "modern-fast": ModelDefaults(
            {
                "muon": OptimizerDefaults(0.03, (0.8, 0.95), matrix_learning_rate=0.05, momentum=0.9),
                "adamw": adamw(0.01),
            }
        ),
    }

    def __post_init__(self) -> None:
        if width_of_head(self.width, self.heads) % 2:
            raise ValueError("rotary positions turn pairs: the head width (width / heads) must be even")

    def build(self) -> ModernFast:
        return ModernFast(self)


class ModernFast(nn.Module):
    def __init__(self, config: ModernFastConfig) -> None:
        super().__init__()
        width, heads = config.width, config.heads
        head_width, hidden = width_of_head(width, heads), config.hidden or 4 * width
        self.vocabulary, self.context, self.order = config.vocabulary, config.context, config.order

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        def attention() -> Shifted:
            query, key, value, output = (linear(width, width) for _ in range(4))
            norms = [RMSNorm(head_width, 1e-6) for _ in range(2)]
            mixed = MultiHeadAttention(
                query, key, value, output, heads=heads, dropout=config.dropout,
                query_norm=norms[0], key_norm=norms[1], positions=rotary,
            )  # fmt: skip
            return Shifted(TokenShift(width), mixed)

        def feedforward() -> FeedForward:
            return FeedForward(linear(width, hidden), SquaredReLU(), linear(hidden, width))

        rotary = RotaryPositions(config.context, head_width)
        self.embedding = NgramEmbedding(config.vocabulary, width, order=config.order, table=config.table)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                PreNorm(attention(), RMSNorm(width, 1e-6), config.dropout),
                PreNorm(feedforward(), RMSNorm(width, 1e-6), config.dropout),
            )
            for _ in range(config.layers)
        )
        self.norm = RMSNorm(width, 1e-6)
        self.head = linear(width, config.vocabulary)
        self.logits = Tap()
        self._initialize()

    def state(self, rows: int, capacity: int | None = None) -> LayerStates:
        """The last tokens, then what each layer remembers."""
        layers = [ShiftedState(rows, capacity or self.context) for _ in self.blocks]
        return LayerStates([PastState(rows, self.order - 1), *layers])

    def forward(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T D"]:
        positions, keys = next_positions(state, tokens.size(1), tokens.device)
        mask = masks.causal(positions, keys)
        x = self.embedded(self.embedding(tokens, state=state.layers[0] if state else None))
        for depth, block in enumerate(self.blocks, 1):
            x = block(x, mask=mask, positions=positions, state=state.layers[depth] if state else None)
        return self.norm(x)

    def _initialize(self) -> None:
        """Every block starts as the identity, the n-grams add nothing, and every next token is equally likely."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.embedding.tokens.weight, std=0.5)
        nn.init.zeros_(self.embedding.ngrams.weight)
