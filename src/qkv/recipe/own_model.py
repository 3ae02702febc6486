"""Models that users write themselves: a Python file with one config class, which is named at every use of the model.

The file is executed because the user names it (`--model mingru.py`), or because an installed package has an entry point
for it (group `qkv.models`). Run folders and model folders keep the name and the sha256 of the file, but never its code:
nothing in a folder is executed, and another version of the file is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.abc import SourceLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any, get_args, get_type_hints

from qkv.blocks.initialization import outline
from qkv.errors import InputError, RefusedError
from qkv.models import registry
from qkv.models.language_model import LanguageModel

ENTRY_POINT_GROUP = "qkv.models"
CONFIG_FIELDS = ("kind", "vocabulary", "layers", "width", "context")
EXPECTED = f"a dataclass with {', '.join(CONFIG_FIELDS)} and a method build"
KEY = "own_model"  # under which a saved recipe and the config.json of a model name the file


@dataclass(frozen=True)
class OwnModel:
    """The config class of a user's model, and the file that defines it."""

    config: type[Any]
    kind: str
    file: str
    sha256: str

    @property
    def values(self) -> dict[str, str]:
        """The values that a folder keeps."""
        return {"file": Path(self.file).name, "sha256": self.sha256}


LOADED: dict[str, OwnModel] = {}  # by kind


class _BytesLoader(SourceLoader):
    """Loads a module from bytes, so that exactly those that were hashed are executed."""

    def __init__(self, name: str, file: str, content: bytes) -> None:
        self.name, self.file, self.content = name, file, content

    def get_filename(self, fullname: str) -> str:
        return self.file

    def get_data(self, path: bytes | str) -> bytes:
        return self.content


def load_file(name: str | Path) -> OwnModel:
    """Execute the user's file and register the config class that it defines."""
    file = Path(name)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}). Expected a Python file with a model.") from None
    digest = hashlib.sha256(content).hexdigest()
    module_name = f"qkv_own_{digest[:16]}"
    if module_name not in sys.modules:
        loader = _BytesLoader(module_name, str(file), content)
        spec = spec_from_loader(module_name, loader)
        assert spec is not None
        sys.modules[module_name] = module = module_from_spec(spec)  # dataclasses and type hints look it up there
        try:
            loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise InputError(f"{file}: {type(error).__name__} while it was read: {error}") from error
    classes = [value for value in vars(sys.modules[module_name]).values() if _is_config(value, module_name)]
    if len(classes) != 1:
        names = ", ".join(config.__name__ for config in classes) or "none"
        raise InputError(f"{file}: expected one config class, {EXPECTED}; there are: {names}.")
    return _register(classes[0], str(file), digest)


def from_config(config: object) -> OwnModel | None:
    """Register the class of a config object that the user made in Python; None for a config of qkv."""
    config_class = type(config)
    if config_class.__module__.startswith("qkv."):
        return None
    name = config_class.__name__
    if not _is_config(config_class, config_class.__module__):
        raise InputError(f"model: {name} is not a config: expected {EXPECTED}.")
    try:
        file = inspect.getsourcefile(config_class)
        source = Path(file).read_bytes() if file and Path(file).is_file() else inspect.getsource(config_class).encode()
    except (OSError, TypeError):  # the class was typed into an interpreter
        file, source = None, repr(config_class.__qualname__).encode()
    return _register(config_class, file or name, hashlib.sha256(source).hexdigest())


def saved_values(config: object) -> dict[str, dict[str, str]]:
    """The name and hash of the file that defines a config or its encoder; empty for a model of qkv."""
    kinds = [getattr(part, "kind", None) for part in (config, getattr(config, "encoder", None))]
    own = next((LOADED[str(kind)] for kind in kinds if kind in LOADED), None)
    return {} if own is None else {KEY: own.values}


def require_same_file(section: object, saved: object, where: str) -> None:
    """Refuse a saved model whose file is not loaded, or is not the version that the model was trained with."""
    parts = [section, section.get("encoder")] if isinstance(section, dict) else []
    kinds = [str(part.get("kind")) for part in parts if isinstance(part, dict)]
    if not isinstance(saved, dict) or not all(isinstance(saved.get(key), str) for key in ("file", "sha256")):
        raise RefusedError(f"{where}: {KEY} does not fit; expected the file's name and its sha256.")
    own = next((LOADED[kind] for kind in kinds if kind in LOADED), None)
    own = own or next((model for kind in kinds if (model := _from_entry_point(kind)) is not None), None)
    if own is None:
        raise InputError(
            f"{where}: a model of {saved['file']} (sha256 {saved['sha256'][:12]}), which is not part of qkv and is not "
            f"in this folder. Name the file again: --model {saved['file']}"
        )
    if own.sha256 != saved["sha256"]:
        raise RefusedError(
            f"{where}: made with another version of {saved['file']}: sha256 {saved['sha256'][:12]}, and that of "
            f"{own.file} is {own.sha256[:12]}. Use the file as it was."
        )


def _from_entry_point(kind: str) -> OwnModel | None:
    """The model of this kind that an installed package has an entry point for."""
    for entry_point in metadata.entry_points(group=ENTRY_POINT_GROUP, name=kind):
        return from_config(entry_point.load()())
    return None


def _is_config(value: object, module: str) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module
        and dataclasses.is_dataclass(value)
        and set(CONFIG_FIELDS) <= {field.name for field in dataclasses.fields(value)}
        and callable(getattr(value, "build", None))
    )


def _register(config: type[Any], file: str, digest: str) -> OwnModel:
    kinds = get_args(get_type_hints(config)["kind"])
    if len(kinds) != 1:
        raise InputError(f'{file}: {config.__name__}.kind: expected one name, such as kind: Literal["mine"] = "mine".')
    kind = str(kinds[0])
    if kind in LOADED and LOADED[kind].sha256 == digest and LOADED[kind].config is config:
        return LOADED[kind]
    if kind not in LOADED and kind in (registry.MODELS | registry.TEXT_ENCODERS | registry.IMAGE_ENCODERS):
        raise InputError(f"{file}: {config.__name__}.kind = {kind!r} is a model of qkv. Choose another name.")
    with outline():
        model = config(vocabulary=2).build()
    configs = registry.LANGUAGE_MODELS if isinstance(model, LanguageModel) else registry.TEXT_ENCODERS
    configs.add(kind, config)
    LOADED[kind] = OwnModel(config, kind, file, digest)
    return LOADED[kind]
