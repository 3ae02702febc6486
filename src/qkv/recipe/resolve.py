"""The rules that close a draft: sizes from the amount of text, rates from the model, the rest from the machine.

Every rule is a pure function, and what the user set is never touched. Decision 0004 says where the figures come from.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace

from qkv.models.defaults import ModelDefaults, OptimizerName
from qkv.models.registry import LANGUAGE_MODELS, defaults, is_recurrent
from qkv.recipe.draft import Draft, TrainingDraft
from qkv.recipe.origin import matched_width, parameters
from qkv.recipe.recipe import NewSection, Recipe, Section
from qkv.recipe.time_budget import DEFAULT_SIZE, SizePreset
from qkv.training import devices
from qkv.training.clock import EVALUATING

TINY = 30_000  # tokens; below it the deck's nano shape has more parameters than the text has to teach
SMALL = 200_000
EVALUATIONS = 10  # in a run
EVALUATED = (
    0.015  # of a run's tokens are in each evaluation: with no backward pass, all ten cost a twentieth of the run
)
LAST, LAST_IN_TIME = 131_072, 32_768  # tokens are in the final evaluation; fewer where minutes count
FORWARD = 1 / 3  # of a step's time: the backward pass takes twice as long as the forward pass
SHARED = 30_000  # values a layer works on; below it threads cost more than they bring


def language_model(
    model: Section, vocabulary: int, tokens: int, size: SizePreset = DEFAULT_SIZE, dropout: float = 0.0
) -> NewSection:
    """The section with size and context for this much text and for the time; dropout for what is seen often."""
    kind = model.get("kind", "modern")
    if is_recurrent(kind):
        shape = {"layers": 1, "width": 64 if tokens < TINY else 256}
    else:
        shape = {"layers": 3, "heads": 3, "width": 48} if tokens < TINY else size.shape
    if kind == "modern-fast":  # the n-grams carry it: half of what `modern` would have
        shape = {
            "layers": max(1, shape["layers"] // 2),
            "heads": max(1, shape["heads"] // 2),
            "width": shape["width"] // 2,
        }
    if "heads" in shape:
        shape |= fitting(model, shape)
    context = context_for(tokens, size)
    if (layers := defaults(kind).layers) is not None:
        reference = {"kind": "modern", "vocabulary": vocabulary, "context": context, **shape}
        own = {"layers": layers, "context": context, **model, "kind": kind, "vocabulary": vocabulary}
        width = model.get("width") or matched_width(own, parameters(reference)) or shape["width"]
        shape = {"layers": own["layers"], "width": width}
    own_keys = {field.name for field in dataclasses.fields(LANGUAGE_MODELS[kind])} - model.keys()
    chosen = {key: value for key, value in {**shape, "context": context}.items() if key in own_keys}
    if (tokens < TINY or dropout) and "dropout" in own_keys | model.keys():
        chosen["dropout"] = model.get("dropout", 0.2 if tokens < TINY else dropout)
    return {**model, "kind": kind, "vocabulary": vocabulary, **chosen}


def fitting(model: Section, shape: dict[str, int]) -> dict[str, int]:
    """Heads for a width that the user set, or a width for given heads: a head has a whole and even width."""
    if "width" in model and "heads" not in model and isinstance(width := model["width"], int):
        heads = [number for number in range(shape["heads"], 1, -1) if width % (2 * number) == 0]
        return {"heads": heads[0] if heads else 1}
    if "heads" in model and "width" not in model and isinstance(heads := model["heads"], int) and heads > 0:
        return {"width": -(-shape["width"] // (2 * heads)) * 2 * heads}
    return {}


def context_for(tokens: int, size: SizePreset = DEFAULT_SIZE) -> int:
    return min(32 if tokens < TINY else size.context, max(16, tokens // 4))


def language_model_training(
    training: TrainingDraft, model: Section, tokens: int, size: SizePreset = DEFAULT_SIZE, threads: int = 0
) -> TrainingDraft:
    """Everything of the training section but the number of steps."""
    # a page is memorised in a moment: go slower, and the table of next words stays honest
    training = with_optimizer(training, defaults(model["kind"]), slower=4 if tokens < TINY else 1)
    patience = 8 if tokens < TINY else 4  # of EVALUATIONS; on a page they are noisy
    context: int = model["context"]
    batch = training.batch or whole_batch(
        max(4, min(64, size.tokens // context, tokens // context // 8)), training.accumulate
    )
    work = batch * context * model["width"]
    return on_machine(
        replace(training, batch=batch, patience=patience if training.patience is None else training.patience),
        1 if work < SHARED else threads,
    )


def with_optimizer(training: TrainingDraft, known: ModelDefaults, slower: int = 1) -> TrainingDraft:
    """The optimizer and its settings that suit a kind of model."""
    name: OptimizerName = training.optimizer or known.optimizer
    rates = known.optimizers.get(name, known.optimizers[known.optimizer])
    matrices = rates.matrix_learning_rate
    return replace(
        training,
        optimizer=name,
        learning_rate=training.learning_rate or rates.learning_rate / slower,
        matrix_learning_rate=training.matrix_learning_rate or (None if matrices is None else matrices / slower),
        betas=rates.betas if training.betas is None else training.betas,
        momentum=rates.momentum if training.momentum is None else training.momentum,
    )


def on_machine(training: TrainingDraft, threads: int = 0) -> TrainingDraft:
    """Device, number format and threads of this machine; matrices have the learning rate of all else by default."""
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
    """The size as a multiple of the parts in which a batch is computed."""
    return max(1, size // accumulate) * accumulate


def useful_epochs(tokens: int) -> float:
    """After how many epochs a small model has nothing more to learn from a text: many for a page, few for a library."""
    return 100.0 if tokens < TINY else 60.0 if tokens < SMALL else 30.0


def useful_steps(draft: Draft, tokens: int, epochs: float) -> int:
    """The number of steps after which more would not help."""
    assert draft.training.batch is not None
    samples = max(1, tokens // draft.model["context"])
    return max(1, int(epochs * samples) // draft.training.batch)


def evaluated_tokens(run: int) -> int:
    """How many tokens an evaluation scores, by the number of tokens that the run trains on."""
    return max(4096, min(65_536, int(EVALUATED * run)))


def with_steps(training: TrainingDraft, steps: int, warmup: int, every: int) -> TrainingDraft:
    """Warm-up is a tenth of all steps, `warmup` at most; evaluations and checkpoints come after `every` steps."""
    return replace(
        training,
        steps=steps,
        warmup=min(steps // 10, warmup) if training.warmup is None else training.warmup,
        evaluate_every=training.evaluate_every or every,
        checkpoint_every=training.checkpoint_every or every,
    )


def language_model_steps(draft: Draft, tokens: int, steps: int, *, timed: bool = False) -> Draft:
    """The number of steps and everything that follows from it."""
    training = draft.training
    assert training.batch is not None
    steps = training.steps or max(1, min(steps, useful_steps(draft, tokens, useful_epochs(tokens))))
    a_step = training.batch * draft.model["context"]
    evaluated = evaluated_tokens(steps * a_step)
    every = max(1, steps // EVALUATIONS)
    if timed:  # a token that is evaluated takes a third of one that is trained on
        every = max(every, math.ceil(FORWARD * evaluated / (EVALUATING * a_step)))
    last = LAST_IN_TIME if timed else LAST
    return replace(
        draft,
        training=with_steps(training, steps, 20, training.evaluate_every or every),
        task={"evaluation_tokens": evaluated, "final_evaluation_tokens": last, **draft.task},
    )


def last_tokens(recipe: Recipe) -> int:
    """How much of the validation text the last evaluation scores: all of it, unless that would take long."""
    training, least = recipe.training, getattr(recipe.task, "final_evaluation_tokens", None) or LAST
    return max(least, training.length * training.batch * recipe.model.context // 10)
