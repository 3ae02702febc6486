"""Strict TOML and JSON into frozen dataclasses: pydantic at the door, plain dataclasses inside.

An unknown key is an error that names the nearest known one; a wrong value is an error that says what was expected.
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
from qkv.safe_json import JsonObject, require_regular

T = TypeVar("T")
LARGEST_TOML = 2**24  # bytes

Count = Annotated[int, Field(ge=1, le=2**31)]
CountOrZero = Annotated[int, Field(ge=0, le=2**31)]
Layers = Annotated[int, Field(ge=1, le=1024)]
LayersOrZero = Annotated[int, Field(ge=0, le=1024)]
Width = Annotated[int, Field(ge=1, le=2**16)]  # also of heads, in number and size
WidthOrZero = Annotated[int, Field(ge=0, le=2**18)]
Context = Annotated[int, Field(ge=1, le=2**20)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, le=3e38, allow_inf_nan=False)]
PositiveOrZero = Annotated[float, Field(ge=0, le=3e38, allow_inf_nan=False)]


@dataclass_transform(frozen_default=True, kw_only_default=True)
def strict(cls: type[T]) -> type[T]:
    """A frozen dataclass that refuses unknown keys and sloppy types when read by `parse`."""
    cls.__pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


_adapter = lru_cache(maxsize=256)(TypeAdapter)  # building one takes longer than all that it validates


@dataclasses.dataclass(frozen=True)
class ByKind:
    """Annotates a section that is one of several dataclasses, by its `kind`; the others need not be imported."""

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
    """Classes by kind, each given as "module:class" of a package and imported when it is asked for, or as a class."""

    def __init__(self, package: str, places: MutableMapping[str, str | type]) -> None:
        self.package, self.places = package, places

    def __getitem__(self, kind: str) -> Any:
        place = self.places[kind]
        return place if isinstance(place, type) else getattr(self.module(kind), place.partition(":")[2])

    def add(self, kind: str, cls: type) -> None:
        """Add a class from outside, to this mapping and to all that were joined from it."""
        self.places[kind] = cls

    def __contains__(self, kind: object) -> bool:
        return kind in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __or__(self, other: LazyClasses) -> LazyClasses:
        return LazyClasses(self.package, ChainMap(other.places, self.places))

    def module(self, kind: str) -> ModuleType:
        place = self.places[kind]
        if isinstance(place, type):
            return import_module(place.__module__)
        return import_module(f"{self.package}.{place.partition(':')[0]}")


def form(**sections: object) -> type:
    """A dataclass with a section of each of these types, for `parse`."""
    return strict(dataclasses.make_dataclass("Recipe", sections.items()))


def parse(kind: Any, values: Mapping[str, object], where: str) -> Any:
    """`values` as an instance of `kind`, a dataclass; `where` names the source in messages."""
    _require_unicode(values, where)
    try:
        # JSON mode: a list becomes a tuple and 1 becomes 1.0, but "1" does not become 1
        return _adapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(_explain(kind, values, error.errors()[0], where)) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _require_unicode(value: object, where: str) -> None:
    """Refuse text with bytes that are not UTF-8, as names of files may have: a recipe could not hold it."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            _require_unicode(item, where)
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(f"{where}: {value!r} is not UTF-8, and a recipe is. Rename the file, or link to it.")


def _explain(kind: object, values: Mapping[str, object], error: ErrorDetails, where: str) -> str:
    owner, path = _walk(kind, values, error["loc"])
    place = ".".join(path)
    match error["type"]:
        case "unexpected_keyword_argument":
            known = [field.name for field in dataclasses.fields(owner)] if dataclasses.is_dataclass(owner) else []
            near = difflib.get_close_matches(path[-1], known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}."
            return f"{where}: unknown key {place!r}; {hint}"
        case "union_tag_invalid":
            expected = str(error["ctx"]["expected_tags"]).replace("'", "")
            return f"{where}: {place} = {error['ctx']['tag']!r} is not known; expected one of {expected}."
        case "value_error":
            return f"{where}: {place}: {str(error['msg']).removeprefix('Value error, ')}."
        case "union_tag_not_found":
            return f"{where}: {place}.{str(error['ctx']['discriminator']).strip(chr(39))} is missing."
        case "missing":
            return f"{where}: {place} is missing."
        case _:
            shown = repr(error["input"])
            shown = shown if len(shown) < 80 else shown[:77] + "..."
            expected = str(error["msg"]).removeprefix("Input should be ")
            return f"{where}: {place} = {shown} does not fit; expected {expected}."


def _walk(kind: object, values: object, location: tuple[int | str, ...]) -> tuple[object, list[str]]:
    """The dataclass in which a location's last part lies, and the path as a person writes it."""
    owner, path = kind, [part for part in location if isinstance(part, str)]  # a number is a place in a list
    for part in path[:-1]:
        values = values.get(part) if isinstance(values, Mapping) else None
        hints = typing.get_type_hints(owner, include_extras=True) if dataclasses.is_dataclass(owner) else {}
        owner = hints.get(part)
        for by_kind in getattr(owner, "__metadata__", ()):
            if isinstance(by_kind, ByKind) and isinstance(values, Mapping):
                owner = by_kind.classes.get(str(values.get("kind")))
    return owner, path or ["the section"]


def plain(instance: Any) -> JsonObject:
    """A dataclass as a mapping of TOML values; None is left out, for TOML has no null."""
    return {key: value for key, value in dataclasses.asdict(instance).items() if value is not None}


def read_toml(path: Path) -> JsonObject:
    try:
        require_regular(path, "Give a recipe file, as recipe.toml of a run.", LARGEST_TOML)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such recipe file.") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}.") from None


def assigned(assignment: str) -> tuple[str, object]:
    """Key and value of one `--set section.key=value`; the value is TOML, a bare word is a string."""
    path, equals, text = assignment.partition("=")
    if not (equals and path.strip().partition(".")[2]):
        raise ConfigError(f"--set {assignment}: expected section.key=value, as in --set model.layers=4.")
    value: object = text.strip()
    with suppress(ValueError):  # a number as people type it, which TOML does not take (.02)
        value = float(text)
    with suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"value = {text}")["value"]
    return path.strip(), value
