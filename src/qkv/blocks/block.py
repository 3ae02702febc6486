"""The Transformer block: sublayers in a row, each with its residual and norm (`PreNorm` or `PostNorm`).

GPT and BERT stack the same `Block`; what may be looked at is the mask's business. A `CrossBlock` also looks at a
memory, as the decoder of deck 002 does.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.masks import Band
from qkv.blocks.state import LayerState


class Block(nn.Module):
    """Attention, then feed-forward."""

    def __init__(self, attention: nn.Module, feedforward: nn.Module) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        places: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.feedforward(self.attention(x, mask=mask, places=places, state=state))


class CrossBlock(nn.Module):
    """Attention to what was written, attention to the memory, then feed-forward."""

    def __init__(self, attention: nn.Module, crossing: nn.Module, feedforward: nn.Module) -> None:
        super().__init__()
        self.attention, self.crossing, self.feedforward = attention, crossing, feedforward

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B M D"],
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        memory_mask: Bool[Tensor, "... M"] | None = None,
        places: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
        memory_state: LayerState | None = None,
    ) -> Float[Tensor, "B T D"]:
        x = self.attention(x, mask=mask, places=places, state=state)
        x = self.crossing(x, memory, mask=memory_mask, state=memory_state)
        return self.feedforward(x)
