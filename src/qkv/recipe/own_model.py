"""User-defined models: a Python file with one config class, which must be given at every use of the model."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from qkv import own_files
from qkv.blocks.initialization import outline
from qkv.errors import InputError
from qkv.models import registry
from qkv.models.language_model import LanguageModel
from qkv.own_files import OwnFile

ENTRY_POINT_GROUP = "qkv.models"
CONFIG_FIELDS = ("kind", "vocabulary", "layers", "width", "context")
EXPECTED = f"a dataclass with {', '.join(CONFIG_FIELDS)} and a method build"
KEY = "own_model"  # under which a saved recipe and the config.json of a model name the file


@dataclass(frozen=True)
class OwnModel:
    """The config class of a user's model, and the file that defines it."""

    config: type[Any]
    kind: str
    source: OwnFile


LOADED: dict[str, OwnModel] = {}  # by kind


def load_file(name: str | Path) -> OwnModel:
    """Execute a Python file of the user, and return the config class that it defines."""
    source = own_files.execute(name, "a model")
    module = source.module
    assert module is not None
    classes = [value for value in vars(module).values() if _is_config(value, module.__name__)]
    if len(classes) != 1:
        names = ", ".join(config.__name__ for config in classes) or "none"
        raise InputError(f"{source.file}: expected one config class, {EXPECTED}; there are: {names}.")
    return _register(classes[0], source)


def from_config(config: object) -> OwnModel | None:
    """Register the class of a config object that the user made in Python; None for a config of qkv."""
    config_class = type(config)
    if config_class.__module__.startswith("qkv."):
        return None
    if not _is_config(config_class, config_class.__module__):
        raise InputError(f"model: {config_class.__name__} is not a config: expected {EXPECTED}.")
    return _register(config_class, own_files.source_of(config_class))


def saved_values(config: object) -> dict[str, dict[str, str]]:
    """The name and hash of the file that defines a config or its encoder; empty for a model of qkv."""
    kinds = [getattr(part, "kind", None) for part in (config, getattr(config, "encoder", None))]
    own = next((LOADED[str(kind)] for kind in kinds if kind in LOADED), None)
    return {} if own is None else {KEY: own.source.values}


def require_same_file(section: object, saved: object, where: str) -> None:
    """Refuse a saved model whose file is not loaded, or is not the version that the model was trained with."""
    parts = [section, section.get("encoder")] if isinstance(section, dict) else []
    kinds = [str(part.get("kind")) for part in parts if isinstance(part, dict)]
    own_files.require_record(saved, f"{where}: {KEY} does not fit")
    own = next((LOADED[kind] for kind in kinds if kind in LOADED), None)
    own = own or next((model for kind in kinds if (model := plugin_model(kind)) is not None), None)
    own_files.require_same(None if own is None else own.source, saved, where, "a model", "model")


def plugin_model(kind: str) -> OwnModel | None:
    """The model of this kind from an installed package, found by its entry point."""
    plugin: Any = own_files.load_plugin(ENTRY_POINT_GROUP, kind)
    return None if plugin is None else from_config(plugin())


def _is_config(value: object, module: str) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module
        and dataclasses.is_dataclass(value)
        and set(CONFIG_FIELDS) <= {field.name for field in dataclasses.fields(value)}
        and callable(getattr(value, "build", None))
    )


def _register(config: type[Any], source: OwnFile) -> OwnModel:
    file = source.file
    if "__pydantic_config__" not in vars(config):
        raise InputError(
            f"{file}: {config.__name__} is an ordinary dataclass. Put @strict above it instead of @dataclass: "
            "from qkv.config import strict"
        )
    kinds = get_args(get_type_hints(config)["kind"])
    if len(kinds) != 1:
        raise InputError(f'{file}: {config.__name__}.kind: expected one name, such as kind: Literal["mine"] = "mine".')
    kind = str(kinds[0])
    if kind in LOADED and LOADED[kind].source.sha256 == source.sha256 and LOADED[kind].config is config:
        return LOADED[kind]
    if kind not in LOADED and kind in (registry.MODELS | registry.TEXT_ENCODERS | registry.IMAGE_ENCODERS):
        raise InputError(f"{file}: {config.__name__}.kind = {kind!r} is a model of qkv. Choose another name.")
    try:
        with outline():
            model = config(vocabulary=2).build()
    except Exception as error:
        raise InputError(
            f"{file}: {type(error).__name__} when {config.__name__}(vocabulary=2).build() was called: {error}"
        ) from error
    if not all(isinstance(getattr(model, name, None), int) for name in ("vocabulary", "context")):
        raise InputError(f"{file}: the model of {config.__name__} has no numbers `vocabulary` and `context`.")
    place = registry.LANGUAGE_MODELS if isinstance(model, LanguageModel) else registry.TEXT_ENCODERS
    place.add(kind, config)
    LOADED[kind] = OwnModel(config, kind, source)
    return LOADED[kind]
