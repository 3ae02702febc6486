"""The loss that writes its gradient over the logits equals torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from qkv.objectives import objective as module
from qkv.objectives.objective import InPlaceCrossEntropy, cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_value_and_gradient_are_torchs(rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a linear layer, in several stretches, with extreme logits and a scaled loss."""
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 5 * 301)
    generator = torch.Generator().manual_seed(rows)
    head = torch.randn(301, 16, generator=generator, requires_grad=True)
    x = (torch.randn(rows, 16, generator=generator) * 20).requires_grad_()
    targets = torch.randint(301, (rows,), generator=generator)
    found = []
    for loss in (
        lambda logits: F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing),
        lambda logits: InPlaceCrossEntropy.apply(logits, targets, smoothing),
    ):
        head.grad = x.grad = None
        value = loss(x @ head.T)
        (value / 3).backward()
        found.append((value.detach(), head.grad, x.grad))
    for expected, got in zip(*found, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-4)


def test_bf16_is_worked_on_in_f32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of logits in bf16 the loss is that of the same numbers in f32, and the gradient is rounded once."""
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 5 * 301)
    logits = (torch.randn(64, 301, generator=torch.Generator().manual_seed(0)) * 5).bfloat16()
    targets = torch.arange(64) * 4
    whole = logits.float().requires_grad_()
    expected = F.cross_entropy(whole, targets, reduction="sum", label_smoothing=0.1)
    expected.backward()
    half = logits.clone().requires_grad_()
    found = InPlaceCrossEntropy.apply(half * 1.0, targets, 0.1)
    found.backward()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=0)
    assert whole.grad is not None
    torch.testing.assert_close(half.grad, whole.grad.bfloat16(), rtol=0.005, atol=1e-6)


def test_large_tables_go_this_way_and_scores_do_not() -> None:
    logits = torch.randn(module.IN_PLACE_LOGITS // 1024, 1024, requires_grad=True)
    targets = torch.zeros(len(logits), dtype=torch.long)
    assert "InPlace" in type(cross_entropy(logits * 1.0, targets).grad_fn).__name__
    assert "InPlace" not in type(cross_entropy(logits[:10] * 1.0, targets[:10]).grad_fn).__name__
    with torch.no_grad():
        kept = logits * 1.0
        before = kept.clone()
        cross_entropy(kept, targets)
        assert torch.equal(kept, before)


def test_each_in_stretches_is_torchs_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOGITS_AT_ONCE", 5 * 301)
    logits = torch.randn(64, 301, generator=torch.Generator().manual_seed(0)) * 5
    targets = torch.arange(64) * 4
    assert torch.equal(module.token_losses(logits, targets), F.cross_entropy(logits, targets, reduction="none"))
