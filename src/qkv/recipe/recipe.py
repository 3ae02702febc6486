"""Recipe = model + tokenizer + corpus + task + training. The unions below are the registries: typed and greppable.

To add an architecture or a task, write its file and add its config to the union here.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tomli_w
from pydantic import Field

from qkv.config import parse, plain, read_toml, strict
from qkv.data.corpus import CorpusConfig
from qkv.errors import ConfigError
from qkv.models import bert, gpt
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.cnn import CNNConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.masked import MaskedConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.modern_fast import ModernFastConfig
from qkv.models.recurrent import RecurrentConfig
from qkv.models.tagger import TaggerConfig
from qkv.storage import write_file
from qkv.tasks.language_modelling import LanguageModellingConfig
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

LanguageConfig = ModernConfig | GPTConfig | LlamaConfig | RecurrentConfig | MLPConfig | CNNConfig | ModernFastConfig
ReadingConfig = BertConfig | MaskedConfig | ClassifierConfig | TaggerConfig  # imported; training them comes later
ModelConfig = LanguageConfig | ReadingConfig
TaskConfig = LanguageModellingConfig


def _kinds(union: Any) -> dict[str, Any]:
    return {kind: config for config in get_args(union) for kind in get_args(get_type_hints(config)["kind"])}


# the names by which a model is called, and the config of each
KINDS = _kinds(LanguageConfig)
READING = _kinds(ReadingConfig)
PRESETS: dict[str, LanguageConfig] = {**gpt.PRESETS}
SECTIONS = ("model", "tokenizer", "corpus", "task", "training")


@strict
class Recipe:
    model: Annotated[LanguageConfig, Field(discriminator="kind")]
    tokenizer: TokenizerConfig
    corpus: CorpusConfig
    task: TaskConfig
    training: TrainingConfig

    def save(self, path: Path) -> None:
        sections = {name: plain(getattr(self, name)) for name in SECTIONS}
        write_file(
            path, "# Everything about this run, resolved. `qkv train --recipe` takes it.\n" + tomli_w.dumps(sections)
        )


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The sections of a recipe file, not yet complete."""
    return sections(read_toml(path), str(path))


def load(path: Path) -> Recipe:
    """A complete recipe, as a run folder holds it."""
    return parse(Recipe, read(path), str(path))


def sections(values: dict[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Refuse what is not one of the five sections; unfold a preset's name into its numbers."""
    for name, section in values.items():
        if name not in SECTIONS:
            near = difflib.get_close_matches(name, SECTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"a recipe's sections are {', '.join(SECTIONS)}."
            raise ConfigError(f"{where}: unknown section {name!r}; {hint}")
        if not isinstance(section, dict):
            raise ConfigError(f"{where}: {name} = {section!r} does not fit; expected a section [{name}].")
    model = values.get("model", {})
    kind = model.get("kind", "modern")
    if isinstance(kind, str) and kind in PRESETS:
        shape = ("kind", "layers", "heads", "width")  # the rest follows from the text, where the preset leaves it open
        usual = plain(type(PRESETS[kind])())
        chosen = {k: v for k, v in plain(PRESETS[kind]).items() if k in shape or v != usual[k]}
        values = {**values, "model": {**chosen, **model, "kind": chosen["kind"]}}
    elif str(kind) in (*READING, *bert.PRESETS):
        raise ConfigError(
            f"{where}: model {kind!r} reads text; training one comes with a later release. "
            f"To train now: {', '.join(KINDS)}."
        )
    elif str(kind) not in KINDS:
        known = [*KINDS, *PRESETS]
        near = difflib.get_close_matches(str(kind), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
        raise ConfigError(f"{where}: unknown model {kind!r}; {hint}")
    return values


def parse_section(name: str, values: dict[str, dict[str, Any]], where: str) -> Any:
    """One section alone, so that the corpus can be read before the rest of the recipe is known."""
    kinds = {"tokenizer": TokenizerConfig, "corpus": CorpusConfig, "task": TaskConfig, "training": TrainingConfig}
    if name == "model":
        return parse_model(values.get(name, {}), where)
    return parse(kinds[name], values.get(name, {}), f"{where}: [{name}]")


@strict
class _ModelSection:
    model: Annotated[ModelConfig, Field(discriminator="kind")]


def parse_model(values: Any, where: str) -> ModelConfig:
    """A model's config of any kind; messages name the key as `model.heads`."""
    known = KINDS | READING
    if not isinstance(values, dict) or str(values.get("kind")) not in known:
        found = values.get("kind") if isinstance(values, dict) else values
        raise ConfigError(f"{where}: model.kind = {found!r} is not known; expected one of {', '.join(known)}.")
    section: _ModelSection = parse(_ModelSection, {"model": values}, where)
    return section.model
