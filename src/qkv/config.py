"""Strict parsing of TOML and JSON into frozen dataclasses, validated by pydantic.

The error for an unknown key names the nearest known one; the error for a wrong value says what was expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import typing
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import CoreSchema, ErrorDetails, PydanticKnownError, core_schema

from qkv.errors import ConfigError
from qkv.safe_json import JsonObject, require_regular_file

T = TypeVar("T")
MAX_TOML_BYTES = 2**24

Count = Annotated[int, Field(ge=1, le=2**31)]
CountOrZero = Annotated[int, Field(ge=0, le=2**31)]
Layers = Annotated[int, Field(ge=1, le=1024)]
LayersOrZero = Annotated[int, Field(ge=0, le=1024)]
Width = Annotated[int, Field(ge=1, le=2**16)]  # also the number of heads and the width of a head
WidthOrZero = Annotated[int, Field(ge=0, le=2**18)]
Context = Annotated[int, Field(ge=1, le=2**20)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=3e38, allow_inf_nan=False)]
PositiveOrZero = Annotated[float, Field(ge=0, le=3e38, allow_inf_nan=False)]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def strict(cls: type[T]) -> type[T]:
    """Make a frozen dataclass for which `parse` refuses unknown keys and values of another type."""
    cls.__pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


_adapter = lru_cache(maxsize=256)(TypeAdapter)  # building an adapter takes longer than using it


@dataclasses.dataclass(frozen=True)
class ByKind:
    """Annotates a section whose `kind` selects one of several dataclasses, so that the others are not imported."""

    classes: Mapping[str, Any]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def _read(self, section: object) -> object:
        if not isinstance(section, dict):
            raise ValueError(f"{section!r:.80} does not fit; expected a section with its kind")
        if "kind" not in section:
            raise PydanticKnownError("union_tag_not_found", {"discriminator": "'kind'"})
        if (kind := str(section["kind"])) not in self.classes:
            known = {"discriminator": "'kind'", "tag": kind, "expected_tags": ", ".join(self.classes)}
            raise PydanticKnownError("union_tag_invalid", known)
        return _adapter(self.classes[kind]).validate_json(json.dumps(section))


class LazyClasses(Mapping[str, Any]):
    """Classes by kind. Each is given as a class, or as "module:class" within a package and imported on first use."""

    def __init__(self, package: str, sources: MutableMapping[str, str | type]) -> None:
        self.package, self.sources = package, sources

    def __getitem__(self, kind: str) -> Any:
        source = self.sources[kind]
        return source if isinstance(source, type) else getattr(self.module(kind), source.partition(":")[2])

    def add(self, kind: str, cls: type) -> None:
        """Add a class to this mapping and to all mappings joined from it with `|`."""
        self.sources[kind] = cls

    def __contains__(self, kind: object) -> bool:
        return kind in self.sources

    def __iter__(self) -> Iterator[str]:
        return iter(self.sources)

    def __len__(self) -> int:
        return len(self.sources)

    def __or__(self, other: LazyClasses) -> LazyClasses:
        return LazyClasses(self.package, ChainMap(other.sources, self.sources))

    def module(self, kind: str) -> ModuleType:
        source = self.sources[kind]
        if isinstance(source, type):
            return import_module(source.__module__)
        return import_module(f"{self.package}.{source.partition(':')[0]}")


def recipe_class(**sections: object) -> type:
    """Make a dataclass of these sections, given as name=type, for `parse`."""
    return strict(dataclasses.make_dataclass("Recipe", sections.items()))


def parse(cls: Any, values: Mapping[str, object], where: str) -> Any:
    """Convert `values` to the dataclass `cls`. `where` names the source in error messages."""
    _require_unicode(values, where)
    try:
        # JSON mode: a list becomes a tuple and 1 becomes 1.0, but "1" does not become 1
        return _adapter(cls).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(_explain(cls, values, error.errors()[0], where)) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _require_unicode(value: object, where: str) -> None:
    """Refuse strings that are not UTF-8 (file names may be so): a recipe file could not hold them."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            _require_unicode(item, where)
    elif isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise ConfigError(f"{where}: {value!r} is not UTF-8, which a recipe must be. Rename the file, or link to it.")


def _explain(kind: object, values: Mapping[str, object], error: ErrorDetails, where: str) -> str:
    owner, path = _locate(kind, values, error["loc"])
    key = ".".join(path)
    match error["type"]:
        case "unexpected_keyword_argument":
            known = [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
            near = difflib.get_close_matches(path[-1], known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}."
            return f"{where}: unknown key {key!r}; {hint}"
        case "union_tag_invalid":
            expected = str(error["ctx"]["expected_tags"]).replace("'", "")
            return f"{where}: {key} = {error['ctx']['tag']!r} is not known; expected one of {expected}."
        case "value_error":
            return f"{where}: {key}: {str(error['msg']).removeprefix('Value error, ')}."
        case "union_tag_not_found":
            return f"{where}: {key}.{str(error['ctx']['discriminator']).strip(chr(39))} is missing."
        case "missing":
            return f"{where}: {key} is missing."
        case _:
            shown = repr(error["input"])
            shown = shown if len(shown) < 80 else shown[:77] + "..."
            expected = str(error["msg"]).removeprefix("Input should be ")
            return f"{where}: {key} = {shown} does not fit; expected {expected}."


def _locate(kind: object, values: object, location: tuple[int | str, ...]) -> tuple[object, list[str]]:
    """Return the dataclass that has the last key of a pydantic location, and the keys on the way to it."""
    owner, path = kind, [part for part in location if isinstance(part, str)]  # numbers are indices into lists
    for part in path[:-1]:
        values = values.get(part) if isinstance(values, Mapping) else None
        hints = typing.get_type_hints(owner, include_extras=True) if dataclasses.is_dataclass(owner) else {}
        owner = hints.get(part)
        for by_kind in getattr(owner, "__metadata__", ()):
            if isinstance(by_kind, ByKind) and isinstance(values, Mapping):
                owner = by_kind.classes.get(str(values.get("kind")))
    return owner, path or ["the section"]


def toml_values(instance: Any) -> JsonObject:
    """Convert a dataclass to TOML values. Fields that are None are left out, because TOML has no null."""
    return {key: value for key, value in dataclasses.asdict(instance).items() if value is not None}


def read_toml(path: Path) -> JsonObject:
    try:
        require_regular_file(path, "Give a recipe file such as a run's recipe.toml.", MAX_TOML_BYTES)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such recipe file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}.") from None


def parse_assignment(assignment: str) -> tuple[str, object]:
    """Split one `--set section.key=value` into key and value. The value is TOML, or a string without quotes."""
    path, equals, text = assignment.partition("=")
    if not (equals and path.strip().partition(".")[2]):
        raise ConfigError(f"--set {assignment}: expected section.key=value, for example --set model.layers=4.")
    value: object = text.strip()
    with suppress(ValueError):  # TOML has no numbers such as .02
        value = float(text)
    with suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"value = {text}")["value"]
    return path.strip(), value
