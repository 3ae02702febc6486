"""The parts that only a decoder needs: attention to the source, its state, and the scores of the next token.

    c_t = Σ_s softmax_s(h_t · W m_s) m_s;  h̃_t = tanh(W_c [c_t; h_t])        Luong et al. 2015, "general"; W = 1: "dot"

Beams and samples of one source are neighbouring rows that share one memory: the memory, (B, S, D), is never
copied for each of them, and its keys are computed once. Letters: R rows of the decoder, a multiple of B; S the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import scores, weights
from qkv.blocks.block import together
from qkv.blocks.state import LayerState, MemoryState, Pair, State
from qkv.blocks.tap import Tap

Source = Int[Tensor, "B S"]
Present = Bool[Tensor, "B S"]  # True for real tokens, which come before the padding
Memory = Float[Tensor, "B S D"]  # the encoder's output
Own = TypeVar("Own", bound=State)


class GlobalAttention(nn.Module):
    """Attention of a recurrent decoder to the whole source; `key` is `nn.Identity` for dot products, a matrix for
    bilinear ones."""

    def __init__(self, key: nn.Module, output: nn.Linear) -> None:
        super().__init__()
        self.key, self.output = key, output
        self.scores, self.weights, self.mixed = Tap(), Tap(), Tap()

    def forward(
        self,
        x: Float[Tensor, "R T D"],
        memory: Float[Tensor, "B S D"],
        *,
        mask: Bool[Tensor, "B 1 S"],
        state: LayerState | None = None,
    ) -> Float[Tensor, "R T D"]:
        def project() -> Pair:
            return self.key(memory), memory

        keys, values = project() if state is None else state.take(project)
        queries = together(x, len(memory))
        shares = self.weights(weights(self.scores(scores(queries, keys, scale=1.0)), mask))
        mixed = self.mixed(shares @ values)
        return torch.tanh(self.output(torch.cat([mixed, queries], -1))).view(x.shape)


class NoAttention(nn.Module):
    """No attention: the decoder knows of the source only the vector that it starts from."""

    def forward(self, x: Float[Tensor, "R T D"], memory: Tensor, **named: object) -> Float[Tensor, "R T D"]:
        return x


class TiedBiasedHead(nn.Module):
    """Logits from vectors, at any positions: the transposed embedding (tied weights) and a bias."""

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))
        self._embedding = (embedding,)  # in a tuple: not a submodule, so the table is saved once

    @property
    def weight(self) -> Float[Tensor, "V D"]:
        return self._embedding[0].weight

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        return F.linear(x, self.weight, self.bias)


class DecoderState(Generic[Own]):
    """What a decoder remembers, layer by layer: `written`, of its own output, for each row; `read`, of the source,
    once.

    `owners` has the number of the source of each row. A row that is reset starts again with the same source.
    """

    def __init__(self, written: Sequence[Own], read: Sequence[MemoryState], owners: list[int]) -> None:
        self.written, self.read, self.owners = written, read, owners

    @property
    def lengths(self) -> list[int]:
        return self.written[0].lengths

    def rows(self, index: Sequence[int]) -> DecoderState[Own]:
        written = [layer.rows(index) for layer in self.written]
        return DecoderState(cast(list[Own], written), self.read, [self.owners[row] for row in index])

    def truncate(self, length: int) -> None:
        for layer in self.written:
            layer.truncate(length)

    def reset(self, row: int) -> None:
        for layer in self.written:
            layer.reset(row)

    def layers(self, sources: int) -> list[tuple[Own, MemoryState]]:
        """The states for a call with this number of sources: keys of these only, in the order of the rows."""
        rows_per_source = len(self.owners) // sources
        wanted, held = self.owners[::rows_per_source], self.read[0].pair
        if held is not None:
            assert self.owners == [owner for owner in wanted for _ in range(rows_per_source)], (
                "rows of a source are neighbours"
            )
            if wanted != list(range(len(held[0]))):
                self.read = [memory.rows(wanted) for memory in self.read]
        self.owners = [number for number in range(sources) for _ in range(rows_per_source)]
        return list(zip(self.written, self.read, strict=True))
