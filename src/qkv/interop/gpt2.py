"""GPT-2: models/gpt.py and what is built on it, and Hugging Face's `GPT2LMHeadModel` and its heads.

They keep a linear layer as (inputs, outputs), the transpose of ours, and queries, keys and values in one. The head is
the embedding, in both: it is saved once. Ids of special tokens are the tokenizer's: the caller adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import GPT2, Judge, inside
from qkv.interop.tensor_names import THIRDS, TRANSPOSED, TRANSPOSED_THIRDS, Row, Table, require, sizes
from qkv.models.gpt import GPTConfig

MODEL_TYPES = ("gpt2",)
Config = GPTConfig | Judge

TABLE = (
    Row("embedding.weight", "transformer.wte.weight"),
    Row("positions.table.weight", "transformer.wpe.weight"),
    Row("blocks.{i}.attention.norm.weight", "transformer.h.{i}.ln_1.weight"),
    Row("blocks.{i}.attention.norm.bias", "transformer.h.{i}.ln_1.bias"),
    Row(
        "blocks.{i}.attention.sublayer.{query,key,value}.weight",
        "transformer.h.{i}.attn.c_attn.weight",
        TRANSPOSED_THIRDS,
    ),
    Row("blocks.{i}.attention.sublayer.{query,key,value}.bias", "transformer.h.{i}.attn.c_attn.bias", THIRDS),
    Row("blocks.{i}.attention.sublayer.output.weight", "transformer.h.{i}.attn.c_proj.weight", TRANSPOSED),
    Row("blocks.{i}.attention.sublayer.output.bias", "transformer.h.{i}.attn.c_proj.bias"),
    Row("blocks.{i}.feedforward.norm.weight", "transformer.h.{i}.ln_2.weight"),
    Row("blocks.{i}.feedforward.norm.bias", "transformer.h.{i}.ln_2.bias"),
    Row("blocks.{i}.feedforward.sublayer.inner.weight", "transformer.h.{i}.mlp.c_fc.weight", TRANSPOSED),
    Row("blocks.{i}.feedforward.sublayer.inner.bias", "transformer.h.{i}.mlp.c_fc.bias"),
    Row("blocks.{i}.feedforward.sublayer.outer.weight", "transformer.h.{i}.mlp.c_proj.weight", TRANSPOSED),
    Row("blocks.{i}.feedforward.sublayer.outer.bias", "transformer.h.{i}.mlp.c_proj.bias"),
    Row("norm.weight", "transformer.ln_f.weight"),
    Row("norm.bias", "transformer.ln_f.bias"),
)

SIZES = {
    "vocabulary": "vocab_size",
    "layers": "n_layer",
    "heads": "n_head",
    "width": "n_embd",
    "context": "n_positions",
    "dropout": "resid_pdrop",
}

# What our figure has and theirs may depart from.
FIXED = {
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}


def tidy(config: Config, names: Iterable[str]) -> dict[str, str]:
    """The published files have no prefix; masks of attention and a second copy of the tied table may be in them."""
    kept = [
        name for name in names if not name.endswith((".attn.bias", ".attn.masked_bias")) and name != "lm_head.weight"
    ]
    named = ("transformer.", *architectures.HEADS)
    return {name: name if name.startswith(named) else f"transformer.{name}" for name in kept}


def table(config: Config) -> Table:
    return architectures.rows(config, TABLE, tags="classifier")


def export_config(config: Config) -> dict[str, Any]:
    """The values of a `GPT2Config`, as config.json holds them; theirs has no window."""
    decoder = inside(config)
    if decoder.window:
        raise ConfigError(f"window = {decoder.window} has no twin in GPT-2; train with window = 0, or use modern.")
    named = {"model_type": "gpt2", "dtype": "float32"}
    numbers = {theirs: getattr(decoder, ours) for ours, theirs in SIZES.items()}
    dropout = {"embd_pdrop": decoder.dropout, "attn_pdrop": decoder.dropout}
    return {**named, **numbers, **dropout, "n_inner": None, **FIXED, **architectures.write(config, GPT2)}


def import_config(values: Mapping[str, Any]) -> Config:
    """A `GPT2Config`'s values as ours; what our figure does not have is refused."""
    found = sizes(values, SIZES)
    require(values, FIXED | {"model_type": "gpt2"}, "GPT-2")
    require(values, {"embd_pdrop": found["dropout"], "attn_pdrop": found["dropout"]}, "GPT-2")
    if values.get("n_inner") is not None:  # none: four times the width
        require(values, {"n_inner": 4 * found["width"]}, "GPT-2")
    return architectures.read(values, GPT2, parse(GPTConfig, found, "config.json"))
