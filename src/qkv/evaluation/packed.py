"""BERT for reading many texts on a CPU, in f32: the same sums as models/bert.py, in another order.

- The tokens of several texts stand in one long row, without the padding between them; attention takes each text alone.
- Queries, keys and values are one product.
- Each thread takes texts of its own through all layers and waits for nobody: threads that share every product wait for
  each other after each.

It saves what padding costs. Where all texts are of one length it takes the time of the products, as Hugging Face does:
`bench/embeddings.py` has both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.models.bert import Bert

AT_ONCE = 1024  # tokens that a thread takes through all layers; with fewer, the products run slower


def fits(model: nn.Module) -> bool:
    """A BERT as it was built, on the CPU, that nobody looks into: hooks on its parts would not be called."""
    if not isinstance(model, Bert) or model.training:
        return False
    plain = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())
    watched = any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    projections = [
        getattr(module, name)
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
        for name in ("query", "key", "value")
    ]
    return plain and not watched and all(type(part) is nn.Linear for part in projections)


class Packed:
    def __init__(self, model: nn.Module) -> None:
        assert fits(model)
        inside: Any = model
        self.model, self.projections = inside, []
        for block in inside.blocks:
            parts = [getattr(block.attention.sublayer, name) for name in ("query", "key", "value")]
            weight, bias = torch.cat([part.weight for part in parts]), torch.cat([part.bias for part in parts])
            self.projections.append((weight.detach(), bias.detach()))

    def __call__(
        self, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"], wanted: Sequence[int]
    ) -> list[Float[Tensor, "B T D"]]:
        """What the wanted layers give; zeros where there is padding."""
        lengths = present.sum(1).tolist()
        found = [torch.zeros(*tokens.shape, self.model.width) for _ in wanted]

        def read(rows: slice) -> None:
            with torch.inference_mode():  # which a thread does not inherit
                layers = self._layers(tokens[rows], present[rows], lengths[rows], wanted)
                for place, x in zip(found, layers, strict=True):
                    place[rows][present[rows]] = x

        _together(read, list(_pieces(lengths, torch.get_num_threads())))
        return found

    def _layers(self, tokens: Tensor, present: Tensor, lengths: list[int], wanted: Sequence[int]) -> list[Tensor]:
        x = self._embed(tokens, present)
        found = [x] if 0 in wanted else []
        for depth, block in enumerate(self.model.blocks[: max(wanted)], 1):
            x = self._block(x, block, self.projections[depth - 1], lengths)
            if depth in wanted:
                found.append(x)
        return found

    def _embed(self, tokens: Tensor, present: Tensor) -> Float[Tensor, "N D"]:
        model = self.model
        places = torch.arange(tokens.size(1)).expand_as(tokens)[present]
        x = model.positions(model.embedding(tokens[present]).unsqueeze(0), places)  # all texts as one
        return model.embedding_norm(model.segments(x, torch.zeros_like(places))).squeeze(0)

    def _block(self, x: Tensor, block: Any, projection: tuple[Tensor, Tensor], lengths: list[int]) -> Tensor:
        attention, network = block.attention, block.feedforward
        mixed = _attend(attention.sublayer, F.linear(x, *projection), lengths)
        x = attention.norm(attention.sublayer.output(mixed).add_(x))
        inner = F.gelu(network.sublayer.inner(x))
        return network.norm(network.sublayer.outer(inner).add_(x))


def _attend(module: Any, projected: Float[Tensor, "N _"], lengths: list[int]) -> Float[Tensor, "N D"]:
    """Attention of each text alone; neighbours of equal length go together."""
    mixed, start = torch.empty(len(projected), projected.size(1) // 3), 0
    for length, group in groupby(lengths):
        rows = len(list(group))
        stop = start + rows * length
        # (N, 3 H K) -> 3 x (B, H, T, K)
        queries, keys, values = projected[start:stop].view(rows, length, 3, module.heads, -1).permute(2, 0, 3, 1, 4)
        out = module.mix(module, queries, keys, values, None)
        mixed[start:stop] = out.transpose(1, 2).reshape(rows * length, -1)  # (B, H, T, K) -> (N, H K)
        start = stop
    return mixed


def _pieces(lengths: list[int], threads: int) -> Iterator[slice]:
    """Neighbouring texts that a thread takes at once; no fewer pieces than threads, where there are texts for it."""
    most = min(AT_ONCE, -(-sum(lengths) // threads))
    start = held = 0
    for row, length in enumerate(lengths):
        if held and held + length > most:
            yield slice(start, row)
            start, held = row, 0
        held += length
    yield slice(start, len(lengths))


def _together(work: Callable[[slice], None], pieces: list[slice]) -> None:
    threads = torch.get_num_threads()
    if min(threads, len(pieces)) < 2:
        for piece in pieces:
            work(piece)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(work, pieces))
    finally:
        torch.set_num_threads(threads)  # what a thread sets for itself is also what later ones begin with
