"""What the doctor says: each kind in plain words, losses held against their neighbours, one thing to try."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from qkv.data.corpus import CorpusConfig
from qkv.doctor import messages
from qkv.evaluation.text_baselines import Baselines
from qkv.models.registry import LANGUAGE_MODELS as MODELS
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe.recipe import Recipe, parse_model
from qkv.tasks.language_modelling.report import Forecast
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.diagnosis import KINDS, Diagnosis, Fall
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
    training_tokens=1_000,
    seconds=0.1,
)
FALL = Fall(0.2, 0.02, "validation", 50, 100)
FOUND = Diagnosis(kind="learning", since=120, best=120, training=1.5, validation=1.6, lowest=1.6, last=1.9, fall=FALL)


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


def test_falls_in_words() -> None:
    assert messages.fall_in_words(FALL, " nats") == (
        "from step 50 to step 100 the validation loss fell by 0.2 nats (95 % interval 0.16 to 0.24)"
    )
    assert "rose by 0.2 (95 % interval 0.16 to 0.24)" in messages.fall_in_words(replace(FALL, mean=-0.2))
    assert "too few evaluations" in messages.fall_in_words(Fall(0.0, math.inf))


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
    assert messages.side_remark(calm, BASELINES) == ""
    assert "24% of the validation text" in messages.verdict(calm, replace(BASELINES, shared=0.24))
    assert "The training loss is 1.20, the validation loss 1.60" in messages.verdict(
        replace(FOUND, training=1.2), BASELINES
    )


def test_which_model() -> None:
    assert messages.checkpoint_to_use(FOUND, 200) == (
        "use best/, the model of step 120: its validation loss was 1.600; the last evaluation, after step 200, "
        "has 1.900."
    )
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


PROMISES = ("would help", "would not help", "helps most", "no setting helps", "would gain", "learned what it can")


@pytest.mark.parametrize("kind", KINDS)
def test_no_sentence_promises_what_was_not_measured(kind: Any) -> None:
    found = replace(FOUND, kind=kind)
    for text in (messages.verdict(found, BASELINES), messages.advice(found, recipe(), 100, 60.0)):
        assert not [promise for promise in PROMISES if promise in text], text
