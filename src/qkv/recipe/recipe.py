"""Recipe = model + tokenizer + corpus + task + training. Models are listed in `models/registry.py`, tasks below."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field

from qkv.config import parse, plain, read_toml, strict
from qkv.data.corpus import CorpusConfig
from qkv.data.labelled.config import ExamplesConfig
from qkv.data.parallel.config import ParallelConfig
from qkv.errors import ConfigError
from qkv.models import bert
from qkv.models.encoders import LanguageConfig
from qkv.models.masked import MaskedConfig
from qkv.models.registry import (
    LANGUAGE_MODELS,
    LANGUAGE_PRESETS,
    MODELS,
    LabelledConfig,
    ModelConfig,
    TranslatorConfig,
    by_kind,
)
from qkv.objectives.classification import ClassificationConfig
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.objectives.masked_language_modelling import MaskedLanguageModellingConfig
from qkv.objectives.tagging import TaggingConfig
from qkv.objectives.translation import TranslationConfig
from qkv.recipe.migration import current
from qkv.storage import write_file
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

LabelledTaskConfig = ClassificationConfig | TaggingConfig
TaskConfig = LanguageModellingConfig | MaskedLanguageModellingConfig | LabelledTaskConfig | TranslationConfig

SHIPPED = Path(__file__).parents[1] / "recipes"


TASKS = by_kind(TaskConfig)
LABELLED = by_kind(LabelledTaskConfig)
MASKED = "masked-language-modelling"
TRANSLATION = "translation"
SECTIONS = ("model", "tokenizer", "corpus", "task", "training")
FORMAT = 2  # of saved recipes; older ones are converted by `migration.py`


@strict
class Recipe:
    model: Annotated[LanguageConfig, Field(discriminator="kind")]
    tokenizer: TokenizerConfig
    corpus: CorpusConfig
    task: LanguageModellingConfig
    training: TrainingConfig

    def save(self, path: Path) -> None:
        sections = {name: plain(getattr(self, name)) for name in SECTIONS}
        write_file(
            path,
            "# Everything about this run, resolved. `qkv train --recipe` takes it.\n"
            + tomli_w.dumps({"format": FORMAT, **sections}),
        )


@strict
class MaskedRecipe(Recipe):
    """Of models that fill gaps, as BERT."""

    model: MaskedConfig  # type: ignore[assignment]
    task: MaskedLanguageModellingConfig  # type: ignore[assignment]


@strict
class LabelledRecipe(Recipe):
    """Of classifiers and taggers: the corpus is of examples."""

    model: Annotated[LabelledConfig, Field(discriminator="kind")]  # type: ignore[assignment]
    corpus: ExamplesConfig  # type: ignore[assignment]
    task: Annotated[LabelledTaskConfig, Field(discriminator="kind")]  # type: ignore[assignment]


@strict
class TranslationRecipe(Recipe):
    """Of models that translate: the corpus is of pairs."""

    model: Annotated[TranslatorConfig, Field(discriminator="kind")]  # type: ignore[assignment]
    corpus: ParallelConfig  # type: ignore[assignment]
    task: TranslationConfig  # type: ignore[assignment]


def read(recipe: Path) -> dict[str, dict[str, Any]]:
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


def load(path: Path) -> Recipe:
    """A complete recipe, as a run folder holds it."""
    values = read(path)
    kind = values.get("task", {}).get("kind", "language-modelling")
    if kind in LABELLED:
        return parse(LabelledRecipe, values, str(path))
    if kind == MASKED:
        return parse(MaskedRecipe, values, str(path))
    if kind == TRANSLATION:
        return parse(TranslationRecipe, values, str(path))
    return parse(Recipe, sections(values, str(path)), str(path))


def check_sections(values: dict[str, Any], where: str) -> None:
    """Refuse what is not one of the five sections."""
    for name, section in values.items():
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"a recipe's sections are {', '.join(SECTIONS)}."
            raise ConfigError(f"{where}: unknown section {name!r}; {hint}")
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} = {section!r} does not fit; expected a section [{name}].")


def sections(values: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The sections of a language model's recipe, the name of a preset unfolded into its numbers."""
    check_sections(values, where)
    model = values.get("model", {})
    kind = model.get("kind", "modern")
    if isinstance(kind, str) and kind in LANGUAGE_PRESETS:
        shape = ("kind", "layers", "heads", "width")  # the rest follows from the text, where the preset leaves it open
        usual = plain(type(LANGUAGE_PRESETS[kind])())
        chosen = {k: v for k, v in plain(LANGUAGE_PRESETS[kind]).items() if k in shape or v != usual[k]}
        values = {**values, "model": {**chosen, **model, "kind": chosen["kind"]}}
    elif str(kind) not in LANGUAGE_MODELS:
        if kind in (fillers := ("bert", "masked", *bert.PRESETS)):
            raise ConfigError(
                f"{where}: model {kind!r} fills gaps and does not write text; expected a language model: "
                f"{', '.join([*LANGUAGE_MODELS, *LANGUAGE_PRESETS])}."
            )
        known = [*LANGUAGE_MODELS, *LANGUAGE_PRESETS, *fillers]
        near = difflib.get_close_matches(str(kind), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
        raise ConfigError(f"{where}: unknown model {kind!r}; {hint}")
    return values


def parse_section(name: str, values: dict[str, dict[str, Any]], where: str) -> Any:
    """One section alone, so that the corpus can be read before the rest of the recipe is known."""
    kinds = {
        "tokenizer": TokenizerConfig,
        "corpus": CorpusConfig,
        "task": LanguageModellingConfig,
        "training": TrainingConfig,
    }
    if name == "model":
        return parse_model(values.get(name, {}), where)
    return parse(kinds[name], values.get(name, {}), f"{where}: [{name}]")


@strict
class _ModelSection:
    model: Annotated[ModelConfig, Field(discriminator="kind")]


def parse_model(values: Any, where: str) -> ModelConfig:
    """A model's config of any kind; messages name the key as `model.heads`."""
    if not isinstance(values, dict) or str(values.get("kind")) not in MODELS:
        found = values.get("kind") if isinstance(values, dict) else values
        raise ConfigError(f"{where}: model.kind = {found!r} is not known; expected one of {', '.join(MODELS)}.")
    section: _ModelSection = parse(_ModelSection, {"model": values}, where)
    return section.model
