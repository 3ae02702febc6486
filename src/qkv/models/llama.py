"""Llama and Qwen2: today's plain decoder block; SmolLM2 and llama2.c's stories are Llamas too.

    x = E[tokens];  N times: x += attention(norm(x)), x += down(silu(gate(norm(x))) ⊙ up(norm(x)));  logits = W norm(x)

Llama (Touvron et al. 2023) has no biases; Qwen2 (Yang et al. 2024) has them on queries, keys and values. Llama 3.1
stretches the rotary turns over a longer context. modern.py is the same with a norm on queries and keys.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks import initialization, masks
from qkv.blocks.attention import MultiHeadAttention, width_of_head
from qkv.blocks.block import Block, GatedFeedForward, PreNorm
from qkv.blocks.bounded_state import window_mask, window_states
from qkv.blocks.embeddings import Embedding
from qkv.blocks.heads import TiedHead
from qkv.blocks.norms import RMSNorm
from qkv.blocks.positions import RotaryPositions, llama3_rates, rotary_rates
from qkv.blocks.state import LayerStates, next_positions
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Positive, PositiveOrZero, Share, Width, WidthOrZero, strict
from qkv.models.defaults import Defaults, ModelDefaults, adamw, muon


@strict
class LlamaConfig:
    kind: Literal["llama", "qwen2"] = "llama"
    vocabulary: CountOrZero = 0  # 0: the tokenizer's
    layers: Layers = 4
    heads: Width = 4
    key_heads: WidthOrZero = 0  # 0: as many as heads
    width: Width = 128
    head_width: WidthOrZero = 0  # 0: width / heads
    hidden: WidthOrZero = 0  # of the feed-forward; 0: 8/3 width, so that three matrices cost what GPT's two do
    context: Context = 256
    window: CountOrZero = 0  # how many positions each token attends to, itself included; 0: all
    rotary_base: Positive = 10000.0
    rotary_factor: Positive = 1.0  # how many times slower the slow pairs turn (Llama 3.1); 1: all as they are
    rotary_low: PositiveOrZero = 1.0  # slow pairs turn less often than this within rotary_context
    rotary_high: Positive = 4.0  # fast pairs turn more often
    rotary_context: Context = 8192  # the one before it was stretched
    norm_epsilon: Positive = 1e-6
    head: Literal["tied", "own"] = "own"
    dropout: Share = 0.0
    defaults: ClassVar[Defaults] = {
        kind: ModelDefaults({"muon": muon((0.9, 0.95)), "adamw": adamw(0.004)}) for kind in ("llama", "qwen2")
    }

    def __post_init__(self) -> None:
        if self.heads % (self.key_heads or self.heads):
            raise ValueError(f"heads = {self.heads} must be a multiple of key_heads = {self.key_heads}")
        if (self.head_width or width_of_head(self.width, self.heads)) % 2:
            raise ValueError("rotary positions turn pairs: the head width (width / heads) must be even")
        if self.rotary_high <= self.rotary_low:
            raise ValueError(f"rotary_high = {self.rotary_high} must be above rotary_low = {self.rotary_low}")

    def build(self) -> Llama:
        return Llama(self)


class Llama(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        width, heads, epsilon = config.width, config.heads, config.norm_epsilon
        key_heads = config.key_heads or heads
        head_width = config.head_width or width_of_head(width, heads)
        hidden = config.hidden or 32 * max(1, round(width / 12))
        self.vocabulary, self.context, self.window = config.vocabulary, config.context, config.window

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        def projection(outputs: int) -> nn.Linear:
            return nn.Linear(width, outputs, bias=config.kind == "qwen2")

        def attention() -> MultiHeadAttention:
            return MultiHeadAttention(
                query=projection(heads * head_width),
                key=projection(key_heads * head_width),
                value=projection(key_heads * head_width),
                output=linear(heads * head_width, width),
                heads=heads,
                dropout=config.dropout,
                positions=rotary,
            )

        def feedforward() -> GatedFeedForward:
            return GatedFeedForward(linear(width, hidden), linear(width, hidden), nn.SiLU(), linear(hidden, width))

        rates = rotary_rates(head_width, config.rotary_base)
        stretch = config.rotary_factor, config.rotary_low, config.rotary_high, config.rotary_context
        rotary = RotaryPositions(config.context, head_width, rates=llama3_rates(rates, *stretch))
        self.embedding = Embedding(config.vocabulary, width)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(
            Block(
                PreNorm(attention(), RMSNorm(width, epsilon), config.dropout),
                PreNorm(feedforward(), RMSNorm(width, epsilon), config.dropout),
            )
            for _ in range(config.layers)
        )
        self.norm = RMSNorm(width, epsilon)
        self.head = linear(width, config.vocabulary) if config.head == "own" else TiedHead(self.embedding)
        self.logits = Tap()
        self._initialize()

    def state(self, rows: int, capacity: int | None = None) -> LayerStates:
        return window_states(len(self.blocks), rows, capacity or self.context, self.window)

    def forward(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T V"]:
        return self.logits(self.head(self.vectors(tokens, state)))

    def vectors(self, tokens: Int[Tensor, "B T"], state: LayerStates | None = None) -> Float[Tensor, "B T D"]:
        positions, keys = next_positions(state, tokens.size(1), tokens.device)
        mask = window_mask(state, positions, self.window) if self.window else masks.causal(positions, keys)
        x = self.embedded(self.embedding(tokens))
        for depth, block in enumerate(self.blocks):
            x = block(x, mask=mask, positions=positions, state=state.layers[depth] if state else None)
        return self.norm(x)

    def _initialize(self) -> None:
        """Every block starts as the identity and every next token equally likely; the rest keeps its size."""
        initialization.calm_(self, 0.5)
        nn.init.normal_(self.embedding.weight, std=0.5 if isinstance(self.head, nn.Linear) else 0.02)
