"""Rows of mostly zeros, and their product with a dense matrix: X W, whose gradient is Xᵀ G.

Both are sums of a few rows of a dense matrix, which is what torch's embedding bag computes: always in the same order,
so with the same bits. Xᵀ is stored beside X; autograd would build a dense gradient for each row instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx


@dataclass(frozen=True)
class SparseRows:
    """Row i has `values[starts[i]:starts[i + 1]]` in `columns` of the same range; all its other values are zero."""

    starts: Int[Tensor, "S"]
    columns: Int[Tensor, "E"]
    values: Float[Tensor, "E"]
    width: int  # columns in all

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def transposed(self) -> SparseRows:
        lengths = (self.starts[1:] - self.starts[:-1]).long()
        rows = torch.arange(len(self), dtype=torch.int32, device=self.starts.device).repeat_interleave(lengths)
        # one sort of numbers that hold the column above and the entry below is many times as fast as a stable argsort
        code = self.columns.long() * 2**32 + torch.arange(len(self.columns), device=rows.device)
        ordered = torch.from_numpy(np.sort(code.numpy())) if code.device.type == "cpu" else code.sort().values
        order = ordered % 2**32
        counts = torch.bincount(self.columns, minlength=self.width)
        return SparseRows(_starts(counts, self.starts.dtype), rows[order], self.values[order], len(self))

    def select(self, which: Int[Tensor, "N"]) -> SparseRows:
        """These rows, in this order."""
        lengths = (self.starts[1:] - self.starts[:-1])[which].long()
        starts = _starts(lengths, self.starts.dtype)
        shift = (self.starts[which] - starts[:-1]).repeat_interleave(lengths)
        taken = torch.arange(int(starts[-1]), device=shift.device) + shift
        return SparseRows(starts, self.columns[taken], self.values[taken], self.width)

    def to(self, device: str) -> SparseRows:
        return SparseRows(self.starts.to(device), self.columns.to(device), self.values.to(device), self.width)


def _starts(lengths: Int[Tensor, "R"], dtype: torch.dtype) -> Int[Tensor, "S"]:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).to(dtype)


def product(rows: SparseRows, matrix: Float[Tensor, "C L"]) -> Float[Tensor, "R L"]:
    """X W; its gradient for W, and not for X, can be had."""
    return _Product.apply(matrix, rows)  # type: ignore[no-untyped-call]


def _bags(rows: SparseRows, matrix: Float[Tensor, "C L"]) -> Float[Tensor, "R L"]:
    return F.embedding_bag(
        rows.columns, matrix, rows.starts, mode="sum", per_sample_weights=rows.values.to(matrix.dtype),
        include_last_offset=True,
    )  # fmt: skip


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(context: FunctionCtx, matrix: Tensor, rows: SparseRows) -> Tensor:
        context.rows = rows  # type: ignore[attr-defined]
        return _bags(rows, matrix)

    @staticmethod
    def backward(context: BackwardCFunction, gradient: Tensor) -> tuple[Tensor, None]:
        rows: SparseRows = context.rows  # type: ignore[attr-defined]
        return _bags(rows.transposed, gradient.contiguous()), None
