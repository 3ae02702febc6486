"""LoRA: equal to the layer at the start, to its formula later, and to the merged weights always."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from qkv.blocks.low_rank import LowRank, adapt, merged
from qkv.models.bert import BertConfig
from qkv.models.encoders import build
from qkv.models.modern import ModernConfig

BERT = BertConfig(vocabulary=20, layers=2, heads=2, width=16, context=12, pooler="first")
MODERN = ModernConfig(vocabulary=20, layers=2, heads=2, width=16, context=12)


def test_it_starts_as_the_layer_and_follows_the_formula() -> None:
    torch.manual_seed(0)
    linear, x = nn.Linear(6, 4), torch.randn(3, 6)
    made = LowRank(linear, 2, alpha=8.0)
    assert torch.equal(made(x), linear(x))
    nn.init.normal_(made.up)
    expected = linear(x) + 4.0 * x @ made.down.T @ made.up.T
    torch.testing.assert_close(made(x), expected)
    torch.testing.assert_close(x @ made.weight().T + linear.bias, expected)
    assert [name for name, p in made.named_parameters() if p.requires_grad] == ["down", "up"]


def test_equal_to_peft() -> None:
    peft = pytest.importorskip("peft", reason="compared by formula above; peft is not installed")
    torch.manual_seed(0)
    linear, x = nn.Sequential(nn.Linear(6, 4)), torch.randn(3, 6)
    own = LowRank(nn.Linear(6, 4), 2)
    own.linear.load_state_dict(linear[0].state_dict())
    nn.init.normal_(own.up)
    theirs = peft.get_peft_model(linear, peft.LoraConfig(r=2, lora_alpha=16, target_modules=["0"]))
    layer = theirs.base_model.model[0]
    layer.lora_A["default"].weight.data.copy_(own.down)
    layer.lora_B["default"].weight.data.copy_(own.up)
    torch.testing.assert_close(own(x), theirs(x))


@pytest.mark.parametrize("config", [BERT, MODERN], ids=["bert", "modern"])
def test_merged_equals_unmerged(config: BertConfig | ModernConfig) -> None:
    torch.manual_seed(0)
    model, plain = build(config, 2), build(config, 2)
    names = list(model.state_dict())
    assert adapt(model, 4) > 6
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    found = merged(model)
    assert sorted(found) == sorted(names)
    plain.load_state_dict(found)
    tokens = torch.randint(20, (3, 12))
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(tokens), model.eval()(tokens), atol=1e-5, rtol=1e-5)


def test_what_is_left_beside() -> None:
    model = BERT.build()
    adapt(model, 4, besides=("pooler",))
    assert type(model.pooler.dense) is nn.Linear
    assert isinstance(model.blocks[0].attention.sublayer.query, LowRank)
    assert not model.embedding.weight.requires_grad
