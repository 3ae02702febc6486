"""GGUF, llama.cpp's format: Llama and Qwen2 (models/llama.py) and Qwen3 (models/modern.py), one file each.

The config comes from the file's values (such as `llama.block_count`), the tokenizer from its lists (byte-level merges,
"gpt2", or sentencepiece's scores, "llama"), and the weights are converted to f32. For Llama, llama.cpp stores the rows
of queries and keys in another order, because it rotates neighbouring rows; this module restores the order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from qkv.blocks.positions import llama3_rates, rotary_rates
from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop.decoder_architectures import Rotary, rotary_tensors
from qkv.interop.gguf_file import Stored, opened, read_header, reader
from qkv.interop.tensors import PLAIN, Imported, LazyTensors, Row, Settings, Table, interleaved, with_weights
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig
from qkv.safe_json import Refusals, visible_excerpt
from qkv.text.foreign import byte_bpe, sentencepiece
from qkv.text.tokenizer import Roles, Tokenizer

CHUNK = 2**20  # bytes of a file that are converted to numbers at a time


def table(config: Rotary) -> Table:
    """The names of qkv's tensors and of GGUF's."""
    heads = {"query": config.heads, "key": config.key_heads or config.heads} if config.kind == "llama" else {}
    reordered = {f"blocks.{{i}}.attention.sublayer.{name}.weight": interleaved(count) for name, count in heads.items()}
    return tuple(Row(name, gguf, reordered.get(name, PLAIN)) for name, _, gguf in rotary_tensors(config))


class Weights(LazyTensors):
    """The tensors of a file, by their names in the file."""

    def __init__(self, file: BinaryIO, tensors: dict[str, Stored], refuse: Refusals) -> None:
        self.file, self.names, self.refuse = file, tensors, refuse

    def shapes(self) -> dict[str, Tensor]:
        for layout in {stored.layout for stored in self.names.values()}:
            reader(layout)  # raises an error if the package that reads this format is missing
        return {name: torch.empty(stored.shape, device="meta") for name, stored in self.names.items()}

    def __getitem__(self, name: str) -> Tensor:
        stored = self.names[name]
        turn, layout = reader(stored.layout), stored.layout
        numbers = np.empty((stored.size // layout.size, layout.numbers), np.float32)
        step = max(1, CHUNK // layout.size)
        self.file.seek(stored.place)
        with np.errstate(all="ignore"):  # values that are not numbers are refused below
            for first in range(0, len(numbers), step):
                part = numbers[first : first + step]
                data = self.file.read(len(part) * layout.size)
                if len(data) != len(part) * layout.size:
                    raise self.refuse(name, "the file was cut short while it was read")
                part[:] = turn(np.frombuffer(data, np.uint8).reshape(len(part), layout.size))
                if not np.isfinite(part).all():
                    raise self.refuse(name, "contains values that are not numbers")
        return torch.from_numpy(numbers).view(stored.shape)


def read(path: Path) -> Imported:
    """A model from a GGUF file; RefusedError, naming the field, where it does not fit."""
    refuse = Refusals(path)
    with opened(path) as (file, size):
        values, tensors = read_header(file, size, refuse)
        weights = Weights(file, tensors, refuse)
        config, notes = read_config(values, weights, refuse)
        tensors.pop(FREQUENCIES, None)  # `read_config` has turned them into values of the config
        tokenizer, more = read_tokenizer(values, config.vocabulary, refuse)
        name = values.get("general.name")
        shown = visible_excerpt(name, 100) if isinstance(name, str) and name else path.stem
        imported = Imported(config, {}, tokenizer, shown, (*notes, *more))
        return with_weights(imported, table(config), weights, str(path), max(size, TABLES) // 4)


KINDS: dict[str, tuple[Any, str]] = {
    "llama": (LlamaConfig, "llama"),
    "qwen2": (LlamaConfig, "qwen2"),
    "qwen3": (ModernConfig, "modern"),
}
NEEDED = {
    "layers": "block_count",
    "heads": "attention.head_count",
    "width": "embedding_length",
    "hidden": "feed_forward_length",
    "context": "context_length",
    "norm_epsilon": "attention.layer_norm_rms_epsilon",
}
OPTIONAL = {
    "key_heads": "attention.head_count_kv",
    "head_width": "attention.key_length",
    "rotary_base": "rope.freq_base",
}

# Features that qkv's models do not have: only these values of a key, with which the feature has no effect, are
# accepted.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "attention.sliding_window": (0,),
    "attention.causal": (True,),
    "attention.scale": (0,),
    "expert_count": (0,),
    "rope.scaling.type": ("none",),
    "rope.scaling.factor": (0, 1),
    "rope.scale_linear": (0, 1),
    "logit_scale": (0, 1),
    "embedding_scale": (0, 1),
    "residual_scale": (0, 1),
}
# Keys that need not be read, because shapes, lists or other values say the same.
REDUNDANT = {"vocab_size", "rope.dimension_count", "attention.value_length", "tensor_data_layout", "expert_used_count"}

EMBEDDING, FREQUENCIES = "token_embd.weight", "rope_freqs.weight"
STRETCH = (1.0, 4.0, 8192)  # Llama 3.1 to 3.3: low and high frequency factor, and the original context
TABLES = 2**26  # bytes that tables of rotary angles may always need


def read_config(values: Settings, weights: Weights, refuse: Refusals) -> tuple[Rotary, tuple[str, ...]]:
    """The config of qkv, and a note about unknown keys."""
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in KINDS:
        known = ", ".join(KINDS)
        raise refuse("general.architecture", f"{str(architecture)[:80]!a} is not supported; expected one of {known}")
    section = f"{architecture}."
    own = {key.removeprefix(section): value for key, value in values.items() if key.startswith(section)}
    for key, neutral in UNSUPPORTED.items():
        if key in own and own[key] not in neutral:
            raise refuse(section + key, f"{str(own[key])[:80]} is not supported; expected {neutral[-1]}")
    absent = [section + key for key in NEEDED.values() if key not in own]
    absent += [EMBEDDING] if EMBEDDING not in weights else []
    if absent:
        raise refuse(absent[0], "missing")
    kind, name = KINDS[architecture]
    sizes = {field: own[key] for field, key in (NEEDED | OPTIONAL).items() if key in own}
    sizes |= {"kind": name, "vocabulary": weights.names[EMBEDDING].shape[0]}
    sizes["head"] = "own" if "output.weight" in weights else "tied"
    try:
        config: Rotary = parse(kind, sizes, str(refuse.where))
    except ConfigError as error:
        raise refuse("values", str(error).removeprefix(f"{refuse.where}: ").rstrip(".")) from None
    config = replace(config, head_width=config.head_width or config.width // config.heads)
    for key in ("rope.dimension_count", "attention.value_length"):
        if own.get(key, config.head_width) != config.head_width:
            wanted = f"expected the head's width, {config.head_width}"
            raise refuse(key, f"{str(own[key])[:80]} is not supported; {wanted}")
    unknown = sorted(own.keys() - {*NEEDED.values(), *OPTIONAL.values(), *UNSUPPORTED, *REDUNDANT})
    names = ", ".join(section + key for key in unknown)
    notes = [visible_excerpt(f"keys that are not known, and were ignored: {names}")] if unknown else []
    return _stretched(config, weights, refuse) if FREQUENCIES in weights else config, tuple(notes)


def _stretched(config: Rotary, weights: Weights, refuse: Refusals) -> LlamaConfig:
    """The config with the rotary scaling of Llama 3.1. A file contains a factor for each frequency but not the rule
    that they come from, so they are compared with those of the rule."""
    shape = weights.names[FREQUENCIES].shape
    if not isinstance(config, LlamaConfig) or config.kind != "llama" or shape != (config.head_width // 2,):
        raise refuse(FREQUENCIES, f"shape {shape} is not supported in {config.kind}")
    low, high, context = STRETCH
    factors, rates = weights[FREQUENCIES], rotary_rates(config.head_width, config.rotary_base)
    factor = float(factors.max())
    if not factor > 0 or not torch.allclose(
        rates / factors, llama3_rates(rates, factor, low, high, context), rtol=1e-4
    ):
        raise refuse(FREQUENCIES, "its factors are not those of Llama 3.1's rule")
    return replace(config, rotary_factor=factor, rotary_low=low, rotary_high=high, rotary_context=context)


SECTION = "tokenizer.ggml."
PRE_TOKENIZERS = {  # names in GGUF -> names in text/pipelines.py
    "gpt-2": "gpt-2",
    "default": "gpt-2",
    "smollm": "smollm",
    "qwen2": "qwen2",
    "deepseek-r1-qwen": "qwen2",
    "llama-bpe": "llama-bpe",
    "llama-v3": "llama-bpe",
    "llama3": "llama-bpe",
}
UNKNOWN, CONTROL = 2, 3  # types of tokens
ENDS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>")


def read_tokenizer(values: Mapping[str, Any], vocabulary: int, refuse: Refusals) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer, and notes on what was assumed."""
    own = {key.removeprefix(SECTION): value for key, value in values.items() if key.startswith(SECTION)}
    model = own.get("model")
    if model not in ("gpt2", "llama"):
        raise refuse(SECTION + "model", f"{str(model)[:80]!a} is not supported; expected 'gpt2' or 'llama'")
    tokens = _listed(own, "tokens", str, vocabulary, refuse)
    types = _listed(own, "token_type", int, vocabulary, refuse) if "token_type" in own else [1] * vocabulary
    special = {number for number, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)}
    pre_tokenizer = own.get("pre", "default")
    # whether a token begins every text, if the file does not say
    adds_start = model == "llama" or pre_tokenizer in ("llama-bpe", "llama-v3", "llama3")
    roles = _roles(own, tokens, special, adds_start, refuse)
    special |= {n for n in (roles.start, *roles.ends) if n is not None}
    where = str(refuse.where)
    if model == "llama":
        if own.get("add_space_prefix", True) is not True:
            raise refuse(SECTION + "add_space_prefix", "false is not supported; expected true")
        scores = _listed(own, "scores", float, vocabulary, refuse)
        if not all(map(math.isfinite, scores)):
            raise refuse(SECTION + "scores", "contains values that are not numbers")
        return sentencepiece(tokens, scores, special, roles, where), ()
    if not isinstance(pre_tokenizer, str) or pre_tokenizer not in PRE_TOKENIZERS:
        expected = f"this pre-tokenizer is not known; expected {', '.join(PRE_TOKENIZERS)}"
        raise refuse(SECTION + "pre", f"{str(pre_tokenizer)[:80]!a}: {expected}")
    notes = ("the file names no pre-tokenizer: that of GPT-2 is used",) if pre_tokenizer == "default" else ()
    return byte_bpe(tokens, own.get("merges"), PRE_TOKENIZERS[pre_tokenizer], special, roles, where), notes


def _listed(own: Mapping[str, Any], name: str, kind: type, length: int, refuse: Refusals) -> list[Any]:
    values = own.get(name)
    if not isinstance(values, list) or len(values) != length or not all(type(value) is kind for value in values):
        size = f"{len(values):,} values" if isinstance(values, list) else "not a list"
        raise refuse(SECTION + name, f"{size}; expected {length:,} of {kind.__name__}, one for each row of token_embd")
    return values


def _roles(own: Mapping[str, Any], tokens: list[str], special: set[int], adds_start: bool, refuse: Refusals) -> Roles:
    def number(name: str) -> int | None:
        value = own.get(name)
        if value is not None and (type(value) is not int or not 0 <= value < len(tokens)):
            raise refuse(SECTION + name, f"{str(value)[:80]}, expected an id below {len(tokens):,}")
        return value

    start, end = number("bos_token_id"), number("eos_token_id")
    named = [token for token in sorted(special) if tokens[token] in ENDS]
    ends = [n for n in (end, number("eot_token_id"), number("eom_token_id"), *named) if n is not None]
    adds = own.get("add_bos_token", adds_start)
    if adds is not True and adds is not False:
        raise refuse(SECTION + "add_bos_token", f"{str(adds)[:80]}, expected true or false")
    opening = (start,) if adds and start is not None else ()
    unknown, padding = number("unknown_token_id"), number("padding_token_id")
    if not ends:
        raise refuse(SECTION + "eos_token_id", "missing: no token ends a text")
    return Roles(start, tuple(dict.fromkeys(ends)), unknown, padding, opening)
