"""The trained model that a finetuning run starts from (`training.start`), and what the new model takes from it.

language model      it is trained further on another text, or becomes the encoder of a classifier or a tagger
bert, masked        it becomes the encoder of a classifier or a tagger
classifier, tagger  the new model takes its encoder; its head, too, if the labels are the same

`matched_width` finds the width at which a model has as many parameters as another (deck 000).
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
from qkv.recipe.recipe import MutableSection, Section, parse_model
from qkv.training.optimizers import EMBEDDING_NAMES
from qkv.training.settings import TrainingConfig


def open_start(name: str) -> Bundle:
    """Open the model that the run starts from. It is read once, though a run needs it several times."""
    start = _load_cached(bundle.find(name).resolve())
    if start.config.kind in TRANSLATORS:
        raise InputError(
            f"{name}: a translator, which cannot be trained further. Train one on all pairs together: qkv train "
            "train.en train.de; or give a language model, BERT, a classifier or a tagger."
        )
    return start


@lru_cache(maxsize=1)
def _load_cached(path: Path) -> Bundle:
    return bundle.load(path)


def recurrent_finetune_rate(partial: bool) -> float:
    """The learning rate of a recurrent model, which is higher than a Transformer's; `partial`: only a part is trained.

    Measured with an LSTM of width 128, trained on Shakespeare. Accuracy on 2,000 rows of AG News: 69 % at 0.004, 33 %
    at 0.0005; with LoRA of rank 8, 66 % at 0.015, 35 % at 0.001. Bits per byte on other text with LoRA: 2.8 at 0.01,
    4.6 at 0.0005.
    """
    return 1e-2 if partial else 4e-3


def encoder_config(source: Bundle) -> ModelConfig:
    """The config of the encoder inside a model, or of the model itself if it is one."""
    return getattr(source.config, "encoder", source.config)


def encoder_weights(source: Bundle) -> dict[str, Tensor]:
    """The encoder's tensors by their names inside the encoder."""
    assert isinstance(source.model, nn.Module)
    tensors = source.model.state_dict()
    if hasattr(source.config, "encoder"):
        prefix = "encoder."
        return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    if source.config.kind in LANGUAGE_MODELS:
        return {name: tensor for name, tensor in tensors.items() if not name.startswith("head.")}
    return tensors


def encoder_section(source: Bundle, dropout: float) -> MutableSection:
    """The section [model.encoder] of a recipe for the source's encoder."""
    values = toml_values(encoder_config(source))
    return {**values, "dropout": dropout} if "dropout" in values else values


def continued_section(name: str, given: Section) -> Section:
    """The section [model] of a language model that is trained further: the sizes that it has."""
    config = open_start(name).config
    if config.kind not in LANGUAGE_MODELS:
        raise InputError(
            f"{name}: a {config.kind} model reads texts and cannot be trained further to write them. Give labelled "
            "examples (a table, CoNLL), or a language model."
        )
    unknown = [key for key in given if key not in ("kind", "dropout")]
    if unknown:
        raise InputError(f"model.{unknown[0]}: sizes are those of the model it starts from; leave it out.")
    return toml_values(replace(config, dropout=given["dropout"]) if "dropout" in given else config)


def start_from(model: nn.Module, config: ModelConfig, training: TrainingConfig) -> None:
    """Copy the weights of the start model into a new one, then apply LoRA or freeze parameters."""
    source = open_start(training.start)
    source_config = source.config
    assert isinstance(source.model, nn.Module)
    if config.kind == source_config.kind and not hasattr(config, "encoder"):
        _copy_weights(model, source.model.state_dict(), training.start)
        _choose_learning_parameters(model, model, training)
        return
    encoder = model.get_submodule("encoder")
    _copy_weights(encoder, encoder_weights(source), training.start)
    if source_config.kind == config.kind and getattr(source_config, "labels", ()) == getattr(config, "labels", ()):
        own = model.state_dict()
        same = {k: v for k, v in source.model.state_dict().items() if k in own and own[k].shape == v.shape}
        model.load_state_dict(same, strict=False)
    _choose_learning_parameters(model, encoder, training)


def _copy_weights(model: nn.Module, tensors: dict[str, Tensor], start: str) -> None:
    """Copy the tensors that the model has; only its poolers and heads may be missing among them."""
    own = model.state_dict()
    shared = {key: value for key, value in tensors.items() if key in own}
    missing = [key for key in own if key not in shared and not key.startswith(("pooler.", "head.", "order."))]
    wrong = [key for key, value in shared.items() if own[key].shape != value.shape]
    if missing or wrong:
        raise InputError(f"{start}: {(missing + wrong)[0]} does not fit the model that should start from it.")
    model.load_state_dict({key: value.clone() for key, value in shared.items()}, strict=False)


def _choose_learning_parameters(model: nn.Module, pretrained: nn.Module, training: TrainingConfig) -> None:
    """Apply `training.lora` or `training.frozen` to the pretrained part of the model."""
    if training.lora:
        if not low_rank.add_adapters(pretrained, training.lora, exclude=("pooler",)):
            raise InputError("--lora: this model has no linear or recurrent layers to adapt. Leave it out.")
    elif training.frozen == "encoder":
        pretrained.requires_grad_(False)
    elif training.frozen == "embeddings":
        for name, parameter in pretrained.named_parameters():
            parameter.requires_grad_(EMBEDDING_NAMES.isdisjoint(name.split(".")))
    pooler = getattr(pretrained, "pooler", None)
    if isinstance(pooler, nn.Module):  # part of the classifier, though it lies in the encoder
        for parameter in pooler.parameters():
            parameter.requires_grad_(True)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise InputError("--freeze: no parameter would be left to train. It is for labelled examples; leave it out.")


def merged_model(model: nn.Module, config: ModelConfig, training: TrainingConfig) -> nn.Module:
    """The model in the form in which it is saved: the matrices of LoRA are merged into the weights."""
    if not training.lora:
        return model
    merged: nn.Module = config.build()
    merged.load_state_dict(low_rank.merged(model))
    return merged


MAX_DEVIATION = 0.02  # from the wanted number of parameters, for a width that is a multiple of 16, 8, 4 or 2


def parameters(model: MutableSection) -> int:
    """The number of parameters of the model that a section describes; no memory is allocated for them."""
    with outline():
        return count(parse_model(model, "the recipe").build())


def matched_width(model: MutableSection, wanted: int) -> int | None:
    """The width with about the wanted number of parameters; None if the section describes no possible model.

    Multiples of 16 and other round widths are preferred, because processors compute them faster.
    """

    @functools.cache
    def deviation(width: int) -> float:
        return parameters({**model, "width": width}) / wanted - 1

    try:
        low, high = 1, math.isqrt(wanted) + 2  # every model has a matrix of width x width
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if deviation(middle) < 0 else (low, middle)
        for step in (16, 8, 4, 2, 1):
            candidates = max(step, low // step * step), max(step, -(-high // step) * step)
            width = min(candidates, key=lambda width: abs(deviation(width)))
            if abs(deviation(width)) < MAX_DEVIATION:
                break
    except ConfigError:
        return None
    return width
