"""Whether a run can fit into memory at all: counted before anything is built, so that the answer is a sentence."""

from __future__ import annotations

from qkv.blocks.initialization import outline
from qkv.errors import InputError
from qkv.models.language_model import count
from qkv.recipe.recipe import Recipe
from qkv.training import devices

BYTES = 4  # of an f32 number
COPIES = 4  # of every weight: itself, its gradient, and two of the optimizer's


def needed_bytes(recipe: Recipe) -> tuple[int, int]:
    """What weights and optimizer take, and what the values of one part of a batch take at least."""
    model, training = recipe.model, recipe.training
    with outline():
        parameters = count(recipe.model.build())
    rows = training.batch // training.accumulate
    # each layer keeps some ten vectors of its width a token for the way back; the head keeps the logits twice
    tokens = rows * model.context
    return COPIES * BYTES * parameters, BYTES * tokens * (10 * model.layers * model.width + 2 * model.vocabulary)


def require_room(recipe: Recipe) -> None:
    """Refuse what cannot fit, and say what would."""
    there = devices.memory_bytes(recipe.training.device)
    weights, values = needed_bytes(recipe)
    if there is None or weights + values <= there:
        return
    model, training = recipe.model, recipe.training
    if weights > there:
        remedy = "Make the model smaller: --set model.layers=... or --set model.width=..."
    else:
        rows = max(1, int((there - weights) / values * training.batch / training.accumulate))
        parts = training.parts(-(-training.batch // rows))
        remedy = f"Compute a batch in parts: --set training.accumulate={parts}, or make model.context smaller."
    raise InputError(
        f"{model.kind} with {model.layers} layers of {model.width} and a batch of {training.batch} x {model.context} "
        f"needs at least {(weights + values) / 2**30:.1f} GiB; this machine gives {there / 2**30:.1f}. {remedy}"
    )
