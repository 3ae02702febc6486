"""Which model of ours is which architecture of theirs, in the families of BERT; labels and kinds of problem, both ways.

config.json names the architecture; where it does not, the bare encoder is meant. Theirs knows a label by its number
(`id2label`), ours by its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qkv.config import parse
from qkv.errors import ConfigError
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.masked import MaskedConfig
from qkv.models.tagger import TaggerConfig

Config = BertConfig | MaskedConfig | ClassifierConfig | TaggerConfig

PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}


@dataclass(frozen=True)
class Twin:
    """A figure of ours: its config, the encoder's pooler, and the values that make it equal to theirs."""

    config: type[Config]
    pooler: str
    values: Mapping[str, str]


Family = Mapping[str, Twin]

BERT: Family = {
    "BertModel": Twin(BertConfig, "first", {}),
    "BertForMaskedLM": Twin(MaskedConfig, "none", {"next_sentence": "none"}),
    "BertForPreTraining": Twin(MaskedConfig, "first", {"next_sentence": "linear"}),
    "BertForSequenceClassification": Twin(ClassifierConfig, "first", {"pooling": "pooler", "head": "linear"}),
    "BertForTokenClassification": Twin(TaggerConfig, "none", {}),
}
DISTILBERT: Family = {
    "DistilBertModel": Twin(BertConfig, "none", {}),
    "DistilBertForMaskedLM": Twin(MaskedConfig, "none", {"next_sentence": "none"}),
    "DistilBertForSequenceClassification": Twin(ClassifierConfig, "none", {"pooling": "first", "head": "two-layer"}),
    "DistilBertForTokenClassification": Twin(TaggerConfig, "none", {}),
}


def twin(config: Config, family: Family) -> str:
    """The name of theirs that equals our figure."""
    encoder = config if isinstance(config, BertConfig) else config.encoder
    for name, figure in family.items():
        same = isinstance(config, figure.config) and encoder.pooler == figure.pooler
        if same and all(getattr(config, key) == value for key, value in figure.values.items()):
            return name
    said = [f"{key} = {getattr(config, key)!r}" for key in ("pooling", "head", "next_sentence") if hasattr(config, key)]
    said.append(f"pooler = {encoder.pooler!r}")
    raise ConfigError(f"a {config.kind} with {', '.join(said)} has no twin among {', '.join(family)}.")


def read_labels(values: Mapping[str, Any], family: Family, encoder: Mapping[str, Any], dropout: Any) -> Config:
    """The config of ours that the architecture in `values` asks for, around the encoder's numbers."""
    named = values.get("architectures") or [next(iter(family))]
    if not isinstance(named, list) or len(named) != 1 or str(named[0]) not in family:
        raise ConfigError(
            f"config.json: architectures = {named!r} is not known here; expected one of {', '.join(family)}."
        )
    figure = family[named[0]]
    inside = {"kind": "bert", **encoder, "pooler": figure.pooler}
    if figure.config is BertConfig:
        return parse(BertConfig, inside, "config.json")
    found: dict[str, Any] = {"encoder": inside, **figure.values}
    if figure.config is not MaskedConfig:
        found |= {"labels": _labels(values), "dropout": dropout}
    if figure.config is ClassifierConfig:
        found["problem"] = _problem(values, len(found["labels"]))
    return parse(figure.config, found, "config.json")


def _labels(values: Mapping[str, Any]) -> list[str]:
    named = values.get("id2label")
    if named is None:
        number = values.get("num_labels", 2)
        if not isinstance(number, int) or not 1 <= number <= 1_000_000:
            raise ConfigError(f"config.json: num_labels = {number!r} does not fit; expected a whole number from 1.")
        return [f"LABEL_{index}" for index in range(number)]
    keys = [str(index) for index in range(len(named))] if isinstance(named, dict) else []
    if not keys or set(named) != set(keys) or not all(isinstance(label, str | int) for label in named.values()):
        raise ConfigError("config.json: id2label does not fit; expected a name for each number from 0 on.")
    return [str(named[key]) for key in keys]


def _problem(values: Mapping[str, Any], labels: int) -> str:
    """Theirs may leave it open until it sees the targets; a single output then means a number."""
    said = values.get("problem_type")
    if said is None:
        return "regression" if labels == 1 else "single"
    for ours, theirs in PROBLEMS.items():
        if said == theirs:
            return ours
    raise ConfigError(
        f"config.json: problem_type = {said!r} is not known; expected one of {', '.join(PROBLEMS.values())}."
    )


def write_labels(config: Config) -> dict[str, Any]:
    """`id2label`, `label2id` and `problem_type`, for models that have labels."""
    if not isinstance(config, ClassifierConfig | TaggerConfig):
        return {}
    found: dict[str, Any] = {
        "id2label": {str(index): label for index, label in enumerate(config.labels)},
        "label2id": {label: index for index, label in enumerate(config.labels)},
    }
    if isinstance(config, ClassifierConfig):
        found["problem_type"] = PROBLEMS[config.problem]
    return found
