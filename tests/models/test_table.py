"""Models of tables: linear regression reaches the closed form, logistic and softmax regression their only minimum."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from qkv.blocks.norms import Scale
from qkv.config import parse, toml_values
from qkv.errors import ConfigError
from qkv.models.table import LinearTableConfig, MLPTableConfig


def table(rows: int = 200) -> tuple[Tensor, Tensor]:
    """Columns of very different sizes, and two answers that depend on them, with noise."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, 4)) * [1.0, 50.0, 0.01, 3.0] + [0.0, 1000.0, 0.5, -7.0]
    y = x @ generator.normal(size=(4, 2)) + 12.0 + generator.normal(size=(rows, 2))
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


def closed_form(x: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    ones = np.hstack([x.double().numpy(), np.ones((len(x), 1))])
    found = np.linalg.lstsq(ones, y.double().numpy(), rcond=None)[0]
    return found, ones @ found


def linear(problem: Any = "regression", labels: int = 2) -> Any:
    return LinearTableConfig(columns=tuple("wxyz"), labels=tuple("abcdef"[:labels]), problem=problem).build()


def descend(model: Any, loss: Any, steps: int = 200) -> float:
    """Full-batch L-BFGS: as far down as numbers of 32 bits go."""
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=steps, line_search_fn="strong_wolfe", tolerance_grad=1e-9
    )

    def again() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(again)
    return loss().item()


@torch.no_grad()
def test_linear_regression_is_solved_at_once() -> None:
    x, y = table()
    model = linear()
    model.solve(x, y)
    spread = y.std(0).numpy()
    _, expected = closed_form(x, y)
    np.testing.assert_allclose(model(x).numpy() / spread, expected / spread, atol=1e-4)


def test_descent_reaches_the_closed_form() -> None:
    x, y = table()
    model = linear()
    model.fit_scale(x, y)
    descend(model, lambda: F.mse_loss(model.answers(model(x)), model.answers(y)))
    coefficients, expected = closed_form(x, y)
    spread = y.std(0).numpy()
    np.testing.assert_allclose(model(x).detach().numpy() / spread, expected / spread, atol=1e-4)
    weights = model.head.weight.detach() * model.answers.deviation.unsqueeze(1) / model.scale.deviation
    sizes = x.std(0).unsqueeze(1).numpy() / spread  # an answer's change when a column changes by its deviation
    np.testing.assert_allclose(weights.T.numpy() * sizes, coefficients[:-1] * sizes, atol=1e-4)


def test_small_steps_get_there_too() -> None:
    x, y = table()
    model = linear()
    model.fit_scale(x, y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(500):
        loss = F.mse_loss(model.head(model.scale(x)), model.answers(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    spread = y.std(0).numpy()
    np.testing.assert_allclose(model(x).detach().numpy() / spread, closed_form(x, y)[1] / spread, atol=1e-4)


@torch.no_grad()
def test_columns_that_say_the_same_are_no_harm() -> None:
    """A column twice, and one that never changes: the answers are those without them."""
    x, y = table()
    model = LinearTableConfig(columns=tuple("uvwxyz"), labels=("a", "b"), problem="regression").build()
    wide = torch.cat([x, x[:, :1], torch.full((len(x), 1), 3.0)], 1)
    model.solve(wide, y)
    np.testing.assert_allclose(model(wide).numpy(), closed_form(x, y)[1], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("problem", ["single", "multi"])
def test_softmax_and_logistic_regression_reach_their_minimum(problem: str) -> None:
    """There the mean of what was expected equals the mean of what is, for every column: the gradient is zero."""
    x, y = table()
    targets = torch.stack(
        [y[:, 0] > y[:, 0].median(), y[:, 1] > y[:, 1].mean(), y.sum(1) > y.sum(1).median()], 1
    ).float()
    targets = F.one_hot(targets.argmax(1), 3).float() if problem == "single" else targets
    flip = torch.rand(targets.shape[0], generator=torch.Generator().manual_seed(0)) < 0.3
    targets[flip] = targets[flip].roll(1, 1)  # some are wrong: otherwise the minimum lies at infinity
    model = linear(problem, labels=3)
    model.fit_scale(x)
    cross_entropy = F.cross_entropy if problem == "single" else F.binary_cross_entropy_with_logits
    before = cross_entropy(model(x), targets).item()
    after = descend(model, lambda: cross_entropy(model(x), targets))
    assert after < 0.9 * before
    shares = model(x).softmax(1) if problem == "single" else model(x).sigmoid()
    moments = model.scale(x).T @ (shares - targets) / len(x)
    assert moments.abs().max() < 1e-4
    torch.testing.assert_close(shares.mean(0), targets.mean(0), atol=1e-4, rtol=0)


def test_two_classes_of_softmax_are_a_logistic_regression() -> None:
    x, y = table()
    labels = (y[:, 0] + 300 * torch.randn(len(y), generator=torch.Generator().manual_seed(0)) > y[:, 0].mean()).long()
    both, one = linear("single", 2), linear("multi", 1)
    for model in (both, one):
        model.fit_scale(x)
    descend(both, lambda: F.cross_entropy(both(x), labels))
    descend(one, lambda: F.binary_cross_entropy_with_logits(one(x)[:, 0], labels.float()))
    torch.testing.assert_close(both(x).softmax(1)[:, 1], one(x)[:, 0].sigmoid(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_an_mlp_learns_what_no_line_can(activation: Any) -> None:
    """Exclusive or (Minsky and Papert 1969), far from zero and on two scales."""
    torch.manual_seed(0)
    x = torch.rand(256, 2) * torch.tensor([2.0, 200.0]) + torch.tensor([50.0, -1000.0])
    labels = ((x[:, 0] > 51) ^ (x[:, 1] > -900)).long()
    accuracies = []
    for config in (
        LinearTableConfig(columns=("x", "y"), labels=("no", "yes")),
        MLPTableConfig(columns=("x", "y"), labels=("no", "yes"), width=32, activation=activation),
    ):
        model = config.build()
        model.fit_scale(x)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
        for _ in range(200):
            loss = F.cross_entropy(model(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracies.append((model(x).argmax(1) == labels).float().mean().item())
    assert accuracies[0] < 0.7
    assert accuracies[1] > 0.95


@pytest.mark.parametrize("kind", [LinearTableConfig, MLPTableConfig])
def test_the_scale_is_saved(kind: Any, tmp_path: Path) -> None:
    torch.manual_seed(0)
    x, y = table()
    config = kind(columns=tuple("wxyz"), labels=("a", "b"), problem="regression")
    model, other = config.build().eval(), config.build().eval()
    model.fit_scale(x, y)
    torch.nn.init.normal_(model.head.weight)
    model(x).square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert model(x).shape == (200, 2)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(model(x), other(x))
    assert parse(kind, toml_values(config), "config.json") == config


def test_scale() -> None:
    x, _ = table()
    scale = Scale(4)
    assert torch.equal(scale(x), x)
    scale.fit(x)
    z = scale(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(4), atol=1e-4, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(4), atol=1e-3, rtol=0)
    torch.testing.assert_close(scale.inverse(z), x, atol=1e-3, rtol=1e-5)


def test_missing_and_constant_values() -> None:
    """What is missing counts as the mean; a column without change, or without any value, becomes zero."""
    gap = float("nan")
    x = torch.tensor([[1.0, 5.0, gap, 1e8], [gap, 5.0, gap, 1e8], [3.0, 5.0, gap, 1e8]])
    scale = Scale(4)
    scale.fit(x)
    expected = torch.tensor([[-1.0, 0, 0, 0], [0.0, 0, 0, 0], [1.0, 0, 0, 0]])
    torch.testing.assert_close(scale(x), expected)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"activation": "sine"}, "activation = 'sine'"),
        ({"layers": 0}, "layers = 0"),
        ({"column": 4}, "unknown key 'column'; did you mean 'columns'"),
        ({"problem": "none"}, "problem = 'none'"),
    ],
)
def test_bad_values_are_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(MLPTableConfig, values, "recipe.toml")
