"""Optimizers: AdamW (Loshchilov and Hutter 2019) and Muon (Jordan et al. 2024).

Muon turns the momentum of a weight matrix into the nearest matrix whose singular values are all about one, by a few
Newton-Schulz steps, so that every direction learns at the same pace. Matrices of one shape are stacked and turned
together. It is for the matrices between the embedding and the head; all else is AdamW's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

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
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.coefficients = coefficients

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
        turned = orthogonalize(torch.stack(list(ahead)), self.coefficients).unbind(0)
        if group["weight_decay"]:
            torch._foreach_mul_(list[Tensor](parameters), 1 - rate * group["weight_decay"])
        torch._foreach_add_(list[Tensor](parameters), turned, alpha=-rate * max(1.0, rows / columns) ** 0.5)


def is_matrix(name: str, parameter: Tensor) -> bool:
    """A weight matrix between the embedding and the head: Muon's, and the one kind that decays."""
    return parameter.ndim == 2 and name.partition(".")[0] not in ("embedding", "positions", "head")


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


def optimizers(
    model: nn.Module,
    *,
    kind: str,
    rate: float,
    matrix_rate: float,
    betas: tuple[float, float],
    momentum: float,
    weight_decay: float,
) -> dict[str, torch.optim.Optimizer]:
    """The optimizers of a run by name. Matrices decay; embeddings, heads, norms and biases do not."""
    leave_compiler_out()
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [p for name, p in named if is_matrix(name, p)]
    others = [p for name, p in named if not is_matrix(name, p)]
    found: dict[str, torch.optim.Optimizer] = {}
    groups = [{"params": others, "weight_decay": 0.0}]
    if kind == "muon" and matrices:
        found["muon"] = Muon(matrices, matrix_rate, momentum, weight_decay)
    elif matrices:
        groups.append({"params": matrices, "weight_decay": weight_decay})
    found["adamw"] = AdamW(groups, lr=rate, betas=betas, fused=True)
    for optimizer in found.values():
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return found


def set_rates(found: dict[str, torch.optim.Optimizer], share: float) -> None:
    for optimizer in found.values():
        for group in optimizer.param_groups:
            group["lr"] = group["full_rate"] * share
