"""Optimizers: AdamW (Loshchilov and Hutter 2019), Muon (Jordan et al. 2024); L-BFGS for convex losses (lbfgs.py).

Muon replaces the momentum of a weight matrix by the nearest matrix whose singular values are all about one, with a few
Newton-Schulz steps, so that all directions learn equally fast. Matrices of one shape are stacked and computed together,
in bf16 if the run computes in it: each step corrects the rounding errors of the step before. Muon is for the matrices
between the embedding and the head; AdamW takes all other parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.training.lbfgs import LBFGS
from qkv.training.settings import TrainingConfig

# Coefficients (a, b, c) of X <- aX + bXXᵀX + c(XXᵀ)²X, one triple for each step (Cesista et al. 2025).
COEFFICIENTS = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)


def orthogonalize(
    matrices: Float[Tensor, "N R C"], coefficients: Iterable[tuple[float, float, float]] = COEFFICIENTS
) -> Float[Tensor, "N R C"]:
    """The matrices with their singular values moved towards one."""
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for a, b, c in coefficients:
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Updates by the orthogonalized momentum, for a tall matrix times sqrt(rows / columns)."""

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        coefficients: tuple[tuple[float, float, float], ...] = COEFFICIENTS,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.coefficients, self.dtype = coefficients, dtype

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group)

    def _update(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        momentum, learning_rate = group["momentum"], group["lr"]
        gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        nesterov = torch._foreach_lerp(gradients, buffers, momentum)
        rows, columns = parameters[0].shape
        updates = orthogonalize(torch.stack(list(nesterov)).to(self.dtype), self.coefficients).float().unbind(0)
        if group["weight_decay"]:
            torch._foreach_mul_(list[Tensor](parameters), 1 - learning_rate * group["weight_decay"])
        torch._foreach_add_(list[Tensor](parameters), updates, alpha=-learning_rate * max(1.0, rows / columns) ** 0.5)


# Names of modules; as an encoder may contain them, a parameter belongs to them if any part of its dotted name is one.
EMBEDDING_NAMES = frozenset({"embedding", "positions", "segments"})
HEAD_NAMES = frozenset({"head", "order", "chain"})


def is_matrix(name: str, parameter: Tensor) -> bool:
    """Whether a parameter is a weight matrix between embedding and head: the kind that decays, and that Muon takes."""
    return parameter.ndim == 2 and (EMBEDDING_NAMES | HEAD_NAMES).isdisjoint(name.split("."))


class AdamW(torch.optim.AdamW):
    """torch's AdamW without the wrapper of its step, which imports torch's compiler. That import takes longer than the
    whole set-up of a short run."""

    _plain_step = staticmethod(inspect.unwrap(torch.optim.AdamW.step))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        self._plain_step(self)


def skip_compiler_import() -> None:
    """Mark two methods that every optimizer calls as excluded from compilation, for which torch would otherwise import
    its compiler."""
    for method in (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad):
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and not hasattr(plain, "__dynamo_disable"):
            plain.__dynamo_disable = plain


def optimizers(model: nn.Module, config: TrainingConfig) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a run by name. Matrices decay; embeddings, heads, norms and biases do not.

    With `layer_decay`, the rate of each layer is that fraction of the rate of the layer above (Howard and Ruder 2018).
    """
    skip_compiler_import()
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if is_matrix(name, p)]
    others = [p for name, p in named if not is_matrix(name, p)]
    if config.optimizer == "lbfgs":
        decaying = [{"params": matrices, "weight_decay": config.weight_decay}] if matrices else []
        solver = LBFGS([*decaying, {"params": others}] if others else decaying, config.learning_rate, config.tolerance)
        return with_full_rates({"lbfgs": solver})
    by_name: dict[str, torch.optim.Optimizer] = {}
    use_muon = config.optimizer == "muon" and bool(matrices)
    groups: list[dict[str, object]] = [{"params": others, "weight_decay": 0.0}]
    if use_muon:
        dtype = torch.bfloat16 if config.dtype == "bf16" else torch.float32
        by_name["muon"] = Muon(matrices, config.matrix_learning_rate, config.momentum, config.weight_decay, dtype=dtype)
    elif matrices:
        groups.append({"params": matrices, "weight_decay": config.weight_decay})
    if config.layer_decay < 1:
        groups = layer_groups([(name, p) for name, p in named if not use_muon or not is_matrix(name, p)], named, config)
    by_name["adamw"] = AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)
    return with_full_rates(by_name)


def with_full_rates(by_name: dict[str, torch.optim.Optimizer]) -> dict[str, torch.optim.Optimizer]:
    for optimizer in by_name.values():
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return by_name


def layer_groups(
    own: list[tuple[str, nn.Parameter]], named: list[tuple[str, nn.Parameter]], config: TrainingConfig
) -> list[dict[str, object]]:
    """The parameters that AdamW trains, `own`, grouped by depth: embeddings, each layer, and the head. `named` are all
    parameters of the model."""
    layers = 1 + max((_layer(name) for name, _ in named), default=0)
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in own:
        in_embedding = not (EMBEDDING_NAMES | {"embedding_norm"}).isdisjoint(name.split("."))
        depth = 0 if in_embedding else _layer(name) + 1 if _layer(name) >= 0 else layers + 1
        groups.setdefault((depth, is_matrix(name, parameter)), []).append(parameter)
    return [
        {
            "params": parameters,
            "lr": config.learning_rate * config.layer_decay ** (layers + 1 - depth),
            "weight_decay": config.weight_decay * (matrix and config.optimizer == "adamw"),
        }
        for (depth, matrix), parameters in sorted(groups.items(), key=lambda item: item[0])
    ]


def _layer(name: str) -> int:
    """The index of the block that a parameter belongs to; -1 for a parameter outside the blocks."""
    parts = name.split(".")
    return int(parts[parts.index("blocks") + 1]) if "blocks" in parts else -1


def set_learning_rates(by_name: dict[str, torch.optim.Optimizer], share: float) -> None:
    """Set the learning rate of every group to this share of its full rate."""
    for optimizer in by_name.values():
        for group in optimizer.param_groups:
            group["lr"] = group["full_rate"] * share
