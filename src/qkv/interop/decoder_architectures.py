"""GPT-2 (models/gpt.py), Llama and Qwen2 (models/llama.py) and Qwen3 (models/modern.py) of Hugging Face, with and
without the head of a classifier or a tagger.

The tensors are the same and only their names differ; but GPT-2 stores the matrix of a linear layer transposed, and one
matrix for queries, keys and values. A tied head is saved once, as the embedding. The caller adds the ids of special
tokens, which the tokenizer has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from qkv.blocks.initialization import outline
from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import Architecture, Classifying, Family, encoder_of, renamed, require
from qkv.interop.tensors import THIRDS, TRANSPOSED, TRANSPOSED_THIRDS, Row, Settings, Table, Values, pairs
from qkv.models.classifier import ClassifierConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig
from qkv.models.tagger import TaggerConfig

# transformers applies it in taggers only; in a classifier's config.json it just keeps qkv's value
DROPOUT = "classifier_dropout"


def read_decoder(values: Settings, family: Family, decoder: Values) -> Any:
    """The config of the class that config.json names: the decoder itself, or a classifier or tagger around it."""
    given = values.get(DROPOUT)
    dropout = {ClassifierConfig: 0.0, TaggerConfig: 0.1} if given is None else dict.fromkeys(CONFIGS_WITH_HEADS, given)
    return architectures.read_head(values, family, decoder, dropout, others=next(iter(family)))


def write_decoder(config: Any, family: Family) -> Values:
    """The values of config.json about the class and its head."""
    if isinstance(config, ClassifierConfig) and config.center:
        raise ConfigError(
            f"center = {config.center} is not supported there, where nothing is added to scores; expected 0."
        )
    dropout = {DROPOUT: config.dropout} if encoder_of(config) is not config else {}
    return {**architectures.write_head(config, family), **dropout}


CONFIGS_WITH_HEADS = (ClassifierConfig, TaggerConfig)
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
    name, model_types = "GPT-2", ("gpt2",)
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "n_layer",
        "heads": "n_head",
        "width": "n_embd",
        "context": "n_positions",
        "dropout": "resid_pdrop",
    }
    copies: ClassVar[Mapping[str, str]] = {"embd_pdrop": "dropout", "attn_pdrop": "dropout"}
    fixed: ClassVar[Settings] = {
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "reorder_and_upcast_attn": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }

    def table(self, config: GPTConfig | Classifying) -> Table:
        return architectures.rows(config, GPT2_TABLE, tagger_head="classifier")

    def tidy(self, config: GPTConfig | Classifying, names: Iterable[str]) -> dict[str, str]:
        """Published files have no prefix, and may contain attention masks and a second copy of the tied embedding."""
        masks, prefixes = (".attn.bias", ".attn.masked_bias"), ("transformer.", *architectures.HEADS)
        kept = [name for name in names if not name.endswith(masks) and name != "lm_head.weight"]
        return {name: name if name.startswith(prefixes) else f"transformer.{name}" for name in kept}

    def export_config(self, config: GPTConfig | Classifying) -> Values:
        decoder = encoder_of(config)
        if decoder.window:
            raise ConfigError(
                f"window = {decoder.window} has no equivalent in GPT-2; train with window = 0, or modern."
            )
        return {**self.write_sizes(decoder), "n_inner": None, **write_decoder(config, architectures.GPT2)}

    def import_config(self, values: Settings) -> GPTConfig | Classifying:
        sizes = self.read_sizes(values)
        if values.get("n_inner") is not None:  # none: four times the width
            require(values, {"n_inner": 4 * sizes["width"]}, self.name)
        decoder: GPTConfig | Classifying = read_decoder(values, architectures.GPT2, {"kind": "gpt", **sizes})
        return decoder


Rotary = LlamaConfig | ModernConfig
# tensors in a layer of Llama, Qwen2 and Qwen3: their names in qkv, in transformers and in GGUF
ROTARY_LAYER = (
    ("attention.norm.weight", "input_layernorm.weight", "attn_norm.weight"),
    ("attention.sublayer.query.weight", "self_attn.q_proj.weight", "attn_q.weight"),
    ("attention.sublayer.key.weight", "self_attn.k_proj.weight", "attn_k.weight"),
    ("attention.sublayer.value.weight", "self_attn.v_proj.weight", "attn_v.weight"),
    ("attention.sublayer.output.weight", "self_attn.o_proj.weight", "attn_output.weight"),
    ("feedforward.norm.weight", "post_attention_layernorm.weight", "ffn_norm.weight"),
    ("feedforward.sublayer.gate.weight", "mlp.gate_proj.weight", "ffn_gate.weight"),
    ("feedforward.sublayer.up.weight", "mlp.up_proj.weight", "ffn_up.weight"),
    ("feedforward.sublayer.down.weight", "mlp.down_proj.weight", "ffn_down.weight"),
)
ROTARY_MORE = {  # further tensors of some kinds
    "qwen2": (
        ("attention.sublayer.query.bias", "self_attn.q_proj.bias", "attn_q.bias"),
        ("attention.sublayer.key.bias", "self_attn.k_proj.bias", "attn_k.bias"),
        ("attention.sublayer.value.bias", "self_attn.v_proj.bias", "attn_v.bias"),
    ),
    "modern": (
        ("attention.sublayer.query_norm.weight", "self_attn.q_norm.weight", "attn_q_norm.weight"),
        ("attention.sublayer.key_norm.weight", "self_attn.k_norm.weight", "attn_k_norm.weight"),
    ),
}


def rotary_tensors(config: Rotary) -> Iterator[tuple[str, str, str]]:
    """The names of every tensor of such a language model in qkv, in transformers and in GGUF."""
    yield "embedding.weight", "model.embed_tokens.weight", "token_embd.weight"
    for name, huggingface, gguf in (*ROTARY_LAYER, *ROTARY_MORE.get(config.kind, ())):
        yield f"blocks.{{i}}.{name}", f"model.layers.{{i}}.{huggingface}", f"blk.{{i}}.{gguf}"
    yield "norm.weight", "model.norm.weight", "output_norm.weight"
    if config.head == "own":
        yield "head.weight", LM_HEAD, "output.weight"


LM_HEAD = "lm_head.weight"
STRETCH = {
    "rotary_factor": "factor",
    "rotary_low": "low_freq_factor",
    "rotary_high": "high_freq_factor",
    "rotary_context": "original_max_position_embeddings",
}


class RotaryArchitecture(Architecture[Rotary | Classifying]):
    """What Llama, Qwen2 and Qwen3 have in common: rotary positions and a gated feed-forward."""

    kind: str
    family: Family
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "norm_epsilon": "rms_norm_eps",
    }
    optional: ClassVar[Mapping[str, str]] = {  # only Qwen3's files always have them
        "key_heads": "num_key_value_heads",
        "head_width": "head_dim",
        "dropout": "attention_dropout",  # the only dropout of transformers; qkv also drops outputs of sublayers
    }

    def table(self, config: Rotary | Classifying) -> Table:
        names = (Row(name, foreign_name) for name, foreign_name, _ in rotary_tensors(encoder_of(config)))
        rows = tuple(row for row in names if row.foreign_name != LM_HEAD or self.has_untied_head(config))
        return architectures.rows(config, rows)

    def has_untied_head(self, config: Rotary | Classifying) -> bool:
        """Whether the model has a head over the vocabulary that is not tied to the embedding."""
        return not isinstance(config, Classifying) and config.head == "own"

    def tidy(self, config: Rotary | Classifying, names: Iterable[str]) -> dict[str, str]:
        """The published tensors without the rotary frequencies and without a second copy of a tied head."""
        kept = (name for name in names if not name.endswith(".rotary_emb.inv_freq"))
        return {name: name for name in kept if name != LM_HEAD or self.has_untied_head(config)}

    def export_config(self, config: Rotary | Classifying) -> Values:
        decoder, qwen = encoder_of(config), self.kind != "llama"
        if decoder.window and not qwen:
            raise ConfigError(f"window = {decoder.window} has no equivalent in Llama; train with window = 0, or qwen2.")
        with outline():  # some sizes are chosen only when the model is built
            block = decoder.build().blocks[0]
        attention, gate = block.get_submodule("attention.sublayer"), block.get_submodule("feedforward.sublayer.gate")
        values = {**self.write_sizes(decoder), "intermediate_size": gate.out_features}
        values |= {"num_key_value_heads": attention.key_heads, "attention_dropout": decoder.dropout}
        if self.kind != "qwen2":
            values["head_dim"] = attention.head_width
        elif attention.head_width * decoder.heads != decoder.width:
            raise ConfigError(f"head_width = {decoder.head_width} has no equivalent in Qwen2; expected width / heads.")
        values |= {"rope_parameters": _rope(decoder), "tie_word_embeddings": decoder.head == "tied"}
        if qwen:
            values |= {"use_sliding_window": decoder.window > 0, "sliding_window": decoder.window or None}
            values["max_window_layers"] = 0
        return {**values, **write_decoder(config, self.family)}

    def import_config(self, values: Settings) -> Rotary | Classifying:
        sizes = {"kind": self.kind, **self.read_sizes(values)}
        sizes |= _rotary(values, self.name, stretched=self.kind != "modern")
        if self.kind == "modern":
            require(values, {"rope_scaling": None}, self.name)
            sizes |= renamed(values, self.optional)
        else:
            sizes |= {field: values.get(key) or 0 for field, key in self.optional.items()}
        sizes["head"] = "tied" if values.get("tie_word_embeddings", False) else "own"
        sizes["window"] = _window(values, self.name) if self.kind != "llama" else 0
        decoder: Rotary | Classifying = read_decoder(values, self.family, sizes)
        return decoder


def _rope(config: Rotary) -> Values:
    base = {"rope_type": "default", "rope_theta": config.rotary_base}
    if isinstance(config, ModernConfig) or config.rotary_factor == 1.0:
        return base
    return base | {"rope_type": "llama3"} | {key: getattr(config, field) for field, key in STRETCH.items()}


def _rotary(values: Settings, architecture: str, stretched: bool) -> Values:
    """The base and the scaling of rotary positions; before transformers 5 they were separate keys."""
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise ConfigError(f"{architecture}: rope_parameters = {scaling!r} does not fit; expected an object.")
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    known = ("default", "llama3") if stretched else ("default",)
    if kind not in known:
        expected = " or ".join(map(repr, known))
        raise ConfigError(f"{architecture}: rope_type = {kind!r} is not supported; expected {expected}.")
    require(scaling, {"partial_rotary_factor": 1.0}, architecture)
    inside = not stretched and values.get("rope_parameters")  # Qwen3 has the base there, or nothing but the base
    base = {**({} if inside else {"rope_theta": values.get("rope_theta", 10000.0)}), **scaling}
    return renamed(base, {"rotary_base": "rope_theta", **(STRETCH if kind == "llama3" else {})})


def _window(values: Settings, architecture: str) -> Any:
    """The attention window. transformers may have one in some layers only; qkv has one in all layers or in none."""
    if not values.get("use_sliding_window", False):
        return 0
    kinds = values.get("layer_types")
    everywhere = values.get("max_window_layers", 28) == 0 if kinds is None else set(kinds) == {"sliding_attention"}
    if not everywhere:
        raise ConfigError(
            f"{architecture}: a window in some layers only is not supported; expected max_window_layers = 0."
        )
    return renamed(values, {"window": "sliding_window"})["window"]


class LlamaArchitecture(RotaryArchitecture):
    name, model_types, kind, family = "Llama", ("llama",), "llama", architectures.LLAMA
    fixed: ClassVar[Settings] = {"hidden_act": "silu", "attention_bias": False, "mlp_bias": False}


class Qwen2Architecture(RotaryArchitecture):
    name, model_types, kind, family = "Qwen2", ("qwen2",), "qwen2", architectures.QWEN2
    fixed: ClassVar[Settings] = {"hidden_act": "silu"}


class Qwen3Architecture(RotaryArchitecture):
    name, model_types, kind, family = "Qwen3", ("qwen3",), "modern", architectures.QWEN3
    fixed: ClassVar[Settings] = {"hidden_act": "silu", "attention_bias": False}


gpt2, llama, qwen2, qwen3 = GPT2Architecture(), LlamaArchitecture(), Qwen2Architecture(), Qwen3Architecture()
