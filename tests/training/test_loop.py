"""The loop: golden losses, accumulation, clipping, divergence before the update."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
import torch

from qkv.errors import DivergedError
from qkv.training.loop import TrainingState, train
from tiny import CONFIGS, TRAINING, state, task


def digest(made: TrainingState) -> str:
    found = hashlib.sha256()
    for tensor in made.model.state_dict().values():
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("kind", CONFIGS)
def test_training_lowers_the_loss_and_repeats_exactly(kind: str) -> None:
    runs = []
    for _ in range(2):
        made = state(kind)
        losses = [step.loss for step in train(made, task(), replace(TRAINING, steps=40))]
        runs.append((losses, digest(made)))
    assert runs[0] == runs[1]
    assert sum(losses[-5:]) < sum(losses[:5])


def test_golden_losses() -> None:
    """Twenty steps, f32, one thread: a refactor must not move them."""
    made = state("modern", dropout=0.0)
    losses = [step.loss for step in train(made, task(), replace(TRAINING, steps=20))]
    assert losses[0] == pytest.approx(GOLDEN[0], abs=2e-5)
    assert losses[9] == pytest.approx(GOLDEN[1], abs=2e-4)
    assert losses[19] == pytest.approx(GOLDEN[2], abs=2e-3)


def test_accumulation_does_not_change_the_loss() -> None:
    losses = {}
    for parts in (1, 2, 4):
        made = state(dropout=0.0)
        losses[parts] = [step.loss for step in train(made, task(), replace(TRAINING, accumulate=parts))]
    assert losses[2] == pytest.approx(losses[1], abs=2e-4)
    assert losses[4] == pytest.approx(losses[1], abs=2e-4)


def test_clipping_bounds_the_gradient() -> None:
    made = state(dropout=0.0)
    step = next(train(made, task(), replace(TRAINING, clip=1e-4, optimizer="adamw")))
    assert step.gradient_norm > 1e-4  # what is reported is the norm before clipping


def poison(made: TrainingState, where: str) -> str:
    """Put a value that is not finite somewhere; give the name that the message must say."""
    weight = made.model.blocks[1].attention.sublayer.query.weight
    if where == "weight":
        with torch.no_grad():
            weight[0, 0] = float("nan")
        return "blocks.1.attention.sublayer.query.weight"
    if where == "gradient":
        weight.register_hook(lambda gradient: gradient * float("inf"))
        return "the gradient of blocks.1.attention.sublayer.query.weight"
    made.model.blocks[0].feedforward.sublayer.register_forward_hook(lambda m, i, output: output / 0.0)
    return "the output of blocks.0.feedforward.sublayer"


@pytest.mark.parametrize("where", ["weight", "gradient", "output"])
def test_divergence_stops_before_the_update(where: str) -> None:
    made = state(dropout=0.0)
    steps = train(made, task(), TRAINING)
    next(steps)
    name = poison(made, where)
    before = digest(made)
    with pytest.raises(DivergedError, match="step 2") as caught:
        next(steps)
    assert name in str(caught.value)
    assert digest(made) == before
    assert caught.value.exit_code == 3


def test_an_absurd_rate_is_found_out() -> None:
    wild = replace(
        TRAINING, learning_rate=1e6, matrix_learning_rate=1e6, steps=50, warmup=0, clip=0.0, optimizer="adamw"
    )
    made = state("gpt", wild, dropout=0.0)
    with pytest.raises(DivergedError):
        list(train(made, task(), wild))


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant-decay"])
def test_schedules_rise_then_fall(schedule: str) -> None:
    config = replace(TRAINING, steps=100, schedule=schedule, warmup=10, final_fraction=0.1, decay=0.3)
    shares = [config.rate_share(step) for step in range(100)]
    assert shares[:10] == sorted(shares[:10])
    assert shares[10:] == sorted(shares[10:], reverse=True)
    assert shares[10] == pytest.approx(1.0)
    assert 0.1 <= shares[-1] < 0.15
    if schedule == "constant-decay":
        assert shares[60] == 1.0


GOLDEN = (3.135494, 2.869138, 2.693043)
