"""Architectures of Hugging Face: which class of `transformers` computes the same as a model of qkv.

config.json names the class; if it names none, it is the encoder without a head, or the language model. transformers has
a table from numbers to labels (`id2label`), qkv a list of labels. The heads around a decoder (gpt2, llama, qwen2,
qwen3):

    classifier: score · x, x the vector of the last token that is not padding        tagger: score · x + b at each token

transformers finds that token by its id: the last one that is not `pad_token_id`. So the token that ends every text must
not be the padding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor

from qkv.config import parse
from qkv.errors import ConfigError
from qkv.interop.tensors import Row, Settings, Table, TensorFiles, Values
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.masked import MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.models.tagger import TaggerConfig
from qkv.text.tokenizer import Tokenizer

Classifying = ClassifierConfig | TaggerConfig
Config = BertConfig | MaskedConfig | Classifying | GPTConfig | LlamaConfig | ModernConfig
ENCODERS = ("bert", "gpt", "modern", "llama", "qwen2")  # transformers has classifiers and taggers around these

TEXTS = "texts"  # a key of qkv in config.json: how many texts are classified together; transformers has no such key
PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}
HEADS = ("score.", "classifier.")  # beginnings of the names of tensors that are not part of the decoder

ConfigT = TypeVar("ConfigT")


class Architecture(ABC, Generic[ConfigT]):
    """An architecture of transformers, or several similar ones, and the model of qkv that computes the same."""

    name: str
    model_types: tuple[str, ...]
    sizes: ClassVar[Mapping[str, str]]  # a field of qkv's config -> a key of config.json
    copies: ClassVar[Mapping[str, str]] = {}  # another key of config.json -> a field that must have the same value
    defaults: ClassVar[Settings] = {}  # the values of absent keys
    fixed: ClassVar[Settings]  # keys with only one value that qkv's model supports

    @abstractmethod
    def table(self, config: ConfigT) -> Table: ...
    @abstractmethod
    def import_config(self, values: Settings) -> ConfigT:
        """Turn the values of a config.json into a config of qkv; values that its models do not support are refused."""

    @abstractmethod
    def export_config(self, config: ConfigT) -> Values:
        """The values of a config.json; a config without an equivalent in transformers is refused."""

    @abstractmethod
    def tidy(self, config: ConfigT, names: Iterable[str]) -> dict[str, str]:
        """The tensors of a published file that are read, and their names in the table."""

    def confirm(self, config: ConfigT, files: TensorFiles) -> None:
        """Refuse files whose tensors left out by `tidy` differ from what qkv computes in their place."""
        return

    def read_sizes(self, values: Settings) -> Values:
        """The sizes in a config.json by the fields of qkv's config; refuse other values that its model does not
        have."""
        values = {**values, **{key: value for key, value in self.defaults.items() if values.get(key) is None}}
        sizes = renamed(values, self.sizes)
        same = {key: sizes[field] for key, field in self.copies.items()}
        require(values, {**self.fixed, "model_type": self.model_types[0], **same}, self.name)
        return sizes

    def write_sizes(self, config: Any) -> Values:
        """The inverse of `read_sizes`."""
        keys = [*((key, field) for field, key in self.sizes.items()), *self.copies.items()]
        sizes = {key: getattr(config, field) for key, field in keys}
        return {"model_type": self.model_types[0], "dtype": "float32", **sizes, **self.fixed}


def require(values: Settings, expected: Settings, architecture: str) -> None:
    """Refuse a config.json with a value that qkv's model does not support. An absent key has the expected value."""
    for key, value in expected.items():
        if values.get(key, value) != value:
            raise ConfigError(f"{architecture}: {key} = {values[key]!r} is not supported; expected {value!r}.")


def renamed(values: Settings, names: Mapping[str, str]) -> Values:
    """The values of a config.json by the fields of qkv's config; `names` maps fields to keys of config.json."""
    for key in names.values():
        if values.get(key) is None:
            raise ConfigError(f"config.json: {key} is missing.")
    return {field: values[key] for field, key in names.items()}


@dataclass(frozen=True)
class Counterpart:
    """A model of qkv that computes the same as a class of transformers: its config class, and the values that the
    config and that of its encoder must have."""

    config: type[Config]
    values: Mapping[str, str] = field(default_factory=dict)
    encoder: Mapping[str, str] = field(default_factory=dict)


Family = Mapping[str, Counterpart]  # by the classes of transformers; the first is the default
NO_POOLER, POOLER = {"pooler": "none"}, {"pooler": "first"}

BERT: Family = {
    "BertModel": Counterpart(BertConfig, {}, POOLER),
    "BertForMaskedLM": Counterpart(MaskedConfig, {"next_sentence": "none"}, NO_POOLER),
    "BertForPreTraining": Counterpart(MaskedConfig, {"next_sentence": "linear"}, POOLER),
    "BertForSequenceClassification": Counterpart(ClassifierConfig, {"pooling": "pooler", "head": "linear"}, POOLER),
    "BertForTokenClassification": Counterpart(TaggerConfig, {}, NO_POOLER),
}
DISTILBERT: Family = {
    "DistilBertModel": Counterpart(BertConfig, {}, NO_POOLER),
    "DistilBertForMaskedLM": Counterpart(MaskedConfig, {"next_sentence": "none"}, NO_POOLER),
    "DistilBertForSequenceClassification": Counterpart(
        ClassifierConfig, {"pooling": "first", "head": "two-layer"}, NO_POOLER
    ),
    "DistilBertForTokenClassification": Counterpart(TaggerConfig, {}, NO_POOLER),
}


def _decoder(name: str, config: type[Config], language_model: str) -> Family:
    return {
        language_model: Counterpart(config),
        f"{name}ForSequenceClassification": Counterpart(ClassifierConfig, {"pooling": "last", "head": "no-bias"}),
        f"{name}ForTokenClassification": Counterpart(TaggerConfig),
    }


GPT2 = _decoder("GPT2", GPTConfig, "GPT2LMHeadModel")
LLAMA = _decoder("Llama", LlamaConfig, "LlamaForCausalLM")
QWEN2 = _decoder("Qwen2", LlamaConfig, "Qwen2ForCausalLM")
QWEN3 = _decoder("Qwen3", ModernConfig, "Qwen3ForCausalLM")


def encoder_of(config: Any) -> Any:
    """The config of a model's encoder, or of the model itself; a head around another encoder cannot be exported."""
    encoder = getattr(config, "encoder", config)
    if encoder.kind not in ENCODERS:
        raise ConfigError(
            f"a {config.kind} around {encoder.kind!r} cannot be exported: of classifiers and taggers, only those "
            f"around {', '.join(ENCODERS[:-1])} or {ENCODERS[-1]} have an equivalent there. Use qkv train FILE --model "
            "bert, or qkv finetune from one of these."
        )
    return encoder


def class_name(config: Config, family: Family) -> str:
    """The class of transformers that computes the same as a model of qkv."""
    encoder = encoder_of(config)
    if getattr(config, "head", "") == "crf":
        raise ConfigError(
            "a tagger with a CRF has no equivalent in transformers, whose taggers decide each word alone, so it cannot "
            "be exported there. Train one with --set model.head=linear."
        )
    fitting = {name: other for name, other in family.items() if isinstance(config, other.config)}
    for name, other in fitting.items():
        pairs = [(config, other.values), (encoder, other.encoder)]
        if all(getattr(owner, key) == value for owner, values in pairs for key, value in values.items()):
            return name
    own = [f"{key} = {getattr(config, key)!r}" for key in ("pooling", "head", "next_sentence") if hasattr(config, key)]
    if isinstance(encoder, BertConfig):
        pooler = "pooler" if encoder is config else "encoder.pooler"
        own.append(f"{pooler} = {encoder.pooler!r}")
        remedy = " or ".join(
            ", ".join(f"{key} = {value!r}" for key, value in {**other.values, pooler: other.encoder["pooler"]}.items())
            for other in fitting.values()
        )
    else:
        trained = f"train FILE --model {encoder.kind}" if encoder.kind in ("gpt", "modern") else "finetune MODEL FILE"
        options = (f"--set model.{key}={value}" for other in fitting.values() for key, value in other.values.items())
        remedy = " ".join([f"qkv {trained}", *options])
    raise ConfigError(
        f"a {config.kind} with {', '.join(own)} has no equivalent among {', '.join(family)}, so it cannot be exported "
        f"there. Train one with {remedy}."
    )


def read_head(
    values: Settings, family: Family, encoder: Settings, dropout: Mapping[type, Any], others: str = ""
) -> Any:
    """The config of qkv for the class that a config.json (`values`) names. `encoder` are the values of the encoder.

    `dropout` is that of each kind of head. A class that is not in `family` is read as the class `others`, or refused.
    """
    named = values.get("architectures") or [next(iter(family))]
    name = str(named[0]) if isinstance(named, list) and len(named) == 1 else ""
    other = family.get(name) or family.get(others)
    if other is None:
        raise ConfigError(
            f"config.json: architectures = {named!r} is not known here; expected one of {', '.join(family)}."
        )
    kind, settings = other.config, {**encoder, **other.encoder}
    if kind in (MaskedConfig, ClassifierConfig, TaggerConfig):
        settings = {"encoder": settings, **other.values}
    if kind in dropout:
        settings |= {"labels": _labels(values), "dropout": dropout[kind]}
    if kind is ClassifierConfig:
        settings |= {"problem": _problem(values, len(settings["labels"])), "texts": 2 if values.get(TEXTS) == 2 else 1}
    return parse(kind, settings, "config.json")


def _labels(values: Settings) -> list[str]:
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


def _problem(values: Settings, labels: int) -> str:
    """The problem of a classifier. Without one in config.json, transformers treats a single output as regression."""
    given = values.get("problem_type")
    if given is None:
        return "regression" if labels == 1 else "single"
    for problem, foreign_name in PROBLEMS.items():
        if given == foreign_name:
            return problem
    raise ConfigError(
        f"config.json: problem_type = {given!r} is not known; expected one of {', '.join(PROBLEMS.values())}."
    )


def write_head(config: Config, family: Family) -> Values:
    """The values of a config.json about a head: the class, and for models with labels `id2label`, `label2id` and
    `problem_type`."""
    values: Values = {"architectures": [class_name(config, family)]}
    if isinstance(config, Classifying):
        values["id2label"] = {str(index): label for index, label in enumerate(config.labels)}
        values["label2id"] = {label: index for index, label in enumerate(config.labels)}
    if isinstance(config, ClassifierConfig):
        values |= {"problem_type": PROBLEMS[config.problem], **({TEXTS: 2} if config.texts == 2 else {})}
    return values


def fold_scale(config: Any, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a model, for regression with the scale of the targets multiplied into the last layer: transformers
    has no other place for it."""
    tensors = dict(weights)
    if not isinstance(config, ClassifierConfig) or (config.center, config.spread) == (0.0, 1.0):
        return tensors
    last = "head.outer" if config.head == "two-layer" else "head"
    tensors[f"{last}.weight"] = tensors[f"{last}.weight"] * config.spread
    if config.head != "no-bias":
        tensors[f"{last}.bias"] = tensors[f"{last}.bias"] * config.spread + config.center
    return tensors


def rows(config: Any, decoder: Table, tagger_head: str = "score") -> Table:
    """The table of a language model, or of a head around a decoder. `tagger_head` is the foreign name of a tagger's."""
    if not isinstance(config, Classifying):
        return decoder
    inner = tuple(replace(row, name=f"encoder.{row.name}") for row in decoder)
    if isinstance(config, ClassifierConfig):
        return (*inner, Row("head.weight", "score.weight"))
    return (*inner, Row("head.weight", f"{tagger_head}.weight"), Row("head.bias", f"{tagger_head}.bias"))


def require_end(config: Any, tokenizer: Tokenizer) -> None:
    """Refuse a classifier by the last token if texts end with the padding token: transformers would skip this token."""
    decides = isinstance(config, ClassifierConfig) and config.pooling == "last"
    if decides and tokenizer.closing and tokenizer.closing[-1] == tokenizer.filler:
        name = tokenizer.token(tokenizer.closing[-1])
        raise ConfigError(
            f"texts end with {name!a}, which is also the padding: transformers would classify by the token before it, "
            "qkv by it. Expected another padding token."
        )
