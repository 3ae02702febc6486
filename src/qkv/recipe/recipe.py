"""A recipe: the complete configuration of a run, in the sections model, tokenizer, corpus, task and training.

A run folder keeps its recipe in recipe.toml with a format number. A recipe that an older version saved is converted, so
that its run can still be opened and resumed. Format 1 had no number; it is recognised by the fingerprint of its data,
which only saved recipes have. Format 2 wrote `kind = "auto"` for the tokenizer of the model that a run started from. A
recipe that a user writes is not converted: an old key in it is refused, and the message names the nearest new one.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import tomli_w

from qkv.config import ByKind, LazyClasses, parse, read_toml, recipe_class, toml_values
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.errors import ConfigError
from qkv.models.registry import LANGUAGE_MODELS, MODELS, TEXT_ENCODERS, ModelConfig, preset, presets
from qkv.recipe import own_model
from qkv.storage import write_file
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

Section = Mapping[str, Any]  # the keys and values of a section in a TOML file
CorpusSection = CorpusConfig | ExamplesConfig | ParallelConfig
MutableSection = dict[str, Any]
SHIPPED = Path(__file__).parents[1] / "recipes"
SECTIONS = ("model", "tokenizer", "corpus", "task", "training")
FORMAT = 4  # of saved recipes

TRAINING_KEYS_OF_FORMAT_1 = {  # and their present names
    "rate": "learning_rate",
    "matrix_rate": "matrix_learning_rate",
    "final": "final_fraction",
    "turns": "steps_changes",
    "evaluations": "evaluate_every_changes",
}
CORPUS_KEYS_OF_FORMAT_1 = {"longest": "max_tokens"}
TEXT_TASKS = ("language-modelling", "masked-language-modelling")
"""Up to format 3, their documents were split without regard to near copies."""
EVALUATION_UNITS = {"classification": "examples", "tagging": "examples", "translation": "sentences"}
"""What the size of an evaluation counts, for the tasks of format 1; tokens for all others."""


@runtime_checkable
class TaskConfig(Protocol):
    """The interface of the configs of [task], of which each task has its own."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Recipe:
    model: ModelConfig
    tokenizer: TokenizerConfig
    corpus: CorpusSection
    task: TaskConfig
    training: TrainingConfig

    def save(self, path: Path) -> None:
        sections = {name: toml_values(getattr(self, name)) for name in SECTIONS}
        write_file(
            path,
            "# Everything about this run, resolved. `qkv train --recipe` takes it.\n"
            + tomli_w.dumps({"format": FORMAT, **own_model.saved_values(self.model), **sections}),
        )


def parse_recipe(values: Mapping[str, Section], models: LazyClasses, corpus: type, task: type, where: str) -> Recipe:
    """The recipe with these sections, in which nothing may be open.

    `models`, `corpus` and `task` are a task's config classes for the sections [model] (by kind), [corpus] and [task].
    """
    model = Annotated[ModelConfig, ByKind(models)]
    sections = recipe_class(model=model, tokenizer=TokenizerConfig, corpus=corpus, task=task, training=TrainingConfig)
    return Recipe(**vars(parse(sections, values, where)))


def read_sections(recipe: Path) -> dict[str, MutableSection]:
    """The sections of a recipe file, or of a recipe that is installed with qkv, by its name."""
    path = find_recipe(recipe)
    values = migrate(read_toml(path), str(path))
    check_sections(values, str(path))
    return values


def find_recipe(recipe: Path) -> Path:
    """The path as it is given, or the recipe of this name that is installed with qkv."""
    installed = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    if str(recipe) in installed and not os.path.isfile(recipe):
        return installed[str(recipe)]
    if os.path.exists(recipe):  # unlike Path.exists, False for a name that the system refuses
        return recipe
    near = difflib.get_close_matches(recipe.stem, installed, 1)
    hint = f"did you mean {near[0]!r}? qkv's" if near else "qkv's"
    raise ConfigError(f"{recipe}: no such recipe file; {hint} own recipes are {', '.join(installed)}.")


def migrate(values: MutableSection, where: str) -> MutableSection:
    """The sections of a recipe in the present format, without the format number."""
    values = dict(values)
    corpus = values.get("corpus")
    saved = isinstance(corpus, dict) and "fingerprint" in corpus
    version = values.pop("format", 1 if saved else FORMAT)
    if type(version) is not int or not 1 <= version <= FORMAT:
        newer = " A newer version of qkv wrote it: update qkv." if type(version) is int and version > FORMAT else ""
        raise ConfigError(f"{where}: format = {version!r} does not fit; expected a number from 1 to {FORMAT}.{newer}")
    if (own := values.pop(own_model.KEY, None)) is not None:
        own_model.require_same_file(values.get("model"), own, where)
    if version == 1:
        values = _from_format_1(values)
    tokenizer = values.get("tokenizer")
    if version < 3 and isinstance(tokenizer, dict) and tokenizer.get("kind") == "auto":  # the key is now left out
        values["tokenizer"] = {key: value for key, value in tokenizer.items() if key != "kind"}
    task = values.get("task", {})
    if version < 4 and isinstance(corpus, dict) and isinstance(task, dict) and task.get("kind") in TEXT_TASKS:
        values["corpus"] = {"near_copies": "apart", **values["corpus"]}
    return values


def _from_format_1(values: MutableSection) -> MutableSection:
    """Rename keys of [training] and [corpus], and move the sizes of evaluations to [task], with their unit in keys."""
    training, task, corpus = values.get("training"), values.get("task", {}), values.get("corpus", {})
    if not isinstance(training, dict) or not isinstance(task, dict) or not isinstance(corpus, dict):
        return values  # `check_sections` refuses it
    training = {TRAINING_KEYS_OF_FORMAT_1.get(key, key): value for key, value in training.items()}
    unit = EVALUATION_UNITS.get(str(task.get("kind")), "tokens")
    during, final = training.pop("evaluate_tokens", 0), training.pop("evaluate_last", 0)
    task = dict(task)
    if during:
        task.setdefault(f"evaluation_{unit}", during)
    if final and unit != "examples":  # all examples are evaluated at the end
        task.setdefault(f"final_evaluation_{unit}", final)
    corpus = {CORPUS_KEYS_OF_FORMAT_1.get(key, key): value for key, value in corpus.items()}
    return {**values, "corpus": corpus, "training": training, "task": task}


def check_sections(values: Mapping[str, object], where: str) -> None:
    """Refuse keys that are not one of the five sections."""
    for name, section in values.items():
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"a recipe's sections are {', '.join(SECTIONS)}."
            raise ConfigError(f"{where}: unknown section {name!r}; {hint}")
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} = {section!r} does not fit; expected a section [{name}].")


def language_model_section(model: Section, where: str) -> Section:
    """The section of a language model, in which the name of a preset is replaced by its kind and sizes."""
    kind = model.get("kind", "modern")
    if str(kind) in LANGUAGE_MODELS:
        return model
    if (config := preset(LANGUAGE_MODELS, str(kind))) is not None:
        shape = ("kind", "layers", "heads", "width")  # other keys that have their default value are left open
        default = toml_values(LANGUAGE_MODELS[config.kind]())
        chosen = {key: value for key, value in toml_values(config).items() if key in shape or value != default[key]}
        return {**chosen, **model, "kind": config.kind}
    if str(kind) in own_model.LOADED:
        raise ConfigError(
            f"{where}: model {kind!r} is an encoder, for labelled examples: it has no method `state`, with which a "
            "language model writes."
        )
    known, masked = [*LANGUAGE_MODELS, *presets(LANGUAGE_MODELS)], ["bert", "masked", *presets(TEXT_ENCODERS)]
    if kind in masked:
        raise ConfigError(
            f"{where}: model {kind!r} fills gaps and does not write text; expected a language model: "
            f"{', '.join(known)}."
        )
    raise unknown_model_error(str(kind), [*known, *masked], where)


def unknown_model_error(name: str, known: Sequence[str], where: str, purpose: str = "") -> ConfigError:
    """The error for an unknown model, with the nearest known name or with all."""
    near = difflib.get_close_matches(name, known, 1)
    title = "known here" if purpose else "known"
    hint = f"did you mean {near[0]!r}?" if near else f"{title}: {', '.join(known)}."
    return ConfigError(f"{where}: unknown model {name!r}{f' for {purpose}' if purpose else ''}; {hint}")


def parse_model(values: object, where: str) -> ModelConfig:
    """The config in a section [model], of any kind; messages name its keys in the form `model.heads`."""
    if not isinstance(values, Mapping) or str(values.get("kind")) not in MODELS:
        kind = values.get("kind") if isinstance(values, Mapping) else values
        raise ConfigError(f"{where}: model.kind = {kind!r} is not known; expected one of {', '.join(MODELS)}.")
    section = parse(recipe_class(model=MODELS[str(values["kind"])]), {"model": values}, where)
    config: ModelConfig = section.model
    return config
