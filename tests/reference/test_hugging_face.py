"""Parity with tiny random Hugging Face models, both ways. Nothing is downloaded."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from qkv.interop.decoder_architectures import gpt2, llama, qwen2, qwen3
from qkv.interop.tensors import Table, export_weights, import_weights
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

import transformers
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

ROOMS: dict[str, Any] = {kind: room for room in (gpt2, llama, qwen2, qwen3) for kind in room.model_types}

IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}  # the caller's, as in an export with a tokenizer

GPT = {"vocab_size": 37, "n_positions": 24, "n_embd": 30, "n_layer": 3, "n_head": 5}
STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}

QWEN = {
    "vocab_size": 37,
    "hidden_size": 30,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 10,  # not width / heads
    "max_position_embeddings": 24,
    "rope_parameters": {"rope_type": "default", "rope_theta": 5000.0},
}
PLAIN = {key: value for key, value in QWEN.items() if key != "head_dim"} | {"hidden_size": 32}
STRETCHED = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 12,
}
WINDOW = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}


def shaken(model: torch.nn.Module) -> Any:
    """Every parameter random, norms and biases too: a start of ones and zeros would hide an exchange."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=0.5 if parameter.dim() == 1 else 0.0, std=0.3)
    return model.eval()


def theirs_of(name: str) -> Any:
    torch.manual_seed(3)
    match name:
        case "gpt2":
            return shaken(GPT2LMHeadModel(GPT2Config(**GPT, **STILL, **IDS)))
        case "qwen3":
            return shaken(Qwen3ForCausalLM(Qwen3Config(**QWEN, tie_word_embeddings=False)))
        case "qwen3-tied":
            return shaken(Qwen3ForCausalLM(Qwen3Config(**QWEN, tie_word_embeddings=True)))
        case "qwen3-all-keys":
            values = QWEN | {"num_key_value_heads": 4, "head_dim": 8, "hidden_size": 32}
            return shaken(Qwen3ForCausalLM(Qwen3Config(**values, tie_word_embeddings=False)))
        case "qwen3-window":
            return shaken(Qwen3ForCausalLM(Qwen3Config(**QWEN, **WINDOW, tie_word_embeddings=False)))
        case "llama":
            values = QWEN | {"hidden_size": 32, "head_dim": 10}  # theirs wants a width that heads divide
            return shaken(LlamaForCausalLM(transformers.LlamaConfig(**values)))
        case "llama-tied-stretched":
            values = PLAIN | {"rope_parameters": STRETCHED}
            return shaken(LlamaForCausalLM(transformers.LlamaConfig(**values, tie_word_embeddings=True)))
        case "qwen2":
            return shaken(Qwen2ForCausalLM(Qwen2Config(**PLAIN)))
        case "qwen2-tied-window":
            return shaken(Qwen2ForCausalLM(Qwen2Config(**PLAIN, **WINDOW, tie_word_embeddings=True)))
    raise ValueError(name)


NAMES = ["gpt2", "qwen3", "qwen3-tied", "qwen3-all-keys", "qwen3-window"]
NAMES += ["llama", "llama-tied-stretched", "qwen2", "qwen2-tied-window"]


def saved(model: Any) -> dict[str, Tensor]:
    """What their file holds: a tied head is the embedding and is not written."""
    weights = dict(model.state_dict())
    if model.config.tie_word_embeddings:
        del weights["lm_head.weight"]
    return weights


def translated(model: Any) -> tuple[Any, Table]:
    values = json.loads(model.config.to_json_string())
    room = ROOMS[values["model_type"]]
    config = room.import_config(values)
    return config, room.table(config)


def ours_of(model: Any) -> Any:
    config, table = translated(model)
    ours = config.build()
    ours.load_state_dict(import_weights(table, saved(model)))
    return ours.eval()


def tokens() -> Tensor:
    return torch.randint(37, (4, 24), generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_logits(name: str) -> None:
    theirs = theirs_of(name)
    with torch.no_grad():
        expected = theirs(tokens()).logits
        found = ours_of(theirs)(tokens())
    assert expected.abs().max() > 0.5, "a comparison of zeros says nothing"
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_gradients(name: str) -> None:
    theirs, targets = theirs_of(name), tokens().roll(-1, 1)
    ours = ours_of(theirs)
    _, table = translated(theirs)
    for model, logits in ((theirs, theirs(tokens()).logits), (ours, ours(tokens()))):
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
    expected = {name: p.grad for name, p in theirs.named_parameters()}
    found = export_weights(table, {name: p.grad for name, p in ours.named_parameters()})
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], atol=2e-5, rtol=1e-4, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_bit_equal_after_a_round_trip(name: str) -> None:
    theirs = theirs_of(name)
    config, table = translated(theirs)
    ours = import_weights(table, saved(theirs))
    assert set(ours) == set(config.build().state_dict())
    again = export_weights(table, ours)
    assert set(again) == set(saved(theirs))
    assert all(torch.equal(again[key], tensor) for key, tensor in saved(theirs).items())


@pytest.mark.parametrize("name", NAMES)
def test_their_own_file_is_read(name: str, tmp_path: Path) -> None:
    """What `save_pretrained` writes is what the tables expect, names and config.json alike."""
    theirs = theirs_of(name)
    theirs.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    room = ROOMS[values["model_type"]]
    config = room.import_config(values)
    ours = config.build()
    ours.load_state_dict(import_weights(room.table(config), load_file(tmp_path / "model.safetensors")))
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(tokens()), theirs(tokens()).logits, atol=2e-5, rtol=1e-5)


OURS = {
    "gpt": GPTConfig(vocabulary=37, layers=2, heads=3, width=48, context=24, dropout=0.1),
    "modern": ModernConfig(vocabulary=37, layers=2, heads=4, width=48, context=24),
    "modern-tied": ModernConfig(
        vocabulary=37, layers=2, heads=4, key_heads=1, head_width=6, width=20, context=24, head="tied", dropout=0.1
    ),
    "modern-window": ModernConfig(vocabulary=37, layers=2, heads=4, width=48, context=24, window=7),
    "llama": LlamaConfig(vocabulary=37, layers=2, heads=4, key_heads=2, head_width=6, width=48, context=24),
    "llama-tied-stretched": LlamaConfig(
        vocabulary=37, layers=2, heads=4, width=48, context=24, head="tied", rotary_factor=4.0, rotary_context=8
    ),
    "qwen2": LlamaConfig(
        kind="qwen2", vocabulary=37, layers=2, heads=4, key_heads=1, width=48, context=24, dropout=0.1
    ),
    "qwen2-window": LlamaConfig(kind="qwen2", vocabulary=37, layers=2, heads=4, width=48, context=24, window=7),
}


def room_of(config: Any) -> Any:
    return ROOMS[{"gpt": "gpt2", "modern": "qwen3"}.get(config.kind, config.kind)]


@pytest.mark.parametrize("name", OURS)
def test_theirs_opens_what_we_write(name: str, tmp_path: Path) -> None:
    """A folder with our config and weights opens by its name, with nothing missing, nothing new and equal logits."""
    torch.manual_seed(4)
    config = OURS[name]
    ours = shaken(config.build())
    values, table = room_of(config).export_config(config), room_of(config).table(config)
    (tmp_path / "config.json").write_text(json.dumps({**values, **IDS}), encoding="utf-8")
    save_file(export_weights(table, ours.state_dict()), tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    assert type(theirs).__name__ == values["architectures"][0]
    with torch.no_grad():
        torch.testing.assert_close(theirs.eval()(tokens()).logits, ours(tokens()), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", OURS)
def test_every_value_we_write_is_one_they_know(name: str) -> None:
    """A misspelt key would be kept silently as an attribute and do nothing."""
    values = room_of(OURS[name]).export_config(OURS[name])
    assert set(values) <= set(transformers.AutoConfig.for_model(values["model_type"]).to_dict())


@pytest.mark.parametrize(
    "name", ["gpt2", "qwen3", "qwen3-window", "llama-tied-stretched", "qwen2", "qwen2-tied-window"]
)
def test_the_same_greedy_text(name: str) -> None:
    """Their own generation, with their cache, and ours write the same tokens."""
    from qkv.generation.sampling import Sampling
    from qkv.generation.writing import write

    theirs, prompt = theirs_of(name), [5, 7, 11]
    written = theirs.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, 3),
        max_new_tokens=15,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    steps = write(ours_of(theirs), prompt, Sampling(temperature=0.0), length=15)
    assert [step[0].token for step in steps if step[0]] == written[0, 3:].tolist()
