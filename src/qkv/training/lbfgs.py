"""L-BFGS (Liu and Nocedal 1989), the solver of models that have one optimum: convex losses on all examples at once.

    direction = -H g       H: the inverse Hessian that the last changes of weights and gradients suggest
    step t                 1, or less until the loss falls enough (Armijo 1966)

A step of the optimizer is one evaluation of loss and gradient: at the point it asked for, it either goes on to the next
direction or comes back half of the way. So steps can be counted, timed, saved and resumed like those of any optimizer.
The weight decay is the penalty λ/2 |W|² of ridge and of logistic regression, a part of the loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

HISTORY = 8  # changes that are remembered
ENOUGH = 1e-4  # of the decrease that the slope promises
ROUNDING = 1e-7  # of the loss, which f32 cannot tell from none
SMALLEST = 1e-6  # step along a direction


class LBFGS(torch.optim.Optimizer):
    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, tolerance: float) -> None:
        """Converged: no value of the gradient is larger than the tolerance. `lr` is the longest step, usually 1."""
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        self.tolerance = tolerance

    @property
    def converged(self) -> bool:
        return bool(self._number("converged"))

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Take the loss and the gradients of the present point, and move on; at the optimum, stay."""
        assert closure is not None
        if self.converged:
            return
        decays = [group["weight_decay"] for group in self.param_groups for _ in group["params"]]
        points, slopes, loss = self._parameters, list[Tensor](), closure()
        for parameter, decay in zip(points, decays, strict=True):
            assert parameter.grad is not None
            slopes.append(parameter.grad.add(parameter, alpha=decay))
            loss += decay / 2 * float(parameter.square().sum(dtype=torch.float64))
        if self._kept("point") is not None and not self._accepts(loss):
            self._come_back(loss)
            return
        before = self._number("loss", math.inf)
        if (last := self._kept("point")) is not None:
            moved = [point - start for point, start in zip(points, last, strict=True)]
            turned = [slope - old for slope, old in zip(slopes, self._kept("slope") or [], strict=True)]
            self._remember(moved, turned)
        self._keep("point", [point.clone() for point in points])
        self._keep("slope", slopes)
        self._set(loss=loss)
        steepest = max(float(slope.abs().max()) for slope in slopes if slope.numel())
        if steepest <= self.tolerance or before - loss <= ROUNDING * abs(loss):
            self._set(converged=1.0)
            return
        self._go_on(slopes)

    def _accepts(self, loss: float) -> bool:
        promised = ENOUGH * self._number("length") * self._number("descent")
        allowed = self._number("loss") + promised + ROUNDING * abs(loss)
        return loss <= allowed or self._number("length") < SMALLEST

    def _come_back(self, loss: float) -> None:
        """Try less of the direction: where a parabola through what is known of the loss is lowest."""
        length, descent = self._number("length"), self._number("descent")
        curvature = 2 * (loss - self._number("loss") - length * descent)
        lowest = -descent * length**2 / curvature if math.isfinite(curvature) and curvature > 0 else 0.0
        self._move(min(0.5 * length, max(0.1 * length, lowest)))

    def _go_on(self, slopes: list[Tensor]) -> None:
        direction = self._direction(slopes)
        descent = _dot(direction, slopes)
        if descent >= 0:  # rounding has spoilt the history
            self._set(pairs=0)
            direction = [-slope for slope in slopes]
            descent = _dot(direction, slopes)
        self._keep("direction", direction)
        self._set(descent=descent)
        longest = float(self.param_groups[0]["lr"])
        self._move(longest if self._number("pairs") else min(longest, 1 / math.sqrt(-descent)))

    def _move(self, length: float) -> None:
        self._set(length=length)
        for point, start, way in zip(
            self._parameters, self._kept("point") or [], self._kept("direction") or [], strict=True
        ):
            point.copy_(start).add_(way, alpha=length)

    def _direction(self, slopes: list[Tensor]) -> list[Tensor]:
        """-H g by the two loops of Nocedal (1980)."""
        numbers = range(int(self._number("pairs")))
        pairs = [(self._kept(f"moved{n}") or [], self._kept(f"turned{n}") or []) for n in numbers]
        q, shares = [-slope for slope in slopes], list[float]()
        for moved, turned in reversed(pairs):
            shares.append(_dot(moved, q) / _dot(moved, turned))
            _add(q, turned, -shares[-1])
        if pairs:
            moved, turned = pairs[-1]
            scale = _dot(moved, turned) / _dot(turned, turned)
            q = [part * scale for part in q]
        for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
            _add(q, moved, share - _dot(turned, q) / _dot(moved, turned))
        return q

    def _remember(self, moved: list[Tensor], turned: list[Tensor]) -> None:
        if _dot(moved, turned) <= 1e-10 * _dot(turned, turned):
            return  # the loss bends so little there that nothing is learned about its shape
        pairs = int(self._number("pairs"))
        if pairs == HISTORY:
            for number in range(1, HISTORY):
                for name in ("moved", "turned"):
                    self._keep(f"{name}{number - 1}", self._kept(f"{name}{number}") or [])
            pairs -= 1
        self._keep(f"moved{pairs}", moved)
        self._keep(f"turned{pairs}", turned)
        self._set(pairs=pairs + 1)

    # Everything that lasts is a tensor of the state of a parameter, so that checkpoints hold it; numbers are with the
    # first parameter.

    @property
    def _parameters(self) -> list[nn.Parameter]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def _kept(self, name: str) -> list[Tensor] | None:
        parameters = self._parameters
        return [self.state[p][name] for p in parameters] if name in self.state[parameters[0]] else None

    def _keep(self, name: str, tensors: list[Tensor]) -> None:
        for parameter, tensor in zip(self._parameters, tensors, strict=True):
            self.state[parameter][name] = tensor

    def _number(self, name: str, default: float = 0.0) -> float:
        number = self.state[self._parameters[0]].get(name)
        return default if number is None else float(number)

    def _set(self, **numbers: float | int) -> None:
        for name, number in numbers.items():
            self.state[self._parameters[0]][name] = torch.tensor(number, dtype=torch.float64)


def _dot(a: list[Tensor], b: list[Tensor]) -> float:
    """Not by torch.dot, whose last bits depend on where in memory a tensor lies: a resumed run has it elsewhere."""
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


def _add(to: list[Tensor], part: list[Tensor], share: float) -> None:
    for target, other in zip(to, part, strict=True):
        target.add_(other, alpha=share)
