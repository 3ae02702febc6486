"""Calls from Python: arguments are checked by their annotations, and messages name them as Python does."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

from qkv import ranges
from qkv.data import object_names
from qkv.errors import WrongTypeError
from qkv.models.registry import ModelConfig
from qkv.tasks.python_words import python_names

P = ParamSpec("P")
R = TypeVar("R")

RANGES = {  # of numbers that recipes and methods do not check themselves
    "each": ranges.MINUTES,
    "layer_decay": ranges.POSITIVE_FRACTION,
    "lora": ranges.LORA_RANK,
    "minutes": ranges.MINUTES,
    "seed": ranges.SEED,
    "seeds": ranges.COUNT,
    "steps": ranges.STEPS,
    "top": ranges.COUNT,
    "trials": ranges.COUNT,
}
OTHER_LIBRARIES = {  # arguments of other libraries, and what they are here
    "batch_size": 'settings={"training.batch": ...}',
    "dropout": 'settings={"model.dropout": ...}',
    "epochs": "steps or minutes",
    "learning_rate": 'settings={"training.learning_rate": ...}',
    "lr": 'settings={"training.learning_rate": ...}',
    "max_length": "length",
    "max_new_tokens": "length",
    "max_tokens": "length",
    "num_train_epochs": "steps or minutes",
    "output_dir": "run",
    "patience": 'settings={"training.patience": ...}',
    "random_state": "seed",
    "validation_data": "valid",
}


def python_call(function: Callable[P, R]) -> Callable[P, R]:
    """A function or method of the library, whose arguments are checked before it starts.

    Unknown names are refused with the nearest known one, and values of another type with the type that was expected.
    Numbers and arrays of numpy, and columns of a DataFrame, become numbers and lists where these are expected.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters)
    is_method = parameters[0] == "self"
    name = f"{'model' if is_method else 'qkv'}.{function.__name__}"

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        types = _types(function)
        for key in kwargs:
            if key not in types:
                raise TypeError(f"{name}: unknown argument {key!r}. {_near(key, types)}")
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError:  # too many values, or too few: Python's own message
            return function(*args, **kwargs)
        for key, value in given.arguments.items():
            if signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
                given.arguments[key] = {option: checked(name, option, types[option], value[option]) for option in value}
            elif key != "self":
                given.arguments[key] = value = checked(name, key, types[key], value)
                if key in RANGES and isinstance(value, int | float):
                    RANGES[key].require(key, value)
        with python_names():
            result = function(*given.args, **given.kwargs)
        return cast(R, _in_python_names(cast(Any, result))) if inspect.isgenerator(result) else result

    return call


def _in_python_names(events: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """The events of a generator, whose messages are for callers from Python, too."""
    with python_names():
        return (yield from events)


def checked(call: str, name: str, hint: Any, value: object) -> Any:
    """The value if it has this type, or else as a Python list or number; other values are refused."""
    fits = _test_of(hint)
    if hint is object or fits(value):
        return value
    if fits(plain := _plain(value)):
        return plain
    raise WrongTypeError(f"{call}: {_refusal(name, hint, plain)}")


@cache
def _types(function: Callable[..., object]) -> dict[str, Any]:
    """The arguments of a function with their types; those of `**options: Unpack[...]` one by one."""
    types: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name != "self":
            hint = _evaluated(name, parameter.annotation, function.__module__)
            options = get_args(hint)[:1]
            types |= get_type_hints(options[0]) if options and is_typeddict(options[0]) else {name: hint}
    return types


def _evaluated(name: str, annotation: str, module: str) -> Any:
    """One annotation as a type. The others of a function may name what is imported for type checkers only."""
    return get_type_hints(type("Annotations", (), {"__annotations__": {name: annotation}, "__module__": module}))[name]


@cache
def _test_of(hint: Any) -> Callable[[object], bool]:
    if isinstance(hint, type) and is_dataclass(hint):  # pydantic would look into it
        return lambda value: isinstance(value, hint)
    adapter = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))

    def fits(value: object) -> bool:
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError:
            return False
        return True

    return fits


def _plain(value: object) -> object:
    """Numbers and arrays of numpy, tensors and columns of a DataFrame as numbers and lists."""
    for method in ("tolist", "to_list", "to_pylist"):
        if callable(convert := getattr(value, method, None)) and not isinstance(value, type):
            return convert()
    return value


def _near(name: str, known: Collection[str]) -> str:
    if name in OTHER_LIBRARIES and re.split(r"\W", here := OTHER_LIBRARIES[name])[0] in known:
        return f"Here it is {here}."
    near = difflib.get_close_matches(name, known, 1, cutoff=0.75)
    return f"Did you mean {near[0]}?" if near else f"Expected one of {', '.join(known)}."


def _refusal(name: str, hint: Any, value: object) -> str:
    """A message about a value of a wrong type; for a list, about its first wrong item."""
    item = _item_type(hint)
    if item is not None and isinstance(value, list | tuple):
        number = next((number for number, entry in enumerate(value) if not _test_of(item)(entry)), None)
        if number is not None:
            return _refusal(f"{name}[{number}]", item, value[number])
    simple = isinstance(value, str | int | float | bytes | Mapping | list | tuple)
    shown = f"{name}={value!r:.80}" if simple else name
    choices = [str(choice) for part in _parts(hint) if get_origin(part) is Literal for choice in get_args(part)]
    if isinstance(value, str) and choices:
        near = difflib.get_close_matches(value, choices, 1)
        return f"{shown}: expected {in_words(hint)}.{f' Did you mean {near[0]!r}?' if near else ''}"
    kind = type(value).__name__ if simple or isinstance(value, type) else object_names.described(value)
    return f"{shown}: expected {in_words(hint)}, not {'None' if value is None else kind}.{_remedy(hint, value)}"


def _remedy(hint: Any, value: object) -> str:
    """What to write instead, if the value suggests it; else nothing."""
    item, kinds = _item_type(hint), [kind.__name__ for kind in type(value).__mro__]
    parts = _parts(hint)
    if ModelConfig in parts and "Model" in kinds:
        return " To start from a trained model, use qkv.finetune."
    if ModelConfig in parts and "Module" in kinds:
        return " A model of your own is given as its config or as a Python file: docs/own-model.md."
    if Path in parts and "Model" in kinds:
        return " Give its folder, model.folder."
    if item is None:
        return ""
    if "DataFrame" in kinds:
        return " Give one of its columns, as in frame['text']."
    if _test_of(item)(value):
        return f" Put it into a list: [{value!r:.80}]."
    is_series = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)
    return " Make it a list: list(...)." if is_series else ""


def _item_type(hint: Any) -> Any:
    """The type of the items, if the type allows lists; else None."""
    lists = (part for part in _parts(hint) if get_origin(part) in (Sequence, list))
    return next((get_args(part)[0] for part in lists), None)


def _parts(hint: Any) -> list[Any]:
    """The members of a union, without None; of other types, the type itself."""
    if get_origin(hint) is Annotated:
        return _parts(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        return [part for member in get_args(hint) for part in _parts(member)]
    return [] if hint is NoneType else [hint]


def in_words(hint: Any) -> str:
    """A type in words: str, a list of str, a function, 'time' or 'parameters'."""
    words: list[str] = []
    for part in _parts(hint):
        origin, arguments = get_origin(part), get_args(part)
        if origin is Literal:
            words += map(repr, arguments)
        elif origin is Callable:
            words.append("a function")
        elif origin is Mapping:
            words.append("a dict" if object in arguments else f"a dict of {' to '.join(map(in_words, arguments))}")
        elif origin in (Sequence, list, Collection):
            items = in_words(arguments[0])
            words.append(f"a list of ({items})" if " or " in items else f"a list of {items}")
        elif origin is tuple:
            words.append(f"({', '.join(map(in_words, arguments))})")
        else:
            words.append(getattr(part, "__name__", str(part)))
    words = list(dict.fromkeys(words))
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
