"""BERT: models/bert.py and what is built on it, and Hugging Face's `BertModel` and its heads.

Tensor for tensor the same, only the names differ. The last layer over the pieces is the embedding, in both: it is saved
once. Published files are older than today's names; `tidy` says which tensor of a file is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qkv.errors import ConfigError
from qkv.interop.architectures import BERT, inside, read_labels, twin, write_labels
from qkv.interop.tensor_names import Row, Table, require, sizes
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig, TaggerConfig
from qkv.models.masked import MaskedConfig

MODEL_TYPES = ("bert",)
Config = BertConfig | MaskedConfig | ClassifierConfig | TaggerConfig

LAYER = "encoder.layer.{i}."
ENCODER = (
    Row("embedding.weight", "embeddings.word_embeddings.weight"),
    Row("positions.table.weight", "embeddings.position_embeddings.weight"),
    Row("segments.table.weight", "embeddings.token_type_embeddings.weight"),
    Row("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    Row("embedding_norm.bias", "embeddings.LayerNorm.bias"),
    Row("blocks.{i}.attention.sublayer.query.weight", LAYER + "attention.self.query.weight"),
    Row("blocks.{i}.attention.sublayer.query.bias", LAYER + "attention.self.query.bias"),
    Row("blocks.{i}.attention.sublayer.key.weight", LAYER + "attention.self.key.weight"),
    Row("blocks.{i}.attention.sublayer.key.bias", LAYER + "attention.self.key.bias"),
    Row("blocks.{i}.attention.sublayer.value.weight", LAYER + "attention.self.value.weight"),
    Row("blocks.{i}.attention.sublayer.value.bias", LAYER + "attention.self.value.bias"),
    Row("blocks.{i}.attention.sublayer.output.weight", LAYER + "attention.output.dense.weight"),
    Row("blocks.{i}.attention.sublayer.output.bias", LAYER + "attention.output.dense.bias"),
    Row("blocks.{i}.attention.norm.weight", LAYER + "attention.output.LayerNorm.weight"),
    Row("blocks.{i}.attention.norm.bias", LAYER + "attention.output.LayerNorm.bias"),
    Row("blocks.{i}.feedforward.sublayer.inner.weight", LAYER + "intermediate.dense.weight"),
    Row("blocks.{i}.feedforward.sublayer.inner.bias", LAYER + "intermediate.dense.bias"),
    Row("blocks.{i}.feedforward.sublayer.outer.weight", LAYER + "output.dense.weight"),
    Row("blocks.{i}.feedforward.sublayer.outer.bias", LAYER + "output.dense.bias"),
    Row("blocks.{i}.feedforward.norm.weight", LAYER + "output.LayerNorm.weight"),
    Row("blocks.{i}.feedforward.norm.bias", LAYER + "output.LayerNorm.bias"),
)
POOLER = (
    Row("pooler.dense.weight", "pooler.dense.weight"),
    Row("pooler.dense.bias", "pooler.dense.bias"),
)
MASKED = (
    Row("head.dense.weight", "cls.predictions.transform.dense.weight"),
    Row("head.dense.bias", "cls.predictions.transform.dense.bias"),
    Row("head.norm.weight", "cls.predictions.transform.LayerNorm.weight"),
    Row("head.norm.bias", "cls.predictions.transform.LayerNorm.bias"),
    Row("head.bias", "cls.predictions.bias"),
)
ORDER = (
    Row("order.weight", "cls.seq_relationship.weight"),
    Row("order.bias", "cls.seq_relationship.bias"),
)
LINEAR = (
    Row("head.weight", "classifier.weight"),
    Row("head.bias", "classifier.bias"),
)

SIZES = {
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "context": "max_position_embeddings",
    "segments": "type_vocab_size",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",  # theirs has another for the weights of attention; ours has one for both
}
# What old config files leave out.
USUAL = {"max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1}

# What our figure has and theirs may depart from.
FIXED = {
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def table(config: Config) -> Table:
    if isinstance(config, BertConfig):
        return (*ENCODER, *(POOLER if config.pooler == "first" else ()))
    parts = (*ENCODER, *(POOLER if inside(config).pooler == "first" else ()))
    encoder = tuple(Row(f"encoder.{row.ours}", f"bert.{row.theirs}") for row in parts)
    if isinstance(config, MaskedConfig):
        return (*encoder, *MASKED, *(ORDER if config.next_sentence == "linear" else ()))
    return (*encoder, *LINEAR)


def tidy(config: Config, names: Iterable[str]) -> dict[str, str]:
    """Which tensors of a published file are taken, and their names in the table; what is left out has no place here.

    Left out: counted positions, the tied table's second name, and what other heads than this model's have left behind
    (bert-base-uncased holds a pooler and a next-sentence head that its `BertForMaskedLM` does not have).
    """
    there = list(names)
    prefixed = any(name.startswith("bert.") for name in there)
    bare = isinstance(config, BertConfig)
    left = ["cls.", "classifier."] if bare and prefixed else ["cls.predictions.decoder."]
    if isinstance(config, MaskedConfig) and config.next_sentence == "none":
        left += ["cls.seq_relationship."]
    if inside(config).pooler == "none":
        left += ["bert.pooler.", "pooler."]
    if isinstance(config, ClassifierConfig | TaggerConfig):
        left += ["cls."]
    kept = {}
    for name in there:
        if name.endswith("embeddings.position_ids") or name.startswith(tuple(left)):
            continue
        new = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        if bare:
            new = new.removeprefix("bert.")
        elif not prefixed and new.startswith(("embeddings.", "encoder.", "pooler.")):
            new = f"bert.{new}"
        kept[name] = new
    if isinstance(config, MaskedConfig) and "cls.predictions.bias" not in kept:
        kept |= {name: "cls.predictions.bias" for name in there if name == "cls.predictions.decoder.bias"}
    return kept


def export_config(config: Config) -> dict[str, Any]:
    """The values of a `BertConfig` of theirs, as config.json holds them."""
    encoder = inside(config)
    if not encoder.segments:
        raise ConfigError("segments = 0 has no twin in BERT; DistilBERT is the one without segments.")
    numbers = {theirs: getattr(encoder, ours) for ours, theirs in SIZES.items()}
    numbers["intermediate_size"] = encoder.hidden or 4 * encoder.width
    named = {"model_type": "bert", "architectures": [twin(config, BERT)], "dtype": "float32"}
    dropout = {"attention_probs_dropout_prob": encoder.dropout}
    if isinstance(config, ClassifierConfig | TaggerConfig):
        dropout["classifier_dropout"] = config.dropout
    return {**named, **numbers, **dropout, **write_labels(config), **FIXED}


def import_config(values: Mapping[str, Any]) -> Config:
    """The values of a `BertConfig` of theirs as ours; what our figures do not have is refused."""
    require(values, FIXED | {"model_type": "bert"}, "BERT")
    encoder = sizes(USUAL | {key: value for key, value in values.items() if value is not None}, SIZES)
    dropout = values.get("classifier_dropout")
    dropout = encoder["dropout"] if dropout is None else dropout
    return read_labels(values, BERT, encoder, dropout)
