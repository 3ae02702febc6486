"""LoRA: equal to the layer at the start, to its formula later, and to the merged weights always."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from torch import nn

from qkv.blocks.low_rank import LowRank, LowRankRecurrent, add_adapters, merged
from qkv.blocks.recurrent import unrolled
from qkv.models.bert import BertConfig
from qkv.models.encoders import build
from qkv.models.modern import ModernConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.models.rnn import RecurrentConfig

BERT = BertConfig(vocabulary=20, layers=2, heads=2, width=16, context=12, pooler="first")
KINDS: tuple[Literal["rnn", "gru", "lstm"], ...] = ("rnn", "gru", "lstm")
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


@pytest.mark.parametrize("cell", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_recurrence_starts_as_it_is_and_follows_the_formula(cell: type[nn.RNNBase], bidirectional: bool) -> None:
    """Beside the input and the hidden matrix of each layer and direction; biases, and the layer itself, stay."""
    torch.manual_seed(0)
    directions = 2 if bidirectional else 1
    layer = cell(6, 4, 2, batch_first=True, bidirectional=bidirectional)
    x, start = torch.randn(3, 5, 6), tuple(torch.randn(2, 2 * directions, 3, 4))
    hidden = start if cell is nn.LSTM else start[0]
    before = _flat(layer(x, hidden))  # while it learns: torch rounds otherwise where nothing does
    made = LowRankRecurrent(layer, 2, alpha=8.0)
    assert len(made.up) == 2 * 2 * directions
    for ours, theirs in zip(_flat(made(x, hidden)), before, strict=True):
        assert torch.equal(ours, theirs)
    for up in made.up.values():
        nn.init.normal_(up)
    learning = [name for name, p in made.named_parameters() if p.requires_grad]
    assert len(learning) == 2 * len(made.up)
    assert not any(name.startswith("layer.") for name in learning)
    moved = cell(6, 4, 2, batch_first=True, bidirectional=bidirectional)
    added = {name: 4.0 * made.up[name] @ made.down[name] for name in made.up}
    moved.load_state_dict({name: each + added.get(name, 0.0) for name, each in layer.state_dict().items()})
    for ours, theirs in zip(_flat(made(x, hidden)), _flat(moved(x, hidden)), strict=True):
        torch.testing.assert_close(ours, theirs)
    if not bidirectional:
        by_hand, _ = unrolled(moved, x, start[: 2 if cell is nn.LSTM else 1])
        torch.testing.assert_close(made(x, hidden)[0], by_hand)
    made(x, hidden)[0].sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().sum() > 0) for p in made.parameters() if p.requires_grad)
    assert all(p.grad is None for p in layer.parameters())


def _flat(found: Any) -> list[torch.Tensor]:
    output, last = found
    return [output, *(last if isinstance(last, tuple) else (last,))]


def test_dropout_between_layers_is_for_learning_only() -> None:
    made = LowRankRecurrent(nn.LSTM(6, 4, 2, batch_first=True, dropout=0.5), 2)
    x, hidden = torch.randn(3, 5, 6), (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4))
    assert not torch.equal(made(x, hidden)[0], made(x, hidden)[0])
    made.eval()
    assert torch.equal(made(x, hidden)[0], made(x, hidden)[0])


RECURRENT = [RecurrentConfig(kind=kind, vocabulary=20, layers=2, width=16, start="learned") for kind in KINDS]
CELLS = [RecurrentEncoderConfig(cell=kind, vocabulary=20, layers=2, width=16) for kind in KINDS]


@pytest.mark.parametrize("config", RECURRENT, ids=KINDS)
def test_a_recurrent_language_model(config: RecurrentConfig) -> None:
    """Equal to the original at the start, with a state too; then to the model that holds what was learned."""
    torch.manual_seed(0)
    model, plain = config.build().eval(), config.build().eval()
    plain.load_state_dict(model.state_dict())
    tokens = torch.randint(20, (3, 12))
    assert add_adapters(model, 4) == 2  # the recurrence and the head
    assert torch.equal(model(tokens), plain(tokens))
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert ".up" in name or ".down" in name
            nn.init.normal_(parameter, std=0.2)
    plain.load_state_dict(merged(model))
    with torch.no_grad():
        torch.testing.assert_close(model(tokens), plain(tokens), atol=1e-5, rtol=1e-5)
        state = model.state(3)
        steps = torch.cat([model(tokens[:, t : t + 1], state) for t in range(12)], 1)
        torch.testing.assert_close(steps, plain(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("config", [BERT, MODERN, *RECURRENT, *CELLS], ids=lambda config: f"{config.kind}")
def test_merged_equals_unmerged(config: Any) -> None:
    torch.manual_seed(0)
    model, plain = build(config, 2), build(config, 2)
    names = list(model.state_dict())
    assert add_adapters(model, 4) == {BERT: 13, MODERN: 14}.get(config, 1 if config in RECURRENT else 4)
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
    add_adapters(model, 4, exclude=("pooler",))
    assert type(model.pooler.dense) is nn.Linear
    assert isinstance(model.blocks[0].attention.sublayer.query, LowRank)
    assert not model.embedding.weight.requires_grad
