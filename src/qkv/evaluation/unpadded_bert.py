"""BERT for many texts on a CPU: it computes the same as models/bert.py, in another order.

- The tokens of several texts form one long row without padding; attention is computed for each text separately.
- Queries, keys and values are one matrix product.
- Each thread takes its own texts through all layers: if threads share a product, they wait for each other after it.
- If only the first token of a text is used, as by classifiers, the last layer computes only that one: from the other
  tokens it needs only keys and values.
- On request, products and attention run in bf16, twice as fast if the processor supports it; the residual stream, the
  norms and the embeddings stay f32.

In f32 it saves the time for padding. If all texts have one length, it takes as long as Hugging Face, the time of the
products: `bench/embeddings.py` measures both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import FeedForward, PostNorm
from qkv.blocks.fast_paths import as_built
from qkv.blocks.positions import NoPositions
from qkv.generation.compiler import f32_on_cpu
from qkv.models.bert import Bert

Precision = Literal["f32", "bf16"]
FORMATS = {"f32": torch.float32, "bf16": torch.bfloat16}
PORTION_TOKENS = 1024  # that a thread takes through all layers at once; with fewer, the products run slower


def fits(model: nn.Module) -> bool:
    """Whether this is an unchanged BERT in f32 on the CPU, not in training: its hooks would not be called here."""
    if type(model) is not Bert or model.training or not as_built(model):
        return False
    return f32_on_cpu(model) and all(_standard(block) for block in model.blocks)


def _standard(block: Any) -> bool:
    """Whether each part of a block is of the kind that `UnpaddedLayer` computes."""
    if (type(block.attention), type(block.feedforward)) != (PostNorm, PostNorm):
        return False
    heads, network = block.attention.sublayer, block.feedforward.sublayer
    if (type(heads), type(network)) != (MultiHeadAttention, FeedForward):
        return False
    products = heads.query, heads.key, heads.value, heads.output, network.inner, network.outer
    return (
        all(type(part) is nn.Linear and part.bias is not None for part in products)
        and type(network.activation) is nn.GELU
        and network.activation.approximate == "none"
        and heads.key_heads == heads.heads
        and type(heads.positions) is NoPositions
        and all(type(norm) is nn.Identity for norm in (heads.query_norm, heads.key_norm))
    )


class Product(NamedTuple):
    """A weight matrix and a bias, in the number format of the products."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, layers: Sequence[nn.Linear], dtype: torch.dtype) -> Product:
        """Several layers with the same input as one; a single layer in f32 is not copied."""
        weights, biases = [layer.weight.detach() for layer in layers], [layer.bias.detach() for layer in layers]
        joined = (weights[0], biases[0]) if len(layers) == 1 else (torch.cat(weights), torch.cat(biases))
        return cls(*(part.to(dtype) for part in joined))

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias)

    def rows(self, start: int | None, end: int | None) -> Product:
        return Product(self.weight[start:end], self.bias[start:end])


class UnpaddedLayer:
    """One block of the model, as a few products."""

    def __init__(self, block: Any, dtype: torch.dtype) -> None:
        self.module, network = block.attention.sublayer, block.feedforward.sublayer
        self.norms = block.attention.norm, block.feedforward.norm
        self.projection = Product.of([self.module.query, self.module.key, self.module.value], dtype)
        self.output, self.inner, self.outer = (
            Product.of([layer], dtype) for layer in (self.module.output, network.inner, network.outer)
        )

    def __call__(self, x: Float[Tensor, "N D"], lengths: list[int]) -> Float[Tensor, "N D"]:
        return self._after(x, _attend(self.module, self.projection(x), lengths))

    def first(self, x: Float[Tensor, "N D"], lengths: list[int]) -> Float[Tensor, "B D"]:
        """The output for the first token of each text, which attends to all tokens."""
        width = x.size(1)
        sizes = torch.tensor(lengths)
        first = x[sizes.cumsum(0) - sizes]
        first_queries, keys_and_values = self.projection.rows(None, width)(first), self.projection.rows(width, None)(x)
        mixed = torch.empty_like(first_queries)
        for texts, part, length in _runs(lengths):
            rows = texts.stop - texts.start
            # (N, 2 H K) -> 2 x (B, H, T, K)
            keys, values = keys_and_values[part].view(rows, length, 2, self.module.heads, -1).permute(2, 0, 3, 1, 4)
            queries = first_queries[texts].view(rows, self.module.heads, 1, -1)
            mixed[texts] = self.module.mix(self.module, queries, keys, values, None).reshape(rows, -1)
        return self._after(first, mixed)

    def _after(self, x: Tensor, mixed: Tensor) -> Tensor:
        """The part of a block after the attention."""
        x = self.norms[0](self.output(mixed).to(x.dtype).add_(x))
        return self.norms[1](self.outer(F.gelu(self.inner(x))).to(x.dtype).add_(x))


class UnpaddedBert:
    def __init__(self, model: nn.Module, precision: Precision = "f32") -> None:
        assert fits(model)
        assert isinstance(model, Bert)
        self.model, self.layers = model, [UnpaddedLayer(block, FORMATS[precision]) for block in model.blocks]

    def __call__(
        self,
        tokens: Int[Tensor, "B T"],
        present: Bool[Tensor, "B T"],
        wanted: Sequence[int],
        segments: Int[Tensor, "B T"] | None = None,
    ) -> list[Float[Tensor, "B T D"]]:
        """The outputs of the wanted layers, with zeros for padding."""
        outputs = [torch.zeros(*tokens.shape, self.model.width) for _ in wanted]

        def read(rows: slice, lengths: list[int]) -> None:
            row_segments = None if segments is None else segments[rows]
            layers = self._layers(tokens[rows], present[rows], row_segments, lengths, wanted)
            for output, x in zip(outputs, layers, strict=True):
                output[rows][present[rows]] = x

        _by_thread(present.sum(1).tolist(), read)
        return outputs

    def first(
        self, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B D"]:
        """The output of the last layer for the first token of every row."""
        output, below = torch.empty(len(tokens), self.model.width), len(self.layers) - 1

        def read(rows: slice, lengths: list[int]) -> None:
            row_segments = None if segments is None else segments[rows]
            (x,) = self._layers(tokens[rows], present[rows], row_segments, lengths, [below])
            output[rows] = self.layers[below].first(x, lengths)

        _by_thread(present.sum(1).tolist(), read)
        return output

    def _layers(
        self, tokens: Tensor, present: Tensor, segments: Tensor | None, lengths: list[int], wanted: Sequence[int]
    ) -> list[Float[Tensor, "N D"]]:
        model, positions = self.model, torch.arange(tokens.size(1)).expand_as(tokens)[present]
        x = model.positions(model.embedding(tokens[present]).unsqueeze(0), positions)  # all texts as one
        segment_ids = torch.zeros_like(positions) if segments is None else segments[present]
        x = model.embedding_norm(model.segments(x, segment_ids))[0]
        outputs = [x] if 0 in wanted else []
        for depth, layer in enumerate(self.layers[: max(wanted)], 1):
            x = layer(x, lengths)
            if depth in wanted:
                outputs.append(x)
        return outputs


def _runs(lengths: list[int]) -> Iterator[tuple[slice, slice, int]]:
    """Runs of texts of equal length: the slice of texts, the slice of tokens, the length."""
    text = start = 0
    for length, group in groupby(lengths):
        rows = len(list(group))
        yield slice(text, text + rows), slice(start, start + rows * length), length
        text, start = text + rows, start + rows * length


def _attend(module: Any, projected: Float[Tensor, "N _"], lengths: list[int]) -> Float[Tensor, "N D"]:
    """Attention for each text separately; runs of equal length are computed together."""
    mixed = projected.new_empty(len(projected), projected.size(1) // 3)
    for texts, part, length in _runs(lengths):
        rows = texts.stop - texts.start
        # (N, 3 H K) -> 3 x (B, H, T, K)
        queries, keys, values = projected[part].view(rows, length, 3, module.heads, -1).permute(2, 0, 3, 1, 4)
        out = module.mix(module, queries, keys, values, None)
        mixed[part] = out.transpose(1, 2).reshape(rows * length, -1)  # (B, H, T, K) -> (N, H K)
    return mixed


def _portions(lengths: list[int], threads: int) -> Iterator[slice]:
    """Yield slices of texts that a thread takes at once; at least as many as threads, if there are enough texts."""
    max_tokens = min(PORTION_TOKENS, -(-sum(lengths) // threads))
    start = tokens = 0
    for row, length in enumerate(lengths):
        if tokens and tokens + length > max_tokens:
            yield slice(start, row)
            start, tokens = row, 0
        tokens += length
    yield slice(start, len(lengths))


def _by_thread(lengths: list[int], read: Callable[[slice, list[int]], None]) -> None:
    """Call `read` on portions of all rows, each in one thread, with the slice of rows and their lengths."""
    threads = torch.get_num_threads()
    portions = list(_portions(lengths, threads))

    def work(rows: slice) -> None:
        with torch.inference_mode():  # threads do not inherit it
            read(rows, lengths[rows])

    if min(threads, len(portions)) < 2:
        for portion in portions:
            work(portion)
        return
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            list(pool.map(work, portions))
    finally:
        torch.set_num_threads(threads)  # the number that a thread sets is the default of later threads
