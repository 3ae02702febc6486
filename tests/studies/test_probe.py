"""What a layer knows: the vectors that a probe learns from are those of `embed`, and its figure is scikit-learn's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import qkv
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import TagExamples, TextExamples
from qkv.data.read_examples import read_examples
from qkv.errors import InputError
from qkv.models.bert import BertConfig
from qkv.recipe import bundle
from qkv.studies.linear_probe import last_compared_with, layer_vectors, probe
from text.kinds import tokenizer


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Predictor:
    pieces = tokenizer("wordpiece")
    config = BertConfig(vocabulary=pieces.vocabulary, layers=2, heads=2, width=16, hidden=32, context=12)
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "tiny"
    bundle.save(folder, bundle.Bundle(config.build(), config, pieces, documents=1))
    return qkv.load(folder)


def table(tmp_path: Path, rows: int = 60) -> ExamplesConfig:
    path = tmp_path / "t.csv"
    sorts = (("the river keeps", "water"), ("nobody knows the stone", "land"))
    lines = [f"{sorts[i % 2][0]} {'the ' * (i // 2 % 5)}{i},{sorts[i % 2][1]}" for i in range(rows)]
    path.write_text("text,label\n" + "\n".join(lines) + "\n")
    return ExamplesConfig(files=(str(path),))


def test_texts_are_the_means_of_their_tokens(opened: Predictor, tmp_path: Path) -> None:
    side = read_examples(table(tmp_path)).train
    assert isinstance(side, TextExamples)
    found = layer_vectors(opened.bundle.model, opened.tokenizer, side)  # type: ignore[arg-type]
    assert len(found) == 3
    for layer, vectors in enumerate(found):
        expected = opened.embed([each.text for each in side], layer=layer)
        np.testing.assert_allclose(vectors, expected.numpy(), atol=1e-5)


def test_words_are_their_first_pieces_in_parts_of_long_sentences_too(opened: Predictor, tmp_path: Path) -> None:
    words = "the river keeps the stone nobody knows the river and the stone keeps it".split()  # noqa: SIM905
    path = tmp_path / "t.conll"
    sentences = (words, words[:4], ["nobody", "knows"])
    path.write_text(
        "\n".join("".join(f"{word} {'N' if i % 2 else 'O'}\n" for i, word in enumerate(s)) for s in sentences)
    )
    side = read_examples(ExamplesConfig(files=(str(path),)), purpose="describe").train
    assert isinstance(side, TagExamples)
    found = layer_vectors(opened.bundle.model, opened.tokenizer, side)  # type: ignore[arg-type]
    assert {len(each) for each in found} == {len(side.targets)} == {20}
    short = opened.embed(" ".join(words[:4]), layer=1, pool="none")[0]
    starts = [place for place, piece in enumerate(short.tokens) if not piece.startswith(("##", "["))]
    np.testing.assert_allclose(found[1][14:18], short.vectors[starts].numpy(), atol=1e-5)


def test_the_figure_is_that_of_logistic_regression(opened: Predictor, tmp_path: Path) -> None:
    found = read_examples(table(tmp_path))
    layers = probe(opened.bundle.model, opened.tokenizer, found)  # type: ignore[arg-type]
    assert [each.layer for each in layers] == [0, 1, 2]
    train, valid = (
        layer_vectors(opened.bundle.model, opened.tokenizer, side)[2] for side in (found.train, found.valid)
    )  # type: ignore[arg-type]
    scaler = StandardScaler().fit(train)
    oracle = LogisticRegression(C=0.1, max_iter=200).fit(scaler.transform(train), found.train.targets)
    assert layers[2].score.value == oracle.score(scaler.transform(valid), found.valid.targets)
    assert layers[2].score.value > 0.9
    difference = last_compared_with(layers, 0)
    assert difference is not None
    assert difference.difference == pytest.approx(layers[2].score.value - layers[0].score.value)


def test_numbers_and_pairs_are_refused(opened: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "n.csv"
    path.write_text("text,score\n" + "".join(f"the river {i},{i / 7:.3f}\n" for i in range(40)))
    with pytest.raises(InputError, match="one class for each text"):
        probe(opened.bundle.model, opened.tokenizer, read_examples(ExamplesConfig(files=(str(path),))))  # type: ignore[arg-type]
