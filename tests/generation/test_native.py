"""The compiled steps give what the model gives: every kind of block, rows of any length, every number format."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from qkv.data.tokens import TokenStream
from qkv.evaluation.perplexity import FormatCheck, check_format, score
from qkv.generation import compiler, native
from qkv.generation.native import Native, choose, fits, quantized
from qkv.generation.sampling import Sampling
from qkv.generation.writing import write
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig
from qkv.storage import verify_files

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="no C compiler here")

CONFIGS = {
    "gpt": GPTConfig(vocabulary=65, layers=2, heads=4, width=64, context=48),
    "modern": ModernConfig(vocabulary=66, layers=2, heads=4, width=64, context=48),
    "grouped": ModernConfig(vocabulary=67, layers=2, heads=4, key_heads=2, width=48, context=48),
    "one key, tied": ModernConfig(vocabulary=68, layers=1, heads=4, key_heads=1, width=32, context=48, head="tied"),
    "llama": LlamaConfig(vocabulary=65, layers=2, heads=4, key_heads=2, width=48, context=48, rotary_factor=4.0),
    "qwen2": LlamaConfig(
        kind="qwen2", vocabulary=65, layers=2, heads=4, key_heads=2, width=48, context=48, head="tied"
    ),
    "wide heads": ModernConfig(vocabulary=65, layers=1, heads=2, head_width=20, width=36, hidden=44, context=48),
}


def built(name: str) -> nn.Module:
    """A model with nothing left at zero or one, so that every part matters."""
    torch.manual_seed(len(name))
    model = CONFIGS[name].build().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.15)
        else:
            nn.init.uniform_(parameter, 0.5, 1.5)
    return model


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("rows", [1, 3])
def test_steps_equal_the_full_pass(name: str, rows: int) -> None:
    model = built(name)
    tokens = torch.randint(model.vocabulary, (rows, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        writer = Native(model)
        state = writer.state(rows)
        found = [writer(tokens[:, :10], state), *(writer(tokens[:, i : i + 1], state) for i in range(10, 40))]
        torch.testing.assert_close(torch.cat(found, 1), model(tokens)[:, 9:], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["gpt", "grouped"])
def test_rows_of_different_lengths_and_what_states_can_do(name: str) -> None:
    """Truncate, choose rows, reset: each row goes on as if it were alone."""
    model = built(name)
    tokens = torch.randint(model.vocabulary, (3, 30), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        writer = Native(model)
        state = writer.state(3)
        writer(tokens[:, :20], state)
        state.truncate(12)
        state = state.rows([2, 0, 1, 0])
        state.reset(2)
        assert state.lengths == [12, 12, 0, 12]
        histories = [tokens[2, :12], tokens[0, :12], tokens[1, :0], tokens[0, :12]]
        for step in range(5):
            new = torch.randint(model.vocabulary, (4, 1), generator=torch.Generator().manual_seed(step))
            found = writer(new, state)
            histories = [torch.cat([old, own]) for old, own in zip(histories, new, strict=True)]
            for row, history in enumerate(histories):
                torch.testing.assert_close(found[row, 0], model(history[None])[0, -1], atol=2e-5, rtol=1e-5)


def test_a_full_state_is_refused() -> None:
    writer = Native(built("gpt"))
    state = writer.state(1, 4)
    with torch.inference_mode():
        writer(torch.zeros(1, 4, dtype=torch.long), state)
        with pytest.raises(ValueError, match="holds 4 positions, 5 were asked for"):
            writer(torch.zeros(1, 1, dtype=torch.long), state)


@pytest.mark.parametrize("format", ["f32", "bf16", "int8"])
def test_more_rows_than_are_read_together(format: native.Format) -> None:
    """In every format a row has the same bits alone and among many."""
    model = built("modern")
    tokens = torch.randint(66, (2 * native.TOGETHER + 1, 12), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        writer = Native(model, format)
        state = writer.state(len(tokens))
        writer(tokens[:, :11], state)
        alone = [state.rows([row]) for row in range(len(tokens))]
        found = writer(tokens[:, 11:], state)
        for row, each in enumerate(alone):
            assert torch.equal(writer(tokens[row : row + 1, 11:], each)[0], found[row])
        if format == "f32":
            torch.testing.assert_close(found[:, 0], model(tokens)[:, -1], atol=2e-5, rtol=1e-5)


def test_beyond_the_context_is_refused_whatever_the_state_holds() -> None:
    model = built("modern")
    with torch.inference_mode():
        writer = Native(model)
        state = writer.state(1, 2 * model.context)
        writer(torch.zeros(1, model.context, dtype=torch.long), state)
        with pytest.raises(ValueError, match=f"holds {model.context} positions"):
            writer(torch.zeros(1, 1, dtype=torch.long), state)


@pytest.mark.parametrize(("format", "bound"), [("bf16", 0.03), ("int8", 0.06)])
@pytest.mark.parametrize("name", CONFIGS)
def test_fewer_bits_stay_close(name: str, format: native.Format, bound: float) -> None:
    """Close in the logits' own size, and not equal: the format is really used."""
    model = built(name)
    tokens = torch.randint(model.vocabulary, (2, 30), generator=torch.Generator().manual_seed(4))
    with torch.inference_mode():
        writer = Native(model, format)
        state = writer.state(2)
        found = torch.cat([writer(tokens[:, i : i + 1], state) for i in range(30)], 1)
        exact = model(tokens)
    off = float((found - exact).square().mean().sqrt() / exact.square().mean().sqrt())
    assert 1e-5 < off < bound


def test_int8_products_are_those_of_the_rounded_weights() -> None:
    """With the weights replaced by what int8 stands for, the plain format gives the same."""
    model = built("gpt")
    tokens = torch.randint(65, (1, 20), generator=torch.Generator().manual_seed(5))
    with torch.inference_mode():
        whole = Native(copy.deepcopy(model), "int8")
        for module in model.modules():
            if isinstance(module, nn.Linear):
                numbers, factors = quantized(module.weight)
                module.weight.copy_(numbers * factors.unsqueeze(1))
        numbers, factors = quantized(model.embedding.weight)
        head = numbers * factors.unsqueeze(1)
        plain = Native(model)
        plain.c.head = plain._matrix([nn.Linear(64, 65, bias=False).requires_grad_(False)])
        holder = nn.Linear(64, 65, bias=False)
        holder.weight.data.copy_(head)
        plain.c.head = plain._matrix([holder])
        states = whole.state(1), plain.state(1)
        for place in range(20):
            step = tokens[:, place : place + 1]
            torch.testing.assert_close(whole(step, states[0]), plain(step, states[1]), atol=2e-3, rtol=1e-3)


def test_writing_is_the_same_compiled_or_not() -> None:
    model = built("modern")
    for sampling in (Sampling(temperature=0.0), Sampling(temperature=0.8, top_k=20)):
        texts = [
            [[each.token for each in step if each] for step in write(each, [1, 2, 3], sampling, length=80, rows=2)]
            for each in (model, Native(model))
        ]
        assert texts[0] == texts[1]


def test_only_what_the_code_knows_is_taken() -> None:
    assert all(fits(built(name)) for name in CONFIGS)
    assert not fits(RecurrentConfig(kind="gru", vocabulary=65, width=32).build())
    assert not fits(GPTConfig(vocabulary=65, layers=1, heads=1, width=30, context=16).build()), "30 is no multiple of 4"
    assert not fits(GPTConfig(vocabulary=65, layers=1, heads=2, width=32, context=16, window=8).build())


def test_the_rule_is_fixed() -> None:
    few = GPTConfig(vocabulary=65, layers=1, heads=2, width=32, context=16).build()
    many = GPTConfig(vocabulary=65, layers=6, heads=6, width=240, context=16).build()
    assert [choose(few, passed) for passed in (False, True)] == ["f32", "f32"]
    assert [choose(many, passed) for passed in (False, True)] == ["bf16", "int8"]


def test_the_check_sees_what_int8_costs() -> None:
    """Its plain loss is the model's own; in f32 writing costs nothing, in int8 a little."""
    model = built("gpt")
    text = TokenStream(torch.randint(65, (700,), generator=torch.Generator().manual_seed(6)).numpy(), 700, 700, 1, 0)
    found = check_format(model, text, "f32")
    assert found.loss == pytest.approx(found.plain, abs=1e-5)
    assert found.plain == pytest.approx(score(model, text, window=48).loss, rel=0.05)
    assert 1e-5 < abs(check_format(model, text, "int8").loss - found.plain) < 0.05


def test_half_a_percent_is_tolerated() -> None:
    assert FormatCheck(2.0, 2.01, 10).passed
    assert FormatCheck(2.0, 1.9, 10).passed
    assert not FormatCheck(2.0, 2.011, 10).passed


def test_without_a_compiler_the_model_itself_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_NATIVE", "0")
    compiler.library.cache_clear()
    try:
        assert not fits(built("gpt"))
    finally:
        monkeypatch.undo()
        compiler.library.cache_clear()


def test_a_compiler_that_fails_is_no_harm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "false")
    monkeypatch.setenv("QKV_CACHE", str(tmp_path))
    compiler.library.cache_clear()
    try:
        assert compiler.library() is None
        assert not list(tmp_path.rglob(compiler.NAME))
    finally:
        monkeypatch.undo()
        compiler.library.cache_clear()


def test_an_altered_library_is_made_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path))
    compiler.library.cache_clear()
    try:
        assert compiler.library() is not None
        made = next(tmp_path.rglob(compiler.NAME))
        data = bytearray(made.read_bytes())
        data[-1] ^= 1
        other = made.with_name("other")  # under a name of its own first: the old file is still in use here
        other.write_bytes(data)
        other.chmod(0o700)
        other.replace(made)
        compiler.library.cache_clear()
        assert compiler.library() is not None
        assert made.read_bytes() != data
        verify_files(made.parent, compiler.NAME)
    finally:
        monkeypatch.undo()
        compiler.library.cache_clear()
