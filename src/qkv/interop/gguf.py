"""GGUF, llama.cpp's format: Llama and Qwen2 (models/llama.py) and Qwen3 (models/modern.py), one file each.

The config comes from the file's values (`llama.block_count` and its kin), the tokenizer from its lists (byte-level
merges, "gpt2", or sentencepiece's scores, "llama"), the weights tensor by tensor, as f32. For Llama llama.cpp keeps the
rows of queries and keys in another order, so that it can turn neighbours; here they are put back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from qkv.blocks.initialization import outline
from qkv.blocks.positions import rotary_rates, stretched
from qkv.config import parse
from qkv.errors import ConfigError, InputError
from qkv.interop.gguf_file import Container, Refuse, Stored, opened, printable, read_container, reader
from qkv.interop.tensor_files import Imported
from qkv.interop.tensor_names import PLAIN, Row, Table, import_weights, interleaved
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig
from qkv.text.foreign import byte_bpe, sentencepiece
from qkv.text.tokenizer import Roles, Tokenizer

PIECE = 2**20  # bytes of a file that are turned into numbers at a time

SAME = (
    Row("embedding.weight", "token_embd.weight"),
    Row("blocks.{i}.attention.norm.weight", "blk.{i}.attn_norm.weight"),
    Row("blocks.{i}.attention.sublayer.value.weight", "blk.{i}.attn_v.weight"),
    Row("blocks.{i}.attention.sublayer.output.weight", "blk.{i}.attn_output.weight"),
    Row("blocks.{i}.feedforward.norm.weight", "blk.{i}.ffn_norm.weight"),
    Row("blocks.{i}.feedforward.sublayer.gate.weight", "blk.{i}.ffn_gate.weight"),
    Row("blocks.{i}.feedforward.sublayer.up.weight", "blk.{i}.ffn_up.weight"),
    Row("blocks.{i}.feedforward.sublayer.down.weight", "blk.{i}.ffn_down.weight"),
    Row("norm.weight", "output_norm.weight"),
)
BIASES = tuple(
    Row(f"blocks.{{i}}.attention.sublayer.{ours}.bias", f"blk.{{i}}.attn_{theirs}.bias")
    for ours, theirs in (("query", "q"), ("key", "k"), ("value", "v"))
)
NORMS = tuple(
    Row(f"blocks.{{i}}.attention.sublayer.{ours}_norm.weight", f"blk.{{i}}.attn_{theirs}_norm.weight")
    for ours, theirs in (("query", "q"), ("key", "k"))
)
HEAD = (Row("head.weight", "output.weight"),)


def table(config: LlamaConfig | ModernConfig) -> Table:
    """Which of our tensors is which of theirs."""
    llama = config.kind == "llama"
    turned = [interleaved(heads) if llama else PLAIN for heads in (config.heads, config.key_heads or config.heads)]
    rows = (
        Row("blocks.{i}.attention.sublayer.query.weight", "blk.{i}.attn_q.weight", turned[0]),
        Row("blocks.{i}.attention.sublayer.key.weight", "blk.{i}.attn_k.weight", turned[1]),
    )
    more = {"qwen2": BIASES, "modern": NORMS}.get(config.kind, ())
    return (*SAME, *rows, *more, *(HEAD if config.head == "own" else ()))


class Weights(Mapping[str, Tensor]):
    """The tensors of a file under its own names; each is read when it is asked for."""

    def __init__(self, file: BinaryIO, tensors: Mapping[str, Stored], refuse: Refuse) -> None:
        self.file, self.tensors, self.refuse = file, tensors, refuse

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __getitem__(self, name: str) -> Tensor:
        stored = self.tensors[name]
        turn, layout = reader(stored.layout), stored.layout
        numbers = np.empty((stored.size // layout.size, layout.numbers), np.float32)
        step = max(1, PIECE // layout.size)
        self.file.seek(stored.place)
        with np.errstate(all="ignore"):  # what is no number is refused below
            for first in range(0, len(numbers), step):
                part = numbers[first : first + step]
                data = self.file.read(len(part) * layout.size)
                if len(data) != len(part) * layout.size:
                    raise self.refuse(name, "the file was cut short while it was read")
                part[:] = turn(np.frombuffer(data, np.uint8).reshape(len(part), layout.size))
                if not np.isfinite(part).all():
                    raise self.refuse(name, "holds values that are not numbers")
        return torch.from_numpy(numbers).view(stored.shape)


def read(path: Path) -> Imported:
    """A model from a GGUF file; RefusedError, naming the field, where it does not fit."""
    refuse = Refuse(path)
    with opened(path) as (file, size):
        container = read_container(file, size, refuse)
        weights = Weights(file, container.tensors, refuse)
        config, notes = read_config(container, weights, size, refuse)
        # the config says the same as the frequencies
        tensors = {name: stored for name, stored in container.tensors.items() if name != FREQUENCIES}
        rows = table(config)
        fits(config, rows, tensors, refuse)
        tokenizer, more = read_tokenizer(container.values, config.vocabulary, refuse)
        found = import_weights(rows, Weights(file, tensors, refuse))
    name = container.values.get("general.name")
    shown = printable(name, 100) if isinstance(name, str) and name else path.stem
    return Imported(config, found, tokenizer, shown, (*notes, *more))


def fits(config: Any, rows: Table, tensors: Mapping[str, Stored], refuse: Refuse) -> None:
    """Every tensor of the figure is there in its shape and form, and no other, before any is read."""
    try:
        with outline():
            shapes = {name: tuple(tensor.shape) for name, tensor in config.build().state_dict().items()}
        empty = {name: torch.empty(stored.shape, device="meta") for name, stored in tensors.items()}
        found = import_weights(rows, empty)
    except InputError as error:
        raise refuse("tensors", str(error).rstrip(".")) from None
    except RuntimeError:
        raise refuse("tensors", "their shapes do not fit the heads") from None
    for name, tensor in found.items():
        if tuple(tensor.shape) != shapes[name]:
            raise refuse(name, f"shape {tuple(tensor.shape)}, but the values of the file ask for {shapes[name]}")
    for layout in {stored.layout for stored in tensors.values()}:
        reader(layout)


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

# What would be another figure; a value that changes nothing is let pass.
ELSEWHERE: dict[str, tuple[Any, ...]] = {
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
# Known, and said again by shapes, lists or other values.
SILENT = {"vocab_size", "rope.dimension_count", "attention.value_length", "tensor_data_layout", "expert_used_count"}

FREQUENCIES = "rope_freqs.weight"
STRETCH = (1.0, 4.0, 8192)  # Llama 3.1 to 3.3: below one turn in 8192 places, above four
TABLES = 2**26  # bytes that rotary angles may take in any case


def read_config(
    container: Container, weights: Mapping[str, Tensor], size: int, refuse: Refuse
) -> tuple[Any, tuple[str, ...]]:
    """Our config, and what was not understood, in words."""
    architecture = container.values.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in KINDS:
        known = ", ".join(KINDS)
        raise refuse("general.architecture", f"{str(architecture)[:80]!a} has no twin here; expected one of {known}")
    section = f"{architecture}."
    values = {k.removeprefix(section): v for k, v in container.values.items() if k.startswith(section)}
    for key, neutral in ELSEWHERE.items():
        if key in values and values[key] not in neutral:
            raise refuse(section + key, f"{str(values[key])[:80]} has no twin here")
    missing = next((key for key in NEEDED.values() if key not in values), None)
    if missing or "token_embd.weight" not in container.tensors:
        raise refuse(section + missing if missing else "token_embd.weight", "missing")
    kind, name = KINDS[architecture]
    found = {ours: values[theirs] for ours, theirs in (NEEDED | OPTIONAL).items() if theirs in values}
    found |= {"kind": name, "vocabulary": container.tensors["token_embd.weight"].shape[0]}
    found["head"] = "own" if "output.weight" in container.tensors else "tied"
    found |= _sizes_hold(found, values, container, size, refuse)
    if FREQUENCIES in container.tensors:
        found |= _stretch(found, container, weights, refuse)
    unknown = sorted(values.keys() - set(NEEDED.values()) - set(OPTIONAL.values()) - ELSEWHERE.keys() - SILENT)
    notes = (
        (printable(f"not understood and left out: {', '.join(section + key for key in unknown)}"),) if unknown else ()
    )
    try:
        return parse(kind, found, str(refuse.where)), notes
    except ConfigError as error:
        raise refuse("values", str(error).removeprefix(f"{refuse.where}: ").rstrip(".")) from None


def _sizes_hold(
    found: Mapping[str, Any], values: Mapping[str, Any], container: Container, size: int, refuse: Refuse
) -> dict[str, int]:
    """Sizes that decide about memory before shapes are compared: as the tensors have them. Gives the head's width."""
    for name in ("layers", "heads", "width", "hidden", "context", *(n for n in OPTIONAL if n != "rotary_base")):
        if name in found and (type(found[name]) is not int or found[name] < 1):
            raise refuse((NEEDED | OPTIONAL)[name], f"{str(found[name])[:80]}, expected a whole number above 0")
    head_width: int = found.get("head_width") or found["width"] // found["heads"]
    query = container.tensors.get("blk.0.attn_q.weight")
    if query is None or query.shape[0] != found["heads"] * head_width:
        shape = query.shape if query else "missing"
        raise refuse("blk.0.attn_q.weight", f"{shape}, but {found['heads']} heads of {head_width} are asked for")
    for key in ("rope.dimension_count", "attention.value_length"):
        if values.get(key, head_width) != head_width:
            raise refuse(key, f"{str(values[key])[:80]} has no twin here; expected the head's width, {head_width}")
    blocks = {name.split(".")[1] for name in container.tensors if name.startswith("blk.")}
    if len(blocks) != found["layers"]:
        raise refuse("block_count", f"{found['layers']:,}, but the file has tensors of {len(blocks)}")
    if found["context"] * head_width * 4 > max(size, TABLES):
        raise refuse("context_length", f"{found['context']:,} places, more than the rest of the model would take")
    return {"head_width": head_width}


def _stretch(
    found: Mapping[str, Any], container: Container, weights: Mapping[str, Tensor], refuse: Refuse
) -> dict[str, float]:
    """Llama 3.1 comes with how many times slower each pair turns; the file does not say by which rule."""
    if found["kind"] != "llama" or container.tensors[FREQUENCIES].shape != (found["head_width"] // 2,):
        raise refuse(FREQUENCIES, f"shape {container.tensors[FREQUENCIES].shape} has no twin here")
    factors, base = weights[FREQUENCIES], found.get("rotary_base", 10000.0)
    if type(base) is not float:
        raise refuse("rope.freq_base", f"{str(base)[:80]}, expected a number")
    low, high, context = STRETCH
    factor, rates = float(factors.max()), rotary_rates(found["head_width"], base)
    if not factor > 0 or not torch.allclose(rates / factors, stretched(rates, factor, low, high, context), rtol=1e-4):
        raise refuse(FREQUENCIES, "its factors are not those of Llama 3.1's rule")
    return {"rotary_factor": factor, "rotary_low": low, "rotary_high": high, "rotary_context": context}


SECTION = "tokenizer.ggml."
CUTS = {
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


def read_tokenizer(values: Mapping[str, Any], vocabulary: int, refuse: Refuse) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer, and what was decided, in words."""
    own = {key.removeprefix(SECTION): value for key, value in values.items() if key.startswith(SECTION)}
    model = own.get("model")
    if model not in ("gpt2", "llama"):
        raise refuse(SECTION + "model", f"{str(model)[:80]!a} has no twin here; expected 'gpt2' or 'llama'")
    tokens = _listed(own, "tokens", str, vocabulary, refuse)
    types = _listed(own, "token_type", int, vocabulary, refuse) if "token_type" in own else [1] * vocabulary
    special = {number for number, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)}
    cut = own.get("pre", "default")
    opens = model == "llama" or cut in ("llama-bpe", "llama-v3", "llama3")  # where the file does not say
    roles = _roles(own, tokens, special, opens, refuse)
    special |= {n for n in (roles.start, *roles.ends) if n is not None}
    where = str(refuse.where)
    if model == "llama":
        if own.get("add_space_prefix", True) is not True:
            raise refuse(SECTION + "add_space_prefix", "false has no twin here; expected true")
        scores = _listed(own, "scores", float, vocabulary, refuse)
        if not all(map(math.isfinite, scores)):
            raise refuse(SECTION + "scores", "holds values that are not numbers")
        return sentencepiece(tokens, scores, special, roles, where), ()
    if not isinstance(cut, str) or cut not in CUTS:
        known = ", ".join(CUTS)
        raise refuse(SECTION + "pre", f"{str(cut)[:80]!a}: this way of cutting words is not known; expected {known}")
    notes = ("the file does not say how words are cut: GPT-2's way is taken",) if cut == "default" else ()
    return byte_bpe(tokens, _merges(own, refuse), CUTS[cut], special, roles, where), notes


def _listed(own: Mapping[str, Any], name: str, kind: type, length: int, refuse: Refuse) -> list[Any]:
    found = own.get(name)
    if not isinstance(found, list) or len(found) != length or not all(type(each) is kind for each in found):
        size = f"{len(found):,} values" if isinstance(found, list) else "not a list"
        raise refuse(SECTION + name, f"{size}; expected {length:,} of {kind.__name__}, one for each row of token_embd")
    return found


def _merges(own: Mapping[str, Any], refuse: Refuse) -> list[tuple[str, str]]:
    found = own.get("merges")
    if not isinstance(found, list):
        raise refuse(SECTION + "merges", "missing")
    pairs = [tuple(each.split(" ")) if isinstance(each, str) else () for each in found]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise refuse(f"{SECTION}merges[{number}]", f"{str(found[number])[:80]!a}, expected two tokens and a space")
    return [(pair[0], pair[1]) for pair in pairs]


def _roles(own: Mapping[str, Any], tokens: list[str], special: set[int], opens: bool, refuse: Refuse) -> Roles:
    def number(name: str) -> int | None:
        found = own.get(name)
        if found is not None and (type(found) is not int or not 0 <= found < len(tokens)):
            raise refuse(SECTION + name, f"{str(found)[:80]}, expected an id below {len(tokens):,}")
        return found

    start, end = number("bos_token_id"), number("eos_token_id")
    named = [each for each in sorted(special) if tokens[each] in ENDS]
    ends = [n for n in (end, number("eot_token_id"), number("eom_token_id"), *named) if n is not None]
    adds = own.get("add_bos_token", opens)
    if adds is not True and adds is not False:
        raise refuse(SECTION + "add_bos_token", f"{str(adds)[:80]}, expected true or false")
    opening = (start,) if adds and start is not None else ()
    unknown, padding = number("unknown_token_id"), number("padding_token_id")
    if not ends:
        raise refuse(SECTION + "eos_token_id", "missing: no token ends a text")
    return Roles(start, tuple(dict.fromkeys(ends)), unknown, padding, opening)
