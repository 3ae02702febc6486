"""Qwen3: models/modern.py and what is built on it, and Hugging Face's `Qwen3ForCausalLM` and its heads.

Tensor for tensor the same, only the names differ. A tied head is the embedding, in both: it is saved once, and its
table ends one row earlier. Ids of special tokens are the tokenizer's: the caller adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qkv.blocks.initialization import outline
from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import QWEN3, Judge, inside
from qkv.interop.tensor_names import Row, Table, require, sizes, untied
from qkv.models.modern import ModernConfig

MODEL_TYPES = ("qwen3",)
Config = ModernConfig | Judge

TIED = (
    Row("embedding.weight", "model.embed_tokens.weight"),
    Row("blocks.{i}.attention.norm.weight", "model.layers.{i}.input_layernorm.weight"),
    Row("blocks.{i}.attention.sublayer.query.weight", "model.layers.{i}.self_attn.q_proj.weight"),
    Row("blocks.{i}.attention.sublayer.key.weight", "model.layers.{i}.self_attn.k_proj.weight"),
    Row("blocks.{i}.attention.sublayer.value.weight", "model.layers.{i}.self_attn.v_proj.weight"),
    Row("blocks.{i}.attention.sublayer.query_norm.weight", "model.layers.{i}.self_attn.q_norm.weight"),
    Row("blocks.{i}.attention.sublayer.key_norm.weight", "model.layers.{i}.self_attn.k_norm.weight"),
    Row("blocks.{i}.attention.sublayer.output.weight", "model.layers.{i}.self_attn.o_proj.weight"),
    Row("blocks.{i}.feedforward.norm.weight", "model.layers.{i}.post_attention_layernorm.weight"),
    Row("blocks.{i}.feedforward.sublayer.gate.weight", "model.layers.{i}.mlp.gate_proj.weight"),
    Row("blocks.{i}.feedforward.sublayer.up.weight", "model.layers.{i}.mlp.up_proj.weight"),
    Row("blocks.{i}.feedforward.sublayer.down.weight", "model.layers.{i}.mlp.down_proj.weight"),
    Row("norm.weight", "model.norm.weight"),
)
HEAD = (Row("head.weight", "lm_head.weight"),)
OWN_HEAD = (*TIED, *HEAD)

SIZES = {
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "key_heads": "num_key_value_heads",
    "width": "hidden_size",
    "head_width": "head_dim",
    "hidden": "intermediate_size",
    "context": "max_position_embeddings",
    "norm_epsilon": "rms_norm_eps",
    "dropout": "attention_dropout",  # theirs has no other; ours also drops what is added to the stream
}

# What our figure has and theirs may depart from.
FIXED = {"hidden_act": "silu", "attention_bias": False}


def tidy(config: Config, names: Iterable[str]) -> dict[str, str]:
    return untied(architectures.headless(config), names)


def table(config: Config) -> Table:
    return architectures.rows(config, TIED, () if architectures.headless(config) else HEAD)


def export_config(config: Config) -> dict[str, Any]:
    """The values of a `Qwen3Config`, as config.json holds them."""
    return {**_values(inside(config)), **architectures.write(config, QWEN3)}


def _values(config: ModernConfig) -> dict[str, Any]:
    named = {"model_type": "qwen3", "dtype": "float32"}
    numbers = {theirs: getattr(config, ours) for ours, theirs in SIZES.items()}
    with outline():  # the built figure knows the sizes that the config leaves to it
        block = config.build().blocks[0]
    attention, gate = block.get_submodule("attention.sublayer"), block.get_submodule("feedforward.sublayer.gate")
    numbers["num_key_value_heads"], numbers["head_dim"] = attention.key_heads, attention.head_width
    numbers["intermediate_size"] = gate.out_features
    rotary = {"rope_parameters": {"rope_type": "default", "rope_theta": config.rotary_base}}
    more = {**window_values(config.window), "tie_word_embeddings": config.head == "tied"}
    return {**named, **numbers, **rotary, **more, **FIXED}


def import_config(values: Mapping[str, Any]) -> Config:
    """A `Qwen3Config`'s values as ours; what our figure does not have is refused."""
    require(values, FIXED | {"model_type": "qwen3", "rope_scaling": None}, "Qwen3")
    # before transformers 5 the base of the rotary angles stood alone
    rotary = values.get("rope_parameters") or {"rope_theta": values.get("rope_theta", 10000.0)}
    require(rotary, {"rope_type": "default"}, "Qwen3")
    head = "tied" if values.get("tie_word_embeddings", False) else "own"
    found = {"rotary_base": rotary["rope_theta"], "head": head, "window": window(values, "Qwen3")}
    return architectures.read(values, QWEN3, parse(ModernConfig, {**sizes(values, SIZES), **found}, "config.json"))


def window_values(window: int) -> dict[str, Any]:
    return {"use_sliding_window": window > 0, "sliding_window": window or None, "max_window_layers": 0}


def window(values: Mapping[str, Any], architecture: str) -> int:
    """Theirs may have a window in some layers only; ours has one in all or in none."""
    if not values.get("use_sliding_window", False):
        return 0
    kinds = values.get("layer_types")
    everywhere = values.get("max_window_layers", 28) == 0 if kinds is None else set(kinds) == {"sliding_attention"}
    if not everywhere:
        raise ConfigError(
            f"{architecture}: a window in some layers only has no twin here; expected max_window_layers = 0."
        )
    return sizes(values, {"window": "sliding_window"})["window"]
