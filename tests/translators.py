"""What every translator must hold: `encode`, `decode`, `state` and `forward` agree. Each function is one promise.

Parameters are random throughout: a start of zeros would hide what a part does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.state import State
from qkv.generation.beam import Translator
from qkv.models.language_model import LanguageModel

VOCABULARY, LENGTH = 19, 9
SOURCES = [7, 4, 1]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def built(config: Any, seed: int = 0) -> Any:
    """The model, every parameter random, in evaluation."""
    torch.manual_seed(seed)
    model = config.build()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Sources of unequal length, which of their tokens are real, and what is written."""
    drawn = torch.Generator().manual_seed(1)
    source = torch.randint(VOCABULARY, (len(SOURCES), max(SOURCES)), generator=drawn)
    present = torch.arange(max(SOURCES)) < torch.tensor(SOURCES).unsqueeze(1)
    return source, present, torch.randint(VOCABULARY, (len(SOURCES), LENGTH), generator=drawn)


def gives_a_score_for_every_piece(config: Any) -> None:
    model, (source, present, tokens) = built(config), batch()
    assert isinstance(model, Translator)
    assert not isinstance(model, LanguageModel)
    assert isinstance(model.state(2), State)
    logits = model(source, present, tokens)
    assert logits.shape == (3, LENGTH, VOCABULARY)
    vectors = model.vectors(source, present, tokens)
    torch.testing.assert_close(model.head(vectors), logits, **CLOSE)
    torch.testing.assert_close(model.head(vectors[:, 2]), logits[:, 2], **CLOSE)
    assert torch.equal(model.decode(tokens, model.encode(source, present), present), logits)


@torch.no_grad()
def padding_changes_nothing(config: Any) -> None:
    """A source alone and beside longer ones; and what stands in the padding does not matter."""
    model, (source, present, tokens) = built(config), batch()
    expected = model(source, present, tokens)
    for row, length in enumerate(SOURCES):
        one = slice(row, row + 1)
        alone = model(source[one, :length], present[one, :length], tokens[one])
        torch.testing.assert_close(alone[0], expected[row], **CLOSE)
        memory = model.encode(source, present)[row, :length]
        torch.testing.assert_close(model.encode(source[one, :length], present[one, :length])[0], memory, **CLOSE)
    changed = torch.where(present, source, (source + 1) % VOCABULARY)
    torch.testing.assert_close(model(changed, present, tokens), expected, **CLOSE)


@torch.no_grad()
def a_later_token_never_changes_an_earlier_logit(config: Any) -> None:
    model, (source, present, tokens) = built(config), batch()
    before = model(source, present, tokens)
    for time in range(LENGTH):
        changed = tokens.clone()
        changed[:, time] = (changed[:, time] + 1) % VOCABULARY
        after = model(source, present, changed)
        torch.testing.assert_close(after[:, :time], before[:, :time], **CLOSE)
        assert not torch.isclose(after[:, time:], before[:, time:]).all(-1).any(), "itself and what follows must move"


@torch.no_grad()
def every_source_token_counts(config: Any) -> None:
    """From first to last real one, for every token that is written."""
    model, (source, present, tokens) = built(config), batch()
    before = model(source, present, tokens)
    for place in range(max(SOURCES)):
        changed = source.clone()
        changed[:, place] = (changed[:, place] + 1) % VOCABULARY
        moved = ~torch.isclose(model(changed, present, tokens), before, rtol=1e-6, atol=1e-7).all(-1)
        assert (moved == present[:, place : place + 1]).all()


@torch.no_grad()
def a_state_equals_the_full_pass(config: Any) -> None:
    """At every split, and one token at a time; the memory is looked at once."""
    model, (source, present, tokens) = built(config), batch()
    expected, memory = model(source, present, tokens), model.encode(source, present)
    for sizes in (*([split, LENGTH - split] for split in range(1, LENGTH)), [1] * LENGTH):
        state = model.state(3, LENGTH)
        found = [model.decode(piece, memory, present, state) for piece in tokens.split(sizes, 1)]
        torch.testing.assert_close(torch.cat(found, 1), expected, **CLOSE)
        assert state.lengths == [LENGTH] * 3
    state = model.state(3)
    model.decode(tokens[:, :1], memory, present, state)
    again = model.decode(tokens[:, 1:], memory, present, state)
    torch.testing.assert_close(again, expected[:, 1:], **CLOSE)


@torch.no_grad()
def rows_may_share_a_source(config: Any) -> None:
    """Six rows, two for each source, with and without a state, against each alone."""
    model, (source, present, tokens) = built(config), batch()
    memory, rows = model.encode(source, present), torch.cat([tokens, tokens.flip(0)])
    expected = torch.cat([model(source[[row // 2]], present[[row // 2]], rows[[row]]) for row in range(6)])
    torch.testing.assert_close(model.decode(rows, memory, present), expected, **CLOSE)
    state = model.state(6)
    found = [model.decode(piece, memory, present, state) for piece in rows.split([2, 1, LENGTH - 3], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected, **CLOSE)


@torch.no_grad()
def rows_are_chosen(config: Any) -> None:
    """A source becomes two rows, rows change places, a source leaves: each row goes on as if alone."""
    model, (source, present, tokens) = built(config), batch()
    memory, state = model.encode(source, present), model.state(3)
    model.decode(tokens[:, :2], memory, present, state)
    origin = [0, 0, 2, 2]
    state = state.rows(origin)
    kept = torch.tensor([0, 2])
    second = tokens[[1, 2, 0, 1], 2:4]
    model.decode(second, memory[kept], present[kept], state)
    state = state.rows([1, 0, 3, 3])
    third = tokens[[0, 1, 2, 0], 4:7]
    found = model.decode(third, memory[kept], present[kept], state)
    for row, (first, then) in enumerate(((0, 1), (0, 0), (2, 3), (2, 3))):
        written = torch.cat([tokens[first, :2], second[then], third[row]]).unsqueeze(0)
        alone = model(source[[first]], present[[first]], written)
        torch.testing.assert_close(found[row], alone[0, 4:], **CLOSE)
    apart = state.rows([2, 1])  # each with a memory of its own again
    found = model.decode(third[:2], memory[[2, 0]], present[[2, 0]], apart)
    for row, (first, then, last) in enumerate(((2, 3, 2), (0, 0, 1))):
        written = torch.cat([tokens[first, :2], second[then], third[last], third[row]]).unsqueeze(0)
        torch.testing.assert_close(found[row], model(source[[first]], present[[first]], written)[0, 7:], **CLOSE)
    assert state.lengths == [7] * 4, "a choice leaves its origin alone"


@torch.no_grad()
def a_state_goes_back_and_starts_anew(config: Any) -> None:
    model, (source, present, tokens) = built(config), batch()
    memory, expected = model.encode(source, present), model(source, present, tokens)
    state = model.state(3)
    model.decode(tokens[:, :4], memory, present, state)
    model.decode(tokens[:, :2], memory, present, state)
    swapped = state.rows([0, 1, 2])
    swapped.truncate(4)
    assert swapped.lengths == [4] * 3
    torch.testing.assert_close(model.decode(tokens[:, 4:], memory, present, swapped), expected[:, 4:], **CLOSE)
    state.reset(1)
    assert state.lengths == [6, 0, 6]
    found = model.decode(tokens[:, :3], memory, present, state)
    torch.testing.assert_close(found[1], expected[1, :3], **CLOSE)


def gradients_reach_every_parameter(config: Any) -> None:
    model, (source, present, tokens) = built(config).train(), batch()
    F.cross_entropy(model(source, present, tokens).flatten(0, 1), tokens.flatten()).backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # softmax does not see what is added to all scores alike
    assert not [name for name in still if not name.endswith("key.bias")], still


PROMISES: list[Callable[[Any], None]] = [
    gives_a_score_for_every_piece,
    padding_changes_nothing,
    a_later_token_never_changes_an_earlier_logit,
    every_source_token_counts,
    a_state_equals_the_full_pass,
    rows_may_share_a_source,
    rows_are_chosen,
    a_state_goes_back_and_starts_anew,
    gradients_reach_every_parameter,
]
