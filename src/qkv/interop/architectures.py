"""Which model of ours is which architecture of theirs, with a head or without; labels and kinds of problem, both ways.

config.json names the architecture; where it does not, the bare encoder or the language model is meant. Theirs knows a
label by its number (`id2label`), ours by its place. Around a decoder theirs judges by the last token that is not
padding, and adds nothing to the scores.

Around a decoder: language model, classifier or tagger, and Hugging Face's three figures of it (gpt2, llama, qwen3).

    classifier: score · x, x the vector of the last token that is not padding        tagger: score · x + b at each token

Theirs finds that token by its id: the last one that is not `pad_token_id`. What closes every text must be another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from torch import Tensor

from qkv.config import parse, plain
from qkv.errors import ConfigError
from qkv.interop.tensor_files import TensorFiles
from qkv.interop.tensor_names import Row, Settings, Table, Values
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.masked import MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.models.tagger import TaggerConfig
from qkv.text.tokenizer import Tokenizer

Classifying = ClassifierConfig | TaggerConfig
Reader = BertConfig | MaskedConfig | Classifying
Config = Reader | GPTConfig | LlamaConfig | ModernConfig
ENCODERS = ("bert", "gpt", "modern", "llama", "qwen2")  # around which theirs has models that judge

TEXTS = "texts"  # in config.json: how many texts are judged together; theirs leaves it to whoever asks
PROBLEMS = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}


ConfigT = TypeVar("ConfigT")


class Architecture(ABC, Generic[ConfigT]):
    """One architecture of theirs, or several of one form, and the model of ours that equals it."""

    model_types: tuple[str, ...]

    @abstractmethod
    def table(self, config: ConfigT) -> Table: ...
    @abstractmethod
    def import_config(self, values: Settings) -> ConfigT: ...
    @abstractmethod
    def export_config(self, config: ConfigT) -> Values: ...
    @abstractmethod
    def tidy(self, config: ConfigT, names: Iterable[str]) -> dict[str, str]:
        """Which tensors of a published file are taken, and their names in the table."""

    def confirm(self, config: ConfigT, files: TensorFiles) -> None:
        """Refuse files in which what `tidy` leaves out is not what is computed here."""
        return


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


def _decoder(name: str, config: type[Config], writes: str) -> Family:
    return {
        writes: Twin(config, "none", {}),
        f"{name}ForSequenceClassification": Twin(ClassifierConfig, "none", {"pooling": "last", "head": "no-bias"}),
        f"{name}ForTokenClassification": Twin(TaggerConfig, "none", {}),
    }


GPT2 = _decoder("GPT2", GPTConfig, "GPT2LMHeadModel")
LLAMA = _decoder("Llama", LlamaConfig, "LlamaForCausalLM")
QWEN2 = _decoder("Qwen2", LlamaConfig, "Qwen2ForCausalLM")
QWEN3 = _decoder("Qwen3", ModernConfig, "Qwen3ForCausalLM")


def inside(config: Any) -> Any:
    """The encoder of a figure, which may be the figure itself; one around another encoder has no twin."""
    encoder = getattr(config, "encoder", config)
    if encoder.kind not in ENCODERS:
        raise ConfigError(
            f"a {config.kind} around {encoder.kind!r} cannot be exported: of models that judge, only those around "
            f"{', '.join(ENCODERS[:-1])} or {ENCODERS[-1]} have a twin there that is the same. Use qkv train FILE "
            "--model bert, or qkv finetune from one of these."
        )
    return encoder


def twin(config: Config, family: Family) -> str:
    """The name of theirs that equals our figure."""
    encoder = inside(config)
    for name, figure in family.items():
        same = isinstance(config, figure.config) and getattr(encoder, "pooler", "none") == figure.pooler
        if same and all(getattr(config, key) == value for key, value in figure.values.items()):
            return name
    said = [f"{key} = {getattr(config, key)!r}" for key in ("pooling", "head", "next_sentence") if hasattr(config, key)]
    fitting = [figure for figure in family.values() if isinstance(config, figure.config)]
    if isinstance(encoder, BertConfig):
        pooler = "pooler" if encoder is config else "encoder.pooler"
        said.append(f"{pooler} = {encoder.pooler!r}")
        would = " or ".join(
            ", ".join(f"{key} = {value!r}" for key, value in {**figure.values, pooler: figure.pooler}.items())
            for figure in fitting
        )
    else:
        trained = f"train FILE --model {encoder.kind}" if encoder.kind in ("gpt", "modern") else "finetune MODEL FILE"
        options = (f"--set model.{key}={value}" for figure in fitting for key, value in figure.values.items())
        would = " ".join([f"qkv {trained}", *options])
    raise ConfigError(
        f"a {config.kind} with {', '.join(said)} has no twin among {', '.join(family)}, so it cannot be exported "
        f"there. Train one with {would}."
    )


def read_labels(values: Settings, family: Family, encoder: Settings, dropout: Any) -> Reader:
    """The config of ours that the architecture in `values` asks for, around the encoder's numbers."""
    named = values.get("architectures") or [next(iter(family))]
    if not isinstance(named, list) or len(named) != 1 or str(named[0]) not in family:
        raise ConfigError(
            f"config.json: architectures = {named!r} is not known here; expected one of {', '.join(family)}."
        )
    figure = family[named[0]]
    within = {"kind": "bert", **encoder, "pooler": figure.pooler}
    if figure.config is BertConfig:
        return parse(BertConfig, within, "config.json")
    return headed(figure, within, values, dropout)


def headed(figure: Twin, encoder: Settings, values: Settings, dropout: Any) -> Any:
    """A figure around an encoder, with the labels of `values`."""
    found: Values = {"encoder": encoder, **figure.values}
    if figure.config is not MaskedConfig:
        found |= {"labels": _labels(values), "dropout": dropout}
    if figure.config is ClassifierConfig:
        found["problem"] = _problem(values, len(found["labels"]))
        found["texts"] = 2 if values.get(TEXTS) == 2 else 1
    return parse(figure.config, found, "config.json")


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


def write_labels(config: Config) -> Values:
    """`id2label`, `label2id` and `problem_type`, for models that have labels."""
    if not isinstance(config, Classifying):
        return {}
    found: Values = {
        "id2label": {str(index): label for index, label in enumerate(config.labels)},
        "label2id": {label: index for index, label in enumerate(config.labels)},
    }
    if isinstance(config, ClassifierConfig):
        found["problem_type"] = PROBLEMS[config.problem]
        if config.texts == 2:
            found[TEXTS] = 2
    return found


def folded(config: Any, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors with what theirs has no place for inside the last layer: scores to numbers as people give them."""
    found = dict(weights)
    if not isinstance(config, ClassifierConfig) or (config.center, config.spread) == (0.0, 1.0):
        return found
    last = "head.outer" if config.head == "two-layer" else "head"
    found[f"{last}.weight"] = found[f"{last}.weight"] * config.spread
    if config.head != "no-bias":
        found[f"{last}.bias"] = found[f"{last}.bias"] * config.spread + config.center
    return found


HEADS = ("score.", "classifier.")  # how names in theirs begin that are not the decoder's
DROPOUT = "classifier_dropout"  # theirs drops before the scores of tokens only; it keeps the value of a classifier
USUAL_DROPOUT = 0.1  # of tokens, where nothing is said


def headless(config: Any) -> bool:
    """Without a head over the vocabulary of its own: it is the embedding, or it judges."""
    return isinstance(config, Classifying) or config.head == "tied"


def rows(config: Any, decoder: Table, head: Table = (), tags: str = "score") -> Table:
    """The table of a figure, of the decoder's rows and its head's; `tags` is what theirs calls the head of a tagger."""
    if not isinstance(config, Classifying):
        return (*decoder, *head)
    inner = tuple(replace(row, ours=f"encoder.{row.ours}") for row in decoder)
    if isinstance(config, ClassifierConfig):
        return (*inner, Row("head.weight", "score.weight"))
    return (*inner, Row("head.weight", f"{tags}.weight"), Row("head.bias", f"{tags}.bias"))


def write(config: Any, family: Family) -> Values:
    """What config.json says of the figure: its name there, labels, dropout."""
    found: Values = {"architectures": [twin(config, family)], **write_labels(config)}
    if isinstance(config, ClassifierConfig) and config.center:
        raise ConfigError(f"center = {config.center} has no twin there, where nothing is added to scores; expected 0.")
    return found | ({DROPOUT: config.dropout} if inside(config) is not config else {})


def read(values: Settings, family: Family, decoder: Any) -> Any:
    """The decoder itself, or the classifier or tagger around it that config.json names."""
    named = values.get("architectures")
    figure = family.get(str(named[0])) if isinstance(named, list) and len(named) == 1 else None
    if figure is None or isinstance(decoder, figure.config):
        return decoder
    usual = USUAL_DROPOUT if figure.config is TaggerConfig else 0.0
    dropout = values.get(DROPOUT)
    return headed(figure, plain(decoder), values, usual if dropout is None else dropout)


def require_end(config: Any, tokenizer: Tokenizer) -> None:
    """Refuse a classifier by the last token whose texts all end with what theirs takes for padding."""
    decides = isinstance(config, ClassifierConfig) and config.pooling == "last"
    if decides and tokenizer.closing and tokenizer.closing[-1] == tokenizer.filler:
        name = tokenizer.token(tokenizer.closing[-1])
        raise ConfigError(
            f"texts end with {name!a}, which is also the padding: transformers would judge by the token before it, "
            "qkv by it. Expected another padding token."
        )
