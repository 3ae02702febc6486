"""GPT-2 (models/gpt.py), Llama and Qwen2 (models/llama.py) and Qwen3 (models/modern.py), with heads and without.

Tensor for tensor the same, only the names differ; GPT-2 has a linear layer as (inputs, outputs), the transpose of ours,
and queries, keys and values in one. A tied head is the embedding, in both: it is saved once. Ids of special tokens are
the tokenizer's: the caller adds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from qkv.blocks.initialization import outline
from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import (
    GPT2,
    LLAMA,
    QWEN2,
    QWEN3,
    Architecture,
    Classifying,
    Family,
    inside,
)
from qkv.interop.tensor_names import (
    THIRDS,
    TRANSPOSED,
    TRANSPOSED_THIRDS,
    Row,
    Settings,
    Table,
    Values,
    pairs,
    require,
    sizes,
)
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig

GPT2_ATTENTION, GPT2_FEEDFORWARD = "blocks.{i}.attention.sublayer.", "blocks.{i}.feedforward.sublayer."
GPT2_LAYER = "transformer.h.{i}."
GPT2_TABLE = (
    Row("embedding.weight", "transformer.wte.weight"),
    Row("positions.table.weight", "transformer.wpe.weight"),
    *pairs(("blocks.{i}.attention.norm", f"{GPT2_LAYER}ln_1"), ("blocks.{i}.feedforward.norm", f"{GPT2_LAYER}ln_2")),
    Row(f"{GPT2_ATTENTION}{{query,key,value}}.weight", f"{GPT2_LAYER}attn.c_attn.weight", TRANSPOSED_THIRDS),
    Row(f"{GPT2_ATTENTION}{{query,key,value}}.bias", f"{GPT2_LAYER}attn.c_attn.bias", THIRDS),
    Row(f"{GPT2_ATTENTION}output.weight", f"{GPT2_LAYER}attn.c_proj.weight", TRANSPOSED),
    Row(f"{GPT2_ATTENTION}output.bias", f"{GPT2_LAYER}attn.c_proj.bias"),
    Row(f"{GPT2_FEEDFORWARD}inner.weight", f"{GPT2_LAYER}mlp.c_fc.weight", TRANSPOSED),
    Row(f"{GPT2_FEEDFORWARD}inner.bias", f"{GPT2_LAYER}mlp.c_fc.bias"),
    Row(f"{GPT2_FEEDFORWARD}outer.weight", f"{GPT2_LAYER}mlp.c_proj.weight", TRANSPOSED),
    Row(f"{GPT2_FEEDFORWARD}outer.bias", f"{GPT2_LAYER}mlp.c_proj.bias"),
    *pairs(("norm", "transformer.ln_f")),
)


class GPT2Architecture(Architecture[GPTConfig | Classifying]):
    model_types = ("gpt2",)
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "n_layer",
        "heads": "n_head",
        "width": "n_embd",
        "context": "n_positions",
        "dropout": "resid_pdrop",
    }
    fixed: ClassVar[Settings] = {  # what our model has and theirs may depart from
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }

    def table(self, config: GPTConfig | Classifying) -> Table:
        return architectures.rows(config, GPT2_TABLE, tags="classifier")

    def tidy(self, config: GPTConfig | Classifying, names: Iterable[str]) -> dict[str, str]:
        """The published files have no prefix; masks of attention and a second copy of the tied table may be in them."""
        masks, named = (".attn.bias", ".attn.masked_bias"), ("transformer.", *architectures.HEADS)
        kept = [name for name in names if not name.endswith(masks) and name != "lm_head.weight"]
        return {name: name if name.startswith(named) else f"transformer.{name}" for name in kept}

    def export_config(self, config: GPTConfig | Classifying) -> Values:
        """The values of a `GPT2Config`, as config.json holds them; theirs has no window."""
        decoder = inside(config)
        if decoder.window:
            raise ConfigError(f"window = {decoder.window} has no twin in GPT-2; train with window = 0, or use modern.")
        named = {"model_type": "gpt2", "dtype": "float32"}
        numbers = {theirs: getattr(decoder, ours) for ours, theirs in self.sizes.items()}
        dropout = {"embd_pdrop": decoder.dropout, "attn_pdrop": decoder.dropout}
        return {**named, **numbers, **dropout, "n_inner": None, **self.fixed, **architectures.write(config, GPT2)}

    def import_config(self, values: Settings) -> GPTConfig | Classifying:
        """A `GPT2Config`'s values as ours; what our model does not have is refused."""
        known = sizes(values, self.sizes)
        same = {"embd_pdrop": known["dropout"], "attn_pdrop": known["dropout"]}
        require(values, {**self.fixed, "model_type": "gpt2", **same}, "GPT-2")
        if values.get("n_inner") is not None:  # none: four times the width
            require(values, {"n_inner": 4 * known["width"]}, "GPT-2")
        return architectures.read(values, GPT2, parse(GPTConfig, known, "config.json"))


LAYER, ATTENTION, FEEDFORWARD = "model.layers.{i}.", "blocks.{i}.attention.sublayer.", "blocks.{i}.feedforward."
QUERY_KEY_VALUE = tuple(
    (f"{ATTENTION}{ours}", f"{LAYER}self_attn.{ours[0]}_proj") for ours in ("query", "key", "value")
)
TIED = (
    Row("embedding.weight", "model.embed_tokens.weight"),
    Row("blocks.{i}.attention.norm.weight", f"{LAYER}input_layernorm.weight"),
    *(Row(f"{ours}.weight", f"{theirs}.weight") for ours, theirs in QUERY_KEY_VALUE),
    Row(f"{ATTENTION}output.weight", f"{LAYER}self_attn.o_proj.weight"),
    Row(f"{FEEDFORWARD}norm.weight", f"{LAYER}post_attention_layernorm.weight"),
    *(Row(f"{FEEDFORWARD}sublayer.{name}.weight", f"{LAYER}mlp.{name}_proj.weight") for name in ("gate", "up", "down")),
    Row("norm.weight", "model.norm.weight"),
)
MORE: dict[str, Table] = {  # what a kind has besides
    "llama": (),
    "qwen2": tuple(Row(f"{ours}.bias", f"{theirs}.bias") for ours, theirs in QUERY_KEY_VALUE),
    "modern": (
        Row(f"{ATTENTION}query_norm.weight", f"{LAYER}self_attn.q_norm.weight"),
        Row(f"{ATTENTION}key_norm.weight", f"{LAYER}self_attn.k_norm.weight"),
    ),
}
HEAD = (Row("head.weight", "lm_head.weight"),)
STRETCH = {
    "rotary_factor": "factor",
    "rotary_low": "low_freq_factor",
    "rotary_high": "high_freq_factor",
    "rotary_context": "original_max_position_embeddings",
}
Rotary = LlamaConfig | ModernConfig


class RotaryArchitecture(Architecture[Rotary | Classifying]):
    """Llama, Qwen2 and Qwen3, which have rotary positions and a gated feed-forward in common."""

    families: ClassVar[Mapping[str, Family]] = {"llama": LLAMA, "qwen2": QWEN2, "qwen3": QWEN3}
    model_types = tuple(families)
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "norm_epsilon": "rms_norm_eps",
    }
    more_sizes: ClassVar[Mapping[str, str]] = {  # in the files of the other two they may be left out
        "key_heads": "num_key_value_heads",
        "head_width": "head_dim",
        "dropout": "attention_dropout",
    }
    fixed: ClassVar[Mapping[str, Settings]] = {  # what our model has and theirs may depart from
        "llama": {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False},
        "qwen2": {"hidden_act": "silu"},
        "qwen3": {"hidden_act": "silu", "attention_bias": False},
    }

    def table(self, config: Rotary | Classifying) -> Table:
        decoder = (*TIED, *MORE[inside(config).kind])
        return architectures.rows(config, decoder, () if architectures.headless(config) else HEAD)

    def tidy(self, config: Rotary | Classifying, names: Iterable[str]) -> dict[str, str]:
        """Of the published tensors, those that count: no angles of positions, and a tied head not twice."""
        kept = (name for name in names if not name.endswith(".rotary_emb.inv_freq"))
        tied = architectures.headless(config)
        return {name: name for name in kept if not (tied and name == "lm_head.weight")}

    def export_config(self, config: Rotary | Classifying) -> Values:
        """The values of a config of theirs, as config.json holds them."""
        decoder = inside(config)
        kind = {"modern": "qwen3"}.get(decoder.kind, decoder.kind)
        if decoder.window and kind == "llama":
            raise ConfigError(f"window = {decoder.window} has no twin in Llama; train with window = 0, or use qwen2.")
        numbers = {theirs: getattr(decoder, ours) for ours, theirs in self.sizes.items()}
        with outline():  # the built model knows the sizes that the config leaves to it
            block = decoder.build().blocks[0]
        attention, gate = block.get_submodule("attention.sublayer"), block.get_submodule("feedforward.sublayer.gate")
        numbers |= {"num_key_value_heads": attention.key_heads, "intermediate_size": gate.out_features}
        numbers["attention_dropout"] = decoder.dropout  # theirs has no other; ours also drops what joins the stream
        numbers["head_dim"] = attention.head_width
        if kind == "qwen2" and numbers.pop("head_dim") * decoder.heads != decoder.width:
            raise ConfigError(f"head_width = {decoder.head_width} has no twin in Qwen2; expected width / heads.")
        numbers |= {"rope_parameters": _rope(decoder), "tie_word_embeddings": decoder.head == "tied"}
        if kind != "llama":
            window = {"sliding_window": decoder.window or None, "max_window_layers": 0}
            numbers |= {"use_sliding_window": decoder.window > 0, **window}
        named = {"model_type": kind, "dtype": "float32", **numbers, **self.fixed[kind]}
        return {**named, **architectures.write(config, self.families[kind])}

    def import_config(self, values: Settings) -> Rotary | Classifying:
        """Their values as ours; what our model does not have is refused."""
        kind = values.get("model_type", "llama")
        if kind not in self.model_types:
            raise ConfigError(f"model_type = {kind!r} has no twin here; expected one of {', '.join(self.model_types)}.")
        name = kind.capitalize()
        require(values, self.fixed[kind], name)
        if kind == "qwen3":
            require(values, {"rope_scaling": None}, name)
            # before transformers 5 the base of the rotary angles stood alone
            rotary = values.get("rope_parameters") or {"rope_theta": values.get("rope_theta", 10000.0)}
            require(rotary, {"rope_type": "default"}, name)
            turns: Values = {"rotary_base": rotary["rope_theta"]}
        else:
            turns = {"kind": kind, **_rotary(values, name)}
        known = sizes(values, {**self.sizes, **(self.more_sizes if kind == "qwen3" else {})})
        known |= {ours: values.get(theirs) or 0 for ours, theirs in self.more_sizes.items()}
        known["head"] = "tied" if values.get("tie_word_embeddings", False) else "own"
        known["window"] = _window(values, name) if kind != "llama" else 0
        decoder: Rotary = parse(ModernConfig if kind == "qwen3" else LlamaConfig, {**known, **turns}, "config.json")
        return architectures.read(values, self.families[kind], decoder)


def _rope(config: Rotary) -> Values:
    base = {"rope_type": "default", "rope_theta": config.rotary_base}
    if isinstance(config, ModernConfig) or config.rotary_factor == 1.0:
        return base
    return base | {"rope_type": "llama3"} | {theirs: getattr(config, ours) for ours, theirs in STRETCH.items()}


def _rotary(values: Settings, architecture: str) -> Values:
    """Base and stretch of the rotary turns; before transformers 5 they stood apart."""
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise ConfigError(f"{architecture}: rope_parameters = {scaling!r} does not fit; expected an object.")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise ConfigError(f"{architecture}: rope_type = {kind!r} has no twin here; expected 'default' or 'llama3'.")
    require(scaling, {"partial_rotary_factor": 1.0}, architecture)
    base = {"rotary_base": scaling.get("rope_theta", values.get("rope_theta", 10000.0))}
    return base if kind == "default" else base | sizes(scaling, STRETCH)


def _window(values: Settings, architecture: str) -> int:
    """Theirs may have a window in some layers only; ours has one in all or in none."""
    if not values.get("use_sliding_window", False):
        return 0
    kinds = values.get("layer_types")
    everywhere = values.get("max_window_layers", 28) == 0 if kinds is None else set(kinds) == {"sliding_attention"}
    if not everywhere:
        raise ConfigError(
            f"{architecture}: a window in some layers only has no twin here; expected max_window_layers = 0."
        )
    window: int = sizes(values, {"window": "sliding_window"})["window"]
    return window


gpt2, llama = GPT2Architecture(), RotaryArchitecture()
