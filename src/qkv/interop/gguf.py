"""GGUF, llama.cpp's format: Llama and Qwen2 (models/llama.py) and Qwen3 (models/modern.py), one file each.

The config comes from the file's values, the tokenizer from its lists, the weights tensor by tensor, as f32. For Llama
llama.cpp keeps the rows of queries and keys in another order, so that it can turn neighbours; here they are put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor

from qkv.blocks.initialization import outline
from qkv.errors import InputError
from qkv.interop.gguf_blocks import reader
from qkv.interop.gguf_config import FREQUENCIES, read_config, read_tokenizer
from qkv.interop.gguf_file import Refuse, Stored, opened, printable, read_container
from qkv.interop.tensor_files import Imported
from qkv.interop.tensor_names import PLAIN, Row, Table, import_weights, interleaved
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig

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
