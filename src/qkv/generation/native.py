"""Native decoding: one call of compiled C (`decode.c`) computes the next token of a model of blocks (gpt, modern).

Every token needs all weights to be read from memory once, so they are stored in few bits and read in order:

    f32     the original weights
    bf16    the upper half of an f32
    int8    each row as integers times a factor, |w - s·q| <= s/2 with s = max|w| / 127; activations stay f32

Queries, keys and values are computed by one matrix, and so are gate and up; the scale of an RMSNorm is multiplied into
the matrix after it. Prompts are computed by the model itself, which fills the same state. The machine's C compiler
compiles `decode.c` once; without a compiler, the model itself generates. `bench/products.py` measures alternatives.

`decode.c` supports models of equal pre-norm blocks of attention and feed-forward, without a window, in f32 on the CPU,
with no part replaced. Other models are computed by their own modules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention, fused
from qkv.blocks.block import Block, FeedForward, GatedFeedForward, PreNorm, TanhGELU
from qkv.blocks.fast_paths import changed, hook_tables
from qkv.blocks.heads import TiedHead
from qkv.blocks.norms import RMSNorm
from qkv.blocks.positions import LearnedPositions, NoPositions, RotaryPositions
from qkv.blocks.state import KeyValueState, LayerStates, State, next_positions
from qkv.generation.compiler import DecodeLayer, DecodeMatrix, DecodeModel, address, f32_on_cpu, library
from qkv.models.language_model import LanguageModel

ROWS = 4  # rows of a matrix that C computes together; sizes must be multiples of it


def fits(model: object) -> bool:
    """Whether C can compute the steps of a model."""
    return not obstacle(model)


def obstacle(model: object) -> str:
    """Why C cannot compute the steps of a model, as the end of a sentence about it; empty if it can."""
    if not isinstance(model, nn.Module) or not isinstance(getattr(model, "blocks", None), nn.ModuleList):
        return "is not made of blocks"
    if getattr(model, "window", False):
        return "has an attention window"
    if not f32_on_cpu(model):
        return "is not in f32 on the CPU"
    if problem := changed(model):
        return problem
    if forms(model) is None:
        return "has parts that the compiled code does not support"
    return "" if library() is not None else "finds no working C compiler"


def forms(model: nn.Module) -> tuple[object, ...] | None:
    """The kinds and numbers of parts that C needs to know, besides the weights; None if it does not support a part."""
    parts: Any = model
    embedding, head = (getattr(model, name, None) for name in ("embedding", "head"))
    if type(embedding) is not nn.Embedding or embedding.max_norm is not None or type(head) not in (nn.Linear, TiedHead):
        return None
    if isinstance(head, TiedHead) and head._embedding[0] is not embedding:
        return None
    learned = getattr(model, "positions", None)
    if learned is not None and (type(learned) is not LearnedPositions or type(learned.table) is not nn.Embedding):
        return None
    own, *others = {_form(block) for block in parts.blocks} or {None}
    final = _norm_form(parts.norm, nn.LayerNorm, RMSNorm)
    if others or own is None or own[0] != final:  # all blocks must have one form
        return None
    return (len(parts.blocks), type(head), learned is not None, final, *own)


def _form(block: Any) -> tuple[object, ...] | None:
    if type(block) is not Block or {type(block.attention), type(block.feedforward)} != {PreNorm}:
        return None
    heads: Any = block.attention.sublayer
    network: Any = block.feedforward.sublayer
    if type(heads) is not MultiHeadAttention or type(network) not in (FeedForward, GatedFeedForward):
        return None
    gated = type(network) is GatedFeedForward
    into, out = ((network.gate, network.up), network.down) if gated else ((network.inner,), network.outer)
    projections = heads.query, heads.key, heads.value
    if any(type(part) is not nn.Linear for part in (*projections, heads.output, *into, out)):
        return None
    if any(len({part.bias is None for part in joined}) > 1 for joined in (projections, into)):
        return None  # layers that become one matrix must all have a bias, or none
    sizes = heads.query.in_features, heads.head_width, into[0].out_features
    norms = {_norm_form(part.norm, nn.LayerNorm, RMSNorm) for part in (block.attention, block.feedforward)}
    head_norms = {_norm_form(norm, nn.Identity, RMSNorm) for norm in (heads.query_norm, heads.key_norm)}
    if (
        any(size % ROWS for size in sizes)
        or type(network.activation) is not (nn.SiLU if gated else TanhGELU)
        or type(heads.positions) not in (NoPositions, RotaryPositions)
        or None in norms | head_norms
        or len(norms) + len(head_norms) > 2
    ):
        return None
    numbers = heads.heads, heads.key_heads, heads.head_width, heads.scale, sizes, gated
    rotary = id(heads.positions) if type(heads.positions) is RotaryPositions else 0
    return (*norms, *head_norms, *numbers, rotary)


def _norm_form(norm: Any, *kinds: type[nn.Module]) -> tuple[object, ...] | None:
    """The kind and the epsilon of a norm; None if it is of another kind, or lacks a weight."""
    if type(norm) not in kinds:
        return None
    if type(norm) is nn.Identity:
        return (nn.Identity,)
    whole = norm.weight is not None and norm.eps is not None and (type(norm) is RMSNorm or norm.bias is not None)
    return (type(norm), norm.eps) if whole else None


def contents(model: nn.Module) -> tuple[int, ...]:
    """A hash of each weight and table; torch's version counters do not notice changes such as `weight.data.mul_(2)`."""
    tensors = [tensor.detach().contiguous() for tensor in (*model.parameters(), *model.buffers())]
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    threads = torch.get_num_threads()
    return tuple(
        library().fingerprint(address(tensor), size, threads) for tensor, size in zip(tensors, sizes, strict=True)
    )


def versions(model: nn.Module) -> list[int]:
    """torch's version counter of each weight: the number of changes; tensors created in inference mode have none."""
    return [0 if tensor.is_inference() else tensor._version for tensor in (*model.parameters(), *model.buffers())]


Format = Literal["f32", "bf16", "int8"]
LEVELS = 127  # the largest integer of a quantized weight
MIN_COMPRESSED = 4_000_000  # weights; with fewer, reading them takes less time than choosing the next token
TOGETHER = 16  # rows of a batch that are computed with one reading of the weights


def quantized(weight: Float[Tensor, "N D"]) -> tuple[Tensor, Tensor]:
    """The weights as int8 (N, D), and the factor of each row (N,)."""
    factors = weight.abs().amax(1).clamp_min(1e-30) / LEVELS
    return (weight / factors.unsqueeze(1)).round().to(torch.int8), factors


class NativeState(LayerStates):
    """Keys and values of each layer in one buffer, (rows, 2, G, capacity, K), which both torch and C use."""

    def __init__(self, buffers: list[Tensor], lengths: list[int]) -> None:
        self.buffers = buffers
        self.pairs = [KeyValueState(len(lengths), buffer.size(3)) for buffer in buffers]
        for pair, buffer in zip(self.pairs, buffers, strict=True):
            pair.lengths, pair.keys, pair.values = list(lengths), buffer[:, 0], buffer[:, 1]
        super().__init__([*self.pairs])

    def rows(self, index: Sequence[int]) -> NativeState:
        which = torch.as_tensor(list(index))
        return NativeState([buffer[which] for buffer in self.buffers], [self.lengths[row] for row in index])


class Native:
    """A language model for inference: the model, but C computes steps of one token."""

    training = False

    def __init__(self, model: LanguageModel, format: Format = "f32") -> None:
        assert fits(model)
        whole: Any = model
        self.model = whole
        self.format: Format = format
        self.vocabulary, self.context = model.vocabulary, model.context
        self.decode = library().decode
        self.referenced: list[object] = []  # the tensors to which C has pointers; they must not be freed
        with torch.no_grad():
            self._take_apart()
        self.made_of = forms(self.model), contents(self.model)
        self.hooks = hook_tables(self.model)
        self.versions = versions(self.model)
        self.attentions = [part for part in self.model.modules() if isinstance(part, MultiHeadAttention)]

    def current(self) -> bool:
        """Whether the model has still the parts and the weights from which this copy was made."""
        return fits(self.model) and self.made_of == (forms(self.model), contents(self.model))

    def _is_unchanged(self) -> bool:
        """A faster check for every token: there is no hook and no other `mix`, and torch's version counters are the
        same."""
        return (
            not any(self.hooks)
            and all(part.mix is fused for part in self.attentions)
            and versions(self.model) == self.versions
        )

    def _take_apart(self) -> None:
        model, heads = self.model, self.model.blocks[0].attention.sublayer
        network = model.blocks[0].feedforward.sublayer
        learned = getattr(model, "positions", None)
        self.positions = learned.table.weight.detach() if isinstance(learned, LearnedPositions) else None
        self.cache_shape = (2, heads.key_heads, heads.head_width)
        layers = (DecodeLayer * len(model.blocks))(*(self._layer(block) for block in model.blocks))
        final = self._norm(model.norm)
        head = model.head._embedding[0] if isinstance(model.head, TiedHead) else model.head
        cosines, sines = self._rotary(heads.positions)
        gated = isinstance(network, GatedFeedForward)
        hidden = (network.gate if gated else network.inner).out_features
        self.c = DecodeModel(
            len(model.blocks), model.embedding.embedding_dim, heads.heads, heads.key_heads, heads.head_width, hidden,
            model.vocabulary, int(gated), model.norm.eps, getattr(heads.query_norm, "eps", 0.0) or 0.0, heads.scale,
            cosines, sines, final[1], final[2], self._matrix([head], final[0]), layers,
        )  # fmt: skip
        self.referenced.append(layers)
        sizes = (heads.heads + 2 * heads.key_heads) * heads.head_width, heads.heads * heads.head_width, hidden
        self.room = sum(sizes)  # floats a row on the way

    def _layer(self, block: Any) -> DecodeLayer:
        heads, network = block.attention.sublayer, block.feedforward.sublayer
        before, after = self._norm(block.attention.norm), self._norm(block.feedforward.norm)
        gated = isinstance(network, GatedFeedForward)
        small = None
        if isinstance(heads.query_norm, nn.RMSNorm):
            weights = heads.query_norm.weight.expand(heads.heads, -1), heads.key_norm.weight.expand(heads.key_heads, -1)
            small = self._keep(torch.cat(weights))
        return DecodeLayer(
            self._matrix([heads.query, heads.key, heads.value], before[0]),
            self._matrix([heads.output]),
            self._matrix([network.gate, network.up] if gated else [network.inner], after[0]),
            self._matrix([network.down if gated else network.outer]),
            *before[1:],
            *after[1:],
            small,
        )

    def _norm(self, norm: nn.Module) -> tuple[Tensor | None, ctypes.c_void_p | None, ctypes.c_void_p | None]:
        """The scale that goes into the matrix after an RMSNorm, or the scale and the shift of a LayerNorm."""
        if isinstance(norm, nn.RMSNorm):
            return norm.weight.detach(), None, None
        assert isinstance(norm, nn.LayerNorm)
        return None, self._keep(norm.weight), self._keep(norm.bias)

    def _rotary(self, positions: nn.Module) -> tuple[ctypes.c_void_p | None, ctypes.c_void_p | None]:
        """The tables of rotary positions, (context, K) each, for x cos + swap(x) sin. `swap` exchanges the halves of x,
        so the first half of the sines has the opposite sign."""
        if not isinstance(positions, RotaryPositions):
            return None, None
        cosines, sines = positions.cosines, positions.sines
        return self._keep(torch.cat([cosines, cosines], 1)), self._keep(torch.cat([-sines, sines], 1))

    def _matrix(self, linears: Sequence[nn.Linear | nn.Embedding], scale: Tensor | None = None) -> DecodeMatrix:
        """One matrix for several linear layers with the same input, in the number format, with padded rows."""
        weight = torch.cat([linear.weight.detach() for linear in linears])
        weight = weight if scale is None else weight * scale
        biases = [bias.detach() for linear in linears if (bias := getattr(linear, "bias", None)) is not None]
        missing = -len(weight) % ROWS
        weight = F.pad(weight, (0, 0, 0, missing)) if missing else weight
        bias = self._keep(F.pad(torch.cat(biases), (0, missing))) if biases else None
        numbers, factors = quantized(weight) if self.format == "int8" else (None, None)
        return DecodeMatrix(
            self._keep(weight if self.format == "f32" else None),
            self._keep(weight.bfloat16() if self.format == "bf16" else None),
            self._keep(numbers),
            self._keep(factors),
            bias,
            *weight.shape,
        )

    def _keep(self, tensor: Tensor | None) -> ctypes.c_void_p | None:
        if tensor is None:
            return None
        self.referenced.append(tensor := tensor.detach().contiguous())
        return address(tensor)

    def eval(self) -> Native:
        self.model.eval()
        return self

    def train(self, mode: bool = True) -> Native:
        raise TypeError("a native model is for inference only; train the model that it was made from")

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        return iter(self.model.parameters(recurse))

    def state(self, rows: int, capacity: int | None = None) -> NativeState:
        pair, heads, width = self.cache_shape
        shape = (rows, pair, heads, capacity or self.context, width)
        return NativeState([torch.zeros(shape) for _ in self.model.blocks], [0] * rows)

    def __call__(self, tokens: Int[Tensor, "B T"], state: State | None = None) -> Float[Tensor, "B 1 V"]:
        """The scores after the last token only: after a long prompt, those of the other tokens would take most of the
        time."""
        state = self.state(len(tokens), tokens.size(1)) if state is None else state
        if not self._is_unchanged():  # changed while a text is generated: the model itself goes on with the same state
            return self.model(tokens, state)[:, -1:]
        assert isinstance(state, NativeState)
        if tokens.size(1) > 1:
            return self._prompt(tokens, state)
        return self._step(tokens, state).unsqueeze(1)

    def _prompt(self, tokens: Tensor, state: NativeState) -> Tensor:
        """Compute many tokens at once with the model's modules."""
        scores: Tensor = self.model.head(self.model.vectors(tokens, state)[:, -1:])
        return scores

    def _step(self, tokens: Tensor, state: NativeState) -> Tensor:
        """Compute one token of each row. Each row is computed as if it were alone, so texts do not depend on each
        other."""
        capacity, lengths = state.buffers[0].size(3), state.lengths
        assert len(lengths) == len(tokens), f"a state of {len(lengths)} rows, tokens of {len(tokens)}"
        if max(lengths) >= min(capacity, self.context):
            raise ValueError(
                f"the state holds {min(capacity, self.context)} positions, {max(lengths) + 1} were asked for; "
                "start a new one"
            )
        x = F.embedding(tokens[:, 0], self.model.embedding.weight)
        if self.positions is not None:
            positions, _ = next_positions(state, 1, tokens.device)
            x = x + F.embedding(positions.flatten(), self.positions)
        logits = torch.empty(len(x), self.c.head.rows)
        for first in range(0, len(x), TOGETHER):
            group = slice(first, first + TOGETHER)
            vectors, known = x[group], lengths[group]
            room = torch.empty(len(known) * self.room)
            caches = (ctypes.c_void_p * len(state.buffers))(*(buffer[group].data_ptr() for buffer in state.buffers))
            self.decode(
                ctypes.byref(self.c), len(known), address(vectors), caches, (ctypes.c_int64 * len(known))(*known),
                capacity, address(room), address(logits[group]), torch.get_num_threads(),
            )  # fmt: skip
        for pair in state.pairs:
            pair.lengths = [length + 1 for length in pair.lengths]
        return logits[:, : self.vocabulary]


def choose(model: LanguageModel, passed: bool) -> Format:
    """The default number format: f32 for small models; for larger ones int8 if it has passed its check, else bf16. It
    does not depend on the machine, so that results are repeatable."""
    if sum(parameter.numel() for parameter in model.parameters()) < MIN_COMPRESSED:
        return "f32"
    return "int8" if passed else "bf16"
