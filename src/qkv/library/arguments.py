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

from qkv import session as sessions
from qkv.api import Model
from qkv.config import plain
from qkv.data import catalog, objects
from qkv.data.corpus import Documents
from qkv.data.findings import Progress
from qkv.errors import ConfigError, InputError, QkvError, WrongTypeError
from qkv.models.registry import ModelConfig
from qkv.recipe import own_model
from qkv.recipe import recipe as recipes
from qkv.recipe.draft import Values
from qkv.tasks.protocol import Session
from qkv.tasks.registry import default_model, detected_of
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.training.run import Evaluation

Options = TypeVar("Options")
TaskName = Literal["classification", "regression", "multi-label", "tagging", "images", "translation"]
RecipeSource = str | Path | Mapping[str, Mapping[str, object]]
COMMON_NAMES = ("train", "training", "dev", "valid", "test", "data", "input", "model", "best")  # of files
OwnMetric = Callable[[Model], float]
Stop = Callable[[Evaluation], bool]
Metrics = Mapping[str, OwnMetric]
DEFAULT_MINUTES = 5.0


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


def start(
    options: Mapping[str, object],
    *,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object],
    minutes: float | None,
    run: Path | None,
    names: tuple[str, str],
    progress: Progress | None = None,
    began: float | None = None,
) -> Session:
    """A new run from a recipe, `options` by their keys above it, and `settings` above those.

    `names` are the data's and the model's part of the run's name; an empty one is the model's by default.
    """
    values: Values = {}
    if isinstance(recipe, Mapping):
        values = {section: dict(content) for section, content in recipe.items()}
    elif recipe is not None:
        values = recipes.read(Path(recipe))
    new_steps = "training.steps" in {*options, *settings}
    if minutes is not None and new_steps:
        raise InputError("--minutes and the number of steps both say how long to train. Give one of them.")
    # where a clock once moved the end does not matter when the number of steps is decided anew
    moved = ("steps_changes", "evaluate_every_changes")
    for settled in ("steps", *moved) if minutes is not None else moved if new_steps else ():
        values.get("training", {}).pop(settled, None)
    options = dict(options)
    if tokenizer := options.pop("tokenizer.kind", None):
        size = {key: value for key, value in values.get("tokenizer", {}).items() if key == "size"}
        values["tokenizer"] = {**size, **tokenizer_section(str(tokenizer))}
    for key, value in (*options.items(), *settings.items()):
        section, dot, name = key.partition(".")
        if not (dot and name):
            raise ConfigError(f"settings: {key!r}: expected section.key, such as 'model.layers'.")
        values.setdefault(section, {})[name] = value
    detected = detected_of(values)
    data_name, model_name = names
    model_name = model_name or str(values.get("model", {}).get("kind") or default_model(values, detected))
    return sessions.start(
        values,
        run or Path("runs") / f"{data_name}-{model_name}",
        numbered=run is None,
        minutes=minutes or DEFAULT_MINUTES,
        began=began,
        progress=progress,
        detected=detected,
    )


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


def stem(name: str) -> str:
    """The run's name for a data file: book.txt.gz -> book; sst2/train.tsv -> sst2, because train says nothing."""
    path = Path(name)
    base = path.name.lstrip(".").split(".")[0] or "text"
    if base in COMMON_NAMES and (above := path.absolute().parent.name):
        base = above.lstrip(".") or base
    return "stdin" if name == "-" else base


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


def model_section(model: str | Path | ModelConfig | None) -> dict[str, object]:
    """What `model` means, by the keys of a recipe: a kind, a file of the user's own, or a config with its sizes."""
    if isinstance(model, str | Path):
        own = own_model.load_file(model) if str(model).endswith(".py") else None
        return {"model.kind": own.kind if own else str(model)}
    if model is None:
        return {}
    own_model.from_config(model)
    return {f"model.{key}": value for key, value in plain(model).items() if key != "vocabulary"}


def tokenizer_section(name: str | None) -> dict[str, object]:
    """What the name of a tokenizer means in a recipe's section [tokenizer]; by default nothing."""
    return plain(find_tokenizer(name)[0]) if name else {}


TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")


def find_tokenizer(name: str) -> tuple[TokenizerConfig, Tokenizer | None]:
    """What the name of a tokenizer means: a kind, a tokenizer.json, or the folder of a model."""
    if name in TOKENIZERS:
        return TokenizerConfig(kind=name), None  # type: ignore[arg-type]
    path = Path(name)
    places = [path / "best" / "tokenizer.json", path / "tokenizer.json"] if path.is_dir() else [path]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        expected = f"{', '.join(TOKENIZERS)}, a tokenizer.json, or the folder of a model"
        raise InputError(f"{name}: no tokenizer here. Expected {expected}.")
    return TokenizerConfig(kind="file", file=str(file)), Tokenizer.load(file)
