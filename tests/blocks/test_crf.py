"""The linear-chain CRF against the enumeration of all tags of a sentence."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from qkv.blocks.crf import LinearChainCRF

LABELS, LENGTHS = 3, (4, 1, 3)
WORDS = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)


def crf(seed: int = 0, scale: float = 1.0) -> LinearChainCRF:
    generator = torch.Generator().manual_seed(seed)
    made = LinearChainCRF(LABELS).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=scale, generator=generator)
    return made


def emissions(seed: int = 1, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(len(LENGTHS), max(LENGTHS), LABELS, generator=generator, dtype=torch.double)


def tags() -> Tensor:
    return torch.randint(LABELS, WORDS.shape, generator=torch.Generator().manual_seed(2))


def enumerated(made: LinearChainCRF, scores: Tensor) -> tuple[list[tuple[int, ...]], Tensor]:
    """Every sequence of tags of one sentence, with its score."""
    paths = list(product(range(LABELS), repeat=len(scores)))
    values = []
    for path in paths:
        value = made.start[path[0]] + made.end[path[-1]] + sum(row[tag] for row, tag in zip(scores, path, strict=True))
        values.append(value + sum(made.transition[one, two] for one, two in pairwise(path)))
    return paths, torch.stack(values).detach()


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_likelihood_is_that_of_enumeration(scale: float) -> None:
    made, scores, true = crf(scale=scale), emissions(scale=scale), tags()
    values = made.log_likelihood(scores, true, WORDS).detach()
    for row, length in enumerate(LENGTHS):
        paths, own = enumerated(made, scores[row, :length])
        expected = own.log_softmax(0)[paths.index(tuple(true[row, :length].tolist()))]
        assert float(values[row]) == pytest.approx(float(expected), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_marginals_and_the_best_path_are_those_of_enumeration(scale: float) -> None:
    made, scores = crf(3, scale), emissions(4, scale)
    shares, best = made.marginals(scores, WORDS), made.best_path(scores, WORDS)
    for row, length in enumerate(LENGTHS):
        paths, own = enumerated(made, scores[row, :length])
        assert tuple(best[row, :length].tolist()) == paths[int(own.argmax())]
        assert not best[row, length:].any()
        likely = own.softmax(0)
        for place, tag in product(range(length), range(LABELS)):
            expected = sum(p for path, p in zip(paths, likely, strict=True) if path[place] == tag)
            assert float(shares[row, place, tag].detach()) == pytest.approx(float(expected), abs=1e-9)


def test_gradients_are_those_of_the_formula() -> None:
    made, true = crf(5), tags()

    def likelihood(scores: Tensor, start: Tensor, transition: Tensor, end: Tensor) -> Tensor:
        parts = {"start": start, "transition": transition, "end": end}
        return torch.func.functional_call(_Likelihood(made), {f"crf.{k}": v for k, v in parts.items()}, (scores, true))

    inputs = (emissions(6), *(parameter.detach() for parameter in (made.start, made.transition, made.end)))
    assert torch.autograd.gradcheck(likelihood, tuple(value.clone().requires_grad_() for value in inputs))


class _Likelihood(torch.nn.Module):
    def __init__(self, crf: LinearChainCRF) -> None:
        super().__init__()
        self.crf = crf

    def forward(self, scores: Tensor, true: Tensor) -> Tensor:
        return self.crf.log_likelihood(scores, true, WORDS)


def test_the_gradient_of_log_z_is_the_marginals() -> None:
    made, scores, true = crf(7), emissions(8).requires_grad_(), tags()
    (made.score(scores, true, WORDS) - made.log_likelihood(scores, true, WORDS)).sum().backward()
    assert scores.grad is not None
    assert torch.allclose(scores.grad[WORDS], made.marginals(scores, WORDS)[WORDS])
    assert not scores.grad[~WORDS].any()


def test_what_stands_in_the_padding_changes_nothing() -> None:
    made, scores, true = crf(9), emissions(10), tags()
    other = torch.where(WORDS.unsqueeze(-1), scores, torch.full_like(scores, 1e4))
    for one, two in ((scores, true), (other, torch.where(WORDS, true, -1))):
        assert torch.equal(made.log_likelihood(one, two, WORDS), made.log_likelihood(scores, true, WORDS))
        assert torch.equal(made.best_path(one, WORDS), made.best_path(scores, WORDS))
        assert torch.equal(made.marginals(one, WORDS)[WORDS], made.marginals(scores, WORDS)[WORDS])


def test_without_transitions_each_tag_is_decided_alone() -> None:
    made, scores, true = LinearChainCRF(LABELS).double(), emissions(11), tags()
    alone = scores.log_softmax(-1).gather(2, true.unsqueeze(2)).squeeze(2) * WORDS
    assert torch.allclose(made.log_likelihood(scores, true, WORDS), alone.sum(1))
    assert torch.allclose(made.marginals(scores, WORDS)[WORDS], scores.softmax(-1)[WORDS])
    assert torch.equal(made.best_path(scores, WORDS)[WORDS], scores.argmax(-1)[WORDS])


def test_forbidden_tags_are_never_decoded() -> None:
    made, scores = crf(12), emissions(13)
    pairs = torch.zeros(LABELS, LABELS, dtype=torch.bool)
    start, end = torch.tensor([True, False, True]), torch.tensor([True, False, False])
    pairs[1, 2] = pairs[0, 0] = True
    made.forbid(pairs, start, end)
    best = made.best_path(scores, WORDS)
    for row, length in enumerate(LENGTHS):
        paths, own = enumerated(made, scores[row, :length])
        legal = [
            not start[path[0]] and not end[path[-1]] and not any(pairs[one, two] for one, two in pairwise(path))
            for path in paths
        ]
        own = own.masked_fill(~torch.tensor(legal), float("-inf"))
        assert tuple(best[row, :length].tolist()) == paths[int(own.argmax())]


def test_improbable_paths_stay_finite_in_f32() -> None:
    made = LinearChainCRF(2)
    with torch.no_grad():
        made.transition.copy_(torch.tensor([[0.0, -500.0], [0.0, 0.0]]))
    scores = torch.tensor([[[300.0, -300.0], [-300.0, 300.0], [0.0, 0.0]]], requires_grad=True)
    value = made.log_likelihood(scores, torch.tensor([[1, 0, 1]]), torch.ones(1, 3, dtype=torch.bool))
    value.sum().backward()
    assert value.isfinite().all()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
