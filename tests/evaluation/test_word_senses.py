"""The edge between "the same sense" and "another"."""

from __future__ import annotations

import torch

from qkv.evaluation.word_senses import alike, threshold


def test_the_edge_is_the_best_there_is() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        cosines = torch.rand(30, generator=generator)
        same = torch.rand(30, generator=generator) < cosines
        edge = threshold(cosines, same)
        found = int(((cosines > edge) == same).sum())
        best = max(int(((cosines > each) == same).sum()) for each in [-1.0, *cosines.tolist()])
        assert found == best


def test_one_answer_for_all_is_possible() -> None:
    cosines = torch.tensor([0.2, 0.8])
    assert (cosines > threshold(cosines, torch.tensor([True, True]))).all()
    assert not (cosines > threshold(cosines, torch.tensor([False, False]))).any()


def test_alike_is_the_cosine_of_each_pair() -> None:
    first = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    second = torch.tensor([[0.0, 1.0], [2.0, 2.0]])
    assert torch.allclose(alike(first, second), torch.tensor([0.0, 1.0]), atol=1e-6)
