"""The systems for labelled data, by the names that `--model` takes: an encoder with what stands around it.

`--model lstm` on a table, for example, is an LSTM over the text, a pooling and a head: in the recipe a `classifier` (or
`tagger`) around an encoder of kind `recurrent-encoder`. The sizes and learning rates of each system are defaults that
the config of its model carries; values that the user set are never changed. Decision 0013 has the study.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from qkv.config import LazyClasses, toml_values
from qkv.data.examples import Labelled, LabelMap, TagExamples
from qkv.errors import ConfigError
from qkv.evaluation.spans import is_spans
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import (
    CLASSIFIERS,
    IMAGE_CLASSIFIERS,
    IMAGE_ENCODERS,
    LANGUAGE_MODELS,
    TABLE_MODELS,
    TAGGERS,
    TEXT_ENCODERS,
    ModelConfig,
    is_recurrent,
    preset,
    presets,
)
from qkv.objectives.classification import Problem
from qkv.recipe import origin, own_model, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft, TrainingDraft
from qkv.recipe.recipe import MutableSection, Section, unknown_model_error

SMALL_ENCODER = 8_000_000  # parameters; a smaller encoder is finetuned at a higher learning rate
TEXT_ONLY = ("mlp", "bag")  # systems that classify whole texts but cannot tag words
CLASSIFIER_KEYS = (
    "pooling",
    "head",
    "labels",
    "problem",
    "dropout",
    "scheme",
)  # of a section [model]; others are the encoder's


class Systems(Mapping[str, ClassifierDefaults]):
    """Defaults of systems by name. A model's module is imported when its system is looked up."""

    def __init__(self, kinds: LazyClasses, names: Mapping[str, str], role: str = "classifiers") -> None:
        self.kinds, self.names, self.role = kinds, names, role

    def __getitem__(self, name: str) -> ClassifierDefaults:
        kind = self.names[name]
        system: ClassifierDefaults = getattr(self.kinds[kind], self.role)[name]
        return replace(system, encoder={"kind": kind, **system.encoder})

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


TEXT_SYSTEMS = Systems(TEXT_ENCODERS | LANGUAGE_MODELS, CLASSIFIERS)
TAGGING_SYSTEMS = Systems(TEXT_ENCODERS, TAGGERS, "taggers")
IMAGE_SYSTEMS = Systems(IMAGE_ENCODERS, IMAGE_CLASSIFIERS)
NUMBER_SYSTEMS = Systems(TABLE_MODELS, {kind.removesuffix("-table"): kind for kind in TABLE_MODELS})
DEFAULT_NUMBER_SYSTEM = "mlp"
DEFAULT_SYSTEMS = dict.fromkeys(("classification", "regression", "multi-label", "tagging"), "lstm") | {"images": "cnn"}
LONG_TEXT_SYSTEMS = dict.fromkeys(("classification", "regression", "multi-label"), "bag")
"""The defaults for texts of hundreds of tokens, on which models that read token by token are slow to train."""

LONG_TEXTS = 600  # characters; texts are long if the median has more


def long_text_system(data: Labelled) -> str | None:
    """The default system where texts are long, or None."""
    system = LONG_TEXT_SYSTEMS.get(data.task)
    return system if system and float(np.median(data.train.lengths)) > LONG_TEXTS else None


FEW_TAGGED_WORDS = 100_000
MISSED_COST = 2.0  # of words of spans that are tagged as outside; decision 19 has the trials


def system_of_few_spans(data: Labelled) -> str | None:
    """The default tagger where there are few sentences with spans, or None. A network memorises their words."""
    few = isinstance(data.train, TagExamples) and len(data.train.targets) < FEW_TAGGED_WORDS
    return "linear" if few and is_spans(data.labels.names) else None


def cheaper_systems(data: Labelled) -> list[tuple[str, Section]]:
    """Systems that take less time than the default one, each less than the one before: a name, and its section."""
    if data.task == "tagging":
        return [("a smaller gru", {"kind": "gru", "width": 64, "letters": 0})]
    if data.numeric or data.task not in LONG_TEXT_SYSTEMS:
        return []
    names = ["bag", "linear"]
    return [(name, {"kind": name}) for name in names if name != long_text_system(data)]


def system_names(task: str) -> list[str]:
    """The systems and presets that `--model` takes for a task."""
    if task == "images":
        return list(IMAGE_SYSTEMS)
    names = [name for name in TEXT_SYSTEMS if task != "tagging" or name not in TEXT_ONLY]
    return [*names, *presets(TEXT_SYSTEMS.kinds)]


def tagging_tokenizer(model: Section) -> Literal["bpe", "wordpiece"]:
    """The kind of tokenizer that a tagger learns by default. Byte pairs tell a word's first token from the others, and
    lose no character: from them a model can read how each word is written."""
    own = model.get("kind", DEFAULT_SYSTEMS["tagging"]) in TAGGING_SYSTEMS and "letters" not in model
    return "bpe" if own else "wordpiece"


def find_system(name: str, task: str, where: str) -> ClassifierDefaults:
    """The system of this name, or one with the sizes of a preset of this name."""
    systems: Mapping[str, ClassifierDefaults] = IMAGE_SYSTEMS if task == "images" else TEXT_SYSTEMS
    if task != "images" and name in own_model.LOADED:
        own: Mapping[str, ClassifierDefaults] = getattr(own_model.LOADED[name].config, "classifiers", {})
        default = own.get(name, ClassifierDefaults(dropout=0.1, learning_rate=1e-3))
        return replace(default, encoder={"kind": name, **default.encoder})
    if task == "tagging" and name in TAGGING_SYSTEMS:
        systems = TAGGING_SYSTEMS
    elif task != "images" and name not in systems and (sizes := preset(TEXT_SYSTEMS.kinds, name)) is not None:
        base = systems[sizes.kind]
        return ClassifierDefaults(
            {**toml_values(sizes), "dropout": 0.1}, base.pooling, base.dropout, learning_rate=5e-4
        )
    if name not in systems or (task == "tagging" and name in TEXT_ONLY):
        raise unknown_model_error(name, system_names(task), where, task)
    return systems[name]


def number_section(model: Section, where: str) -> tuple[MutableSection, ClassifierDefaults]:
    """The complete section of a model for a table of numbers, and its system."""
    name = str(model.get("kind", DEFAULT_NUMBER_SYSTEM)).removesuffix("-table")
    if name not in NUMBER_SYSTEMS:
        raise unknown_model_error(name, list(NUMBER_SYSTEMS), where, "a table of numbers")
    return {**model, "kind": f"{name}-table"}, NUMBER_SYSTEMS[name]


def classifier_section(model: Section, task: str, where: str) -> tuple[MutableSection, ClassifierDefaults]:
    """The section of a classifier or a tagger, from a section that names a system; and the system."""
    kind = "tagger" if task == "tagging" else "classifier"
    if model.get("kind") in ("classifier", "tagger"):  # the section of a resolved recipe
        encoder = model.get("encoder")
        if model["kind"] != kind or not isinstance(encoder, dict) or "kind" not in encoder:
            raise ConfigError(
                f"{where}: model.kind = {model['kind']!r} with model.encoder = {encoder!r} does not fit {task}; "
                f"expected {kind!r} around an encoder with its kind. "
                f"Give --model one of {', '.join(system_names(task))}."
            )
        if kind == "tagger" and encoder["kind"] == "linear":
            raise ConfigError(f"{where}: model.encoder.kind = 'linear' is for whole texts; expected 'linear-words'.")
        return {**model, "encoder": dict(encoder)}, _system_with_encoder(encoder)
    system = find_system(str(model.get("kind", DEFAULT_SYSTEMS[task])), task, where)
    given = {key: value for key, value in model.items() if key != "kind"}
    encoder = {**system.encoder, **{key: value for key, value in given.items() if key not in CLASSIFIER_KEYS}}
    if "letters" in given and "features" not in given:  # the features of a word include its letters
        encoder.pop("features", None)
    if "dropout" in given and encoder["kind"] not in ("bag", "linear", "linear-words", "picture-cnn"):
        encoder["dropout"] = given["dropout"]
    section: MutableSection = {"kind": kind, "dropout": system.dropout, "encoder": encoder}
    if kind == "classifier":
        section |= {"pooling": system.pooling, "head": system.head}
    elif system.head == "crf":
        section["head"] = system.head
    if kind == "tagger" and "pooler" in encoder:
        encoder["pooler"] = "none"
    return {**section, **{key: value for key, value in given.items() if key in CLASSIFIER_KEYS}}, system


def finetuning_section(
    source: Bundle, given: Section, training: TrainingDraft, data: Labelled
) -> tuple[MutableSection, ClassifierDefaults]:
    """The section of a classifier or tagger around the encoder of a trained model, and its training defaults."""
    task = data.task
    if task == "images":
        raise ConfigError("models of images are trained from scratch: qkv train FOLDER.")
    config, kind = origin.encoder_config(source), "tagger" if task == "tagging" else "classifier"
    dropout = given.get("dropout", 0.1)
    encoder = origin.encoder_section(source, dropout)
    section: MutableSection = {"kind": kind, "dropout": dropout, "encoder": encoder}
    if kind == "tagger":  # transformers has no CRF: a head that is not asked for is one that can be exported
        section["head"] = given.get("head") or getattr(source.config, "head", "linear")
    if kind == "classifier":
        # as in Hugging Face: BERT has a pooler, DistilBERT (which has no segments) a head of two layers on [CLS]
        pooling, head = ("mean", "linear")
        if config.kind == "bert":
            pooling, head = ("pooler", "linear") if encoder["segments"] else ("first", "two-layer")
        section |= {"pooling": given.get("pooling") or pooling}
        section |= {"head": given.get("head") or (head if section["pooling"] == pooling else "linear")}
    if config.kind == "bert":
        encoder["pooler"] = "first" if section.get("pooling") == "pooler" else "none"
    unknown = [key for key in given if key not in (*CLASSIFIER_KEYS, "kind")]
    if unknown:
        raise ConfigError(f"model.{unknown[0]}: sizes are those of the model it starts from; leave it out.")
    partial = training.frozen == "encoder" or bool(training.lora)
    small = sum(tensor.numel() for tensor in origin.encoder_weights(source).values()) < SMALL_ENCODER
    few = len(data.train) < 5000
    rate = 1e-3 if partial else 5e-4 if small else 1e-4 if few else 2e-4
    if is_recurrent(config.kind):
        rate = origin.recurrent_finetune_rate(partial)
    decay = None if partial or small else 0.85  # lower layers hold general knowledge, so they change more slowly
    return section, ClassifierDefaults(
        encoder,
        learning_rate=rate,
        batch=32 if few else 64,
        epochs=10.0 if few else 3.0,
        weight_decay=0.01,
        layer_decay=decay,
    )


def system_of(model: ModelConfig) -> ClassifierDefaults:
    """The system that the model of a complete recipe belongs to."""
    if (encoder := getattr(model, "encoder", None)) is not None:
        return _system_with_encoder(toml_values(encoder))
    return NUMBER_SYSTEMS[model.kind.removesuffix("-table")]


def system_name(model: ModelConfig) -> str:
    """The name by which --model takes the system of a complete recipe."""
    if (encoder := getattr(model, "encoder", None)) is None:
        return model.kind.removesuffix("-table")
    named = _systems_with_encoder(toml_values(encoder))
    same_head = [name for name, system in named.items() if system.head == getattr(model, "head", system.head)]
    return next(iter(same_head or named), encoder.kind)


def _system_with_encoder(encoder: MutableSection) -> ClassifierDefaults:
    return next(iter(_systems_with_encoder(encoder).values()), ClassifierDefaults(encoder))


def _systems_with_encoder(encoder: MutableSection) -> dict[str, ClassifierDefaults]:
    """By name, the systems with this kind of encoder and, if it is recurrent, this kind of cell."""
    same_kind = {
        name: systems[name]
        for systems in (TAGGING_SYSTEMS, TEXT_SYSTEMS, IMAGE_SYSTEMS)
        for name in systems
        if systems.names[name] == encoder.get("kind")
    }
    same_cell = {name: each for name, each in same_kind.items() if each.encoder.get("cell") == encoder.get("cell")}
    return same_cell or same_kind


def with_tagging_options(draft: Draft, model: Section, labels: LabelMap) -> Draft:
    """The draft with the cost of missed spans, a default of CRFs; options that are for other heads are refused."""
    has_crf = model.get("head") == "crf"
    if draft.task.get("missed_cost") and not has_crf:
        raise ConfigError("task.missed_cost is for tags that a CRF chooses together: --set model.head=crf.")
    if draft.task.get("smoothing") and has_crf:
        raise ConfigError(
            "task.smoothing is for tags that are decided word by word; a CRF chooses those of a sentence together. "
            "Leave it out, or give --set model.head=linear."
        )
    if has_crf and not draft.training.start and is_spans(labels.names):
        return replace(draft, task={"missed_cost": MISSED_COST, **draft.task})
    return draft


PROBLEM_BY_TASK: dict[str, Problem] = {
    "classification": "single",
    "images": "single",
    "tagging": "single",
    "multi-label": "multi",
    "regression": "regression",
}


def with_system_defaults(training: TrainingDraft, system: ClassifierDefaults, examples: int) -> TrainingDraft:
    """The training section with everything but the steps chosen, for the system and the number of examples."""
    if training.optimizer == "lbfgs":
        raise ConfigError("training.optimizer = 'lbfgs' is for --model linear, whose loss has one optimum.")
    training = replace(
        training,
        optimizer=training.optimizer or "adamw",
        learning_rate=training.learning_rate or system.learning_rate,
        batch=training.batch or resolve.whole_batch(min(system.batch, examples // 8), training.accumulate),
        weight_decay=system.weight_decay if training.weight_decay is None else training.weight_decay,
        layer_decay=training.layer_decay or system.layer_decay,
        betas=training.betas or (0.9, 0.98),
        patience=training.patience or 0,  # never stop early: runs may start slowly, and the best step is kept anyway
    )
    return resolve.on_machine(training)
