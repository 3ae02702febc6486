"""The rules that complete a draft: sizes by the amount of text, learning rates by the model, the rest by the machine.

Rules never change what the user set. Decision 0004 explains the numbers.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

from qkv.models.defaults import ModelDefaults, OptimizerName
from qkv.models.registry import LANGUAGE_MODELS, defaults, is_recurrent
from qkv.recipe.draft import Draft, TrainingDraft
from qkv.recipe.origin import matched_width, parameters
from qkv.recipe.recipe import MutableSection, Recipe, Section
from qkv.recipe.time_budget import DEFAULT_SIZE, SizePreset
from qkv.training import devices
from qkv.training.clock import EVALUATION_SHARE

TINY_TEXT = 30_000  # tokens; models of shorter texts get the lectures' nano shape, and dropout
SMALL_TEXT = 200_000  # tokens
EVALUATIONS = 10  # in a run
EVALUATED_SHARE = 0.015  # an evaluation's tokens over the run's; ten forward passes cost a twentieth of the run
FINAL_TOKENS, FINAL_TOKENS_TIMED = 131_072, 32_768  # in the final evaluation; fewer in a run with a time budget
FORWARD_SHARE = 1 / 3  # of a step's time: the backward pass takes twice as long as the forward pass
MIN_THREADED_VALUES = 30_000  # values in a layer's input; with fewer, one thread is faster than several


def language_model(
    model: Section, vocabulary: int, tokens: int, size: SizePreset = DEFAULT_SIZE, dropout: float = 0.0
) -> MutableSection:
    """The complete section of a language model, with sizes for this much text; tiny texts also get dropout."""
    kind = model.get("kind", "modern")
    if is_recurrent(kind):
        shape = {"layers": 1, "width": 64 if tokens < TINY_TEXT else 256}
    else:
        shape = {"layers": 3, "heads": 3, "width": 48} if tokens < TINY_TEXT else size.shape
    if kind == "modern-fast":  # its n-gram table learns much of the text, so its layers are half those of `modern`
        shape = {
            "layers": max(1, shape["layers"] // 2),
            "heads": max(1, shape["heads"] // 2),
            "width": shape["width"] // 2,
        }
    if "heads" in shape:
        shape |= heads_and_width(model, shape)
    context = context_for(tokens, size)
    if (layers := defaults(kind).layers) is not None:  # of the width at which it has as many parameters as `modern`
        reference = {"kind": "modern", "vocabulary": vocabulary, "context": context, **shape}
        section = {"layers": layers, "context": context, **model, "kind": kind, "vocabulary": vocabulary}
        width = model.get("width") or matched_width(section, parameters(reference)) or shape["width"]
        shape = {"layers": section["layers"], "width": width}
    open_keys = {field.name for field in dataclasses.fields(LANGUAGE_MODELS[kind])} - model.keys()
    chosen = {key: value for key, value in {**shape, "context": context}.items() if key in open_keys}
    if (tokens < TINY_TEXT or dropout) and "dropout" in open_keys | model.keys():
        chosen["dropout"] = model.get("dropout", 0.2 if tokens < TINY_TEXT else dropout)
    return {**model, "kind": kind, "vocabulary": vocabulary, **chosen}


def heads_and_width(model: Section, shape: dict[str, int]) -> dict[str, int]:
    """A number of heads for the width that the user set, or a width for the heads: each head has an even width."""
    if "width" in model and "heads" not in model and isinstance(width := model["width"], int):
        return {"heads": next((heads for heads in range(shape["heads"], 1, -1) if width % (2 * heads) == 0), 1)}
    if "heads" in model and "width" not in model and isinstance(heads := model["heads"], int) and heads > 0:
        return {"width": -(-shape["width"] // (2 * heads)) * 2 * heads}
    return {}


def context_for(tokens: int, size: SizePreset = DEFAULT_SIZE) -> int:
    return min(32 if tokens < TINY_TEXT else size.context, max(16, tokens // 4))


def language_model_training(
    training: TrainingDraft, model: Section, tokens: int, size: SizePreset = DEFAULT_SIZE, threads: int = 0
) -> TrainingDraft:
    """The training section with everything chosen but the number of steps."""
    # a tiny text is memorised within a few steps at the usual rates, and then no probability is realistic
    training = with_optimizer(training, defaults(model["kind"]), rate_divisor=4 if tokens < TINY_TEXT else 1)
    patience = 8 if tokens < TINY_TEXT else 4  # evaluations; on tiny texts they are noisy
    context: int = model["context"]
    batch = training.batch or whole_batch(
        max(4, min(64, size.tokens // context, tokens // context // 8)), training.accumulate
    )
    values = batch * context * model["width"]
    return on_machine(
        replace(training, batch=batch, patience=patience if training.patience is None else training.patience),
        1 if values < MIN_THREADED_VALUES else threads,
    )


def with_optimizer(training: TrainingDraft, model: ModelDefaults, rate_divisor: int = 1) -> TrainingDraft:
    """The training section with the optimizer and its settings for a kind of model."""
    name: OptimizerName = training.optimizer or model.optimizer
    optimizer = model.optimizers.get(name, model.optimizers[model.optimizer])
    matrix_rate = optimizer.matrix_learning_rate
    return replace(
        training,
        optimizer=name,
        learning_rate=training.learning_rate or optimizer.learning_rate / rate_divisor,
        matrix_learning_rate=training.matrix_learning_rate
        or (None if matrix_rate is None else matrix_rate / rate_divisor),
        betas=optimizer.betas if training.betas is None else training.betas,
        momentum=optimizer.momentum if training.momentum is None else training.momentum,
    )


def on_machine(training: TrainingDraft, threads: int = 0) -> TrainingDraft:
    """The training section with this machine's device, number format and threads.

    An open learning rate of matrices becomes that of all other parameters.
    """
    device, dtype = device_and_dtype(training)
    return replace(
        training,
        device=device,
        dtype=dtype,
        threads=training.threads or threads or devices.choose_threads(),
        matrix_learning_rate=training.matrix_learning_rate or training.learning_rate,
    )


def device_and_dtype(training: TrainingDraft) -> tuple[str, str]:
    device = devices.choose_device(training.device or "auto")
    return device, devices.choose_dtype(training.dtype or "auto", device)


def whole_batch(size: int, accumulate: int) -> int:
    """The size, rounded down to a multiple of the parts in which a batch is computed."""
    return max(1, size // accumulate) * accumulate


def useful_epochs(tokens: int) -> float:
    """After how many epochs a small model learns nothing more from a text: the shorter the text, the more."""
    return 100.0 if tokens < TINY_TEXT else 60.0 if tokens < SMALL_TEXT else 30.0


def useful_steps(draft: Draft, tokens: int, epochs: float) -> int:
    """The number of steps in this many epochs."""
    assert draft.training.batch is not None
    samples = max(1, tokens // draft.model["context"])
    return max(1, int(epochs * samples) // draft.training.batch)


def evaluated_tokens(run_tokens: int) -> int:
    """How many tokens an evaluation scores, by the number of tokens that the run trains on."""
    return max(4096, min(65_536, int(EVALUATED_SHARE * run_tokens)))


def with_steps(training: TrainingDraft, steps: int, max_warmup: int, every: int) -> TrainingDraft:
    """The training section with this number of steps: a tenth of them, or `max_warmup`, are warm-up, and evaluations
    and checkpoints come every `every` steps."""
    return replace(
        training,
        steps=steps,
        warmup=min(steps // 10, max_warmup) if training.warmup is None else training.warmup,
        evaluate_every=training.evaluate_every or every,
        checkpoint_every=training.checkpoint_every or every,
    )


def language_model_steps(draft: Draft, tokens: int, steps: int, *, timed: bool = False) -> Draft:
    """The draft with the number of steps and everything that follows from it."""
    training = draft.training
    assert training.batch is not None
    steps = training.steps or max(1, min(steps, useful_steps(draft, tokens, useful_epochs(tokens))))
    step_tokens = training.batch * draft.model["context"]
    evaluated = evaluated_tokens(steps * step_tokens)
    every = max(1, steps // EVALUATIONS)
    if timed:  # keep evaluations within their share of the time
        every = max(every, math.ceil(FORWARD_SHARE * evaluated / (EVALUATION_SHARE * step_tokens)))
    final = FINAL_TOKENS_TIMED if timed else FINAL_TOKENS
    return replace(
        draft,
        training=with_steps(training, steps, 20, training.evaluate_every or every),
        task={"evaluation_tokens": evaluated, "final_evaluation_tokens": final, **draft.task},
    )


def final_tokens(recipe: Recipe) -> int:
    """How many tokens the final evaluation scores: the recipe's number, or a tenth of the run's tokens if more."""
    training, least = recipe.training, getattr(recipe.task, "final_evaluation_tokens", None) or FINAL_TOKENS
    return max(least, training.length * training.batch * recipe.model.context // 10)
