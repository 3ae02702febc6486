"""The arguments of calls from Python: data of any form, options by the names of the command line, and a new run of
them. Messages name arguments, not options of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from qkv.api import Model
from qkv.data import catalog, objects
from qkv.data.corpus import Documents
from qkv.errors import InputError, QkvError, WrongTypeError
from qkv.library.new_run import RecipeSource, stem
from qkv.models.registry import ModelConfig
from qkv.tasks import TaskName
from qkv.training.run import Evaluation

Options = TypeVar("Options")
OwnMetric = Callable[[Model], float]
Stop = Callable[[Evaluation], bool]
Metrics = Mapping[str, OwnMetric]


class ReadingOptions(TypedDict, total=False):
    """How data are read: the options of the command line, by the same names."""

    valid: object
    test: object
    task: TaskName | None
    text: str | None
    text2: str | None
    label: str | None
    id: str | None
    source: str | None
    target: str | None
    languages: Sequence[str] | None
    documents: Documents | None
    filter: str | None
    encoding: str | None


class RunOptions(ReadingOptions, total=False):
    """What `train` and `finetune` share."""

    run: str | Path | None
    minutes: float | None
    steps: int | None
    seed: int | None
    class_weights: bool
    recipe: RecipeSource | None
    settings: Mapping[str, object] | None
    metrics: Metrics | None
    stop: Stop | None


@with_config(ConfigDict(arbitrary_types_allowed=True))
class TrainOptions(RunOptions, total=False):
    model: str | Path | ModelConfig | None
    tokenizer: str | None
    directions: Literal["forward", "both"] | None
    metric: Literal["bleu", "errors"] | None


class FinetuneOptions(RunOptions, total=False):
    freeze: bool
    lora: int | None
    layer_decay: float | None


def corpus_section(data: object, options: ReadingOptions) -> tuple[dict[str, object], str]:
    """The section [corpus] of data and options, and the data's part of a run's name."""
    files, implied, name = files_of(data, "data")
    values: dict[str, object] = {"files": files, **implied}
    for key, value in options.items():
        if key in ("valid", "test") and value is not None:
            values[key] = files_of(value, key)[0]
        elif key in ReadingOptions.__annotations__ and value is not None:
            values[key] = list(value) if isinstance(value, tuple) else value
    return values, name


def files_of(data: object, argument: str) -> tuple[list[str], dict[str, str], str]:
    """The files of data: named, or written for an object; with the options that follow from its type, and a name."""
    if isinstance(data, str | Path):
        return [str(data)], {}, stem(str(data))
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | Path) for item in data):
        names = [str(item) for item in data]
        exist = [isinstance(item, Path) or _is_name(str(item)) for item in data]
        if all(exist):
            return names, {}, stem(names[0])
        if any(exist):
            raise InputError(
                f"{argument}: {names[exist.index(True)]!r} is a file and {names[exist.index(False)]!r:.80} is not. "
                "Give names of files, or texts."
            )
    stored = objects.store(data, argument)
    return [str(stored.file)], stored.options, stored.name


def _is_name(text: str) -> bool:
    try:
        return len(text) < 4096 and "\n" not in text and (Path(text).exists() or catalog.find(text) is not None)
    except (OSError, ValueError):  # a name that no system takes
        return False


def checked(kind: type[Options], given: Mapping[str, object], call: str) -> Options:
    """The options of a call, of the types that are asked for; others are refused by name."""
    known = {name: value for name, value in given.items() if name in kind.__annotations__}
    try:
        return TypeAdapter(kind).validate_python(known, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        value = first["input"]
        expected = str(first["msg"]).removeprefix("Input should be ")
        raise WrongTypeError(
            f"qkv.{call}: {first['loc'][0]}={value!r:.80}: expected {expected}, not {type(value).__name__}."
        ) from None


OPTION = re.compile(r"(?<!qkv )--(?:set )?([a-z][a-z0-9-]*)")


@contextmanager
def python_names() -> Iterator[None]:
    """Messages name options as Python's callers do: minutes, not --minutes."""
    try:
        yield
    except QkvError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (OPTION.sub(lambda match: match[1].replace("-", "_"), error.args[0]), *error.args[1:])
        raise
