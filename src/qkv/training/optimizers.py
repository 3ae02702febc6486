"""Optimizers: AdamW (Loshchilov and Hutter 2019) and Muon (Jordan et al. 2024).

Muon turns the momentum of a weight matrix into the nearest matrix whose singular values are all about one, by a few
Newton-Schulz steps, so that every direction learns at the same pace. Matrices of one shape are stacked and turned
together, in bf16 where the run computes in it: each step pushes the rounding of the one before back. It is for the
matrices between the embedding and the head; all else is AdamW's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.training.settings import TrainingConfig

# Coefficients (a, b, c) of X <- aX + bXXᵀX + c(XXᵀ)²X, tuned step by step (Cesista et al. 2025).
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
    """Each matrix of the stack with its singular values pushed towards one."""
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for a, b, c in coefficients:
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalized; a tall matrix takes longer steps by sqrt(rows / columns)."""

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
        assert closure is None
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes.setdefault(parameter.shape, []).append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group)

    def _update(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        momentum, rate = group["momentum"], group["lr"]
        gradients: list[Tensor] = [p.grad for p in parameters if p.grad is not None]
        buffers = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov: look where the momentum leads
        rows, columns = parameters[0].shape
        turned = orthogonalize(torch.stack(list(ahead)).to(self.dtype), self.coefficients).float().unbind(0)
        if group["weight_decay"]:
            torch._foreach_mul_(list[Tensor](parameters), 1 - rate * group["weight_decay"])
        torch._foreach_add_(list[Tensor](parameters), turned, alpha=-rate * max(1.0, rows / columns) ** 0.5)


# Tables, whose rows are learned one by one, and outputs; within an encoder too, so any part of a name counts.
TABLES = frozenset({"embedding", "positions", "segments"})
OUTSIDE = TABLES | {"head", "order"}


def is_matrix(name: str, parameter: Tensor) -> bool:
    """A weight matrix between the embedding and the head: Muon's, and the one kind that decays."""
    return parameter.ndim == 2 and OUTSIDE.isdisjoint(name.split("."))


class AdamW(torch.optim.AdamW):
    """torch's own. What wraps its step imports torch's compiler, which takes longer than a short run's whole set-up."""

    _plain_step = staticmethod(inspect.unwrap(torch.optim.AdamW.step))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        self._plain_step(self)


def leave_compiler_out() -> None:
    """The same for what every optimizer calls: it imports the compiler only to tell it to keep off."""
    for method in (torch.optim.Optimizer.add_param_group, torch.optim.Optimizer.zero_grad):
        plain = getattr(method, "__wrapped__", None)
        if plain is not None and not hasattr(plain, "__dynamo_disable"):
            plain.__dynamo_disable = plain


def optimizers(model: nn.Module, config: TrainingConfig) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a run by name. Matrices decay; embeddings, heads, norms and biases do not.

    With `layer_decay`, lower layers learn more slowly (Howard and Ruder 2018): each at that fraction of the rate above.
    """
    leave_compiler_out()
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if is_matrix(name, p)]
    others = [p for name, p in named if not is_matrix(name, p)]
    by_name: dict[str, torch.optim.Optimizer] = {}
    muon = config.optimizer == "muon" and bool(matrices)
    groups: list[dict[str, object]] = [{"params": others, "weight_decay": 0.0}]
    if muon:
        turned = torch.bfloat16 if config.dtype == "bf16" else torch.float32
        rates = config.matrix_learning_rate, config.momentum, config.weight_decay
        by_name["muon"] = Muon(matrices, *rates, dtype=turned)
    elif matrices:
        groups.append({"params": matrices, "weight_decay": config.weight_decay})
    if config.layer_decay < 1:
        groups = layered([(name, p) for name, p in named if not muon or not is_matrix(name, p)], named, config)
    by_name["adamw"] = AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)
    for optimizer in by_name.values():
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return by_name


def layered(
    own: list[tuple[str, nn.Parameter]], named: list[tuple[str, nn.Parameter]], config: TrainingConfig
) -> list[dict[str, object]]:
    """AdamW's own of all named parameters, by their depth: below the first layer, each layer, above the last."""
    layers = 1 + max((_layer(name) for name, _ in named), default=0)
    groups: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in own:
        below = any(part in ("embedding", "positions", "segments", "embedding_norm") for part in name.split("."))
        depth = 0 if below else _layer(name) + 1 if _layer(name) >= 0 else layers + 1
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
    """The number of the block that a parameter belongs to; -1: none."""
    parts = name.split(".")
    return int(parts[parts.index("blocks") + 1]) if "blocks" in parts else -1


def set_rates(by_name: dict[str, torch.optim.Optimizer], share: float) -> None:
    for optimizer in by_name.values():
        for group in optimizer.param_groups:
            group["lr"] = group["full_rate"] * share
