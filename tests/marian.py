"""Tiny Marian folders, written by hand, and tiny translators of ours: what both sides' tests are made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

import translators
from qkv.data.encode import with_tags
from qkv.interop.marian import files, marian
from qkv.interop.tensors import export_weights
from qkv.models.transformer import TransformerConfig
from qkv.recipe.bundle import Bundle
from qkv.text.tokenizer import Tokenizer
from text import likely
from text.kinds import tokenizer

SHAPE: dict[str, Any] = {"layers": 2, "decoder_layers": 1, "heads": 4, "width": 32, "hidden": 44, "context": 64}
SENTENCES = ["The river keeps the stone.", "Don't ask why: nobody knows!", "Stay"]


def config(vocabulary: int, **changes: Any) -> TransformerConfig:
    return TransformerConfig(**{"vocabulary": vocabulary, **SHAPE, **changes})


def bundle(kind: str = "bpe", languages: Sequence[str] = (), ending: float = 0.0, **changes: Any) -> Bundle:
    """A random translator as one that was trained here; `ending` makes it end sooner."""
    words = with_tags(tokenizer(kind), languages)
    made = config(words.vocabulary, **changes)
    model = translators.built(made)
    with torch.no_grad():
        model.head.bias[words.separator] += ending
    return Bundle(model, made, words, 0)


def padded_words() -> Tokenizer:
    """Bytes with a token for padding behind them, as Marian's vocabularies have it."""
    words = tokenizer("bpe")
    values = json.loads(words.json())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    values["added_tokens"].append({"id": words.vocabulary, "content": "<|pad|>", **flags})
    return Tokenizer.parse(json.dumps(values))


def values(words: Tokenizer, **changes: Any) -> dict[str, Any]:
    """config.json as published files have it: a start that is the padding, and settings of older versions."""
    found = marian.export_config(config(words.vocabulary, activation="silu"))
    ids = {"eos_token_id": words.separator, "pad_token_id": words.padding, "decoder_start_token_id": words.padding}
    older = {
        "static_position_embeddings": True, "normalize_before": False, "normalize_embedding": False,
        "add_final_layer_norm": False, "add_bias_logits": False, "extra_pos_embeddings": words.vocabulary,
        "bad_words_ids": [[words.padding]], "num_beams": 4, "max_length": 64, "forced_eos_token_id": words.separator,
    }  # fmt: skip
    return {**found, **ids, **older, **changes}


def tensors(words: Tokenizer) -> dict[str, Tensor]:
    made = config(words.vocabulary, activation="silu")
    return export_weights(marian.table(made), translators.built(made).state_dict())


def folder(place: Path, weights: dict[str, Tensor] | None = None, **changes: Any) -> Path:
    """A whole folder; a change to None takes a value away."""
    words = padded_words()
    place.mkdir(parents=True)
    said = {key: value for key, value in values(words, **changes).items() if value is not None}
    (place / "config.json").write_text(json.dumps(said))
    (place / "tokenizer.json").write_text(words.json())
    (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "pad_token": "<|pad|>"}))
    save_file(tensors(words) if weights is None else weights, place / "model.safetensors", {"format": "pt"})
    return place


def spelled(place: Path, names: tuple[str, ...] = likely.NAMES) -> Path:
    """A whole folder as Helsinki-NLP's: source.spm, target.spm and vocab.json, of a few pieces."""
    words = likely.tokenizer(names, b"")
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(values(words)))
    for name, data in files(words, words).items():
        (place / name).write_bytes(data)
    (place / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "fr"}))
    save_file(tensors(words), place / "model.safetensors", {"format": "pt"})
    return place
