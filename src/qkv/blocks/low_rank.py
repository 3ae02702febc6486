"""LoRA (Hu et al. 2021): a frozen linear layer plus a product of two small matrices that are trained.

    y = W x + (alpha / rank) B A x          A: rank x inputs, B: outputs x rank, B = 0 at the start

In recurrent layers W_x and W_h of blocks/recurrent.py are adapted, in every layer, with all gates of a GRU or an LSTM
as one matrix.

`merged` gives W + (alpha / rank) B A: a model without adapters, which costs no extra time and opens everywhere.
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
        """The linear layer's tensors, with the adapter added to its weight."""
        return {**self.linear.state_dict(), "weight": self.weight().detach()}


class LowRankRecurrent(nn.Module):
    """A frozen `nn.RNN`, `nn.GRU` or `nn.LSTM` with adapters; called as these are.

    Their kernels take whole matrices, so W + (alpha / rank) B A is computed once for all words of a batch.
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
        settings = layer.bias, layer.num_layers, layer.dropout, self.training, layer.bidirectional, layer.batch_first
        output, *last = KERNELS[layer.mode](x, hidden, weights, *settings)
        return output, tuple(last) if len(last) > 1 else last[0]

    def weight(self, name: str) -> Tensor:
        """A matrix of the layer with its adapter added; a bias as it is."""
        own: Tensor = getattr(self.layer, name)
        return own + self.scale * self.up[name] @ self.down[name] if name in self.up else own

    def merged(self) -> dict[str, Tensor]:
        return {name: self.weight(name).detach() for name, _ in self.layer.named_parameters()}


def add_adapters(model: nn.Module, rank: int, exclude: tuple[str, ...] = ()) -> int:
    """Freeze the model and add an adapter to each of its linear and recurrent layers; returns the number of adapters.

    `exclude`: parts of the model, by name, that get none.
    """
    model.requires_grad_(False)
    layers = [
        (parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if type(child) in (nn.Linear, nn.RNN, nn.GRU, nn.LSTM)
        and f"{path}.{name}".lstrip(".").split(".")[0] not in exclude
    ]
    for parent, name, child in layers:
        adapter = LowRankRecurrent(child, rank) if isinstance(child, nn.RNNBase) else LowRank(child, rank)
        setattr(parent, name, adapter)
    return len(layers)


def adapters(model: nn.Module) -> dict[str, LowRank | LowRankRecurrent]:
    """The layers that `add_adapters` put in, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LowRank | LowRankRecurrent)}


def merged(model: nn.Module) -> dict[str, Tensor]:
    """The weights with the adapters added, under the names that they had before `add_adapters`."""
    added = adapters(model)
    inside = tuple(f"{name}." for name in added)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith(inside)}
    return tensors | {
        f"{path}.{name}": tensor for path, adapter in added.items() for name, tensor in adapter.merged().items()
    }
