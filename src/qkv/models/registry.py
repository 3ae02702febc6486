"""The list of all models. To add one, write its file in this folder and add its line below.

A line is the kind, as recipes name it, and "file:config". A file is imported when one of its kinds is asked for;
messages and test suites follow from the list.
"""

from __future__ import annotations

from dataclasses import Field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from qkv.config import LazyClasses
from qkv.models.defaults import ModelDefaults, adamw, muon

if TYPE_CHECKING:
    from torch import nn


@runtime_checkable
class ModelConfig(Protocol):
    """What every config of a model has: a frozen dataclass whose `build` gives the model."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def kind(self) -> str: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def context(self) -> int: ...
    def build(self) -> nn.Module: ...
    def __hash__(self) -> int: ...


def presets(kinds: LazyClasses) -> dict[str, ModelConfig]:
    """The sizes that have names, as the files of these kinds list them in `PRESETS`."""
    return {name: config for kind in kinds for name, config in getattr(kinds.module(kind), "PRESETS", {}).items()}


def preset(kinds: LazyClasses, name: str) -> ModelConfig | None:
    """The sizes of this name, which begins with their kind: bert-tiny."""
    begins = {kind: place for kind, place in kinds.sources.items() if name.startswith(kind)}
    return presets(_models(begins)).get(name)


_models = partial(LazyClasses, "qkv.models")
LANGUAGE_MODELS = _models(  # without their heads they are encoders of texts, too
    {
        "modern": "modern:ModernConfig",
        "gpt": "gpt:GPTConfig",
        "llama": "llama:LlamaConfig",
        "qwen2": "llama:LlamaConfig",
        "rnn": "rnn:RecurrentConfig",
        "gru": "rnn:RecurrentConfig",
        "lstm": "rnn:RecurrentConfig",
        "mlp": "mlp:MLPConfig",
        "cnn": "cnn:CNNConfig",
        "modern-fast": "modern_fast:ModernFastConfig",
    }
)
TEXT_ENCODERS = _models(
    {
        "linear": "linear:LinearConfig",
        "linear-words": "linear_words:LinearWordsConfig",
        "bag": "bag_of_ngrams:BagConfig",
        "text-cnn": "text_cnn:TextCNNConfig",
        "recurrent-encoder": "recurrent_encoder:RecurrentEncoderConfig",
        "encoder": "encoder:EncoderConfig",
        "bert": "bert:BertConfig",
    }
)
CLASSIFIERS = {  # the names that --model takes for labelled texts, and the encoder of each
    "linear": "linear",
    "bag": "bag",
    "mlp": "bag",
    "cnn": "text-cnn",
    **dict.fromkeys(("rnn", "gru", "lstm"), "recurrent-encoder"),
    **{kind: kind for kind in ("encoder", "bert", "modern", "gpt")},
}
TAGGERS = {**dict.fromkeys(("rnn", "gru", "lstm"), "recurrent-encoder"), "linear": "linear-words"}
IMAGE_ENCODERS = _models({"picture-cnn": "image_cnn:PictureCNNConfig", "patches": "vision:PatchesConfig"})
IMAGE_CLASSIFIERS = {"cnn": "picture-cnn", "vision": "patches"}
TABLE_MODELS = _models({"linear-table": "table:LinearTableConfig", "mlp-table": "table:MLPTableConfig"})
TRANSLATORS = _models(
    {"transformer": "transformer:TransformerConfig", "rnn-translator": "rnn_translator:RNNTranslatorConfig"}
)
MASKED_MODELS = _models({"masked": "masked:MaskedConfig"})
LABELLED_MODELS = _models({"classifier": "classifier:ClassifierConfig", "tagger": "tagger:TaggerConfig"}) | TABLE_MODELS
READING_MODELS = _models({"bert": "bert:BertConfig"}) | MASKED_MODELS | LABELLED_MODELS  # they write no text
MODELS = LANGUAGE_MODELS | READING_MODELS | TRANSLATORS


def defaults(kind: str) -> ModelDefaults:
    """What a kind of model is trained with where a recipe leaves it open."""
    known: dict[str, ModelDefaults] = getattr(MODELS[kind], "defaults", {})  # a model from outside may have none
    return known.get(kind) or ModelDefaults({"adamw": adamw(0.004), "muon": muon((0.9, 0.95))})


def is_recurrent(kind: str) -> bool:
    """Whether a language model or an encoder is a recurrence, as its config says."""
    return getattr((TEXT_ENCODERS | LANGUAGE_MODELS).get(kind), "recurrent", False)


def input_of(config: ModelConfig) -> Literal["text", "images", "numbers"]:
    """What a model reads."""
    if config.kind in TABLE_MODELS:
        return "numbers"
    return "images" if getattr(config, "encoder", config).kind in IMAGE_ENCODERS else "text"
