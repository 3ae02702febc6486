"""A tiny GGUF file, written by hand after the specification, so that the reader is not tested against itself."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from qkv.text.pipelines import byte_of_character

WIDTH, HEADS, KEY_HEADS, HIDDEN, LAYERS, CONTEXT = 32, 4, 2, 64, 2, 24
HEAD_WIDTH = WIDTH // HEADS
F32, F16, Q4_0, Q4_1, Q8_0, BF16 = 0, 1, 2, 3, 8, 30
FORMS = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q4_1: (32, 20), Q8_0: (32, 34), BF16: (1, 2)}
BYTES = ["<|endoftext|>", "<|im_end|>", *sorted(byte_of_character()), "he", "Ġhe"]
PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "h", "e", "he", "▁he"]

Tensor = tuple[list[int], int, bytes]  # sizes, innermost first; form; data


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def value(item: Any) -> bytes:
    """Type and value: u32 for whole numbers, f32 for others; raw bytes stand for themselves."""
    match item:
        case bytes():
            return item
        case bool():
            return struct.pack("<IB", 7, item)
        case int():
            return struct.pack("<II", 4, item)
        case float():
            return struct.pack("<If", 6, item)
        case str():
            return struct.pack("<I", 8) + text(item)
        case list():
            parts = [value(each) for each in item]
            kind = parts[0][:4] if parts else struct.pack("<I", 4)
            return struct.pack("<I", 9) + kind + struct.pack("<Q", len(parts)) + b"".join(part[4:] for part in parts)
    raise TypeError(item)


def info(name: str | bytes, sizes: list[int], form: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, form, offset)


def assembled(values: dict[str, Any], tensors: dict[str, Tensor], version: int = 3, alignment: int = 32) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    head += b"".join(text(key) + value(item) for key, item in values.items())
    lines, data = b"", b""
    for name, (sizes, form, content) in tensors.items():
        lines += info(name, sizes, form, len(data))
        data += content + bytes(-len(content) % alignment)
    head += lines
    return head + bytes(-len(head) % alignment) + data


def content(sizes: list[int], form: int, seed: int) -> bytes:
    """Small random numbers; blocks get factors that keep them small."""
    draw, count = np.random.default_rng(seed), int(np.prod(sizes))
    if form in (F32, F16):
        return draw.normal(0, 0.3, count).astype("<f4" if form == F32 else "<f2").tobytes()
    if form == BF16:
        return (draw.normal(0, 0.3, count).astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    numbers, size = FORMS[form]
    blocks = draw.integers(0, 256, (count // numbers, size), dtype=np.uint8)
    factors = 2 if form == Q4_1 else 1
    blocks[:, : 2 * factors] = draw.normal(0, 0.02, (len(blocks), factors)).astype("<f2").view(np.uint8)
    return blocks.tobytes()


def values_of(architecture: str) -> dict[str, Any]:
    """Llama comes with sentencepiece's vocabulary, the others with a byte-level one."""
    numbers = {
        "block_count": LAYERS,
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KEY_HEADS,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 5000.0,
    }
    words: dict[str, Any] = {"model": "gpt2", "pre": "qwen2", "tokens": BYTES, "merges": ["h e", "Ġ he"]}
    words |= {"token_type": [3, 3, *[1] * (len(BYTES) - 2)], "bos_token_id": 0, "eos_token_id": 0}
    if architecture == "llama":
        scores = [0.0] * 259 + [-5.0, -6.0, -7.0, -1.0, -2.0]
        words = {"model": "llama", "tokens": PIECES, "scores": scores, "bos_token_id": 1, "eos_token_id": 2}
        words |= {"token_type": [2, 3, 3, *[6] * 256, *[1] * 5], "unknown_token_id": 0}
    return {
        "general.architecture": architecture,
        "general.name": "tiny",
        **{f"{architecture}.{key}": number for key, number in numbers.items()},
        **{f"tokenizer.ggml.{key}": item for key, item in words.items()},
    }


def tensors_of(architecture: str) -> dict[str, Tensor]:
    """Every form is there once."""
    vocabulary = len(PIECES if architecture == "llama" else BYTES)
    shapes: dict[str, tuple[list[int], int]] = {"token_embd.weight": ([WIDTH, vocabulary], Q8_0)}
    for layer in range(LAYERS):
        keys = HEAD_WIDTH * KEY_HEADS
        block = {
            "attn_norm.weight": ([WIDTH], F32),
            "attn_q.weight": ([WIDTH, WIDTH], Q4_1),
            "attn_k.weight": ([WIDTH, keys], Q4_0),
            "attn_v.weight": ([WIDTH, keys], F16),
            "attn_output.weight": ([WIDTH, WIDTH], BF16),
            "ffn_norm.weight": ([WIDTH], F32),
            "ffn_gate.weight": ([WIDTH, HIDDEN], F32),
            "ffn_up.weight": ([WIDTH, HIDDEN], Q8_0),
            "ffn_down.weight": ([HIDDEN, WIDTH], Q4_0),
        }
        if architecture == "qwen2":
            block |= {"attn_q.bias": ([WIDTH], F32), "attn_k.bias": ([keys], F32), "attn_v.bias": ([keys], F32)}
        if architecture == "qwen3":
            block |= {"attn_q_norm.weight": ([HEAD_WIDTH], F32), "attn_k_norm.weight": ([HEAD_WIDTH], F32)}
        shapes |= {f"blk.{layer}.{name}": each for name, each in block.items()}
    shapes["output_norm.weight"] = ([WIDTH], F32)
    if architecture == "qwen2":
        shapes["output.weight"] = ([WIDTH, vocabulary], F32)
    return {
        name: (sizes, form, content(sizes, form, seed)) for seed, (name, (sizes, form)) in enumerate(shapes.items())
    }


def whole(architecture: str, **changes: Any) -> bytes:
    return assembled(values_of(architecture), tensors_of(architecture), **changes)
