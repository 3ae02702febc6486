"""Attention for beam search in compiled C (`beam.c`), which never copies keys and values.

Beam search reorders and drops rows after every token. The state of a row, `Branches`, therefore contains only the
memory addresses of the keys and values of its positions: only addresses are copied, and rows with a common beginning
share its keys. The model's own linear layers compute the matrix products. Without a compiler, or with hooks or open
attention, torch computes everything, with the same results up to rounding. Letters: R rows, B sources, D width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import CrossBlock, FeedForward, PostNorm, PreNorm
from qkv.blocks.decoder import DecoderState, Memory, Present
from qkv.blocks.fast_paths import AVAILABLE, PackedLinear, as_built
from qkv.blocks.positions import NoPositions
from qkv.blocks.state import MemoryState, next_positions
from qkv.generation.compiler import address, f32_on_cpu, library
from qkv.models.transformer import Transformer

Step = Float[Tensor, "R 1 D"]  # one token of each row
M = TypeVar("M")


def addresses(pairs: Float[Tensor, "R T D2"]) -> Int[Tensor, "R T"]:
    """The address of the keys of each position; its values follow them."""
    first, stride = pairs.data_ptr(), pairs.size(2) * pairs.element_size()
    return torch.arange(first, first + pairs.size(0) * pairs.size(1) * stride, stride).view(pairs.shape[:2])


class Branches:
    """The state of a self-attention: for every row the addresses of its positions, (R, capacity), and the tensors at
    these addresses, a block of keys and values from each call."""

    def __init__(self, rows: int, capacity: int) -> None:
        self.counts = torch.zeros(rows, dtype=torch.long)
        self.places = torch.zeros(rows, capacity, dtype=torch.long)
        self.blocks: list[Tensor] = []

    @property
    def lengths(self) -> list[int]:
        return self.counts.tolist()

    def append(self, pairs: Float[Tensor, "R 1 D2"]) -> None:
        """Add one position to every row."""
        longest, capacity = int(self.counts.max()) + 1, self.places.size(1)
        if longest > capacity:
            raise ValueError(f"the state holds {capacity} positions, {longest} were asked for; start a new one")
        self.blocks.append(pairs)
        self.places.scatter_(1, self.counts.unsqueeze(1), addresses(pairs))
        self.counts += 1

    def rows(self, index: Sequence[int]) -> Branches:
        chosen, which = Branches(0, 0), torch.as_tensor(list(index))
        chosen.counts, chosen.places, chosen.blocks = self.counts[which], self.places[which], list(self.blocks)
        return chosen

    def truncate(self, length: int) -> None:
        self.counts = self.counts.clamp(max=length)

    def reset(self, row: int) -> None:
        self.counts[row] = 0


class SourceState(MemoryState):
    """The state of a cross-attention: the addresses (B, S) and lengths (B) of the sources, and the tensor there."""

    block: Tensor

    def rows(self, index: Sequence[int]) -> SourceState:
        chosen = SourceState()
        chosen.pair, chosen.block = super().rows(index).pair, self.block
        return chosen


class Residual:
    """A sublayer with its residual and its norm: x + sublayer(norm(x)), or norm(x + sublayer(x))."""

    def __init__(self, part: nn.Module) -> None:
        assert isinstance(part.norm, nn.LayerNorm)
        self.sublayer, self.norm = part.get_submodule("sublayer"), part.norm
        self.pre_norm = isinstance(part, PreNorm)

    def __call__(self, x: Step, sublayer: Callable[[Step], Step]) -> Step:
        if self.pre_norm:
            return x + sublayer(self.norm(x))
        update, y, norm = sublayer(x), torch.empty_like(x), self.norm
        library().add_and_normalize(
            address(x), address(update), len(x), x.size(2), address(norm.weight), address(norm.bias), norm.eps,
            address(y), torch.get_num_threads(),
        )  # fmt: skip
        return y


class Attention(Residual):
    """An attention of the decoder: the model's linear layers, with keys and values in one product, and attention in
    C."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__(part)
        module = self.sublayer
        assert isinstance(module, MultiHeadAttention)
        self.module = module
        weight = torch.cat([module.key.weight.detach(), module.value.weight.detach()])
        biases = [bias.detach() for bias in (module.key.bias, module.value.bias) if bias is not None]
        bias = torch.cat(biases) if biases else None
        self.pairs = PackedLinear(weight, bias) if AVAILABLE else lambda x: F.linear(x, weight, bias)

    def to_target(self, x: Step, state: Branches) -> Step:
        """Attention of the newest position to all positions of its row."""

        def attend(y: Step) -> Step:
            state.append(self.pairs(y))
            return self._attend(y, state.places, state.counts)

        return self(x, attend)

    def to_source(self, x: Step, memory: Memory, present: Present, state: SourceState) -> Step:
        """Attention to the source, without its padding. Neighbouring rows share a source."""
        if state.pair is None:
            state.block = self.pairs(memory)
            state.pair = addresses(state.block), present.sum(1)
        pairs, lengths = state.pair
        return self(x, lambda y: self._attend(y, pairs, lengths))

    def _attend(self, x: Step, pairs: Int[Tensor, "G S"], lengths: Int[Tensor, " G"]) -> Step:
        module, queries = self.module, self.module.query(x)
        mixed = torch.empty_like(queries)
        library().attend_rows(
            len(pairs), len(x) // len(pairs), module.heads, module.head_width, module.scale, address(queries),
            address(pairs), pairs.size(1), address(lengths), address(mixed), torch.get_num_threads(),
        )  # fmt: skip
        return module.output(mixed)


class Branching:
    """A translator for inference: the model, but `Attention` computes steps of one token."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.context, self.encode = model, model.context, model.encode
        layers = (_parts(block) for block in model.decoder)
        self.layers = [(Attention(own), Attention(cross), Residual(network)) for own, cross, network in layers]

    def state(self, rows: int, capacity: int | None = None) -> DecoderState[Branches]:
        written = [Branches(rows, capacity or self.context) for _ in self.layers]
        return DecoderState(written, [SourceState() for _ in self.layers], list(range(rows)))

    def decode(
        self, tokens: Int[Tensor, "R 1"], memory: Memory, present: Present, state: DecoderState[Branches] | None = None
    ) -> Float[Tensor, "R 1 V"]:
        """The same as the model's `decode`, for one token in each row."""
        model, held = self.model, self.state(len(tokens), 1) if state is None else state
        x = model._embed(tokens, next_positions(held, 1, tokens.device)[0])
        states = held.layers(len(memory))
        for (attention, cross_attention, feedforward), (branches, source) in zip(self.layers, states, strict=True):
            assert isinstance(source, SourceState)
            x = attention.to_target(x, branches)
            x = cross_attention.to_source(x, memory, present, source)
            x = feedforward(x, feedforward.sublayer)
        return model.head(model.decoder_norm(x))


def branching(model: M) -> M | Branching:
    """The model with its steps in C if it is a standard model in f32 on the CPU without hooks; else the model
    itself."""
    if isinstance(model, Transformer) and _fits(model) and library() is not None:
        return Branching(model)
    return model


def _fits(model: Transformer) -> bool:
    if model.training or not as_built(model) or torch.is_autocast_enabled("cpu"):
        return False
    return type(model) is Transformer and f32_on_cpu(model) and all(_standard(block) for block in model.decoder)


def _parts(block: nn.Module) -> list[nn.Module]:
    return [block.get_submodule(name) for name in ("attention", "crossing", "feedforward")]


def _standard(block: nn.Module) -> bool:
    if type(block) is not CrossBlock:
        return False
    parts = _parts(block)
    return (
        all(type(part) in (PreNorm, PostNorm) for part in parts)
        and all(type(part.norm) is nn.LayerNorm and part.norm.bias is not None for part in parts)
        and all(_plain(part.sublayer) for part in parts[:2])
        and type(block.feedforward.sublayer) is FeedForward
    )


def _plain(module: object) -> bool:
    """Whether all parts of an attention are the standard ones: none has LoRA, is quantized, or has been replaced."""
    return (
        type(module) is MultiHeadAttention
        and module.key_heads == module.heads
        and isinstance(module.positions, NoPositions)
        and all(type(norm) is nn.Identity for norm in (module.query_norm, module.key_norm))
        and all(type(part) is nn.Linear for part in (module.query, module.key, module.value, module.output))
        and (module.key.bias is None) == (module.value.bias is None)
    )
