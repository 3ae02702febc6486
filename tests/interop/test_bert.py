"""BERT's and DistilBERT's name tables: exact inverses, heads, labels, and clear words about what has no equivalent."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from qkv.errors import ConfigError, InputError
from qkv.interop.bert_architectures import bert, distilbert
from qkv.interop.tensors import export_weights, import_weights
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.masked import MaskedConfig
from qkv.models.tagger import TaggerConfig

SHAPE: dict[str, Any] = {
    "vocabulary": 11, "layers": 11, "heads": 2, "width": 8, "hidden": 32, "context": 5, "dropout": 0.1,
}  # fmt: skip
PLAIN, POOLED = BertConfig(**SHAPE), BertConfig(**SHAPE, pooler="first")
SMALL = BertConfig(**SHAPE, segments=0)
LABELS = ("bad", "good")
CASES: dict[str, tuple[Any, Any, str]] = {
    "bert": (bert, POOLED, "BertModel"),
    "bert, masked": (bert, MaskedConfig(encoder=PLAIN), "BertForMaskedLM"),
    "bert, both": (bert, MaskedConfig(encoder=POOLED, next_sentence="linear"), "BertForPreTraining"),
    "bert, classifier": (
        bert,
        ClassifierConfig(encoder=POOLED, pooling="pooler", labels=LABELS, problem="multi", dropout=0.3),
        "BertForSequenceClassification",
    ),
    "bert, tagger": (bert, TaggerConfig(encoder=PLAIN, labels=LABELS, dropout=0.1), "BertForTokenClassification"),
    "distilbert": (distilbert, SMALL, "DistilBertModel"),
    "distilbert, masked": (distilbert, MaskedConfig(encoder=SMALL), "DistilBertForMaskedLM"),
    "distilbert, classifier": (
        distilbert,
        ClassifierConfig(encoder=SMALL, pooling="first", head="two-layer", labels=("x",), problem="regression"),
        "DistilBertForSequenceClassification",
    ),
    "distilbert, tagger": (
        distilbert,
        TaggerConfig(encoder=SMALL, labels=LABELS, dropout=0.1),
        "DistilBertForTokenClassification",
    ),
}
EVERY = pytest.mark.parametrize(("family", "config", "name"), CASES.values(), ids=CASES)


@EVERY
def test_there_and_back(family: Any, config: Any, name: str) -> None:
    values = family.export_config(config)
    assert values["architectures"] == [name]
    assert values["model_type"] in family.model_types
    assert family.import_config(values) == config
    ours = config.build().state_dict()
    theirs = export_weights(family.table(config), ours)
    assert family.tidy(config, theirs) == {each: each for each in theirs}
    again = import_weights(family.table(config), theirs)
    assert again.keys() == ours.keys()
    assert all(torch.equal(again[key], ours[key]) for key in ours)


@EVERY
def test_what_does_not_fit_is_named(family: Any, config: Any, name: str) -> None:
    theirs = export_weights(family.table(config), config.build().state_dict())
    theirs["qa_outputs.weight"] = torch.zeros(1)
    kept = family.tidy(config, theirs)
    with pytest.raises(InputError, match=r"1 unknown \(qa_outputs\.weight\)"):
        import_weights(family.table(config), {new: theirs[old] for old, new in kept.items()})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act = 'gelu_new' is not supported; expected 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder = True"),
        ({"model_type": "roberta"}, "model_type = 'roberta'"),
        ({"architectures": ["BertForQuestionAnswering"]}, "BertForQuestionAnswering.*expected one of BertModel, "),
        ({"architectures": "BertModel"}, "architectures = 'BertModel'"),
        ({"architectures": [["BertModel"]]}, "architectures"),
        ({"num_attention_heads": 3}, "does not divide into 3 heads"),
        ({"hidden_size": None}, "hidden_size is missing"),
        ({"vocab_size": "11"}, "encoder.vocabulary = '11'"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label does not fit"),
        ({"id2label": ["a", "b"]}, "id2label does not fit"),
        ({"id2label": None, "num_labels": 0}, "num_labels = 0"),
        ({"problem_type": "guess"}, "problem_type = 'guess'"),
        ({"classifier_dropout": "much"}, "dropout = 'much'"),
    ],
)
def test_bert_refuses_what_it_lacks(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        bert.import_config({**bert.export_config(CASES["bert, classifier"][1]), **change})


def test_old_config_files_leave_much_out() -> None:
    """As the first files of Turc et al.'s models: no architecture, no epsilon."""
    values = {
        "hidden_size": 8, "hidden_act": "gelu", "vocab_size": 11, "num_attention_heads": 2, "num_hidden_layers": 2,
        "intermediate_size": 32,
    }  # fmt: skip
    expected = BertConfig(vocabulary=11, layers=2, heads=2, width=8, hidden=32, pooler="first", dropout=0.1)
    assert bert.import_config(values) == expected


def test_labels_without_names() -> None:
    values = bert.export_config(CASES["bert, tagger"][1])
    del values["id2label"]
    assert bert.import_config({**values, "num_labels": 3}).labels == ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(("labels", "problem"), [(1, "regression"), (2, "single")])
def test_a_problem_that_is_left_open(labels: int, problem: str) -> None:
    values = bert.export_config(CASES["bert, classifier"][1])
    named = {str(number): str(number) for number in range(labels)}
    assert bert.import_config({**values, "problem_type": None, "id2label": named}).problem == problem


@pytest.mark.parametrize(
    ("family", "config", "words"),
    [
        (bert, PLAIN, "a bert with pooler = 'none' has no equivalent among BertModel, "),
        (bert, SMALL, "segments = 0 has no equivalent in BERT"),
        (
            bert,
            ClassifierConfig(encoder=PLAIN, labels=LABELS),
            "pooling = 'mean', head = 'linear', .* has no equivalent",
        ),
        (distilbert, POOLED, "segments = 2 has no equivalent in DistilBERT"),
        (distilbert, BertConfig(**SHAPE, segments=0, norm_epsilon=1e-5), "norm_epsilon = 1e-05 has no equivalent"),
        (distilbert, ClassifierConfig(encoder=SMALL, labels=LABELS), "pooling = 'mean'"),
        (distilbert, TaggerConfig(encoder=SMALL, labels=LABELS, dropout=0.5), "dropout = 0.5 has no equivalent"),
    ],
)
def test_what_has_no_twin_there(family: Any, config: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        family.export_config(config)
