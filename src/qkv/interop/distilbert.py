"""DistilBERT: models/bert.py without segments and pooler, and Hugging Face's `DistilBertModel` and its heads.

Tensor for tensor the same, only the names differ. The last layer over the pieces is the embedding, in both: it is saved
once. Published files hold a little more; `tidy` says what is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qkv.errors import ConfigError
from qkv.interop.architectures import DISTILBERT, inside, read_labels, twin, write_labels
from qkv.interop.tensor_names import Row, Table, require, sizes
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig, TaggerConfig
from qkv.models.masked import MaskedConfig

MODEL_TYPES = ("distilbert",)
Config = BertConfig | MaskedConfig | ClassifierConfig | TaggerConfig

LAYER = "transformer.layer.{i}."
ENCODER = (
    Row("embedding.weight", "embeddings.word_embeddings.weight"),
    Row("positions.table.weight", "embeddings.position_embeddings.weight"),
    Row("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    Row("embedding_norm.bias", "embeddings.LayerNorm.bias"),
    Row("blocks.{i}.attention.sublayer.query.weight", LAYER + "attention.q_lin.weight"),
    Row("blocks.{i}.attention.sublayer.query.bias", LAYER + "attention.q_lin.bias"),
    Row("blocks.{i}.attention.sublayer.key.weight", LAYER + "attention.k_lin.weight"),
    Row("blocks.{i}.attention.sublayer.key.bias", LAYER + "attention.k_lin.bias"),
    Row("blocks.{i}.attention.sublayer.value.weight", LAYER + "attention.v_lin.weight"),
    Row("blocks.{i}.attention.sublayer.value.bias", LAYER + "attention.v_lin.bias"),
    Row("blocks.{i}.attention.sublayer.output.weight", LAYER + "attention.out_lin.weight"),
    Row("blocks.{i}.attention.sublayer.output.bias", LAYER + "attention.out_lin.bias"),
    Row("blocks.{i}.attention.norm.weight", LAYER + "sa_layer_norm.weight"),
    Row("blocks.{i}.attention.norm.bias", LAYER + "sa_layer_norm.bias"),
    Row("blocks.{i}.feedforward.sublayer.inner.weight", LAYER + "ffn.lin1.weight"),
    Row("blocks.{i}.feedforward.sublayer.inner.bias", LAYER + "ffn.lin1.bias"),
    Row("blocks.{i}.feedforward.sublayer.outer.weight", LAYER + "ffn.lin2.weight"),
    Row("blocks.{i}.feedforward.sublayer.outer.bias", LAYER + "ffn.lin2.bias"),
    Row("blocks.{i}.feedforward.norm.weight", LAYER + "output_layer_norm.weight"),
    Row("blocks.{i}.feedforward.norm.bias", LAYER + "output_layer_norm.bias"),
)
MASKED = (
    Row("head.dense.weight", "vocab_transform.weight"),
    Row("head.dense.bias", "vocab_transform.bias"),
    Row("head.norm.weight", "vocab_layer_norm.weight"),
    Row("head.norm.bias", "vocab_layer_norm.bias"),
    Row("head.bias", "vocab_projector.bias"),
)
TWO_LAYERS = (
    Row("head.inner.weight", "pre_classifier.weight"),
    Row("head.inner.bias", "pre_classifier.bias"),
    Row("head.outer.weight", "classifier.weight"),
    Row("head.outer.bias", "classifier.bias"),
)
LINEAR = (
    Row("head.weight", "classifier.weight"),
    Row("head.bias", "classifier.bias"),
)

SIZES = {
    "vocabulary": "vocab_size",
    "layers": "n_layers",
    "heads": "n_heads",
    "width": "dim",
    "hidden": "hidden_dim",
    "context": "max_position_embeddings",
    "dropout": "dropout",  # theirs has another for the weights of attention; ours has one for both
}
# What old config files leave out.
USUAL = {"max_position_embeddings": 512, "dropout": 0.1}

# What our figure has and theirs may depart from.
FIXED = {"activation": "gelu", "tie_word_embeddings": True}
EPSILON = 1e-12  # theirs is always this


def table(config: Config) -> Table:
    if isinstance(config, BertConfig):
        return ENCODER
    encoder = tuple(Row(f"encoder.{row.ours}", f"distilbert.{row.theirs}") for row in ENCODER)
    if isinstance(config, MaskedConfig):
        return (*encoder, *MASKED)
    return (*encoder, *(TWO_LAYERS if isinstance(config, ClassifierConfig) else LINEAR))


def tidy(config: Config, names: Iterable[str]) -> dict[str, str]:
    """Which tensors of a published file are taken, and their names in the table.

    Left out: counted positions, the tied table's second name, and what other heads than this model's have left behind.
    """
    there = list(names)
    prefixed = any(name.startswith("distilbert.") for name in there)
    bare = isinstance(config, BertConfig)
    left = ["vocab_projector.weight"] if isinstance(config, MaskedConfig) else ["vocab_"]
    if bare and prefixed:
        left += ["pre_classifier.", "classifier."]
    kept = {}
    for name in there:
        if name.endswith("embeddings.position_ids") or name.startswith(tuple(left)):
            continue
        if bare:
            kept[name] = name.removeprefix("distilbert.")
        else:
            inside = not prefixed and name.startswith(("embeddings.", "transformer."))
            kept[name] = f"distilbert.{name}" if inside else name
    return kept


def export_config(config: Config) -> dict[str, Any]:
    """The values of a `DistilBertConfig`, as config.json holds them."""
    encoder = inside(config)
    for name, expected in (("segments", 0), ("pooler", "none"), ("norm_epsilon", EPSILON)):
        if getattr(encoder, name) != expected:
            found = getattr(encoder, name)
            raise ConfigError(f"{name} = {found!r} has no twin in DistilBERT; expected {expected!r}. BERT has one.")
    numbers = {theirs: getattr(encoder, ours) for ours, theirs in SIZES.items()}
    numbers["hidden_dim"] = encoder.hidden or 4 * encoder.width
    named = {"model_type": "distilbert", "architectures": [twin(config, DISTILBERT)], "dtype": "float32"}
    dropout = {"attention_dropout": encoder.dropout}
    if isinstance(config, ClassifierConfig):
        dropout["seq_classif_dropout"] = config.dropout
    elif isinstance(config, TaggerConfig) and config.dropout != encoder.dropout:
        raise ConfigError(f"dropout = {config.dropout} has no twin in DistilBERT; expected the encoder's.")
    return {**named, **numbers, **dropout, "sinusoidal_pos_embds": False, **write_labels(config), **FIXED}


def import_config(values: Mapping[str, Any]) -> Config:
    """The values of a `DistilBertConfig` as ours; what our figures do not have is refused."""
    require(values, FIXED | {"model_type": "distilbert"}, "DistilBERT")
    found = sizes(USUAL | {key: value for key, value in values.items() if value is not None}, SIZES)
    encoder = {**found, "segments": 0, "norm_epsilon": EPSILON}
    architecture = (values.get("architectures") or [""])[0]
    dropout = values.get("seq_classif_dropout", 0.2) if "Sequence" in str(architecture) else encoder["dropout"]
    return read_labels(values, DISTILBERT, encoder, dropout)
