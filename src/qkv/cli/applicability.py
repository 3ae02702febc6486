"""Decides which options of a verb can be combined: the table is checked before a verb starts.

A row is a mode of a verb: the options that select it, and the options that apply in it (`allows`: all others are
refused, never ignored) or that do not (`refuses`). Which options apply to which data is decided in
`tasks/registry.py`, for the library as well. `tests/cli/test_every_option.py` crosses all options with all others.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from qkv.errors import InputError

Given = Mapping[str, Any]  # the options on the command line, by the names of their parameters


def given(*names: str) -> Callable[[Given], bool]:
    return lambda options: any(name in options for name in names)


def missing(*names: str) -> Callable[[Given], bool]:
    return lambda options: not any(name in options for name in names)


@dataclass(frozen=True)
class Mode:
    """A mode of a verb, and the options that are refused in it."""

    when: Callable[[Given], bool]
    reason: str
    allows: tuple[str, ...] | None = None
    refuses: tuple[str, ...] = ()
    remedy: str = "Leave it out."

    def refused(self, options: Given) -> list[str]:
        if self.allows is None:
            return [name for name in self.refuses if name in options]
        return [name for name in options if name not in self.allows]


def _greedy(options: Given) -> bool:
    return bool(options.get("greedy")) or options.get("temperature") == 0


def _uncached(options: Given) -> bool:
    return options.get("cache") is False


def _without_files(options: Given) -> bool:
    return missing("file", "train")(options) and options.get("text") != ("-",)


def _characters(options: Given) -> bool:
    named = options.get("kind", options.get("tokenizer"))
    return named == "characters" or (named is None and _without_files(options))


GREEDY_REASON = "the likeliest token is taken each time"
SAMPLING_OPTIONS = ("top_k", "top_p", "min_p", "seed")
TRANSLATION_SAMPLING_OPTIONS = ("top_k", "top_p", "seed")
MODES: dict[str, tuple[Mode, ...]] = {
    "generate": (
        Mode(given("next"), "--next shows a table and writes nothing", allows=("model", "prompt", "next", "json")),
        Mode(given("greedy"), "--greedy takes the likeliest token", refuses=("temperature",)),
        Mode(_greedy, GREEDY_REASON, refuses=SAMPLING_OPTIONS),
        Mode(_uncached, "without the cache everything is computed in f32", refuses=("precision",)),
    ),
    "chat": (Mode(_greedy, GREEDY_REASON, refuses=("top_p", "seed")),),
    "classify": (Mode(given("json"), "--json has the probabilities of all labels", refuses=("top",)),),
    "tag": (Mode(given("json"), "--json has the probabilities", refuses=("probabilities",)),),
    "translate": (
        Mode(missing("temperature"), "it belongs to sampling", refuses=TRANSLATION_SAMPLING_OPTIONS,
             remedy="Give --temperature 1 as well, or leave it out."),
        Mode(_greedy, GREEDY_REASON, refuses=TRANSLATION_SAMPLING_OPTIONS),
        Mode(given("temperature"), "--temperature samples and does not search", refuses=("beams",)),
    ),
    "embed": (
        Mode(given("probe"), "--probe reads labelled examples at every layer",
             allows=("model", "probe", "label", "picture", "json")),
        Mode(given("word"), "--word compares the texts of the command at every layer",
             allows=("model", "texts", "word", "json")),
        Mode(missing("probe"), "only --probe DATA uses it", refuses=("label", "picture")),
        Mode(missing("among"), "only --among FILE uses it", refuses=("top",)),
        Mode(given("among"), "--among compares whole texts", refuses=("tokens", "out")),
        Mode(given("tokens"), "--tokens gives a vector for each token", refuses=("pool",)),
    ),
    "inspect": (
        Mode(missing("heads"), "only --heads uses it", refuses=("data", "ablate")),
        Mode(missing("head", "decks"), "only --head and --decks use it", refuses=("token",)),
    ),
    "tokenize": (
        Mode(missing("save"), "only --save FILE writes a file", refuses=("force",)),
        Mode(_characters, "every character has a token", refuses=("size",)),
        Mode(_without_files, "the text is on the command line, not in a file", refuses=("encoding",)),
    ),
    "data clean": (
        Mode(given("dry_run"), "--dry-run writes nothing", refuses=("keep_dropped", "report")),
    ),
}  # fmt: skip


def require_applicable(verb: str, bound: inspect.BoundArguments) -> None:
    """Refuse the first option that has no effect together with the others."""
    options = typed_options(bound)
    for mode in MODES.get(verb, ()):
        if mode.when(options):
            for name in mode.refused(options):
                raise InputError(f"{shown(name, options[name])}: does not apply, because {mode.reason}. {mode.remedy}")


def typed_options(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The options on the command line; of a group, those that differ from their defaults."""
    typed: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if dataclasses.is_dataclass(value):
            typed |= {
                field.name: getattr(value, field.name)
                for field in dataclasses.fields(value)
                if getattr(value, field.name) != field.default
            }
        elif value != ():
            typed[name] = value
    return typed


def shown(name: str, value: object) -> str:
    """An option as on the command line."""
    option = f"--{name.replace('_', '-')}"
    if isinstance(value, bool):
        return option if value else f"--no-{option[2:]}"
    return " ".join([option, *map(str, value if isinstance(value, list | tuple) else [value])])
