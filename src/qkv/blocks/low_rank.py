"""LoRA (Hu et al. 2021): a linear layer that stays as it is, and a narrow one beside it that learns.

    y = W x + (alpha / rank) B A x          A: rank x inputs, B: outputs x rank, B = 0 at the start

Recurrent layers have it beside what they do to their input and to their hidden vector, in every layer: W_x and W_h of
blocks/recurrent.py, all gates of a GRU or an LSTM in one.

`merged` writes W + (alpha / rank) B A, so that what was learned costs nothing afterwards and opens everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

ALPHA = 16.0
KERNELS: dict[str, Any] = {"RNN_TANH": torch.rnn_tanh, "GRU": torch.gru, "LSTM": torch.lstm}  # as `nn` calls them


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

    def merged(self) -> dict[str, Tensor]:
        """The linear layer's tensors, with what was learned beside it."""
        return {**self.linear.state_dict(), "weight": self.weight().detach()}


class LowRankRecurrent(nn.Module):
    """An `nn.RNN`, `nn.GRU` or `nn.LSTM` that stays as it is; called as they are.

    Their kernels take whole matrices, so W + (alpha / rank) B A is made once for all words of a batch.
    """

    def __init__(self, layer: nn.RNNBase, rank: int, alpha: float = ALPHA) -> None:
        super().__init__()
        self.layer, self.scale = layer, alpha / rank
        matrices = {name: parameter for name, parameter in layer.named_parameters() if parameter.ndim == 2}
        self.down = nn.ParameterDict({name: torch.empty(rank, matrix.size(1)) for name, matrix in matrices.items()})
        self.up = nn.ParameterDict({name: torch.zeros(matrix.size(0), rank) for name, matrix in matrices.items()})
        for matrix in self.down.values():
            nn.init.kaiming_uniform_(matrix, a=math.sqrt(5))
        layer.requires_grad_(False)

    def forward(self, x: Float[Tensor, "B T I"], hidden: Any) -> tuple[Tensor, Any]:
        layer, weights = self.layer, [self.weight(name) for name, _ in self.layer.named_parameters()]
        how = layer.bias, layer.num_layers, layer.dropout, self.training, layer.bidirectional, layer.batch_first
        output, *last = KERNELS[layer.mode](x, hidden, weights, *how)
        return output, tuple(last) if len(last) > 1 else last[0]

    def weight(self, name: str) -> Tensor:
        """A matrix of the layer with what was learned beside it; a bias as it is."""
        own: Tensor = getattr(self.layer, name)
        return own + self.scale * self.up[name] @ self.down[name] if name in self.up else own

    def merged(self) -> dict[str, Tensor]:
        return {name: self.weight(name).detach() for name, _ in self.layer.named_parameters()}


def adapt(model: nn.Module, rank: int, besides: tuple[str, ...] = ()) -> int:
    """Put narrow layers beside every linear and recurrent one of the model, which stops learning; gives their number.

    `besides`: parts of the model, by name, that stay as they are.
    """
    model.requires_grad_(False)
    layers = [
        (parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if type(child) in (nn.Linear, nn.RNN, nn.GRU, nn.LSTM)
        and f"{path}.{name}".lstrip(".").split(".")[0] not in besides
    ]
    for parent, name, child in layers:
        adapter = LowRankRecurrent(child, rank) if isinstance(child, nn.RNNBase) else LowRank(child, rank)
        setattr(parent, name, adapter)
    return len(layers)


def beside(model: nn.Module) -> dict[str, LowRank | LowRankRecurrent]:
    """What `adapt` put in, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LowRank | LowRankRecurrent)}


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The weights under the names they had before `adapt`."""
    added = beside(model)
    inside = tuple(f"{name}." for name in added)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(inside)}
    return tensors | {
        f"{path}.{name}": tensor for path, adapter in added.items() for name, tensor in adapter.merged().items()
    }
