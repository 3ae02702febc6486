"""L-BFGS against the optimum, and as an optimizer that is saved and resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.training import checkpoints
from qkv.training.lbfgs import LBFGS
from qkv.training.loop import TrainingState

DECAY = 0.01


def problem() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(80, 6, generator=generator)
    return x, (x[:, 0] + 0.7 * torch.randn(80, generator=generator) > 0).long()


def state(tolerance: float = 1e-6) -> TrainingState:
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    groups: list[dict[str, Any]] = [{"params": [model.weight], "weight_decay": DECAY}, {"params": [model.bias]}]
    return TrainingState(model, {"lbfgs": LBFGS(groups, 1.0, tolerance)})


def steps(running: TrainingState, number: int) -> None:
    x, y = problem()
    optimizer = running.optimizers["lbfgs"]
    for _ in range(number):
        loss = F.cross_entropy(running.model(x), y)
        loss.backward()
        optimizer.step(loss.item)
        optimizer.zero_grad()
        running.step += 1


def test_it_finds_the_optimum() -> None:
    """Where the gradient with the penalty is zero; and scikit-learn, where it is installed, finds the same."""
    running = state()
    steps(running, 60)
    assert running.optimizers["lbfgs"].converged
    x, y = problem()
    model: Any = running.model
    loss = F.cross_entropy(model(x), y) + DECAY / 2 * model.weight.square().sum()
    loss.backward()
    assert model.weight.grad.abs().max() < 1e-5
    sklearn = pytest.importorskip("sklearn.linear_model")
    # the weights of two classes are opposite, so that their squares add up to half of those of one vector
    theirs = sklearn.LogisticRegression(C=2 / (DECAY * 80), tol=1e-8).fit(x.numpy(), y.numpy())
    ours = (model.weight[1] - model.weight[0]).detach().numpy()
    np.testing.assert_allclose(ours, theirs.coef_[0], atol=1e-3)


def test_at_the_optimum_it_stays() -> None:
    running = state()
    steps(running, 60)
    before = [p.clone() for p in running.model.parameters()]
    steps(running, 3)
    assert all(map(torch.equal, before, running.model.parameters()))


@pytest.mark.parametrize("saved_after", [1, 2, 7])
def test_saved_and_resumed_it_has_the_same_bits(saved_after: int, tmp_path: Path) -> None:
    whole = state()
    steps(whole, 12)
    begun = state()
    steps(begun, saved_after)
    folder = checkpoints.save(tmp_path, begun, {}, "cpu", keep=1)
    resumed = state()
    checkpoints.load(folder, resumed, "cpu")
    steps(resumed, 12 - saved_after)
    assert all(map(torch.equal, whole.model.parameters(), resumed.model.parameters()))


def test_the_loss_falls_even_where_a_step_is_too_long() -> None:
    """A loss whose first step overshoots: it comes back along the direction."""
    x = nn.Parameter(torch.tensor([3.0]))
    optimizer = LBFGS([{"params": [x], "weight_decay": 0.0}], 1.0, 1e-6)
    for _ in range(60):
        loss = (x.square() + 1).sqrt().sum() * 50 + x.pow(4).sum()
        loss.backward()
        optimizer.step(loss.item)
        optimizer.zero_grad()
    assert abs(x.item()) < 1e-3
