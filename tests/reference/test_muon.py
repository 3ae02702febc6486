"""Our Muon against torch.optim.Muon, given the same coefficients, and against itself one matrix at a time.

torch turns the momentum in bfloat16, ours in float32 unless the run computes in bfloat16. A bfloat16 number carries
eight bits: one rounding is off by up to 0.4 %, and five Newton-Schulz steps add up several. The updates agree to about
a percent of their length and point the same way. With torch's steps carried out in float32, the two agree to 1e-6.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.optim import _muon

from qkv.training.optimizers import COEFFICIENTS, Muon, orthogonalize

TORCHS = (3.4445, -4.7750, 2.0315)
SHAPES = [(24, 16), (16, 24), (24, 16), (32, 32), (40, 8)]
RATE, DECAY, STEPS = 0.02, 0.1, 4


def parameters() -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def run(optimizer: torch.optim.Optimizer, ours: list[nn.Parameter]) -> list[Tensor]:
    """How far each parameter went in a few steps on the same gradients."""
    generator = torch.Generator().manual_seed(1)
    before = [parameter.detach().clone() for parameter in ours]
    for _ in range(STEPS):
        for parameter in ours:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return [parameter.detach() - start for parameter, start in zip(ours, before, strict=True)]


def moved_by_torch() -> list[Tensor]:
    theirs = parameters()
    return run(torch.optim.Muon(theirs, RATE, DECAY, momentum=0.95, adjust_lr_fn="original"), theirs)


def moved_by_ours() -> list[Tensor]:
    ours = parameters()
    return run(Muon(ours, RATE, 0.95, DECAY, (TORCHS,) * 5), ours)


def test_the_same_way_as_torchs_in_bfloat16() -> None:
    for found, expected in zip(moved_by_ours(), moved_by_torch(), strict=True):
        assert (found - expected).norm() / expected.norm() < 0.02
        assert torch.cosine_similarity(found.flatten(), expected.flatten(), 0) > 0.9995


def test_equal_to_torchs_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_float32(gradient: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
        return orthogonalize(gradient.unsqueeze(0), (coefficients,) * steps)[0]

    monkeypatch.setattr(_muon, "_zeropower_via_newtonschulz", in_float32)
    for found, expected in zip(moved_by_ours(), moved_by_torch(), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(16, 24), (24, 16), (32, 32)])
def test_the_steps_are_torchs_steps(shape: tuple[int, int]) -> None:
    """In float64 the Newton-Schulz steps are those of torch's source, here written out once more."""
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x = matrix.T if shape[0] > shape[1] else matrix
    x = x / x.norm()
    a, b, c = TORCHS
    for _ in range(5):
        square = x @ x.T
        x = a * x + (b * square + c * square @ square) @ x
    expected = x.T if shape[0] > shape[1] else x
    found = orthogonalize(matrix.unsqueeze(0), (TORCHS,) * 5)[0]
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_a_stack_is_its_matrices_one_by_one() -> None:
    stack = torch.randn(6, 12, 20, generator=torch.Generator().manual_seed(3))
    alone = torch.cat([orthogonalize(matrix.unsqueeze(0)) for matrix in stack])
    torch.testing.assert_close(orthogonalize(stack), alone, atol=1e-6, rtol=1e-5)


def test_a_step_on_all_is_a_step_on_each() -> None:
    together, apart = parameters(), parameters()
    moved = run(Muon(together, RATE, 0.95, DECAY), together)

    class Each(torch.optim.Optimizer):
        def __init__(self) -> None:
            super().__init__(apart, {})
            self.own = [Muon([parameter], RATE, 0.95, DECAY) for parameter in apart]

        def step(self, closure: object = None) -> None:
            for optimizer in self.own:
                optimizer.step()

    for found, expected in zip(moved, run(Each(), apart), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 16, 16), (4, 16, 48), (4, 48, 16)])
def test_singular_values_become_about_one(shape: tuple[int, int, int]) -> None:
    """Directions that carry something: random matrices with singular values between 0.3 and 3."""
    generator = torch.Generator().manual_seed(4)
    left, _, right = torch.linalg.svd(torch.randn(shape, generator=generator), full_matrices=False)
    sizes = torch.logspace(-0.5, 0.5, left.size(-1))
    values = torch.linalg.svdvals(orthogonalize(left * sizes @ right, COEFFICIENTS))
    assert values.min() > 0.85
    assert values.max() < 1.15


def test_a_parameter_without_a_gradient_stays() -> None:
    first, second = (nn.Parameter(torch.ones(3, 3)) for _ in range(2))
    first.grad = torch.ones(3, 3)
    Muon([first, second], RATE, weight_decay=DECAY).step()
    assert not torch.equal(first, torch.ones(3, 3))
    assert torch.equal(second, torch.ones(3, 3))


def test_in_bf16_it_turns_nearly_the_same_way() -> None:
    generator = torch.Generator().manual_seed(0)
    for rows, columns in ((64, 64), (32, 96), (96, 32)):
        given = torch.randn(rows, columns, generator=generator)
        moves = []
        for dtype in (torch.float32, torch.bfloat16):
            weight = torch.nn.Parameter(torch.zeros(rows, columns))
            weight.grad = given.clone()
            Muon([weight], RATE, dtype=dtype).step()
            moves.append(weight.detach())
        assert torch.cosine_similarity(moves[0].flatten(), moves[1].flatten(), dim=0) > 0.9995
