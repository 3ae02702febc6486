"""GPT: the decoder of GPT-2 (Radford et al. 2019), after GPT (Radford et al. 2018). Decks 000 and 004.

    x = E[tokens] + P[positions];  N times: x += attention(norm(x)), x += feedforward(norm(x));  logits = norm(x) Eᵀ

Learned positions, LayerNorm before each sublayer, GELU, biases everywhere, the head tied to the embedding.
Deck 004's table says 117, 345, 762 and 1542 million parameters; the real sizes are in `PRESETS` and its test.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, FeedForward, PreNorm, TanhGELU
from qkv.blocks.bounded_state import window_mask, window_states
from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import Embedding
from qkv.blocks.heads import TiedHead
from qkv.blocks.norms import LayerNorm
from qkv.blocks.positions import LearnedPositions
from qkv.blocks.state import LayerStates, next_positions
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Share, Width, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers, Defaults, ModelDefaults, adamw, muon


@strict
class GPTConfig:
    kind: Literal["gpt"] = "gpt"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 4
    heads: Width = 4
    width: Width = 128
    context: Context = 256
    window: CountOrZero = 0  # how many positions each token attends to, itself included; 0: all
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        "gpt": ModelDefaults(
            {"muon": muon((0.9, 0.95)), "adamw": adamw(0.004)},
            shorter_windows=False,
            heap_fragmentation={"f32": 1.35, "bf16": 1.4},
        ),
    }
    classifiers: ClassVar[Classifiers] = {
        "gpt": ClassifierDefaults(
            {"layers": 2, "heads": 4, "width": 128, "dropout": 0.2}, pooling="last", learning_rate=1e-3
        ),
    }

    def __post_init__(self) -> None:
        width_of_head(self.width, self.heads)

    def build(self) -> GPT:
        return GPT(self)


PRESETS = {
    "gpt-nano": GPTConfig(layers=3, heads=3, width=48),
    "gpt-micro": GPTConfig(layers=4, heads=4, width=128),
    "gpt-mini": GPTConfig(layers=6, heads=6, width=192),
    "gpt2": GPTConfig(layers=12, heads=12, width=768, context=1024),
    "gpt2-medium": GPTConfig(layers=24, heads=16, width=1024, context=1024),
    "gpt2-large": GPTConfig(layers=36, heads=20, width=1280, context=1024),
    "gpt2-xl": GPTConfig(layers=48, heads=25, width=1600, context=1024),
}


class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        width, head_width = config.width, width_of_head(config.width, config.heads)
        self.vocabulary, self.context, self.window = config.vocabulary, config.context, config.window

        def attention() -> MultiHeadAttention:
            query, key, value, output = (nn.Linear(width, config.heads * head_width) for _ in range(4))
            return MultiHeadAttention(query, key, value, output, heads=config.heads, dropout=config.dropout)

        def feedforward() -> FeedForward:
            return FeedForward(nn.Linear(width, 4 * width), TanhGELU(), nn.Linear(4 * width, width))

        self.embedding = Embedding(config.vocabulary, width)
        self.positions = LearnedPositions(config.context, width)
        self.dropout = Dropout(config.dropout)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                PreNorm(attention(), LayerNorm(width), config.dropout),
                PreNorm(feedforward(), LayerNorm(width), config.dropout),
            )
            for _ in range(config.layers)
        )
        self.norm = LayerNorm(width)
        self.head = TiedHead(self.embedding)
        self.logits = Tap()
        self._initialize(config.layers)

    def state(self, rows: int, capacity: int | None = None) -> LayerStates:
        return window_states(len(self.blocks), rows, capacity or self.context, self.window)

    def forward(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T D"]:
        positions, keys = next_positions(state, tokens.size(1), tokens.device)
        mask = window_mask(state, positions, self.window) if self.window else masks.causal(positions, keys)
        x = self.embedded(self.dropout(self.positions(self.embedding(tokens), positions)))
        for depth, block in enumerate(self.blocks):
            x = block(x, mask=mask, positions=positions, state=state.layers[depth] if state else None)
        return self.norm(x)

    def _initialize(self, layers: int) -> None:
        """GPT-2's start: 0.02 everywhere, less for what is added to the stream, by the number of additions."""
        initialization.normal_(self.modules(), 0.02)
        outputs = [module for name, module in self.named_modules() if name.endswith((".output", ".outer"))]
        initialization.normal_(outputs, 0.02 / (2 * layers) ** 0.5)
