"""What the doctor says: each kind in plain words, losses held against their neighbours, one thing to try."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from qkv.data.corpus import CorpusConfig
from qkv.doctor import messages
from qkv.evaluation.text_baselines import Baselines
from qkv.models.modern import ModernConfig
from qkv.models.registry import LANGUAGE_MODELS as MODELS
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe import time_budget
from qkv.recipe.recipe import Recipe, parse_model
from qkv.tasks.language_modelling.report import Forecast
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.diagnosis import KINDS, Diagnosis
from qkv.training.settings import TrainingConfig

NAT = math.log(2)  # with one token a byte, nats per token are bits per byte times this
BASELINES = Baselines(
    vocabulary=64,
    uniform=6.0 * NAT,
    unigram=4.8 * NAT,
    ngrams=(3.6 * NAT, 2.9 * NAT, 2.5 * NAT),
    tokens_per_byte=1.0,
    gzip=3.1,
    gzip_alone=3.2,
    xz=2.6,
    xz_alone=2.9,
    shared=0.0,
    repeated=0.0,
    counted=1_000,
    of=1_000,
    seconds=0.1,
)
FOUND = Diagnosis(kind="learning", since=120, best=120, training=1.5, validation=1.6, lowest=1.6, last=1.9, fell=0.2)


def recipe(model: str = "modern", **training: Any) -> Recipe:
    settings = {
        "steps": 100,
        "batch": 4,
        "optimizer": "muon",
        "learning_rate": 0.01,
        "matrix_learning_rate": 0.04,
        **training,
    }
    return Recipe(
        model=parse_model({"kind": model, "vocabulary": 64, "layers": 4, "width": 48}, "the test"),
        tokenizer=TokenizerConfig(),
        corpus=CorpusConfig(files=("a.txt",)),
        task=LanguageModellingConfig(),
        training=TrainingConfig(**settings),
    )


@pytest.mark.parametrize(
    ("bits", "said"),
    [
        (7.0, "7.00 bits per byte: no better than guessing among all tokens (6.00)."),
        (5.0, "better than guessing (6.00), worse than the frequencies of single tokens (4.80) and xz (2.60)."),
        (3.0, "better than a 2-gram model (3.60), worse than a 3-gram model (2.90) and xz (2.60)."),
        (2.59, "better than a 3-gram model (2.90), worse than a 4-gram model (2.50) and xz (2.60)."),
        (2.55, "better than a 3-gram model (2.90) and than xz (2.60), worse than a 4-gram model (2.50)."),
        (2.2, "2.20 bits per byte: better than a 4-gram model (2.50) and than xz (2.60)."),
    ],
)
def test_a_loss_among_its_neighbours(bits: float, said: str) -> None:
    assert messages.comparison(bits, BASELINES).endswith(said)


def test_without_compressors() -> None:
    assert "xz" not in messages.comparison(3.0, replace(BASELINES, xz=None))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("since", [120, None])
def test_every_kind_has_its_words(kind: Any, since: int | None) -> None:
    if since is None and kind in ("unstable", "diverged"):
        return  # these always know
    found = replace(FOUND, kind=kind, since=since)
    sentence = messages.verdict(found, replace(BASELINES, shared=0.62))
    assert sentence.endswith(".")
    assert any(character.isdigit() for character in sentence)
    assert "None" not in sentence
    assert messages.advice(found, recipe(), 100, 10.0)


def test_what_is_worth_knowing_besides() -> None:
    calm = replace(FOUND, training=1.6)
    assert messages.verdict(calm, BASELINES).count(".") - messages.verdict(calm, BASELINES).count("0.") == 1
    assert "24% of the validation text" in messages.verdict(calm, replace(BASELINES, shared=0.24))
    assert "more text would help" in messages.verdict(replace(FOUND, training=1.2), BASELINES)


def test_which_model() -> None:
    assert "step 120: later ones are worse" in messages.checkpoint_to_use(FOUND, 200)
    assert "later ones are no better" in messages.checkpoint_to_use(replace(FOUND, last=1.6), 200)
    assert "the last evaluation was the best" in messages.checkpoint_to_use(FOUND, 120)


@pytest.mark.parametrize("model", MODELS)
def test_advice_is_an_option_that_this_model_has(model: str) -> None:
    made = recipe(model)
    assert messages.advice(FOUND, made, 100, 10.0) == "more time, --steps 200"
    assert messages.advice(FOUND, made, 100, 240.0) == "more time, --minutes 8"
    assert "--set model.dropout=0.2" in messages.advice(replace(FOUND, kind="overfitting"), made, 100, 10.0)
    much = replace(made, model=replace(made.model, dropout=0.3))
    assert "--set model.layers=2" in messages.advice(replace(FOUND, kind="memorised"), much, 100, 10.0)
    level = messages.advice(replace(FOUND, kind="plateau", training=1.6), made, 100, 10.0)
    assert ("--set model.layers=8" if hasattr(made.model, "heads") else "--set model.width=96") in level


def test_rates() -> None:
    usual = "--set training.learning_rate=0.01 --set training.matrix_learning_rate=0.04"
    diverged, underfit = replace(FOUND, kind="diverged"), replace(FOUND, kind="underfit")
    assert usual in messages.advice(diverged, recipe(learning_rate=30.0, matrix_learning_rate=30.0), 100, 10.0)
    assert "learning_rate=0.0033 --set training.matrix_learning_rate=0.013" in messages.advice(
        diverged, recipe(), 100, 10.0
    )
    assert usual in messages.advice(underfit, recipe(learning_rate=1e-6, matrix_learning_rate=1e-6), 100, 10.0)
    assert messages.advice(underfit, recipe(), 100, 10.0) == "more time, --steps 1000"
    assert "larger model" in messages.advice(underfit, recipe(), 1_000, 10.0)


def test_the_plan_in_one_line() -> None:
    plan = Forecast(steps=610, epochs=2.13, bytes=430 * 2**20, seconds=276.0)
    assert plan.line() == "610 steps, 2.1 epochs, about 4.6 min, about 0.4 GiB"
    assert Forecast(1, 0.5, 10 * 2**20).line() == "1 step, 0.5 epochs, about 0.1 GiB"
    assert "about 20 s" in replace(plan, seconds=20.0).line()


def test_a_short_text_that_was_seen_often_enough_is_not_said_to_need_more_time() -> None:
    """The dial ends such a run by itself; the doctor must not contradict it."""
    model = ModernConfig(vocabulary=1024, layers=6, heads=6, width=192, context=64)
    assert time_budget.seen_enough(model, time_budget.DEEP_EPOCHS)
    assert not time_budget.seen_enough(model, 0.5 * time_budget.DEEP_EPOCHS)
    assert not time_budget.seen_enough(replace(model, layers=5), 10.0)
    found = replace(FOUND, enough=True)
    assert (found.gain, found.more_helps) == (0.0, False)
    assert "memorised" in messages.verdict(found, BASELINES)
    assert messages.advice(found, recipe(), 100, 60.0).startswith("more text")
