"""Strict TOML and JSON into frozen dataclasses: pydantic at the door, plain dataclasses inside.

An unknown key is an error that names the nearest known one; a wrong value is an error that says what was expected.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from qkv.errors import ConfigError

T = TypeVar("T")


def strict(cls: type[T]) -> type[T]:
    """A frozen dataclass that refuses unknown keys and sloppy types when read by `parse`."""
    cls.__pydantic_config__ = {"extra": "forbid", "strict": True}  # type: ignore[attr-defined]
    return dataclasses.dataclass(frozen=True, kw_only=True)(cls)


def parse(kind: Any, values: Mapping[str, Any], where: str) -> Any:
    """`values` as an instance of `kind`, a dataclass or a union of them; `where` names the source in messages."""
    from pydantic import TypeAdapter, ValidationError

    try:
        # JSON mode: a list becomes a tuple and 1 becomes 1.0, but "1" does not become 1
        return TypeAdapter(kind).validate_json(json.dumps(values))
    except ValidationError as error:
        raise ConfigError(_explain(error.errors()[0], values, where)) from None
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _explain(error: Mapping[str, Any], values: Mapping[str, Any], where: str) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "unexpected_keyword_argument":
        known = _fields_beside(error, values)
        near = difflib.get_close_matches(str(error["loc"][-1]), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(sorted(known))}."
        return f"{where}: unknown key {place!r}; {hint}" if known else f"{where}: unknown key {place!r}."
    if error["type"] in ("value_error", "assertion_error"):
        return f"{where}: {place or 'the section'}: {str(error['msg']).removeprefix('Value error, ')}"
    return f"{where}: {place} = {error['input']!r} does not fit: {_lower(error['msg'])}."


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


_KNOWN: dict[str, list[str]] = {}


def know(section: str, fields: Sequence[str]) -> None:
    """Tell the error messages which keys a section or a kind of model takes."""
    _KNOWN[section] = list(fields)


def _fields_beside(error: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    for part in reversed(error["loc"][:-1]):
        if part in _KNOWN:
            return _KNOWN[part]
    return _KNOWN.get("", [])


def field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def plain(instance: Any) -> dict[str, Any]:
    """A dataclass as a mapping of TOML values; None is left out, for TOML has no null."""
    return {key: value for key, value in dataclasses.asdict(instance).items() if value is not None}


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such recipe file.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}.") from None


def set_value(values: dict[str, Any], assignment: str) -> None:
    """Apply one `--set section.key=value`; the value is TOML, a bare word is a string."""
    path, equals, text = assignment.partition("=")
    section, dot, key = path.strip().partition(".")
    if not (equals and dot and key):
        raise ConfigError(f"--set {assignment}: expected section.key=value, as in --set model.layers=4.")
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    values.setdefault(section, {})[key] = value
