"""Name tables: exact inverses, and clear words about tensors that do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.errors import ConfigError, InputError
from qkv.interop.decoder_architectures import GPT2_TABLE, gpt2, llama, qwen2, qwen3
from qkv.interop.tensors import (
    THIRDS,
    TRANSPOSED,
    TRANSPOSED_THIRDS,
    Row,
    Table,
    export_weights,
    import_weights,
    interleaved,
)
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig

GPT = GPTConfig(vocabulary=11, layers=11, heads=2, width=8, context=5)
MODERN = ModernConfig(vocabulary=11, layers=2, heads=4, key_heads=2, width=24, head_width=8, context=5)
LLAMA = LlamaConfig(vocabulary=11, layers=2, heads=4, key_heads=2, width=24, head_width=8, context=5)
QWEN2 = LlamaConfig(kind="qwen2", vocabulary=11, layers=2, heads=4, key_heads=2, width=24, context=5, head="tied")
MODERN_TIED = ModernConfig(vocabulary=11, width=24, heads=2, head="tied")
CASES = {
    "gpt": (GPT, gpt2.table(GPT)),
    "llama": (LLAMA, llama.table(LLAMA)),
    "qwen2": (QWEN2, qwen2.table(QWEN2)),
    "modern": (MODERN, qwen3.table(MODERN)),
    "modern, tied": (MODERN_TIED, qwen3.table(MODERN_TIED)),
}


def equal(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("config", "table"), CASES.values(), ids=CASES)
def test_there_and_back_is_bit_equal(config: Any, table: Table) -> None:
    ours = config.build().state_dict()
    theirs = export_weights(table, ours)
    again = import_weights(table, theirs)
    assert equal(again, ours)
    assert equal(export_weights(table, again), theirs)


@pytest.mark.parametrize(("config", "table"), CASES.values(), ids=CASES)
def test_both_sides_can_be_saved(config: Any, table: Table) -> None:
    """safetensors refuses tensors that share memory or are not contiguous."""
    theirs = export_weights(table, config.build().state_dict())
    for weights in (theirs, import_weights(table, theirs)):
        assert all(tensor.is_contiguous() for tensor in weights.values())
        assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == len(weights)


def test_transforms() -> None:
    table = (
        Row("w", "turned", TRANSPOSED),
        Row("layers.{i}.{a,b,c}.bias", "h.{i}.all", THIRDS),
        Row("{a,b,c}", "both", TRANSPOSED_THIRDS),
    )
    numbers = torch.arange(6.0)
    theirs = {"turned": numbers.view(2, 3), "h.0.all": numbers, "both": numbers.view(2, 3)}
    ours = import_weights(table, theirs)
    assert list(ours) == ["w", "layers.0.a.bias", "layers.0.b.bias", "layers.0.c.bias", "a", "b", "c"]
    assert ours["w"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert ours["layers.0.b.bias"].tolist() == [2, 3]
    assert ours["c"].tolist() == [[2, 5]]
    assert equal(export_weights(table, ours), theirs)


def test_neighbours_become_halves() -> None:
    """Two heads of six rows: (0, 1), (2, 3), (4, 5) turn together there, (0, 3), (1, 4), (2, 5) here."""
    rows = torch.arange(12.0).view(12, 1)
    (moved,) = interleaved(2).read(rows)
    assert moved.flatten().tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert torch.equal(interleaved(2).write([moved]), rows)


def test_what_does_not_fit_is_named() -> None:
    ours = GPT.build().state_dict()
    del ours["blocks.3.attention.norm.bias"]
    with pytest.raises(InputError, match=r"1 missing \(blocks\.3\.attention\.norm\.bias\)"):
        export_weights(GPT2_TABLE, ours)
    theirs = export_weights(qwen3.table(MODERN), MODERN.build().state_dict())
    with pytest.raises(InputError, match=r"1 unknown \(lm_head\.weight\)"):
        import_weights(qwen3.table(MODERN_TIED), theirs)
    with pytest.raises(InputError, match=r"missing.*unknown"):
        import_weights(GPT2_TABLE, theirs)
    far = {**theirs, "model.layers.99999999999999.mlp.up_proj.weight": torch.zeros(1)}  # must not be counted up to
    with pytest.raises(InputError, match="unknown"):
        import_weights(qwen3.table(MODERN), far)


def test_configs_there_and_back() -> None:
    gpt = GPTConfig(vocabulary=11, layers=2, heads=2, width=8, context=5, dropout=0.1)
    assert gpt2.import_config(gpt2.export_config(gpt)) == gpt
    modern = ModernConfig(
        vocabulary=11,
        layers=3,
        heads=4,
        key_heads=2,
        width=20,
        head_width=6,
        hidden=7,
        context=9,
        rotary_base=5e5,
        norm_epsilon=1e-5,
        head="tied",
        dropout=0.2,
    )
    assert qwen3.import_config(qwen3.export_config(modern)) == modern
    stretched = LlamaConfig(
        vocabulary=11,
        layers=3,
        heads=4,
        key_heads=2,
        width=20,
        head_width=6,
        hidden=7,
        context=9,
        rotary_base=5e5,
        rotary_factor=8.0,
        rotary_low=2.0,
        rotary_high=3.0,
        rotary_context=4,
        norm_epsilon=1e-5,
        head="tied",
        dropout=0.2,
    )
    assert llama.import_config(llama.export_config(stretched)) == stretched
    windowed = LlamaConfig(kind="qwen2", vocabulary=11, heads=5, key_heads=5, width=20, hidden=7, context=9, window=3)
    assert qwen2.import_config(qwen2.export_config(windowed)) == windowed


def test_every_room_offers_the_same() -> None:
    for room, config in ((gpt2, GPT), (llama, LLAMA), (qwen2, QWEN2), (qwen3, MODERN)):
        values = room.export_config(config)
        assert values["model_type"] in room.model_types
        assert room.table(room.import_config(values)) == room.table(config)


def test_sizes_left_to_the_model_are_written_out() -> None:
    config = ModernConfig(vocabulary=11, layers=1, heads=4, width=48)
    values = qwen3.export_config(config)
    assert (values["num_key_value_heads"], values["head_dim"], values["intermediate_size"]) == (4, 12, 128)
    shapes = {name: tensor.shape for name, tensor in config.build().state_dict().items()}
    again = qwen3.import_config(values).build().state_dict()
    assert shapes == {name: tensor.shape for name, tensor in again.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"activation_function": "relu"}, "activation_function = 'relu' is not supported; expected 'gelu_new'"),
        ({"n_inner": 7}, "n_inner = 7"),
        ({"attn_pdrop": 0.5}, "attn_pdrop = 0.5"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings"),
        ({"model_type": "bert"}, "model_type = 'bert'"),
        ({"n_head": 3}, "does not divide into 3 heads"),
        ({"n_embd": None}, "n_embd is missing"),
        ({"n_layer": "2"}, "layers = '2'"),
    ],
)
def test_gpt2_refuses_what_it_lacks(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        gpt2.import_config({**gpt2.export_config(GPT), **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_type = 'yarn'"),
        ({"rope_scaling": {"factor": 2}}, "rope_scaling"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"use_sliding_window": True, "sliding_window": None}, "sliding_window is missing"),
        ({"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, "a window in some layers only"),
        ({"use_sliding_window": True, "layer_types": ["sliding_attention", "full_attention"]}, "in some layers only"),
        ({"head_dim": 5}, "even"),
    ],
)
def test_qwen3_refuses_what_it_lacks(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        qwen3.import_config({**qwen3.export_config(MODERN), **change})


@pytest.mark.parametrize(
    ("config", "change", "words"),
    [
        (LLAMA, {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, "rope_type = 'yarn' is not supported"),
        (LLAMA, {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_type = 'linear'"),
        (LLAMA, {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1.0}}, "factor is missing"),
        (LLAMA, {"rope_parameters": {"rope_theta": 1.0, "partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5"),
        (LLAMA, {"rope_parameters": 7}, "rope_parameters = 7"),
        (LLAMA, {"attention_bias": True}, "attention_bias = True"),
        (LLAMA, {"mlp_bias": True}, "mlp_bias = True"),
        (LLAMA, {"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        (LLAMA, {"model_type": "mistral"}, "model_type = 'mistral' is not supported; expected 'llama'"),
        (LLAMA, {"hidden_size": None}, "hidden_size is missing"),
        (QWEN2, {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}, "Qwen2: a window in some"),
        (QWEN2, {"num_key_value_heads": 3}, "multiple of key_heads = 3"),
    ],
)
def test_llama_refuses_what_it_lacks(config: LlamaConfig, change: dict[str, Any], words: str) -> None:
    architecture = qwen2 if config is QWEN2 else llama
    with pytest.raises(ConfigError, match=words):
        architecture.import_config({**architecture.export_config(config), **change})


def test_older_config_files_of_llama_are_read() -> None:
    """Before transformers 5: the base stands alone, the stretch is `rope_scaling`, some sizes are left out."""
    values = llama.export_config(dataclasses.replace(LLAMA, key_heads=0, head_width=0))
    for name in ("rope_parameters", "num_key_value_heads", "head_dim"):
        del values[name]
    numbers = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
    scaling = {"rope_type": "llama3", "factor": 8.0, **numbers}
    read = llama.import_config({**values, "rope_theta": 5e5, "rope_scaling": scaling})
    assert (read.rotary_base, read.rotary_factor, read.key_heads, read.head_width) == (5e5, 8.0, 0, 0)
    assert llama.import_config({**values, "rope_scaling": None}).rotary_factor == 1.0


def test_the_older_name_of_the_rotary_base_is_read() -> None:
    values = qwen3.export_config(MODERN)
    del values["rope_parameters"]
    assert qwen3.import_config({**values, "rope_theta": 1000000.0}).rotary_base == 1000000.0


def test_a_window_can_be_exported_to_qwen3_and_not_to_gpt2() -> None:
    windowed = dataclasses.replace(MODERN, window=5)
    assert qwen3.import_config(qwen3.export_config(windowed)).window == 5
    with pytest.raises(ConfigError, match="window = 5 has no equivalent in GPT-2"):
        gpt2.export_config(dataclasses.replace(GPT, window=5))
    with pytest.raises(ConfigError, match="window = 5 has no equivalent in Llama"):
        llama.export_config(dataclasses.replace(LLAMA, window=5))
    with pytest.raises(ConfigError, match="head_width = 8 has no equivalent in Qwen2"):
        qwen2.export_config(dataclasses.replace(QWEN2, head_width=8))
