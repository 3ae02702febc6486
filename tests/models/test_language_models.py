"""Every language model, through one suite."""

from __future__ import annotations

import copy
from pathlib import Path

import jaxtyping
import pytest
import torch

from models import suite
from models.suite import CONFIGS, TIED, built, text

EVERY = pytest.mark.parametrize("name", CONFIGS)


@EVERY
def test_gives_a_score_for_every_piece(name: str) -> None:
    suite.gives_a_score_for_every_piece(CONFIGS[name])


@EVERY
def test_computes_in_bf16_on_every_processor(name: str) -> None:
    """Under autocast, with a state and with gradients, also where the processor has no instructions for bf16."""
    model = built(CONFIGS[name])
    tokens = text()
    exact = model(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(tokens)
        with torch.no_grad():
            model(tokens[:, :3], state=model.state(len(tokens)))
    rounded.float().sum().backward()
    similarity = torch.nn.functional.cosine_similarity(exact.flatten(), rounded.float().flatten(), dim=0)
    assert similarity > 0.99


@EVERY
def test_a_later_token_never_changes_an_earlier_logit(name: str) -> None:
    suite.a_later_token_never_changes_an_earlier_logit(CONFIGS[name])


@EVERY
def test_a_state_equals_the_full_pass(name: str) -> None:
    suite.a_state_equals_the_full_pass(CONFIGS[name])


@EVERY
def test_rows_of_unequal_length_are_as_if_alone(name: str) -> None:
    suite.rows_of_unequal_length_are_as_if_alone(CONFIGS[name])


@EVERY
def test_a_state_goes_back(name: str) -> None:
    suite.a_state_goes_back(CONFIGS[name])


@EVERY
def test_rows_know_nothing_of_each_other(name: str) -> None:
    suite.rows_know_nothing_of_each_other(CONFIGS[name])


@EVERY
def test_gradients_reach_every_parameter(name: str) -> None:
    suite.gradients_reach_every_parameter(CONFIGS[name])


@EVERY
def test_a_fresh_model_learns(name: str) -> None:
    suite.a_fresh_model_learns(CONFIGS[name])


@EVERY
def test_a_copy_stands_alone(name: str) -> None:
    suite.a_copy_stands_alone(CONFIGS[name])


@EVERY
def test_it_can_be_saved_and_loaded(name: str, tmp_path: Path) -> None:
    suite.it_can_be_saved_and_loaded(CONFIGS[name], tmp_path / "model.safetensors")


@EVERY
def test_shapes_are_checked(name: str) -> None:
    """The annotations of a model hold, and under test a wrong shape or kind is refused."""
    model = built(CONFIGS[name])
    for wrong in (text()[0], text().unsqueeze(0), text().float()):
        with pytest.raises(jaxtyping.TypeCheckError):
            model(wrong)


@pytest.mark.parametrize("name", TIED)
def test_a_copy_keeps_the_head_tied_to_its_own_embedding(name: str) -> None:
    twin = copy.deepcopy(built(CONFIGS[name]))
    before = twin(text())
    with torch.no_grad():
        twin.norm.weight.mul_(2)
        twin.embedding.weight[3] = 0
    after = twin(text())
    assert not torch.equal(after, before)
    assert after[..., 3].eq(0).all(), "the head must read the copy's table"
    assert "head.weight" not in twin.state_dict()


@pytest.mark.parametrize("name", ["gpt", "modern", "modern-tied"])
def test_a_full_state_says_so(name: str) -> None:
    model = built(CONFIGS[name])
    state = model.state(2, capacity=5)
    model(text(2, 4), state)
    with pytest.raises(ValueError, match="the state holds 5 positions, 6 were asked for"):
        model(text(2, 2), state)


@EVERY
def test_the_same_seed_builds_the_same_model(name: str) -> None:
    weights = []
    for _ in range(2):
        torch.manual_seed(7)
        weights.append(CONFIGS[name].build().state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


@pytest.mark.parametrize("name", ["gpt", "modern", "lstm"])
def test_a_fresh_model_finds_every_piece_about_equally_likely(name: str) -> None:
    torch.manual_seed(0)
    shares = CONFIGS[name].build().eval()(text()).softmax(-1)
    assert shares.max() < 3 / suite.VOCABULARY
