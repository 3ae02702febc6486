"""Verdicts on made metrics: what chance does is never called overfitting, what is clear is found, once and in time."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from qkv.evaluation.text_baselines import Baselines
from qkv.training.diagnosis import KINDS, diagnose, diagnose_curve, overfitting_step
from qkv.training.early_warning import EarlyWarning
from qkv.training.history import History

BASELINES = Baselines(
    vocabulary=65,
    uniform=math.log(65),
    unigram=3.3,
    ngrams=(2.5, 2.0, 1.7, 1.6, 1.55),
    tokens_per_byte=1.0,
    gzip=3.0,
    gzip_alone=3.2,
    xz=2.6,
    xz_alone=2.9,
    shared=0.0,
    repeated=0.0,
    counted=900_000,
    training_tokens=900_000,
    seconds=0.1,
)


def metrics(
    training: np.ndarray, validation: np.ndarray, *, noise: float = 0.05, scatter: float = 0.0, seed: int = 0
) -> list[dict[str, Any]]:
    """A journal: a loss for every step, an evaluation at even distances.

    `noise` is that of a step's loss; `scatter` is that of a part of the text, and half of it that of an evaluation.
    """
    random = np.random.default_rng(seed)
    hard = 0.4 * random.standard_normal(16)  # some parts of a text are harder than others, always the same ones
    every = len(training) // len(validation)
    lines: list[dict[str, Any]] = []
    for step, loss in enumerate(training, 1):
        lines.append({"step": step, "loss": float(loss + noise * random.standard_normal())})
        if step % every == 0:
            place = step // every - 1
            parts = validation[place] + hard - hard.mean() + scatter * random.standard_normal(16)
            parts += 0.5 * scatter * random.standard_normal()
            lines.append({"step": step, "validation_loss": float(parts.mean()), "validation_parts": parts.tolist()})
    return lines


def falling(steps: int, start: float, end: float) -> np.ndarray:
    """As losses fall: fast, then slowly."""
    curve = 1 / np.sqrt(np.arange(1, steps + 1))
    return end + (start - end) * (curve - curve[-1]) / (curve[0] - curve[-1])


def kind_of(lines: list[dict[str, Any]], epoch: float = 20.0, **more: Any) -> str:
    history = History.of(lines)
    assert history.best is not None
    return diagnose(history, Baselines(**{**BASELINES.__dict__, **more}), history.best.validation, epoch).kind


def bathtub(low: float, end: float) -> np.ndarray:
    return np.concatenate([falling(4, 3.5, low), np.linspace(low, end, 7)[1:]])


SPIKE = np.concatenate([falling(100, 4.1, 2.0), np.full(8, 3.6), falling(92, 3.4, 1.8)])


@pytest.mark.parametrize(
    ("kind", "training", "validation"),
    [
        ("learning", falling(200, 4.1, 1.8), falling(10, 3.0, 1.9)),
        ("plateau", falling(200, 4.1, 1.85), np.array([2.5, 2.0, 1.92, 1.91, 1.9, 1.9, 1.9, 1.9, 1.9, 1.9])),
        ("overfitting", falling(200, 4.1, 1.4), bathtub(1.9, 2.3)),
        ("memorised", falling(200, 4.1, 0.1), bathtub(1.9, 5.3)),
        ("memorised", falling(200, 4.1, 0.1), np.full(1, 5.3)),
        ("overfitting", falling(200, 4.1, 1.0), np.full(10, 2.0)),
        ("underfit", falling(200, 4.1, 3.9), falling(10, 4.1, 3.9)),
        ("underfit", falling(200, 4.1, 3.25), falling(10, 4.1, 3.25)),
        ("diverged", np.concatenate([falling(100, 4.1, 2.0), np.linspace(2.0, 3.5, 100)]), bathtub(2.0, 3.5)),
        ("diverged", np.linspace(4.1, 40.0, 200), np.linspace(5.0, 40.0, 10)),
        ("unstable", SPIKE, falling(10, 3.0, 1.9)),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_clear_cases(kind: str, training: np.ndarray, validation: np.ndarray, seed: int) -> None:
    assert kind_of(metrics(training, validation, noise=0.03, scatter=0.005, seed=seed)) == kind


@pytest.mark.parametrize(
    ("kind", "baselines"),
    [
        ("leak", {"shared": 0.6}),
        ("repetitive", {"shared": 0.9, "repeated": 0.9}),
        ("noise", {"unigram": 1.5, "ngrams": (1.51, 2.0), "xz": 3.0}),
        ("trivial", {"unigram": 0.05, "ngrams": (0.01,)}),
        ("suspicious", {"ngrams": (3.6, 3.5)}),
    ],
)
def test_what_the_text_does_comes_first(kind: str, baselines: dict[str, Any]) -> None:
    training = falling(200, 4.1, 3.4 if kind == "suspicious" else 1.9)
    assert kind_of(metrics(training, falling(10, 3.0, 1.5)), **baselines) == kind


def test_another_kind_of_text_to_check_on() -> None:
    lines = metrics(falling(200, 4.1, 1.8), falling(10, 4.0, 3.2))
    assert kind_of(lines, epoch=500.0, ngrams=(3.4, 3.1)) == "unlike"
    assert kind_of(lines, epoch=500.0, ngrams=(2.0, 1.9)) != "unlike"


def test_before_a_text_is_seen_twice_nothing_is_overfitted() -> None:
    lines = metrics(falling(200, 4.1, 1.4), bathtub(1.9, 2.3))
    assert overfitting_step(History.of(lines), epoch=150.0) is not None
    assert overfitting_step(History.of(lines), epoch=250.0) is None


def test_no_number_is_divergence() -> None:
    lines = [*metrics(falling(60, 4.1, 2.0), falling(3, 3.0, 2.1)), {"step": 61, "loss": None}]
    found = diagnose(History.of(lines), BASELINES, 2.1, 20.0)
    assert (found.kind, found.since) == ("diverged", 61)


@pytest.mark.parametrize(("scatter", "most"), [(0.01, 0), (0.05, 1), (0.2, 3)])
def test_chance_is_not_called_overfitting(scatter: float, most: int) -> None:
    """A hundred runs whose validation loss only scatters while the training loss still falls a little."""
    level = np.concatenate([falling(4, 3.0, 2.0), np.full(8, 2.0)])
    found = Counter(
        kind_of(metrics(falling(240, 4.1, 1.7), level, noise=0.1, scatter=scatter, seed=seed)) for seed in range(100)
    )
    assert set(found) <= {"plateau", "learning", "rising", "unclear", "overfitting"}
    assert found["overfitting"] <= most, found


@pytest.mark.parametrize("scatter", [0.01, 0.03])
def test_what_is_clear_is_found(scatter: float) -> None:
    rising = bathtub(1.9, 2.2)
    found = Counter(
        kind_of(metrics(falling(200, 4.1, 1.3), rising, noise=0.1, scatter=scatter, seed=seed)) for seed in range(50)
    )
    assert found["overfitting"] >= 49, found


def test_the_watch_warns_once_and_in_time() -> None:
    watch = EarlyWarning(20.0)
    said = []
    for line in metrics(falling(300, 4.1, 1.0), np.concatenate([falling(5, 3.0, 1.9), np.linspace(1.9, 3.0, 11)[1:]])):
        if warning := watch.take(line):
            said.append((line["step"], warning))
    ((step, warning),) = said
    assert 120 <= step <= 180
    assert "since step 100" in warning


def test_the_watch_goes_on_after_a_pause() -> None:
    """Lines of an earlier sitting count, those that are done again only once; a warning is not said again."""
    lines = metrics(falling(300, 4.1, 1.0), np.concatenate([falling(5, 3.0, 1.9), np.linspace(1.9, 3.0, 11)[1:]]))
    first = next(number for number, line in enumerate(lines) if line["step"] == 101)
    watch = EarlyWarning(20.0, lines[: first + 30])
    said = [line["step"] for line in lines[first:] if watch.take(line)]
    assert len(said) == 1
    assert watch.history.all_losses.count == 300
    late = next(number for number, line in enumerate(lines) if line["step"] == 251)
    again = EarlyWarning(20.0, lines[:late])
    assert not [line for line in lines[late:] if again.take(line)]


def test_the_watch_sees_a_run_leave() -> None:
    watch = EarlyWarning(1e9)
    training = np.concatenate([falling(100, 4.1, 2.0), np.linspace(2.0, 5.0, 100)])
    said = [warning for line in metrics(training, bathtub(2.0, 5.0)) if (warning := watch.take(line))]
    assert len(said) == 1
    assert "went up" in said[0]


def test_a_run_without_evaluations() -> None:
    history = History.of(metrics(falling(20, 4.1, 3.9), np.full(1, 3.9))[:15])
    assert diagnose(history, BASELINES, math.nan, 100.0).kind in KINDS
    assert diagnose(History(), BASELINES, math.nan, 100.0).kind in KINDS


CURVES = {
    "learning": (falling(200, 0.7, 0.3), falling(10, 0.7, 0.4)),
    "plateau": (falling(200, 0.7, 0.4), np.array([0.6, 0.5, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45])),
    "overfitting": (falling(200, 0.7, 0.1), np.concatenate([falling(4, 0.7, 0.4), np.linspace(0.4, 0.7, 7)[1:]])),
    "rising": (np.full(200, 0.5), np.concatenate([np.full(5, 0.4), np.linspace(0.4, 0.5, 5)])),
    "diverged": (np.concatenate([falling(100, 0.7, 0.3), np.linspace(0.3, 3.0, 100)]), np.linspace(0.5, 3.0, 10)),
    "unclear": (falling(200, 0.7, 0.3), np.full(1, 0.5)),
}


@pytest.mark.parametrize("kind", CURVES)
@pytest.mark.parametrize("seed", range(3))
def test_every_verdict_on_a_curve_has_a_run_that_deserves_it_and_none_that_does_not(kind: str, seed: int) -> None:
    """The other curves are the controls: each gets its own verdict, so none gets this one."""
    training, validation = CURVES[kind]
    history = History.of(metrics(training, validation, noise=0.01, scatter=0.001, seed=seed))
    assert diagnose_curve(history, epoch=20.0).kind == kind


@pytest.mark.parametrize("scatter", [0.002, 0.01, 0.05])
def test_a_flat_curve_is_rarely_called_falling_and_a_falling_one_never_flat(scatter: float) -> None:
    """The interval of the fall holds the true one in about 95 of a hundred runs."""
    flat, fall = np.full(10, 0.5), np.linspace(0.7, 0.5, 10)
    verdicts, held = Counter[str](), 0
    for seed in range(100):
        found = diagnose_curve(History.of(metrics(np.full(200, 0.5), flat, scatter=scatter, seed=seed)), 1e9)
        verdicts[found.kind] += 1
        held += found.fall.low <= 0 <= found.fall.high or found.fall.of == "training"
        lines = metrics(falling(200, 0.8, 0.5), fall, scatter=scatter, seed=seed)
        assert diagnose_curve(History.of(lines), 1e9).kind != "plateau"
    assert verdicts["learning"] + verdicts["rising"] <= 8, verdicts
    assert held >= 92 if scatter < 0.05 else True
