"""The reference of recipe keys, written from the configs: every key with its type, its default and its description."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import field_comments
from pydantic.fields import FieldInfo

from qkv.config import ByKind
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.models.registry import IMAGE_ENCODERS, MODELS, TEXT_ENCODERS, presets
from qkv.recipe.draft import TrainingDraft
from qkv.recipe.recipe import SHIPPED
from qkv.tasks.registry import TASKS
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

PLAIN = {int: "integer", float: "number", str: "string", bool: "true or false"}
LARGE = 1e9  # a bound beyond it is not shown
ENCODERS = TEXT_ENCODERS | IMAGE_ENCODERS
SIZES = ("layers", "heads", "width")


def page() -> str:
    """All sections of a recipe."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "## `[corpus]`",
        "",
        "Which data to learn from, and how to read them. The data decide which of the three tables holds.",
        "",
    )
    yield from _section("Text", CorpusConfig, 3)
    yield from _section("Labelled examples", ExamplesConfig, 3)
    yield from _section("Parallel text", ParallelConfig, 3)
    yield from _section("`[tokenizer]`", TokenizerConfig, 2)
    yield from (
        "## `[task]`",
        "",
        "The key `kind` chooses the task. By default it follows from the data and the model.",
        "",
    )
    for kind, task in TASKS.items():
        yield from _section(f'`kind = "{kind}"`', task.task_config, 3)
    yield from _section("`[training]`", TrainingConfig, 2)
    yield from (
        "## `[model]`",
        "",
        "The key `kind` chooses the model: one of the names below, or a preset. Sizes that a recipe leaves open",
        "are chosen for the task, the data and the time; the defaults below are those of the config itself.",
        "",
    )
    yield from _presets()
    for kinds, config in _by_config(MODELS):
        yield from _section(_kinds(kinds), config, 3)
    inner = {kind: config for kind, config in ENCODERS.items() if kind not in MODELS}
    yield from (
        "## `[model.encoder]`",
        "",
        "The encoder inside a classifier or a tagger: a language model or `bert` from above, or one of these.",
        "",
    )
    for kinds, config in _by_config(inner):
        yield from _section(_kinds(kinds), config, 3)
    yield from (
        "## Recipes that come with qkv",
        "",
        '`--recipe NAME` on the command line, `recipe="NAME"` in Python.',
        "",
    )
    yield from ("| name | what it is |", "| --- | --- |")
    for path in sorted(SHIPPED.glob("*.toml")):
        yield f"| `{path.stem}` | {_escaped(_opening(path))} |"


def _by_config(kinds: dict[str, Any]) -> Iterator[tuple[list[str], type]]:
    for config in dict.fromkeys(kinds.values()):
        yield [kind for kind, own in kinds.items() if own is config], config


def _kinds(kinds: list[str]) -> str:
    return "`kind = " + " | ".join(f'"{kind}"' for kind in kinds) + "`"


def _opening(path: Path) -> str:
    """The comment on top of a recipe, without its command."""
    lines = path.read_text(encoding="utf-8").splitlines()
    comment = [line.lstrip("# ") for line in lines[: next((n for n, line in enumerate(lines) if line[:1] != "#"), 0)]]
    return " ".join(line for line in comment if line and not line.startswith("qkv "))


def _presets() -> Iterator[str]:
    yield from ("| preset | kind | sizes |", "| --- | --- | --- |")
    for name, config in presets(MODELS | ENCODERS).items():
        usual = type(config)()
        sizes = {key: value for key, value in vars(config).items() if key in SIZES or value != getattr(usual, key)}
        listed = ", ".join(f"{key} {value}" for key, value in sizes.items() if key != "kind")
        yield f"| `{name}` | `{config.kind}` | {listed} |"
    yield ""


def _section(title: str, config: type, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {title}", "")
    first = inspect.getdoc(config)
    if first and not first.startswith(f"{config.__name__}("):  # as dataclasses write it
        yield from (first, "")
    yield from ("| key | type | default | meaning |", "| --- | --- | --- | --- |")
    hints = get_type_hints(config, include_extras=True)
    about = descriptions(config)
    for field in dataclasses.fields(config):
        value = "chosen" if config is TrainingConfig and _is_open(field.name) else default(field)
        cells = (f"`{field.name}`", type_name(hints[field.name]), value, about.get(field.name, ""))
        yield "| " + " | ".join(map(_escaped, cells)) + " |"
    yield ""


def _is_open(name: str) -> bool:
    """Whether a key of [training] is chosen for the task, the data and the machine where a recipe leaves it out."""
    return getattr(TrainingDraft, name, "") is None


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def descriptions(config: type) -> dict[str, str]:
    """The fields of a config, and of the classes that it builds on, with their descriptions."""
    found: dict[str, str] = {}
    for owner in reversed(config.__mro__):
        if owner.__module__.startswith("qkv."):
            found |= field_comments.described(Path(inspect.getfile(owner)), owner.__name__)
    return found


def default(field: dataclasses.Field[Any]) -> str:
    """The default as TOML writes it."""
    value = field.default
    if value is dataclasses.MISSING:
        return "required"
    if value is None:
        return ""
    if dataclasses.is_dataclass(value):
        return f'`kind = "{getattr(value, "kind", "")}"`'
    return f"`{json.dumps(value)}`"


def type_name(kind: Any) -> str:
    """A type in words, with its bounds."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and kind in PLAIN:
        return PLAIN[kind]
    if origin is Literal:
        return " or ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin is typing.Annotated:
        if any(isinstance(item, ByKind) for item in arguments[1:]):
            return "a section with its `kind`"
        return type_name(arguments[0]) + _bounds(arguments[1:])
    if origin in (typing.Union, types.UnionType):
        members = [member for member in arguments if member is not type(None)]
        if all(dataclasses.is_dataclass(member) for member in members):
            return "a section with its `kind`"
        return " or ".join(map(type_name, members))
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return f"list of: {type_name(arguments[0])}"
        return f"{len(arguments)} values, each: {type_name(arguments[0])}"
    if dataclasses.is_dataclass(kind):
        return "a section with its `kind`"
    raise TypeError(f"a recipe key of type {kind}: teach docs/recipe_keys.py its name")


def _bounds(metadata: tuple[Any, ...]) -> str:
    limits: dict[str, float] = {}
    for item in metadata:
        for limit in item.metadata if isinstance(item, FieldInfo) else ():
            limits |= {
                name: value for name in ("ge", "gt", "le", "lt") if (value := getattr(limit, name, None)) is not None
            }
    words = {"ge": "from", "gt": "above", "le": "to", "lt": "below"}
    shown = [f"{words[name]} {value:,g}" for name, value in limits.items() if abs(value) < LARGE]
    return ", " + " ".join(shown) if shown else ""
