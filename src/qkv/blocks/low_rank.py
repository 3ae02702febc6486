"""LoRA (Hu et al. 2021): a linear layer that stays as it is, and a narrow one beside it that learns.

    y = W x + (alpha / rank) B A x          A: rank x inputs, B: outputs x rank, B = 0 at the start

`merged` writes W + (alpha / rank) B A, so that what was learned costs nothing afterwards and opens everywhere.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALPHA = 16.0


class LowRank(nn.Module):
    def __init__(self, linear: nn.Linear, rank: int, alpha: float = ALPHA) -> None:
        super().__init__()
        self.linear, self.scale = linear, alpha / rank
        self.down = nn.Parameter(torch.empty(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        linear.requires_grad_(False)

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        return self.linear(x) + self.scale * (x @ self.down.T @ self.up.T)

    def weight(self) -> Float[Tensor, "O I"]:
        return self.linear.weight + self.scale * self.up @ self.down


def adapt(model: nn.Module, rank: int, besides: tuple[str, ...] = ()) -> int:
    """Put a narrow layer beside every linear one of the model, which stops learning; gives their number.

    `besides`: parts of the model, by name, that stay as they are.
    """
    model.requires_grad_(False)
    found = [
        (parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if type(child) is nn.Linear and f"{path}.{name}".lstrip(".").split(".")[0] not in besides
    ]
    for parent, name, child in found:
        setattr(parent, name, LowRank(child, rank))
    return len(found)


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The weights under the names they had before `adapt`."""
    added = {name: module for name, module in model.named_modules() if isinstance(module, LowRank)}
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        owner = next((each for each in added if name.startswith(f"{each}.")), None)
        if owner is None:
            found[name] = tensor
        elif name == f"{owner}.linear.weight":
            found[f"{owner}.weight"] = added[owner].weight().detach()
        elif name == f"{owner}.linear.bias":
            found[f"{owner}.bias"] = tensor
    return found
