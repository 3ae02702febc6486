"""Reads the files of llama2.c: a small Llama as seven numbers and its tensors, and a vocabulary file next to it.

    model      width, hidden, layers, heads, key heads, vocabulary (negative: a head of its own), context;  f32 tensors
    tokenizer  longest token;  score, length, bytes ...

Each tensor is stored for all layers together. llama2.c rotates neighbouring rows, so the rows of queries and keys are
reordered; its tables of rotary angles are skipped. (https://github.com/karpathy/llama2.c, format version 0)
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from qkv.config import parse
from qkv.errors import ConfigError, InputError
from qkv.interop.gguf_file import LONGEST_NAME, opened
from qkv.interop.tensors import PLAIN, Imported, Transform, interleaved
from qkv.models.llama import LlamaConfig
from qkv.safe_json import Refusals, plain_file
from qkv.text.foreign import sentencepiece
from qkv.text.tokenizer import Roles, Tokenizer

UNKNOWN, START, END = 0, 1, 2  # the fixed ids of these NAMES
NAMES = ("<unk>", "<s>", "</s>")
LARGEST_VOCABULARY = 2**20


def read(path: Path, tokenizer: Path | None = None) -> Imported:
    """Read a model and its vocabulary, which by default is the only tok*.bin in the same folder."""
    refuse = Refusals(path)
    with opened(path) as (file, size):
        config = _config(file, size, refuse)
        vocabulary_file = tokenizer or _vocabulary_file(path)
        words = _tokenizer(vocabulary_file, config.vocabulary)
        weights = _weights(file, config, refuse)
    notes = () if tokenizer else (f"the vocabulary is that of {vocabulary_file.name}, next to the model",)
    return Imported(config, weights, words, path.stem, notes)


def _config(file: BinaryIO, size: int, refuse: Refusals) -> LlamaConfig:
    """Read the seven numbers. The size of the file must be exactly what they require."""
    if size < 28:
        raise refuse("header", f"{size} bytes, expected seven numbers of four")
    width, hidden, layers, heads, key_heads, vocabulary, context = struct.unpack("<7i", file.read(28))
    if min(width, hidden, layers, heads, key_heads, context) < 1 or not 1 <= abs(vocabulary) <= LARGEST_VOCABULARY:
        raise refuse("header", "sizes must be above 0; this is no file of llama2.c's version 0")
    values = {"width": width, "hidden": hidden, "layers": layers, "heads": heads, "key_heads": key_heads}
    values |= {"vocabulary": abs(vocabulary), "context": context}
    fixed = {"kind": "llama", "norm_epsilon": 1e-5, "head": "tied" if vocabulary > 0 else "own"}
    try:
        config: LlamaConfig = parse(LlamaConfig, values | fixed, "header")
    except ConfigError as error:
        raise refuse("header", str(error).removeprefix("header: ").rstrip(".")) from None
    needed = 28 + 4 * sum(layers_of * math.prod(shape) for _, layers_of, shape, _ in _parts(config))
    if needed != size:
        raise refuse("header", f"its sizes need {needed:,} bytes, but the file has {size:,}")
    return config


def _parts(config: LlamaConfig) -> list[tuple[str, int, tuple[int, ...], Transform]]:
    """The tensors in the file's order: the name in qkv ("": skipped), the number of layers, the shape, the
    transform."""
    width, hidden, layers, heads = config.width, config.hidden, config.layers, config.heads
    keys, half = width // heads * config.key_heads, width // heads // 2
    attention, feedforward = "blocks.{i}.attention.", "blocks.{i}.feedforward."
    parts = [
        ("embedding.weight", 1, (config.vocabulary, width), PLAIN),
        (attention + "norm.weight", layers, (width,), PLAIN),
        (attention + "sublayer.query.weight", layers, (width, width), interleaved(heads)),
        (attention + "sublayer.key.weight", layers, (keys, width), interleaved(config.key_heads)),
        (attention + "sublayer.value.weight", layers, (keys, width), PLAIN),
        (attention + "sublayer.output.weight", layers, (width, width), PLAIN),
        (feedforward + "norm.weight", layers, (width,), PLAIN),
        (feedforward + "sublayer.gate.weight", layers, (hidden, width), PLAIN),
        (feedforward + "sublayer.down.weight", layers, (width, hidden), PLAIN),
        (feedforward + "sublayer.up.weight", layers, (hidden, width), PLAIN),
        ("norm.weight", 1, (width,), PLAIN),
        ("", 2, (config.context, half), PLAIN),  # cosines and sines
    ]
    return [*parts, ("head.weight", 1, (config.vocabulary, width), PLAIN)] if config.head == "own" else parts


def _weights(file: BinaryIO, config: LlamaConfig, refuse: Refusals) -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for name, layers, shape, transform in _parts(config):
        for layer in range(layers):
            numbers = np.fromfile(file, "<f4", math.prod(shape))
            if len(numbers) != math.prod(shape):
                raise refuse(name, "the file was cut short while it was read")
            if not np.isfinite(numbers).all():
                raise refuse(name.replace("{i}", str(layer)) or "angles", "contains values that are not numbers")
            if name:
                tensors[name.replace("{i}", str(layer))] = transform.read(torch.from_numpy(numbers).view(shape))[0]
    return tensors


def _vocabulary_file(path: Path) -> Path:
    candidates = sorted({*path.parent.glob("tok*.bin")} - {path})
    if len(candidates) != 1:
        names = ", ".join(candidate.name for candidate in candidates[:10]) or "none"
        raise InputError(
            f"{path}: a model of llama2.c needs its vocabulary, one tok*.bin next to it; found: {names}. "
            "Put the one it was trained with there, such as tok512.bin or tokenizer.bin."
        )
    return plain_file(path.parent, candidates[0].name)


def _tokenizer(path: Path, vocabulary: int) -> Tokenizer:
    refuse, pieces, scores = Refusals(path), list[str](), list[float]()
    with opened(path) as (file, size):
        if size < 4 + 8 * vocabulary:
            raise refuse("file", f"{size:,} bytes are too few for the {vocabulary:,} tokens of the model")
        (longest,) = struct.unpack("<i", file.read(4))
        for number in range(vocabulary):
            head = file.read(8)
            score, length = struct.unpack("<fi", head) if len(head) == 8 else (math.nan, -1)
            if not 0 <= length <= min(longest, LONGEST_NAME) or not math.isfinite(score):
                raise refuse(f"token {number}", f"length {length}, score {score}; expected 0 to {longest} and a number")
            data = file.read(length)
            if len(data) != length:
                raise refuse(f"token {number}", "cut short")
            pieces.append(_piece(number, data, refuse))
            scores.append(score)
        if file.tell() != size:
            raise refuse("file", f"{size:,} bytes, but {vocabulary:,} tokens end at byte {file.tell():,}")
    roles = Roles(START, (START, END), UNKNOWN, None, (START,))
    return sentencepiece(pieces, scores, range(len(NAMES)), roles, str(path))


def _piece(number: int, data: bytes, refuse: Refusals) -> str:
    """A token as sentencepiece writes it. llama2.c writes "▁" as a space, and line ends around the first three
    names."""
    if number < len(NAMES):
        if data.strip().decode("ascii", "replace") != NAMES[number]:
            raise refuse(f"token {number}", f"{data[:80]!a}, expected {NAMES[number]}")
        return NAMES[number]
    try:
        return data.decode("utf-8").replace(" ", "▁")
    except UnicodeDecodeError:
        raise refuse(f"token {number}", "not UTF-8") from None
