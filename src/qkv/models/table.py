"""Tables of numbers: linear, logistic and softmax regression, and the MLP. Deck 001.

    linear   scores = W z + b
    MLP      h = z;  N times: h = f(W h + b);  scores = W h + b          z = (x - mean) / deviation

The same scores are numbers (linear regression), one label of several (softmax) or any of them (logistic): which, is
the loss's business. For regression the answers have a scale, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks import initialization
from qkv.blocks.dropout import Dropout
from qkv.blocks.norms import Scale
from qkv.blocks.tap import Tap
from qkv.config import Layers, Share, Width, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers

Problem = Literal["single", "multi", "regression"]


class TableSizes:
    """What every model is asked for: a row is read at once, and no text."""

    @property
    def vocabulary(self) -> int:
        return 0

    @property
    def context(self) -> int:
        return 1


@strict
class LinearTableConfig(TableSizes):
    kind: Literal["linear-table"] = "linear-table"
    columns: tuple[str, ...] = ()  # the names of the numbers of a row; another table's are found by them
    target: str = ""  # the name of the column that is learned
    labels: tuple[str, ...] = ()
    problem: Problem = "single"  # one label a row, any number, or numbers
    classifiers: ClassVar[Classifiers] = {
        "linear": ClassifierDefaults(learning_rate=0.02, batch=256, epochs=300.0, weight_decay=0.0),
    }

    @property
    def layers(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return len(self.columns)

    def build(self) -> LinearTable:
        return LinearTable(len(self.columns), len(self.labels))


@strict
class MLPTableConfig(TableSizes):
    kind: Literal["mlp-table"] = "mlp-table"
    columns: tuple[str, ...] = ()  # the names of the numbers of a row; another table's are found by them
    target: str = ""  # the name of the column that is learned
    labels: tuple[str, ...] = ()
    problem: Problem = "single"  # one label a row, any number, or numbers
    layers: Layers = 2
    width: Width = 64
    activation: Literal["relu", "tanh", "gelu"] = "relu"
    dropout: Share = 0.0
    classifiers: ClassVar[Classifiers] = {"mlp": ClassifierDefaults(learning_rate=3e-3, epochs=100.0)}

    def build(self) -> MLPTable:
        activation = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}[self.activation]
        inputs = [len(self.columns), *(self.width for _ in range(self.layers - 1))]
        layers = (nn.Sequential(nn.Linear(n, self.width), activation(), Dropout(self.dropout)) for n in inputs)
        return MLPTable(Scale(len(self.columns)), layers, nn.Linear(self.width, len(self.labels)))


class LinearTable(nn.Module):
    def __init__(self, columns: int, labels: int) -> None:
        super().__init__()
        self.scale, self.answers = Scale(columns), Scale(labels)
        self.head = nn.Linear(columns, labels)
        self.logits = Tap()
        initialization.zero_([self.head])

    def forward(self, x: Float[Tensor, "B F"]) -> Float[Tensor, "B L"]:
        return self.logits(self.answers.inverse(self.head(self.scale(x))))

    def fit_scale(self, x: Float[Tensor, "B F"], y: Float[Tensor, "B L"] | None = None) -> None:
        """Take the scale of the training data, and for regression of its answers; before training, once."""
        fit_scale(self.scale, self.answers, x, y)

    @torch.no_grad()
    def solve(self, x: Float[Tensor, "B F"], y: Float[Tensor, "B L"]) -> None:
        """Linear regression at once: the least squares, of all solutions the shortest (Legendre 1805)."""
        self.fit_scale(x, y)
        z, answers = self.scale(x).double(), self.answers(y).double()
        solution = torch.linalg.lstsq((z - z.mean(0)).cpu(), (answers - answers.mean(0)).cpu(), driver="gelsd").solution
        self.head.weight.copy_(solution.T)
        self.head.bias.copy_(answers.mean(0) - z.mean(0) @ solution.to(z.device))


class MLPTable(nn.Module):
    def __init__(self, scale: Scale, layers: Iterable[nn.Module], head: nn.Linear) -> None:
        super().__init__()
        self.scale, self.answers = scale, Scale(head.out_features)
        self.blocks, self.head = nn.ModuleList(layers), head
        self.hidden, self.logits = Tap(), Tap()
        initialization.fan_in_(self.modules(), 2**0.5)
        initialization.zero_([head])

    def forward(self, x: Float[Tensor, "B F"]) -> Float[Tensor, "B L"]:
        x = self.scale(x)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.answers.inverse(self.head(self.hidden(x))))

    def fit_scale(self, x: Float[Tensor, "B F"], y: Float[Tensor, "B L"] | None = None) -> None:
        """Take the scale of the training data, and for regression of its answers; before training, once."""
        fit_scale(self.scale, self.answers, x, y)


def fit_scale(scale: Scale, answers: Scale, x: Float[Tensor, "B F"], y: Float[Tensor, "B L"] | None) -> None:
    scale.fit(x)
    if y is not None:
        answers.fit(y)
