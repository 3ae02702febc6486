"""The list of all kinds of models: their configs, and the defaults and presets that each carries.

A language model or an encoder is added to a union of `encoders.py`, any other model to one below. Recipes, messages and
test suites follow from them.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from qkv.models import gpt
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.defaults import ModelDefaults
from qkv.models.encoders import LanguageConfig
from qkv.models.masked import MaskedConfig
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.models.table import LinearTableConfig, MLPTableConfig
from qkv.models.tagger import TaggerConfig
from qkv.models.transformer import TransformerConfig

TableConfig = LinearTableConfig | MLPTableConfig
LabelledConfig = ClassifierConfig | TaggerConfig | TableConfig
ReadingConfig = BertConfig | MaskedConfig | LabelledConfig
TranslatorConfig = TransformerConfig | RNNTranslatorConfig
ModelConfig = LanguageConfig | ReadingConfig | TranslatorConfig


def by_kind(union: object) -> dict[str, Any]:
    """The configs of a union by the kinds that each is of."""
    return {kind: config for config in get_args(union) for kind in get_args(get_type_hints(config)["kind"])}


LANGUAGE_MODELS = by_kind(LanguageConfig)
READING_MODELS = by_kind(ReadingConfig)  # they read texts, pictures or numbers, and write none
TRANSLATORS = by_kind(TranslatorConfig)
MODELS = LANGUAGE_MODELS | READING_MODELS | TRANSLATORS
LANGUAGE_PRESETS: dict[str, LanguageConfig] = {**gpt.PRESETS}


def defaults(kind: str) -> ModelDefaults:
    """What a kind of model is trained with where a recipe leaves it open."""
    known: dict[str, ModelDefaults] = MODELS[kind].defaults
    return known[kind]
