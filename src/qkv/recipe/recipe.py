"""Recipe = model + tokenizer + corpus + task + training: complete, frozen, as a run folder holds it.

A saved recipe carries the number of its format; one that an older version saved is converted, so that its run still
opens and resumes. Format 1 carried no number; it is recognised by the fingerprint of its data, which only a resolved
recipe has. Format 2 said "auto" where a tokenizer's kind was left to the model that a run started from. A recipe that a
person writes is never converted: an old key in it is refused by name.
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

Section = Mapping[str, Any]  # as TOML gives it
CorpusSection = CorpusConfig | ExamplesConfig | ParallelConfig
NewSection = dict[str, Any]  # one that a function builds
SHIPPED = Path(__file__).parents[1] / "recipes"
SECTIONS = ("model", "tokenizer", "corpus", "task", "training")
FORMAT = 3  # of saved recipes

TRAINING = {  # keys of [training] in format 1, and what they are called now
    "rate": "learning_rate",
    "matrix_rate": "matrix_learning_rate",
    "final": "final_fraction",
    "turns": "steps_changes",
    "evaluations": "evaluate_every_changes",
}
CORPUS = {"longest": "max_tokens"}  # and of [corpus]
UNITS = {"classification": "examples", "tagging": "examples", "translation": "sentences"}
"""What an evaluation counts, by tasks of format 1; tokens in all others."""


@runtime_checkable
class TaskConfig(Protocol):
    """The section [task], of any task."""

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


def complete(values: Mapping[str, Section], models: LazyClasses, corpus: type, task: type, where: str) -> Recipe:
    """Sections in which nothing is open as a recipe; a task has these models and these configs of its sections."""
    model = Annotated[ModelConfig, ByKind(models)]
    sections = recipe_class(model=model, tokenizer=TokenizerConfig, corpus=corpus, task=task, training=TrainingConfig)
    return Recipe(**vars(parse(sections, values, where)))


def read(recipe: Path) -> dict[str, NewSection]:
    """The sections of a recipe, not yet complete: of a file, or of one of qkv's own by its name."""
    path = find(recipe)
    values = current(read_toml(path), FORMAT, str(path))
    check_sections(values, str(path))
    return values


def find(recipe: Path) -> Path:
    """The file of a recipe: as given, or the one of this name that is installed with qkv."""
    known = {path.stem: path for path in sorted(SHIPPED.glob("*.toml"))}
    if str(recipe) in known and not os.path.isfile(recipe):
        return known[str(recipe)]
    if os.path.exists(recipe):  # unlike Path.exists, False for a name that the system refuses
        return recipe
    near = difflib.get_close_matches(recipe.stem, known, 1)
    hint = f"did you mean {near[0]!r}? qkv's" if near else "qkv's"
    raise ConfigError(f"{recipe}: no such recipe file; {hint} own recipes are {', '.join(known)}.")


def current(values: NewSection, newest: int, where: str) -> NewSection:
    """The sections of a recipe in the present format, without the number."""
    values = dict(values)
    corpus = values.get("corpus")
    resolved = isinstance(corpus, dict) and "fingerprint" in corpus
    number = values.pop("format", 1 if resolved else newest)
    if type(number) is not int or not 1 <= number <= newest:
        newer = " A newer version of qkv wrote it: update qkv." if type(number) is int and number > newest else ""
        raise ConfigError(f"{where}: format = {number!r} does not fit; expected a number from 1 to {newest}.{newer}")
    if (own := values.pop(own_model.KEY, None)) is not None:
        own_model.require(values.get("model"), own, where)
    if number == 1:
        values = _from_format_1(values)
    tokenizer = values.get("tokenizer")
    if number < 3 and isinstance(tokenizer, dict) and tokenizer.get("kind") == "auto":  # now absent
        values["tokenizer"] = {key: value for key, value in tokenizer.items() if key != "kind"}
    return values


def _from_format_1(values: NewSection) -> NewSection:
    """Rename keys of [training] and [corpus], and move to [task] how much is evaluated, with its unit in the name."""
    training, task, corpus = values.get("training"), values.get("task", {}), values.get("corpus", {})
    if not isinstance(training, dict) or not isinstance(task, dict) or not isinstance(corpus, dict):
        return values  # which is refused where the sections are checked
    training = {TRAINING.get(key, key): value for key, value in training.items()}
    unit = UNITS.get(str(task.get("kind")), "tokens")
    during, final = training.pop("evaluate_tokens", 0), training.pop("evaluate_last", 0)
    task = dict(task)
    if during:
        task.setdefault(f"evaluation_{unit}", during)
    if final and unit != "examples":  # all examples are evaluated at the end
        task.setdefault(f"final_evaluation_{unit}", final)
    corpus = {CORPUS.get(key, key): value for key, value in corpus.items()}
    return {**values, "corpus": corpus, "training": training, "task": task}


def check_sections(values: Mapping[str, object], where: str) -> None:
    """Refuse what is not one of the five sections."""
    for name, section in values.items():
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"a recipe's sections are {', '.join(SECTIONS)}."
            raise ConfigError(f"{where}: unknown section {name!r}; {hint}")
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} = {section!r} does not fit; expected a section [{name}].")


def language_model_section(model: Section, where: str) -> Section:
    """The section of a language model, the name of a preset unfolded into its numbers."""
    kind = model.get("kind", "modern")
    if str(kind) in LANGUAGE_MODELS:
        return model
    if (named := preset(LANGUAGE_MODELS, str(kind))) is not None:
        shape = ("kind", "layers", "heads", "width")  # the rest follows from the text, where the preset leaves it open
        default = toml_values(LANGUAGE_MODELS[named.kind]())
        chosen = {key: value for key, value in toml_values(named).items() if key in shape or value != default[key]}
        return {**chosen, **model, "kind": named.kind}
    known, masked = [*LANGUAGE_MODELS, *presets(LANGUAGE_MODELS)], ["bert", "masked", *presets(TEXT_ENCODERS)]
    if kind in masked:
        raise ConfigError(
            f"{where}: model {kind!r} fills gaps and does not write text; expected a language model: "
            f"{', '.join(known)}."
        )
    raise unknown_model(str(kind), [*known, *masked], where)


def unknown_model(name: str, known: Sequence[str], where: str, purpose: str = "") -> ConfigError:
    """The refusal of a model's name, with the nearest one that is known."""
    near = difflib.get_close_matches(name, known, 1)
    list_of = "known here" if purpose else "known"
    hint = f"did you mean {near[0]!r}?" if near else f"{list_of}: {', '.join(known)}."
    return ConfigError(f"{where}: unknown model {name!r}{f' for {purpose}' if purpose else ''}; {hint}")


def parse_model(values: object, where: str) -> ModelConfig:
    """A model's config of any kind; messages name the key as `model.heads`."""
    if not isinstance(values, Mapping) or str(values.get("kind")) not in MODELS:
        kind = values.get("kind") if isinstance(values, Mapping) else values
        raise ConfigError(f"{where}: model.kind = {kind!r} is not known; expected one of {', '.join(MODELS)}.")
    section = parse(recipe_class(model=MODELS[str(values["kind"])]), {"model": values}, where)
    config: ModelConfig = section.model
    return config
