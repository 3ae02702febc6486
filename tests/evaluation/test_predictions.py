"""Decisions in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from qkv.errors import InputError
from qkv.evaluation import decisions
from qkv.evaluation.decisions import Decision
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.tagger import TaggerConfig
from text.kinds import tokenizer

WORDS = tokenizer("wordpiece")
ENCODER = BertConfig(vocabulary=WORDS.vocabulary, layers=1, heads=2, width=8, context=12)
TEXTS = ["The river", "keeps the stone (and the stone keeps the river)", "Stay"]


def built(config: Any) -> torch.nn.Module:
    torch.manual_seed(0)
    model = config.build()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def test_a_label_with_its_probabilities() -> None:
    config = ClassifierConfig(encoder=ENCODER, labels=("good", "bad"))
    found, notes = decisions.classify(built(config), config, WORDS, [(text, None) for text in TEXTS])
    assert len(found) == 3
    for each in found:
        assert sum(each.probabilities.values()) == pytest.approx(1.0, abs=1e-5)
        assert each.confidence == max(each.probabilities.values())
        assert each.probabilities[str(each.label)] == each.confidence
    assert notes == ["one of the texts is longer than the context of 12 tokens; truncated."]
    single, _ = decisions.classify(built(config), config, WORDS, [(TEXTS[2], None)])
    assert single[0].confidence == pytest.approx(found[2].confidence, abs=1e-5)
    assert decisions.classify(built(config), config, WORDS, []) == ([], [])


def test_several_labels_and_numbers() -> None:
    several = ClassifierConfig(encoder=ENCODER, labels=("a", "b", "c"), problem="multi")
    found = decisions.decision_of(several, np.array([0.9, 0.2, 0.6], dtype=np.float32))
    assert found.label == ("a", "c")
    assert found.confidence is None
    assert decisions.decision_of(several, np.array([0.1, 0.2, 0.3], dtype=np.float32)).label == ()
    number = ClassifierConfig(encoder=ENCODER, labels=("value",), problem="regression", center=5.0, spread=2.0)
    model = built(number)
    with torch.no_grad():
        model.head.weight.zero_()
        model.head.bias.fill_(1.5)
    answered, _ = decisions.classify(model, number, WORDS, [(TEXTS[0], None)])
    assert answered == [Decision(8.0, {})]
    assert answered[0].values() == {"label": 8.0, "probabilities": {}}


def test_pairs_are_told_from_texts() -> None:
    config = ClassifierConfig(encoder=ENCODER, labels=("same", "other"), texts=2)
    found, _ = decisions.classify(built(config), config, WORDS, [("The river", "Stay"), ("The", "stone")])
    assert len(found) == 2
    with pytest.raises(InputError, match="'The river': this model classifies pairs"):
        decisions.classify(built(config), config, WORDS, [("The river", None)])
    one = ClassifierConfig(encoder=ENCODER, labels=("same", "other"))  # as one from elsewhere, which does not say
    both, _ = decisions.classify(built(one), one, WORDS, [("The river", "Stay")])
    assert both[0].probabilities == pytest.approx(found[0].probabilities, abs=1e-5)


def test_tags_follow_the_words() -> None:
    config = TaggerConfig(encoder=ENCODER, labels=("N", "V"))
    sentences = [["The", "river"], [], TEXTS[1].split(), ["Stay"]]
    found, notes = decisions.tag(built(config), config, WORDS, sentences)
    assert [[each.word for each in row] for row in found] == sentences
    assert all(0.5 <= each.probability <= 1 and each.tag in "NV" for row in found for each in row)
    assert notes == ["one of the sentences is longer than the context of 12 tokens; read in parts."]
    again, _ = decisions.tag(built(config), config, WORDS, [["Stay"]])
    assert again[0][0].tag == found[3][0].tag
    assert again[0][0].probability == pytest.approx(found[3][0].probability, abs=1e-5)


def test_words_of_a_text() -> None:
    assert decisions.split_words("Don't go, naïve well-known café (3.14)!") == [
        "Don't", "go", ",", "naïve", "well-known", "café", "(", "3", ".", "14", ")", "!",
    ]  # fmt: skip


def test_other_models_are_refused_with_a_way_out() -> None:
    config = TaggerConfig(encoder=ENCODER, labels=("N", "V"))
    with pytest.raises(InputError, match="this model is of kind tagger; classifying texts needs a classifier"):
        decisions.classify(built(config), config, WORDS, [("a", None)])
    with pytest.raises(InputError, match="tagging words needs a tagger"):
        decisions.tag(built(ENCODER), ENCODER, WORDS, [["a"]])
