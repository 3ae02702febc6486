"""Pictures: (B, H, W, C), channels last, values from 0 to 1.

Patches        the picture as a sequence of squares, each a vector of its pixels        Dosovitskiy et al. 2021
RandomShift    in training, each picture moved by a few pixels: the same thing elsewhere
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Patches(nn.Module):
    """Squares of `size` pixels a side, row by row; sides must be multiples of it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, pixels: Float[Tensor, "B H W C"]) -> Float[Tensor, "B T D"]:
        squares = pixels.unfold(1, self.size, self.size).unfold(2, self.size, self.size)  # (B, H/s, W/s, C, s, s)
        return squares.permute(0, 1, 2, 4, 5, 3).flatten(3).flatten(1, 2)  # -> (B, T, s s C)


class RandomShift(nn.Module):
    """Up to `max_shift` pixels to each side, drawn for each picture; what comes in at the edge is 0."""

    def __init__(self, max_shift: int) -> None:
        super().__init__()
        self.max_shift = max_shift

    def forward(self, pixels: Float[Tensor, "B H W C"]) -> Float[Tensor, "B H W C"]:
        if not self.training or not self.max_shift:
            return pixels
        batch, height, width, _ = pixels.shape
        device, max_shift = pixels.device, self.max_shift
        framed = F.pad(pixels, (0, 0, max_shift, max_shift, max_shift, max_shift))
        down, right = torch.randint(2 * max_shift + 1, (2, batch, 1), device=device)
        rows = down + torch.arange(height, device=device)  # (B, H)
        columns = right + torch.arange(width, device=device)  # (B, W)
        return framed[torch.arange(batch, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]

    def extra_repr(self) -> str:
        return str(self.max_shift)
