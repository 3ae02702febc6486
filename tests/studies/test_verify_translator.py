"""`qkv verify` on translators: which proofs there are, and that a broken model fails them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import marian as made
import qkv
import translators
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.recipe.bundle import Bundle, save
from qkv.studies.verify import proofs_of
from text.kinds import tokenizer

PROOFS = {"files", "words", "finite", "cache", "padding", "batch", "causality", "export"}


@pytest.mark.parametrize("languages", [[], ["de", "fr"]])
def test_a_transformer(languages: list[str], tmp_path: Path) -> None:
    save(tmp_path / "ours", made.bundle(languages=languages))
    proofs = {proof.name: proof for proof in proofs_of(qkv.load(tmp_path / "ours")).all()}
    assert {name for name, proof in proofs.items() if proof.passed} == PROOFS, proofs
    assert {name: proof.compared for name, proof in proofs.items() if proof.passed is None} == {
        "window": "this model has no attention window",
        "resume": "not a run folder",
    }
    for name in ("cache", "padding", "batch", "causality", "export"):
        assert proofs[name].largest is not None
        assert proofs[name].largest < 2e-5


def test_a_folder_of_theirs_and_one_without_an_equivalent(tmp_path: Path) -> None:
    proofs = {proof.name: proof for proof in proofs_of(qkv.load(made.folder(tmp_path / "marian"))).all()}
    assert {name for name, proof in proofs.items() if proof.passed} == PROOFS - {"files"}
    words = tokenizer("bpe")
    config = RNNTranslatorConfig(vocabulary=words.vocabulary, width=16, context=32)
    save(tmp_path / "rnn", Bundle(translators.built(config), config, words, 0))
    proofs = {proof.name: proof for proof in proofs_of(qkv.load(tmp_path / "rnn")).all()}
    assert {name for name, proof in proofs.items() if proof.passed} == PROOFS - {"export"}
    assert "a rnn-translator model has no equivalent" in proofs["export"].compared


def test_a_model_that_looks_ahead_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "ours", made.bundle())
    model = qkv.load(tmp_path / "ours")
    module: Any = model.bundle.model
    honest = module.decoded

    def ahead(tokens: torch.Tensor, memory: torch.Tensor, present: torch.Tensor, state: Any = None) -> torch.Tensor:
        found = honest(tokens, memory, present, state)
        return found + found.mean(1, keepdim=True)

    monkeypatch.setattr(module, "decoded", ahead)
    failed = {proof.name for proof in proofs_of(model).all() if proof.passed is False}
    assert {"cache", "batch", "causality", "export"} <= failed
