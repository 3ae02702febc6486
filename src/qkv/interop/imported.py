"""What a reader of another project's format gives: a config of ours, its tensors under our names, and a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from qkv.blocks.initialization import no_start, outline
from qkv.errors import InputError, RefusedError
from qkv.interop.tensor_files import TensorFiles
from qkv.text.tokenizer import Tokenizer

LARGEST_TABLE = 2**25  # places x width, of rotary positions and waves: they are computed, not read


@dataclass(frozen=True)
class Imported:
    config: Any  # of one of our models, with build()
    weights: Mapping[str, Tensor]  # f32; exactly the names and shapes of the built model
    tokenizer: Tokenizer
    name: str  # of the model, as its files say it
    notes: tuple[str, ...] = ()  # what was left out or decided, in words
    target: Tokenizer | None = None  # what cuts a translator's targets, where that is another


Weights = Mapping[str, Tensor]


def fitted(found: Imported, take: Callable[[Weights], Weights], files: TensorFiles, where: str) -> Imported:
    """With what `take` makes of the files' tensors, once config, tokenizer and every shape are known to fit together.

    No number is read before that: a file of a few bytes may speak of a terabyte.
    """
    config = getattr(found.config, "encoder", found.config)
    if found.tokenizer.vocabulary > config.vocabulary:
        raise RefusedError(
            f"{where}: the tokenizer has {found.tokenizer.vocabulary:,} tokens, the model {config.vocabulary:,}. The "
            "files belong to different models."
        )
    waves = getattr(config, "positions", None) == "sinusoidal"  # they are as wide as the model
    width = config.width if waves else getattr(config, "head_width", 0) or config.width // max(1, config.heads)
    layers = config.layers + getattr(config, "decoder_layers", 0)
    if layers > len(files) or config.context * width > LARGEST_TABLE:
        raise RefusedError(
            f"{where}: {layers:,} layers, a context of {config.context:,}: more than the {len(files):,} tensors "
            "and the memory of any machine allow."
        )
    try:
        shapes = take(files.shapes())
        with outline():
            own = found.config.build().state_dict()
    except (InputError, ValueError, RuntimeError) as error:
        raise RefusedError(f"{where}: {error}") from None
    for name in [*own, *shapes]:
        if name not in shapes or name not in own or shapes[name].shape != own[name].shape:
            there, needed = (tuple(each[name].shape) if name in each else None for each in (shapes, own))
            raise RefusedError(f"{where}: tensor {name} is {there}, the model needs {needed}. The files do not fit.")
    return replace(found, weights=dict(take(files)))


def filled(config: Any, weights: Mapping[str, Tensor], device: str) -> nn.Module:
    """The model of a config around these tensors, which may lie in a mapped file: they are used as they are."""
    with no_start():  # memory that is never written is never taken
        model: nn.Module = config.build()
    model.load_state_dict(dict(weights), strict=True, assign=True)
    return model.to(device).eval().requires_grad_(True)
