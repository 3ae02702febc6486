"""The steps of a beam in C beside torch's: candidates, attention of rows, and whole translations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import translators
from qkv.blocks.attention import open_attention
from qkv.generation import compiler
from qkv.generation.beam import GREEDY, Hypothesis, Search, candidates, translate
from qkv.generation.branches import Branches, Branching, branching
from qkv.generation.sampling import NEVER, Sampling
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.models.transformer import TransformerConfig

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="no C compiler here")
VOCABULARY, START, END = 90, 2, 1
SHAPES = {
    "narrow heads": TransformerConfig(vocabulary=VOCABULARY, layers=2, heads=3, width=30, context=24),
    "heads of 32": TransformerConfig(vocabulary=VOCABULARY, layers=1, heads=2, width=64, context=24, norm="pre"),
    "heads of 64": TransformerConfig(vocabulary=VOCABULARY, layers=1, heads=1, width=64, context=24, activation="gelu"),
    "gru": RNNTranslatorConfig(vocabulary=VOCABULARY, cell="gru", width=16, context=24),
}
TRANSFORMERS = [name for name in SHAPES if name != "gru"]
SOURCES = [[3, 4, END], [5, 60, 3, 2, 4, 4, END], [END], [4, 30, END], [6, 6, 66, 6, END]]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def built(name: str, seed: int = 0) -> Any:
    return translators.built(SHAPES[name], seed)


@contextmanager
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QKV_NATIVE", "0")
    compiler.library.cache_clear()
    try:
        yield
    finally:
        monkeypatch.undo()
        compiler.library.cache_clear()


def ranked(logits: Tensor, count: int, never: Tensor) -> tuple[Tensor, Tensor]:
    """By sorting all, in f64; of equals the first one first."""
    logprobs = logits.double().log_softmax(-1).index_fill(1, never, NEVER)
    found = logits.index_fill(1, never, NEVER).sort(dim=1, descending=True, stable=True).indices[:, :count]
    return logprobs.gather(1, found).float(), found


@pytest.mark.parametrize("vocabulary", [23, 64, 1000, 8003])
@pytest.mark.parametrize(("count", "never"), [(1, []), (2, [0]), (10, [0, 5, 22])])
def test_candidates_are_the_largest_of_all(vocabulary: int, count: int, never: list[int]) -> None:
    drawn, barred = torch.Generator().manual_seed(1), torch.tensor(never, dtype=torch.long)
    for scale, shift in ((0.01, 0.0), (3.0, 500.0), (60.0, -3000.0)):
        logits = torch.randn(7, vocabulary, generator=drawn) * scale + shift
        logits[0, -1], logits[1, 0] = shift + 9 * scale, shift + 9 * scale
        expected, tokens = ranked(logits, count, barred)
        for threads in (1, 2):
            before = torch.get_num_threads()
            torch.set_num_threads(threads)
            most, found = candidates(logits, count, barred)
            torch.set_num_threads(before)
            assert torch.equal(found, tokens)
            torch.testing.assert_close(most, expected, atol=max(1e-5, scale * 1e-5, abs(shift) * 2e-7), rtol=1e-5)


def test_of_equal_candidates_the_first_is_taken() -> None:
    logits = torch.randint(4, (20, 500), generator=torch.Generator().manual_seed(2)).float()
    logits[0] = 1.0
    barred = torch.tensor([3, 77])
    expected, tokens = ranked(logits, 10, barred)
    most, found = candidates(logits, 10, barred)
    assert torch.equal(found, tokens)
    torch.testing.assert_close(most, expected, **CLOSE)
    for row in range(20):  # what stands beside a row does not matter
        assert torch.equal(candidates(logits[row : row + 1], 10, barred)[0][0], most[row])


def test_candidates_with_and_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, barred = torch.randn(64, 8000, generator=torch.Generator().manual_seed(3)) * 4, torch.tensor([0, 9])
    most, found = candidates(logits, 10, barred)
    few = candidates(logits[:, :11], 10, barred)
    with without_compiler(monkeypatch):
        assert compiler.library() is None
        expected, tokens = candidates(logits, 10, barred)
        few_expected = candidates(logits[:, :11], 10, barred)
    assert torch.equal(found, tokens)
    torch.testing.assert_close(most, expected, **CLOSE)
    assert all(map(torch.equal, few, few_expected)), "where fewer may be written than are asked for, torch answers"
    assert few[0].isinf().any()


def encoded(model: Any) -> tuple[Tensor, Tensor]:
    """What was read of three sources of unequal length."""
    present = torch.arange(6) < torch.tensor([6, 2, 4]).unsqueeze(1)
    source = torch.randint(3, VOCABULARY, (3, 6), generator=torch.Generator().manual_seed(4))
    return model.encode(source, present), present


@pytest.mark.parametrize("name", TRANSFORMERS)
@torch.no_grad()
def test_steps_are_the_models_own(name: str) -> None:
    """While rows are chosen, sources leave, and a state goes back or starts anew."""
    model = built(name)
    steps = branching(model)
    assert isinstance(steps, Branching)
    memory, present = encoded(model)
    tokens = torch.randint(VOCABULARY, (20, 6), generator=torch.Generator().manual_seed(5))
    plain, own = model.state(3, 8), steps.state(3, 8)

    def agree(rows: int, step: int) -> None:
        given = tokens[step, :rows].unsqueeze(1)
        found = steps.decode(given, memory, present, own)
        torch.testing.assert_close(found, model.decode(given, memory, present, plain), **CLOSE)
        assert own.lengths == plain.lengths

    agree(3, 0)
    torch.testing.assert_close(
        steps.decode(tokens[0, :3].unsqueeze(1), memory, present),
        model.decode(tokens[0, :3].unsqueeze(1), memory, present),
        **CLOSE,
    )
    plain, own = plain.rows([0, 0, 1, 1, 2, 2]), own.rows([0, 0, 1, 1, 2, 2])
    agree(6, 1)
    other = own.rows([5, 4, 3, 2, 1, 0])  # a branch of its own: what it appends is not seen here
    other.written[0].append(torch.zeros(6, 1, 2 * model.width))
    for index in ([1, 1, 3, 2, 4, 5], [0, 0, 2, 3, 5, 5]):
        plain, own = plain.rows(index), own.rows(index)
        agree(6, 2)
    memory, present = memory[[0, 2]], present[[0, 2]]
    plain, own = plain.rows([1, 0, 4, 4]), own.rows([1, 0, 4, 4])
    for step in (3, 4):
        agree(4, step)
    for state in (plain, own):
        state.truncate(3)
    agree(4, 5)
    for state in (plain, own):
        state.reset(2)
    agree(4, 6)
    assert own.lengths == [5, 5, 1, 5]


@torch.no_grad()
def test_a_state_that_is_full_says_so() -> None:
    model = built("narrow heads")
    steps: Any = branching(model)
    memory, present = encoded(model)
    state = steps.state(3, 1)
    steps.decode(torch.zeros(3, 1, dtype=torch.long), memory, present, state)
    with pytest.raises(ValueError, match="holds 1 positions, 2 were asked for"):
        steps.decode(torch.zeros(3, 1, dtype=torch.long), memory, present, state)
    assert isinstance(state.written[0], Branches)


def said(model: Any, search: Search) -> list[list[Hypothesis]]:
    return translate(model, SOURCES, search, start=START, end=END)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "search",
    [
        Search(beams=5, best=5, never=(0, START)),
        Search(),
        Search(sampling=GREEDY),
        Search(sampling=Sampling(temperature=0.8), best=2, seed=3),
    ],
)
def test_translations_with_and_without_a_compiler(name: str, search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(name)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)  # of decided opinions
    found = said(model, search)
    with without_compiler(monkeypatch):
        assert branching(model) is model
        expected = said(model, search)
    assert [[one.tokens for one in each] for each in found] == [[one.tokens for one in each] for each in expected]
    for one, other in zip(chain.from_iterable(found), chain.from_iterable(expected), strict=True):
        assert one.logprob == pytest.approx(other.logprob, rel=1e-5, abs=1e-5)
        assert one.ended == other.ended


def test_who_looks_inside_gets_the_model_itself() -> None:
    model = built("narrow heads")
    assert isinstance(branching(model), Branching)
    seen: list[Tensor] = []
    tap = model.decoder[0].crossing.sublayer.mixed
    hook = tap.register_forward_hook(lambda module, given, made: seen.append(made))
    assert branching(model) is model
    said(model, Search(beams=2))
    hook.remove()
    assert seen
    with open_attention(model):
        assert branching(model) is model
    assert branching(model.train()) is model
    with torch.autocast("cpu", torch.bfloat16):
        assert branching(model.eval()) is model
    assert isinstance(branching(model), Branching)
    for other in (built("narrow heads").bfloat16(), built("gru")):
        assert branching(other) is other
