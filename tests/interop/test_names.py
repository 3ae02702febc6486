"""Name tables: exact inverses, and clear words about tensors that do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from qkv.errors import ConfigError, InputError
from qkv.interop import gpt2, qwen3
from qkv.interop.names import THIRDS, TRANSPOSED, TRANSPOSED_THIRDS, Row, Table, export_weights, import_weights
from qkv.models.gpt import GPTConfig
from qkv.models.modern import ModernConfig

GPT = GPTConfig(vocabulary=11, layers=11, heads=2, width=8, context=5)
MODERN = ModernConfig(vocabulary=11, layers=2, heads=4, key_heads=2, width=24, head_width=8, context=5)
CASES = {
    "gpt": (GPT, gpt2.TABLE),
    "modern": (MODERN, qwen3.OWN_HEAD),
    "modern, tied": (ModernConfig(vocabulary=11, width=24, heads=2, head="tied"), qwen3.TIED),
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


def test_what_does_not_fit_is_named() -> None:
    ours = GPT.build().state_dict()
    del ours["blocks.3.attention.norm.bias"]
    with pytest.raises(InputError, match=r"1 missing \(blocks\.3\.attention\.norm\.bias\)"):
        export_weights(gpt2.TABLE, ours)
    theirs = export_weights(qwen3.OWN_HEAD, MODERN.build().state_dict())
    with pytest.raises(InputError, match=r"1 unknown \(lm_head\.weight\)"):
        import_weights(qwen3.TIED, theirs)
    with pytest.raises(InputError, match=r"missing.*unknown"):
        import_weights(gpt2.TABLE, theirs)
    far = {**theirs, "model.layers.99999999999999.mlp.up_proj.weight": torch.zeros(1)}  # must not be counted up to
    with pytest.raises(InputError, match="unknown"):
        import_weights(qwen3.OWN_HEAD, far)


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
        ({"activation_function": "relu"}, "activation_function = 'relu' has no twin here; expected 'gelu_new'"),
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


def test_the_older_name_of_the_rotary_base_is_read() -> None:
    values = qwen3.export_config(MODERN)
    del values["rope_parameters"]
    assert qwen3.import_config({**values, "rope_theta": 1000000.0}).rotary_base == 1000000.0


def test_a_window_has_a_twin_in_qwen3_and_none_in_gpt2() -> None:
    windowed = dataclasses.replace(MODERN, window=5)
    assert qwen3.import_config(qwen3.export_config(windowed)).window == 5
    with pytest.raises(ConfigError, match="window = 5 has no twin in GPT-2"):
        gpt2.export_config(dataclasses.replace(GPT, window=5))
