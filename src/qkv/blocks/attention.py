"""Attention, as pure functions a student can call on a slide's numbers, and as the multi-head module.

    Y = softmax(Q Kᵀ · scale + mask) V          Vaswani et al. 2017, eq. 1; decks 000-004

Letters: B batch, T queries, S keys, D width, H heads, G heads of keys, K head width.
A mask is True where a query may attend to a key. Slips of the slides: deck 002's weights .08/.91/.01/0 are
illustrative; the softmax of 92, 124, 22, 8 over 8 is .018/.982/.000/.000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.dropout import drop, keep_mask
from qkv.blocks.masks import Band, within
from qkv.blocks.positions import NoPositions
from qkv.blocks.state import LayerState
from qkv.blocks.tap import Tap


def scores(
    queries: Float[Tensor, "... T K"], keys: Float[Tensor, "... S K"], scale: float | None = None
) -> Float[Tensor, "... T S"]:
    """How much each query is like each key: q·k, divided by √K unless a scale is given."""
    scale = queries.size(-1) ** -0.5 if scale is None else scale
    return queries @ keys.transpose(-1, -2) * scale


def weights(scores: Float[Tensor, "... T S"], mask: Bool[Tensor, "... S"] | None = None) -> Float[Tensor, "... T S"]:
    """Softmax of the scores over the positions that the mask allows; where it allows none, all weights are zero."""
    if mask is None:
        return scores.softmax(-1)
    return scores.masked_fill(~mask, float("-inf")).softmax(-1).masked_fill(~mask, 0.0)


def attend(
    queries: Float[Tensor, "... T K"],
    keys: Float[Tensor, "... S K"],
    values: Float[Tensor, "... S V"],
    mask: Bool[Tensor, "... S"] | None = None,
    scale: float | None = None,
) -> Float[Tensor, "... T V"]:
    """Each position receives the values of the others, mixed by the weights."""
    return weights(scores(queries, keys, scale), mask) @ values


def parameter_free(x: Float[Tensor, "... T D"], mask: Bool[Tensor, "... T"] | None = None) -> Float[Tensor, "... T D"]:
    """Y = softmax(X Xᵀ) X: nothing is learned, words move towards the words they resemble (decks 000, 003, 004)."""
    return attend(x, x, x, mask, scale=1.0)


def learned_space(
    x: Float[Tensor, "... T D"], u: Float[Tensor, "D K"], mask: Bool[Tensor, "... T"] | None = None
) -> Float[Tensor, "... T K"]:
    """Y = softmax(X U Uᵀ Xᵀ) X U: the same in a learned space (deck 003, "back to learning, hence parameters")."""
    return parameter_free(x @ u, mask)


SMALLEST_BLOCK = 16  # of a banded attention: smaller ones cost more than they save
SHORT = {torch.bfloat16: 512}
"""Positions up to which, on a CPU, one product after the other is faster than torch's kernel: bench/attention.py."""

# A mix takes the module (its scale, dropout and taps), queries (B, H, T, K), keys and values (B, H, S, K), and a mask.
Mix = Callable[["MultiHeadAttention", Tensor, Tensor, Tensor, Tensor | Band | None], Tensor]


def fused(
    module: MultiHeadAttention, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | Band | None
) -> Tensor:
    """The same sums in one kernel that never writes the weights down; on a CPU, short texts product by product."""
    if isinstance(mask, Band):
        return banded(module, queries, keys, values, mask.reach)
    dropout = module.dropout if module.training else 0.0
    if queries.device.type == "cpu":
        short = queries.size(2) > 1 and keys.size(2) <= SHORT.get(queries.dtype, 0)
        if short or dropout:  # with dropout torch's own kernel would write the weights down as well
            return product_by_product(module, queries, keys, values, mask, dropout)
    return F.scaled_dot_product_attention(queries, keys, values, mask, dropout, scale=module.scale)


def product_by_product(
    module: MultiHeadAttention, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """With dropout on the weights; the mask is added to the product of queries and keys."""
    if dropout >= 1.0 or (mask is not None and not mask.any(-1).all()):
        return drop(weights(scores(queries, keys, module.scale), mask), dropout) @ values
    q, k, v = queries.flatten(0, 1), keys.flatten(0, 1), values.flatten(0, 1)  # (B, H, T, K) -> (B H, T, K)
    if mask is None:
        raw = torch.bmm(q * module.scale, k.mT)
    else:
        never = torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, float("-inf"))
        if mask.dim() == 2:
            raw = torch.baddbmm(never, q, k.mT, alpha=module.scale)
        else:
            raw = torch.bmm(q * module.scale, k.mT)
            raw.view(*queries.shape[:3], -1).add_(never)
    shares = raw.softmax(-1)
    if dropout:
        shares, v = shares * keep_mask(shares, dropout), v * (1.0 / (1.0 - dropout))
    return torch.bmm(shares, v).view(*queries.shape[:3], -1)


def banded(module: MultiHeadAttention, queries: Tensor, keys: Tensor, values: Tensor, reach: int) -> Tensor:
    """A window in O(r n d): each block of queries attends to the keys of its own block and of the one before."""
    size, length = max(reach, SMALLEST_BLOCK), queries.size(2)
    blocks = -(-length // size)
    after = blocks * size - length

    def pairs(x: Tensor) -> Tensor:
        """(B, H, S, K) -> (B, H blocks, 2 size, K)."""
        return F.pad(x, (0, 0, size, after)).unfold(2, 2 * size, size).mT.flatten(1, 2)

    positions = torch.arange(blocks * size, device=queries.device).view(blocks, size)
    mask = within(positions, torch.cat([positions - size, positions], 1), reach)  # before the first block: nothing
    whole = F.pad(queries, (0, 0, 0, after))
    blocked = whole.reshape(len(whole), -1, size, whole.size(3))  # (B, H, T, K) -> (B, H blocks, size, K)
    mixed = fused(module, blocked, pairs(keys), pairs(values), mask.repeat(whole.size(1), 1, 1))
    return mixed.reshape(whole.shape)[:, :, :length]


def opened(
    module: MultiHeadAttention, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | Band | None
) -> Tensor:
    """The sums one by one, each through its tap."""
    if isinstance(mask, Band):
        mask = mask.mask(queries.size(2), queries.device)
    raw = module.scores(scores(queries, keys, module.scale))
    shares = module.weights(weights(raw, mask))
    return drop(shares, module.dropout if module.training else 0.0) @ values


class MultiHeadAttention(nn.Module):
    """h attentions side by side, each in its own space, put together by W_O.

    The projections are passed in and decide the form: heads of d/h or of d, biases, `nn.Identity()` for no W_O, fewer
    key heads than query heads (grouped keys, Ainslie et al. 2023), a norm on queries and keys (Henry et al. 2020).
    """

    def __init__(
        self,
        query: nn.Linear,
        key: nn.Linear,
        value: nn.Linear,
        output: nn.Module,
        *,
        heads: int,
        scale: float | None = None,
        dropout: float = 0.0,
        query_norm: nn.Module | None = None,
        key_norm: nn.Module | None = None,
        positions: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = query, key, value, output
        self.heads = heads
        self.head_width = query.out_features // heads
        self.key_heads = key.out_features // self.head_width
        assert self.head_width * heads == query.out_features, "the query projection must be heads x head width"
        assert heads % self.key_heads == 0, "query heads must be a multiple of key heads"
        self.scale = self.head_width**-0.5 if scale is None else scale
        self.dropout = dropout
        self.query_norm, self.key_norm = query_norm or nn.Identity(), key_norm or nn.Identity()
        self.positions = positions or NoPositions()
        self.mix: Mix = fused
        self.queries, self.keys, self.values = Tap(), Tap(), Tap()
        self.scores, self.weights, self.mixed = Tap(), Tap(), Tap()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"] | None = None,
        *,
        mask: Bool[Tensor, "... S"] | Band | None = None,
        positions: Int[Tensor, "... T"] | None = None,
        state: LayerState | None = None,
    ) -> Float[Tensor, "B T _"]:
        def project() -> tuple[Tensor, Tensor]:
            source = x if memory is None else memory
            keys = self.positions(self.key_norm(self._split(self.key(source))), positions)
            return keys, self._split(self.value(source))

        queries = self.queries(self.positions(self.query_norm(self._split(self.query(x))), positions))
        keys, values = project() if state is None else state.take(project)
        keys, values = self._share(self.keys(keys)), self._share(self.values(values))
        mask = mask.unsqueeze(1) if isinstance(mask, Tensor) and mask.dim() == 3 else mask  # (B, T, S) -> (B, 1, T, S)
        mixed = self.mixed(self.mix(self, queries, keys, values, mask))
        return self.output(mixed.transpose(1, 2).flatten(2))  # (B, H, T, K) -> (B, T, H K)

    def _split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], -1, self.head_width).transpose(1, 2)  # (B, T, H K) -> (B, H, T, K)

    def _share(self, x: Tensor) -> Tensor:
        """Every group of query heads attends to the same keys: (B, G, S, K) -> (B, H, S, K)."""
        return x if self.key_heads == self.heads else x.repeat_interleave(self.heads // self.key_heads, 1)


@contextmanager
def open_attention(model: nn.Module) -> Iterator[None]:
    """Within it, every attention of the model is the open one, so that the taps on scores and weights see values."""
    # a mix of the user's own stays: it decides itself what its taps see
    modules = [part for part in model.modules() if isinstance(part, MultiHeadAttention) and part.mix is fused]
    before = [module.mix for module in modules]
    try:
        for module in modules:
            module.mix = opened
        yield
    finally:
        for module, mix in zip(modules, before, strict=True):
            module.mix = mix


def width_of_head(width: int, heads: int) -> int:
    """The default head width, d/h; a width that does not divide is refused."""
    if width % heads:
        raise ValueError(f"width {width} does not divide into {heads} heads; choose a multiple of {heads}")
    return width // heads
