"""The model that a run starts from: trained here or elsewhere, as a whole or as the encoder of another.

language model   -> a language model with the same text around it, or the encoder of a classifier or tagger
bert, masked     -> the encoder of a classifier or tagger, or a masked model again
classifier       -> its encoder; its head too, where the labels are the same

Equal numbers of parameters: the width at which a model is as large as another (deck 000's skeptical aside).
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from torch import Tensor, nn

from qkv.blocks import low_rank
from qkv.blocks.initialization import outline
from qkv.config import toml_values
from qkv.errors import ConfigError, InputError
from qkv.models.language_model import count
from qkv.models.registry import LANGUAGE_MODELS, TRANSLATORS, ModelConfig
from qkv.recipe import bundle
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import NewSection, Section, parse_model
from qkv.training.optimizers import TABLES
from qkv.training.settings import TrainingConfig


def opened(name: str) -> Bundle:
    """The model, read once for the several times that a run asks."""
    found = _opened(bundle.find(name).resolve())
    if found.config.kind in TRANSLATORS:
        raise InputError(
            f"{name}: a translator, which cannot go on learning. Train one on all pairs together: qkv train train.en "
            "train.de; or give a language model, BERT, a classifier or a tagger."
        )
    return found


@lru_cache(maxsize=1)
def _opened(place: Path) -> Bundle:
    return bundle.load(place)


def rate_of_recurrences(part: bool) -> float:
    """They learn at higher rates than Transformers, and a part of them at higher ones still.

    An LSTM of width 128, taught Shakespeare, on 2,000 rows of AG News: 69 % at 0.004, 33 % at 0.0005; with LoRA of
    rank 8 66 % at 0.015, 35 % at 0.001. On other text 2.8 bits a byte with LoRA at 0.01, 4.6 at 0.0005.
    """
    return 1e-2 if part else 4e-3


def encoder_config(source: Bundle) -> ModelConfig:
    """What to build a classifier or a tagger around."""
    return getattr(source.config, "encoder", source.config)


def encoder_weights(source: Bundle) -> dict[str, Tensor]:
    """The encoder's tensors under its own names."""
    assert isinstance(source.model, nn.Module)
    tensors = source.model.state_dict()
    if hasattr(source.config, "encoder"):
        return {name.removeprefix("encoder."): each for name, each in tensors.items() if name.startswith("encoder.")}
    if source.config.kind in LANGUAGE_MODELS:
        return {name: each for name, each in tensors.items() if not name.startswith("head.")}
    return tensors


def section(source: Bundle, dropout: float) -> NewSection:
    """The encoder's section of a recipe."""
    values = toml_values(encoder_config(source))
    return {**values, "dropout": dropout} if "dropout" in values else values


def whole(name: str, given: Section) -> Section:
    """The model section of a language model that goes on learning: its own sizes."""
    config = opened(name).config
    if config.kind not in LANGUAGE_MODELS:
        raise InputError(
            f"{name}: a {config.kind} model reads texts and cannot go on learning to write them. Give labelled "
            "examples (a table, CoNLL), or a language model."
        )
    unknown = [key for key in given if key not in ("kind", "dropout")]
    if unknown:
        raise InputError(f"model.{unknown[0]}: sizes are those of the model it starts from; leave it out.")
    return toml_values(replace(config, dropout=given["dropout"]) if "dropout" in given else config)


def start_from(model: nn.Module, config: ModelConfig, training: TrainingConfig) -> None:
    """Give the model what the one it starts from has learned, then freeze or narrow what shall not move."""
    source = opened(training.start)
    theirs = source.config
    if config.kind == theirs.kind and not hasattr(config, "encoder"):
        assert isinstance(source.model, nn.Module)
        _copy(model, source.model.state_dict(), training.start)
        _narrow(model, model, training)
        return
    encoder = model.get_submodule("encoder")
    _copy(encoder, encoder_weights(source), training.start)
    if theirs.kind == config.kind and getattr(theirs, "labels", ()) == getattr(config, "labels", ()):
        assert isinstance(source.model, nn.Module)
        own = model.state_dict()
        same = {k: v for k, v in source.model.state_dict().items() if k in own and own[k].shape == v.shape}
        model.load_state_dict(same, strict=False)
    _narrow(model, encoder, training)


def _copy(model: nn.Module, tensors: dict[str, Tensor], name: str) -> None:
    """All of the tensors that the model has a place for; of its own only poolers and heads may be new."""
    own = model.state_dict()
    fitting = {key: value for key, value in tensors.items() if key in own}
    missing = [key for key in own if key not in fitting and not key.startswith(("pooler.", "head.", "order."))]
    wrong = [key for key, value in fitting.items() if own[key].shape != value.shape]
    if missing or wrong:
        raise InputError(f"{name}: {(missing + wrong)[0]} does not fit the model that was to start from it.")
    model.load_state_dict({key: value.clone() for key, value in fitting.items()}, strict=False)


def _narrow(model: nn.Module, learned: nn.Module, training: TrainingConfig) -> None:
    if training.lora:
        if not low_rank.adapt(learned, training.lora, besides=("pooler",)):
            raise InputError("--lora: this model has no linear or recurrent layers to adapt. Leave it out.")
    elif training.frozen == "encoder":
        learned.requires_grad_(False)
    elif training.frozen == "embeddings":
        for name, parameter in learned.named_parameters():
            parameter.requires_grad_(TABLES.isdisjoint(name.split(".")))
    pooler = getattr(learned, "pooler", None)
    if isinstance(pooler, nn.Module):  # it belongs to the decision
        for parameter in pooler.parameters():
            parameter.requires_grad_(True)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("--freeze: nothing would be left that learns. It is for a table with labels; leave it out.")


def plainly(model: nn.Module, config: ModelConfig, training: TrainingConfig) -> nn.Module:
    """The model as it is kept: with what LoRA learned inside the weights."""
    if not training.lora:
        return model
    made: nn.Module = config.build()
    made.load_state_dict(low_rank.merged(model))
    return made


CLOSE = 0.02  # of the wanted number; round widths come first, for processors like them


def parameters(model: NewSection) -> int:
    """How many a model section asks for; nothing is allocated."""
    with outline():
        return count(parse_model(model, "the recipe").build())


def matched_width(model: NewSection, wanted: int) -> int | None:
    """The width that gives about the wanted number; None for a section that cannot be built."""

    @functools.cache
    def off(width: int) -> float:
        return parameters({**model, "width": width}) / wanted - 1

    try:
        low, high = 1, math.isqrt(wanted) + 2  # every model has a matrix of its width squared
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if off(middle) < 0 else (low, middle)
        for step in (16, 8, 4, 2, 1):
            width = min((max(step, low // step * step), max(step, -(-high // step) * step)), key=lambda w: abs(off(w)))
            if abs(off(width)) < CLOSE:
                break
    except ConfigError:
        return None
    return width
