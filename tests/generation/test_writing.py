"""Writing: with the state and without it the same tokens, at every length around the context."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import jaxtyping
import pytest
import torch

from models.suite import CONFIGS, VOCABULARY, built
from qkv.generation.sampling import Sampling
from qkv.generation.writing import Picked, Window, write

CONTEXT, NEW = 8, 30
GREEDY, SAMPLED = Sampling(temperature=0.0), Sampling(temperature=0.9, top_k=15, top_p=0.95, repetition_penalty=1.1)
PROMPT = torch.randint(VOCABULARY, (20,), generator=torch.Generator().manual_seed(2)).tolist()
EVERY_LENGTH = range(1, len(PROMPT) + 1)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without checks of every shape: they cost more than tiny models do, and other tests make them."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def model_of(name: str) -> Any:
    return built(dataclasses.replace(CONFIGS[name], context=CONTEXT))


def written(model: Any, prompt: list[int], sampling: Sampling = SAMPLED, **named: Any) -> list[list[int]]:
    """The tokens of each row."""
    named = {"length": NEW, **named}
    steps = list(write(model, prompt, sampling, **named))
    return [[pick.token for step in steps if (pick := step[row])] for row in range(len(steps[0]))]


def same_with_and_without_state(model: Any, sampling: Sampling, lengths: Iterable[int]) -> None:
    for length in lengths:
        with_state = written(model, PROMPT[:length], sampling, rows=2)
        without = written(model, PROMPT[:length], sampling, rows=2, cached=False)
        assert with_state == without, f"a prompt of {length}"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["gpt", "modern-grouped", "rnn-learned-start-one-hot", "gru", "lstm"])
def test_the_state_changes_no_token(name: str) -> None:
    """Prompts from one token to more than twice the context, and thirty tokens on, far past its end."""
    model = built(dataclasses.replace(CONFIGS[name], context=CONTEXT, layers=1, dropout=0.0))
    same_with_and_without_state(model, SAMPLED, EVERY_LENGTH)
    same_with_and_without_state(model, GREEDY, [1, 3, 4, 5, 7, 8, 9, 10, 20])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", CONFIGS)
def test_the_state_changes_no_token_of_any_model(name: str, sampling: Sampling) -> None:
    same_with_and_without_state(model_of(name), sampling, EVERY_LENGTH)


@pytest.mark.parametrize("name", ["gpt", "modern", "lstm"])
def test_a_full_window_keeps_its_last_half(name: str) -> None:
    """By hand: the last tokens, encoded anew from the start whenever the window has outgrown the context."""
    model = model_of(name)
    tokens, window = list(PROMPT[:3]), list(PROMPT[:3])
    for _ in range(NEW):
        if len(window) > CONTEXT:
            window = window[-CONTEXT // 2 :]
        with torch.no_grad():
            best = model(torch.tensor([window]))[0, -1].argmax().item()
        tokens.append(best)
        window.append(best)
    assert written(model, PROMPT[:3], GREEDY) == [tokens[3:]]


def test_the_state_is_used() -> None:
    """After the first call the model sees one token at a time, until the window is cut."""
    model, lengths = model_of("gpt"), []
    model.register_forward_pre_hook(lambda module, inputs: lengths.append(inputs[0].size(1)))
    written(model, PROMPT[:3], length=12)
    assert lengths == [3, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 4]


def test_a_context_of_one_still_writes() -> None:
    model = built(dataclasses.replace(CONFIGS["gpt"], context=1))
    assert written(model, PROMPT[:3]) == written(model, PROMPT[:3], cached=False)


@pytest.mark.parametrize("name", ["gpt", "modern", "lstm"])
def test_a_sample_does_not_depend_on_how_many_there_are(name: str) -> None:
    model = model_of(name)
    many = written(model, PROMPT[:4], rows=5, seed=3)
    for rows in (1, 2, 4):
        assert written(model, PROMPT[:4], rows=rows, seed=3) == many[:rows]
    assert len({tuple(row) for row in many}) == 5, "the rows differ from each other"


def test_seeds_differ_and_repeat() -> None:
    model = model_of("modern")
    found = [written(model, PROMPT[:4], seed=seed)[0] for seed in (0, 1, 2, 0)]
    assert found[0] == found[3]
    assert len({tuple(row) for row in found}) == 3
    assert written(model, PROMPT[:4], GREEDY, seed=0) == written(model, PROMPT[:4], GREEDY, seed=1)


def test_torchs_own_random_state_is_left_alone() -> None:
    model = model_of("gpt-dropout")
    before = torch.get_rng_state()
    written(model, PROMPT[:4])
    assert torch.equal(torch.get_rng_state(), before)


def test_ends_are_respected() -> None:
    """A row that has written an end is silent from then on; the others go on; when all have, writing stops."""
    model = model_of("gpt")
    free = written(model, PROMPT[:4], rows=6, seed=1)
    ends = {free[0][4]}
    steps = list(write(model, PROMPT[:4], SAMPLED, length=NEW, rows=6, seed=1, ends=ends))
    for row, tokens in enumerate(free):
        stop = next((place + 1 for place, token in enumerate(tokens) if token in ends), NEW)
        said = [step[row] for step in steps]
        assert [pick.token for pick in said if pick] == tokens[:stop], "the end itself is given, nothing after it"
        assert all(pick is None for pick in said[stop:])
    lengths = [sum(step[row] is not None for step in steps) for row in range(6)]
    assert len(steps) == max(lengths)


def test_writing_stops_when_every_row_has_ended() -> None:
    steps = list(write(model_of("gpt"), PROMPT[:4], SAMPLED, length=NEW, rows=3, ends=range(VOCABULARY)))
    assert len(steps) == 1
    assert not list(write(model_of("gpt"), PROMPT[:4], SAMPLED, length=0))


def test_log_probabilities_are_the_models_own() -> None:
    """Before any knob: a greedy choice has its true probability, not one."""
    model = model_of("gpt")
    tokens = list(PROMPT[:2])
    for step in write(model, PROMPT[:2], GREEDY, length=5):
        pick = step[0]
        assert isinstance(pick, Picked)
        with torch.no_grad():
            expected = model(torch.tensor([tokens]))[0, -1].log_softmax(-1)[pick.token].item()
        assert pick.logprob == pytest.approx(expected, abs=1e-5)
        assert math.isfinite(pick.logprob)
        tokens.append(pick.token)


def test_repetition_looks_at_the_prompt_and_beyond_the_window() -> None:
    """By hand: all that was written counts, what the window has forgotten too."""
    model = built(dataclasses.replace(CONFIGS["modern"], context=4))
    tokens, window = [3], [3]
    for _ in range(NEW):
        window = window if len(window) <= 4 else window[-2:]
        with torch.no_grad():
            logits = model(torch.tensor([window]))[0, -1]
        for token in set(tokens):
            logits[token] = logits[token] / 1.5 if logits[token] > 0 else logits[token] * 1.5
        tokens.append(logits.argmax().item())
        window.append(tokens[-1])
    assert written(model, [3], Sampling(temperature=0.0, repetition_penalty=1.5)) == [tokens[1:]]


def test_a_model_in_training_is_put_into_evaluation() -> None:
    model = model_of("gpt-dropout")
    expected = written(model, PROMPT[:4])
    assert written(model.train(), PROMPT[:4]) == expected


def test_a_window_never_outgrows_the_context() -> None:
    window = Window(model_of("gpt"), PROMPT, 2, True)
    with torch.no_grad():
        for _ in range(12):
            window.logits()
            assert window.tokens.size(1) <= CONTEXT
            window.append(torch.tensor([1, 2]))
