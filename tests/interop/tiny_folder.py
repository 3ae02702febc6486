"""A tiny Hugging Face folder, written by hand: a Llama of two layers over bytes. What hostile folders are made from."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save, save_file

from qkv.text.pipelines import PRE_TOKENIZERS, byte_of_character

WIDTH, HEADS, HIDDEN, LAYERS, CONTEXT = 16, 2, 24, 2, 48
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TOKENS = [*SPECIAL, *sorted(byte_of_character()), "he", "Ġhe"]
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": len(TOKENS),
    "hidden_size": WIDTH,
    "intermediate_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "max_position_embeddings": CONTEXT,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "rope_theta": 10000.0,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def added(number: int, content: str) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **flags}


def tokenizer() -> dict[str, Any]:
    """tokenizer.json: a token a byte, two merges, the special tokens of a chat."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added(number, content) for number, content in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS["gpt-2"],
        "post_processor": None,
        "decoder": PRE_TOKENIZERS["gpt-2"],
        "model": {
            "type": "BPE",
            "vocab": {token: number for number, token in enumerate(TOKENS)},
            "merges": [["h", "e"], ["Ġ", "he"]],
        },
    }


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (len(TOKENS), WIDTH)}
    for layer in range(LAYERS):
        block = {f"self_attn.{letter}_proj": (WIDTH, WIDTH) for letter in "qkvo"}
        block |= {"mlp.gate_proj": (HIDDEN, WIDTH), "mlp.up_proj": (HIDDEN, WIDTH), "mlp.down_proj": (WIDTH, HIDDEN)}
        block |= {"input_layernorm": (WIDTH,), "post_attention_layernorm": (WIDTH,)}
        shapes |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in block.items()}
    shapes["model.norm.weight"] = (WIDTH,)
    return {name: torch.randn(shape) * 0.3 for name, shape in shapes.items()}


@cache
def files(seed: int = 0) -> dict[str, bytes]:
    texts = {
        "config.json": json.dumps(CONFIG, indent=2),
        "tokenizer.json": json.dumps(tokenizer(), ensure_ascii=False),
        "tokenizer_config.json": json.dumps({"eos_token": SPECIAL[0], "bos_token": SPECIAL[0]}),
        "generation_config.json": json.dumps({"eos_token_id": 0, "bos_token_id": 0}),
    }
    weights = {"model.safetensors": save(tensors(seed), {"format": "pt"})}
    return {name: text.encode() for name, text in texts.items()} | weights


def write(folder: Path, seed: int = 0) -> Path:
    """A whole folder, as people fetch it."""
    folder.mkdir(parents=True)
    for name, content in files(seed).items():
        (folder / name).write_bytes(content)
    return folder


def write_in_shards(folder: Path) -> Path:
    """The same with its tensors in two files and an index."""
    write(folder)
    (folder / "model.safetensors").unlink()
    whole = tensors()
    place = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(whole)}
    for file in sorted(set(place.values())):
        save_file({name: tensor for name, tensor in whole.items() if place[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))
    return folder
