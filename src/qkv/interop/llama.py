"""Llama and Qwen2: models/llama.py and what is built on it, and Hugging Face's `LlamaForCausalLM`, `Qwen2ForCausalLM`
and their heads.

Tensor for tensor the same, only the names differ; Qwen2 has three biases more. A tied head is the embedding, in both:
it is saved once. Ids of special tokens are the tokenizer's: the caller adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qkv.blocks.initialization import outline
from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import LLAMA, QWEN2, Judge, inside
from qkv.interop.qwen3 import window, window_values
from qkv.interop.tensor_names import Row, Table, require, sizes, untied
from qkv.models.llama import LlamaConfig

MODEL_TYPES = ("llama", "qwen2")
Config = LlamaConfig | Judge

TIED = (
    Row("embedding.weight", "model.embed_tokens.weight"),
    Row("blocks.{i}.attention.norm.weight", "model.layers.{i}.input_layernorm.weight"),
    Row("blocks.{i}.attention.sublayer.query.weight", "model.layers.{i}.self_attn.q_proj.weight"),
    Row("blocks.{i}.attention.sublayer.key.weight", "model.layers.{i}.self_attn.k_proj.weight"),
    Row("blocks.{i}.attention.sublayer.value.weight", "model.layers.{i}.self_attn.v_proj.weight"),
    Row("blocks.{i}.attention.sublayer.output.weight", "model.layers.{i}.self_attn.o_proj.weight"),
    Row("blocks.{i}.feedforward.norm.weight", "model.layers.{i}.post_attention_layernorm.weight"),
    Row("blocks.{i}.feedforward.sublayer.gate.weight", "model.layers.{i}.mlp.gate_proj.weight"),
    Row("blocks.{i}.feedforward.sublayer.up.weight", "model.layers.{i}.mlp.up_proj.weight"),
    Row("blocks.{i}.feedforward.sublayer.down.weight", "model.layers.{i}.mlp.down_proj.weight"),
    Row("norm.weight", "model.norm.weight"),
)
BIASES = (
    Row("blocks.{i}.attention.sublayer.query.bias", "model.layers.{i}.self_attn.q_proj.bias"),
    Row("blocks.{i}.attention.sublayer.key.bias", "model.layers.{i}.self_attn.k_proj.bias"),
    Row("blocks.{i}.attention.sublayer.value.bias", "model.layers.{i}.self_attn.v_proj.bias"),
)
HEAD = (Row("head.weight", "lm_head.weight"),)

SIZES = {
    "vocabulary": "vocab_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "width": "hidden_size",
    "hidden": "intermediate_size",
    "context": "max_position_embeddings",
    "norm_epsilon": "rms_norm_eps",
}
STRETCH = {
    "rotary_factor": "factor",
    "rotary_low": "low_freq_factor",
    "rotary_high": "high_freq_factor",
    "rotary_context": "original_max_position_embeddings",
}
FAMILIES = {"llama": LLAMA, "qwen2": QWEN2}

# What our figure has and theirs may depart from.
FIXED: dict[str, dict[str, Any]] = {
    "llama": {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
    "qwen2": {"hidden_act": "silu"},
}


def tidy(config: Config, names: Iterable[str]) -> dict[str, str]:
    return untied(architectures.headless(config), names)


def table(config: Config) -> Table:
    biases = BIASES if inside(config).kind == "qwen2" else ()
    return architectures.rows(config, (*TIED, *biases), () if architectures.headless(config) else HEAD)


def export_config(config: Config) -> dict[str, Any]:
    """The values of a `LlamaConfig` or `Qwen2Config` of theirs, as config.json holds them."""
    kind = inside(config).kind
    return {**_values(inside(config)), **architectures.write(config, FAMILIES[kind])}


def _values(config: LlamaConfig) -> dict[str, Any]:
    if config.window and config.kind == "llama":
        raise ConfigError(f"window = {config.window} has no twin in Llama; train with window = 0, or use qwen2.")
    named = {"model_type": config.kind, "dtype": "float32"}
    numbers = {theirs: getattr(config, ours) for ours, theirs in SIZES.items()}
    with outline():  # the built figure knows the sizes that the config leaves to it
        block = config.build().blocks[0]
    attention, gate = block.get_submodule("attention.sublayer"), block.get_submodule("feedforward.sublayer.gate")
    numbers |= {"num_key_value_heads": attention.key_heads, "intermediate_size": gate.out_features}
    numbers["attention_dropout"] = config.dropout  # theirs has no other; ours also drops what is added to the stream
    numbers["head_dim"] = attention.head_width
    if config.kind == "qwen2" and numbers.pop("head_dim") * config.heads != config.width:
        raise ConfigError(f"head_width = {config.head_width} has no twin in Qwen2; expected width / heads.")
    windowed = window_values(config.window) if config.kind == "qwen2" else {}
    tied = {"tie_word_embeddings": config.head == "tied"}
    return {**named, **numbers, "rope_parameters": _rope(config), **windowed, **tied, **FIXED[config.kind]}


def _rope(config: LlamaConfig) -> dict[str, Any]:
    base = {"rope_type": "default", "rope_theta": config.rotary_base}
    if config.rotary_factor == 1.0:
        return base
    return base | {"rope_type": "llama3"} | {theirs: getattr(config, ours) for ours, theirs in STRETCH.items()}


def import_config(values: Mapping[str, Any]) -> Config:
    """Their values as ours; what our figure does not have is refused."""
    kind = values.get("model_type", "llama")
    if kind not in MODEL_TYPES:
        raise ConfigError(f"model_type = {kind!r} has no twin here; expected one of {', '.join(MODEL_TYPES)}.")
    name = kind.capitalize()
    require(values, FIXED[kind], name)
    found = sizes(values, SIZES)
    found["key_heads"], found["head_width"] = values.get("num_key_value_heads") or 0, values.get("head_dim") or 0
    found["dropout"] = values.get("attention_dropout") or 0.0
    found["head"] = "tied" if values.get("tie_word_embeddings", False) else "own"
    found["window"] = window(values, name) if kind == "qwen2" else 0
    config = parse(LlamaConfig, {"kind": kind, **found, **_rotary(values, name)}, "config.json")
    return architectures.read(values, FAMILIES[kind], config)


def _rotary(values: Mapping[str, Any], architecture: str) -> dict[str, Any]:
    """Base and stretch of the rotary turns; before transformers 5 they stood apart."""
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, Mapping):
        raise ConfigError(f"{architecture}: rope_parameters = {scaling!r} does not fit; expected an object.")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise ConfigError(f"{architecture}: rope_type = {kind!r} has no twin here; expected 'default' or 'llama3'.")
    require(scaling, {"partial_rotary_factor": 1.0}, architecture)
    base = {"rotary_base": scaling.get("rope_theta", values.get("rope_theta", 10000.0))}
    return base if kind == "default" else base | sizes(scaling, STRETCH)
