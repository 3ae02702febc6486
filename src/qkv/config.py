"""Strict TOML and JSON into frozen dataclasses: pydantic at the door, plain dataclasses inside.

An unknown key is an error that names the nearest known one; a wrong value is an error that says what was expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
import typing
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

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


def parse(kind: Any, values: Mapping[str, object], where: str) -> Any:
    """`values` as an instance of `kind`, a dataclass or a union of them; `where` names the source in messages."""
    _require_unicode(values, where)
    try:
        # JSON mode: a list becomes a tuple and 1 becomes 1.0, but "1" does not become 1
        return TypeAdapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(_explain(kind, error.errors()[0], where)) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _require_unicode(value: object, where: str) -> None:
    """Refuse text with bytes that are not UTF-8, as names of files may have: a recipe could not hold it."""
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            _require_unicode(item, where)
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(f"{where}: {value!r} is not UTF-8, and a recipe is. Rename the file, or link to it.")


def _explain(kind: object, error: ErrorDetails, where: str) -> str:
    owner, path = _walk(kind, error["loc"])
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


def _walk(kind: object, location: tuple[int | str, ...]) -> tuple[object, list[str]]:
    """The dataclass in which a location's last part lies, and the path as a person writes it, without union tags."""
    owner, path = kind, []
    for index, part in enumerate(location):
        hints = typing.get_type_hints(owner, include_extras=False) if dataclasses.is_dataclass(owner) else {}
        members = typing.get_args(owner)
        if not hints and members:  # a union: the part is the tag that chose a member; a tuple: it is a place in it
            classes = [member for member in members if dataclasses.is_dataclass(member)]
            tags = [m for m in classes if part in typing.get_args(typing.get_type_hints(m).get("kind"))]
            owner = tags[0] if tags else owner
            continue
        path.append(str(part))
        if part in hints and index < len(location) - 1:
            owner = hints[part]
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


def set_value(values: JsonObject, assignment: str) -> None:
    """Apply one `--set section.key=value`; the value is TOML, a bare word is a string."""
    path, equals, text = assignment.partition("=")
    section, dot, key = path.strip().partition(".")
    if not (equals and dot and key):
        raise ConfigError(f"--set {assignment}: expected section.key=value, as in --set model.layers=4.")
    value: object = text.strip()
    with suppress(ValueError):  # a number as people type it, which TOML does not take (.02)
        value = float(text)
    with suppress(tomllib.TOMLDecodeError):
        value = tomllib.loads(f"value = {text}")["value"]
    values.setdefault(section, {})[key] = value
