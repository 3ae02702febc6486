"""The rules that fill a recipe's gaps: sizes from the amount of text, rates from the model, the rest from the machine.

What the user set is never touched. Decision 0004 says where the figures come from.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from qkv.models.registry import LANGUAGE_MODELS, defaults
from qkv.recipe.origin import matched_width, parameters
from qkv.recipe.recipe import Recipe
from qkv.recipe.time_budget import USUAL, Rung
from qkv.training import devices
from qkv.training.clock import LOOKING
from qkv.training.settings import TrainingConfig

Values = dict[str, dict[str, Any]]

TINY = 30_000  # tokens; below it the deck's nano shape has more parameters than the text has to teach
SMALL = 200_000
EVALUATIONS = 10  # in a run
EVALUATED = 0.015  # of a run's tokens are looked at in each: with no backward pass, all ten cost a twentieth of the run
LAST, LAST_IN_TIME = 131_072, 32_768  # tokens are looked at in the last evaluation; fewer where minutes count
FORWARD = 1 / 3  # of a step's time: the way back takes twice as long as the way forward
SHARED = 30_000  # values a layer works on; below it threads cost more than they bring


def fill(section: dict[str, Any], config: Any, **chosen: Any) -> None:
    """Set what is missing, or left at the declared value that means "choose"."""
    declared = {field.name: field.default for field in dataclasses.fields(config)}
    for key, value in chosen.items():
        if key in declared and (key not in section or (section[key] == declared[key] in (0, -1, "auto"))):
            section[key] = value


def choose_model(values: Values, vocabulary: int, tokens: int, row: Rung = USUAL, dropout: float = 0.0) -> None:
    """Size and context for this much text, and for the time of the dial's row; dropout for what is seen often."""
    model = values.setdefault("model", {})
    model.setdefault("kind", "modern")
    model["vocabulary"] = vocabulary
    if model["kind"] in ("rnn", "gru", "lstm"):
        shape = {"layers": 1, "width": 64 if tokens < TINY else 256}
    else:
        shape = {"layers": 3, "heads": 3, "width": 48} if tokens < TINY else row.shape
    if model["kind"] == "modern-fast":  # the n-grams carry it: half of what `modern` would have
        shape = {
            "layers": max(1, shape["layers"] // 2),
            "heads": max(1, shape["heads"] // 2),
            "width": shape["width"] // 2,
        }
    if "heads" in shape:
        shape.update(fitting(model, shape))
    if (layers := defaults(model["kind"]).layers) is not None:
        usual = {"kind": "modern", "vocabulary": vocabulary, "context": context_for(tokens, row), **shape}
        own = {"layers": layers, "context": context_for(tokens, row)} | model
        width = model.get("width") or matched_width(own, parameters(usual)) or shape["width"]
        shape = {"layers": own["layers"], "width": width}
    fill(model, LANGUAGE_MODELS[model["kind"]], **shape, context=context_for(tokens, row))
    if tokens < TINY or dropout:
        model.setdefault("dropout", 0.2 if tokens < TINY else dropout)


def shape_of(model: dict[str, Any]) -> dict[str, int]:
    """Layers, heads, width, context and batch of a model section, as a row of the dial has them."""
    found = {name: int(model.get(name, 1)) for name in ("layers", "heads", "width", "context")}
    return {**found, "batch": 1}


def fitting(model: dict[str, Any], shape: dict[str, int]) -> dict[str, int]:
    """Heads for a width that the user set, or a width for his heads: a head has a whole and even width."""
    if "width" in model and "heads" not in model and isinstance(width := model["width"], int):
        heads = [number for number in range(shape["heads"], 1, -1) if width % (2 * number) == 0]
        return {"heads": heads[0] if heads else 1}
    if "heads" in model and "width" not in model and isinstance(heads := model["heads"], int) and heads > 0:
        return {"width": -(-shape["width"] // (2 * heads)) * 2 * heads}
    return {}


def context_for(tokens: int, row: Rung = USUAL) -> int:
    return min(32 if tokens < TINY else row.context, max(16, tokens // 4))


def choose_training(values: Values, tokens: int, row: Rung = USUAL, threads: int = 0) -> None:
    """Everything of the training section but the number of steps."""
    training, model = values.setdefault("training", {}), values["model"]
    usual = defaults(model["kind"])
    fill(training, TrainingConfig, optimizer=usual.optimizer)
    rates = usual.optimizers[training["optimizer"]].values()
    if tokens < TINY:  # a page is learned by heart in a moment: go slower, and the table of next words stays honest
        rates.update({name: rates[name] / 4 for name in ("learning_rate", "matrix_learning_rate") if name in rates})
    fill(training, TrainingConfig, **rates)
    training.setdefault("patience", 8 if tokens < TINY else 4)  # of EVALUATIONS; on a page they are noisy
    fill(
        training, TrainingConfig, batch=batch_size(model["context"], tokens, training.get("accumulate", 1), row.tokens)
    )
    device, dtype = device_and_dtype(training)
    fill(training, TrainingConfig, device=device, dtype=dtype)
    work = training["batch"] * model["context"] * model["width"]
    fill(training, TrainingConfig, threads=1 if work < SHARED else threads or devices.choose_threads())
    fill(training, TrainingConfig, compile="off", matrix_learning_rate=training["learning_rate"])


def device_and_dtype(training: dict[str, Any]) -> tuple[str, str]:
    device = devices.choose_device(training.get("device", "auto"))
    return device, devices.choose_dtype(training.get("dtype", "auto"), device)


def batch_size(context: int, tokens: int, accumulate: int, wanted: int) -> int:
    """The wanted tokens a step, less where the text is so short that an epoch would be over in a few steps."""
    size = max(4, min(64, wanted // context, tokens // context // 8))
    return max(1, size // accumulate) * accumulate


def epochs_worth(tokens: int) -> float:
    """After how many epochs a small model has nothing more to learn from a text: many for a page, few for a library."""
    return 100.0 if tokens < TINY else 60.0 if tokens < SMALL else 30.0


def steps_worth(values: Values, tokens: int, epochs: float) -> int:
    """The number of steps after which more would not help."""
    samples = max(1, tokens // values["model"]["context"])
    return max(1, int(epochs * samples) // values["training"]["batch"])


def evaluated_tokens(run: int) -> int:
    """How many tokens an evaluation scores, by the number of tokens that the run trains on."""
    return max(4096, min(65_536, int(EVALUATED * run)))


def choose_steps(values: Values, tokens: int, steps: int, *, timed: bool = False) -> None:
    """The number of steps and everything that follows from it."""
    training = values["training"]
    fill(training, TrainingConfig, steps=max(1, min(steps, steps_worth(values, tokens, epochs_worth(tokens)))))
    steps = training["steps"]
    if training.get("warmup", -1) == -1:
        training["warmup"] = min(steps // 10, 20)
    a_step = training["batch"] * values["model"]["context"]
    evaluated = evaluated_tokens(steps * a_step)
    every = max(1, steps // EVALUATIONS)
    if timed:  # a token that is looked at takes a third of one that is learned from
        every = max(every, math.ceil(FORWARD * evaluated / (LOOKING * a_step)))
    fill(training, TrainingConfig, evaluate_every=every)
    last = LAST_IN_TIME if timed else LAST
    fill(training, TrainingConfig, checkpoint_every=training["evaluate_every"])
    task = values.setdefault("task", {})
    task.setdefault("evaluation_tokens", evaluated)
    task.setdefault("final_evaluation_tokens", last)


def last_tokens(recipe: Recipe) -> int:
    """How much of the validation text the last evaluation looks at: all of it, unless that would take long."""
    training = recipe.training
    return max(
        recipe.task.final_evaluation_tokens or LAST, training.length * training.batch * recipe.model.context // 10
    )
