"""Starts a new run from a recipe and from options by their recipe keys, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from qkv import session as sessions
from qkv.config import toml_values
from qkv.data import own_reader
from qkv.data.findings import Progress
from qkv.errors import ConfigError, InputError
from qkv.evaluation.own_metrics import OwnMetrics
from qkv.models.registry import MODELS, TABLE_MODELS, TEXT_ENCODERS, ModelConfig
from qkv.ranges import ExampleTask
from qkv.recipe import own_model
from qkv.recipe import recipe as recipes
from qkv.recipe.draft import Values
from qkv.tasks.protocol import Session
from qkv.tasks.registry import detect_corpus
from qkv.text import own_tokenizer
from qkv.text.tokenizer import Tokenizer, TokenizerConfig

RecipeSource = str | Path | Mapping[str, Mapping[str, object]]
COMMON_NAMES = ("train", "training", "dev", "valid", "test", "data", "input", "model", "best")  # of files
TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")
DEFAULT_MINUTES = 5.0


def start(
    options: Mapping[str, object],
    *,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object],
    minutes: float | None,
    run: Path | None,
    names: tuple[str, str],
    progress: Progress | None = None,
    started_at: float | None = None,
    own: OwnMetrics | None = None,
) -> Session:
    """Start a new run from a recipe; `options`, by their recipe keys, override it, and `settings` override both.

    `names` are the data's and the model's part of the run's name; an empty one follows from the data. `own` are
    the user's own metrics.
    """
    values: Values = {}
    if isinstance(recipe, Mapping):
        values = {section: dict(content) for section, content in recipe.items()}
    elif recipe is not None:
        values = recipes.read_sections(Path(recipe))
    new_steps = "training.steps" in {*options, *settings}
    if minutes is not None and new_steps:
        raise InputError("--minutes and the number of steps both set how long to train. Give one of them.")
    # the changes that a clock made to an earlier run do not apply to a new number of steps
    changes = ("steps_changes", "evaluate_every_changes")
    for outdated in ("steps", *changes) if minutes is not None else changes if new_steps else ():
        values.get("training", {}).pop(outdated, None)
    options = dict(options)
    if (task := options.pop("corpus.task", None)) is not None:  # the tasks of labelled examples share one reader
        options["corpus.task" if task in get_args(ExampleTask) else "task.kind"] = task
    if (tokenizer := options.pop("tokenizer.kind", None)) is not None:
        size = {key: value for key, value in values.get("tokenizer", {}).items() if key == "size"}
        values["tokenizer"] = {**size, **tokenizer_section(tokenizer)}
    for key, value in (*options.items(), *settings.items()):
        section, dot, name = key.partition(".")
        if not (dot and name):
            raise ConfigError(f"settings: {key!r}: expected section.key, such as 'model.layers'.")
        values.setdefault(section, {})[name] = value
    named = values.get("corpus", {}).get("files") or ("",)
    values["corpus"] = own_reader.through(values.get("corpus", {}))
    files = values["corpus"].get("files")
    if not files:
        for split in ("valid", "test"):
            if given := values.get("corpus", {}).get(split):
                remedy = f"Name it before --{split}, which takes all files that follow it."
                raise ConfigError(f"no text to train on: --{split} has {', '.join(map(str, given))}. {remedy}")
        raise ConfigError("no text to train on. Give a file, a folder or a data set, as in: qkv train book.txt")
    detected = detect_corpus(values)
    model = values.get("model", {})
    given_name = str(model.get("kind") or "")
    if "encoder" in model or given_name in TABLE_MODELS:  # a complete recipe has kinds that --model does not take
        given_name = ""
    return sessions.start(
        values,
        run or Path("runs") / (names[0] or stem(str(named[0]))),
        numbered=run is None,
        model_name=names[1] or given_name,
        minutes=minutes or DEFAULT_MINUTES,
        started_at=started_at,
        progress=progress,
        detected=detected,
        own=own,
    )


def stem(name: str) -> str:
    """The name of a data file in a run's name: book.txt.gz -> book; sst2/train.tsv -> sst2, because train is common."""
    path = Path(name)
    base = path.name.lstrip(".").split(".")[0] or "text"
    if base in COMMON_NAMES and (above := path.absolute().parent.name):
        base = above.lstrip(".") or base
    return "stdin" if name == "-" else base


def model_section(model: str | Path | ModelConfig | None) -> dict[str, object]:
    """The recipe keys of `model`: a kind, a Python file of the user, or a config with its sizes."""
    if isinstance(model, str | Path):
        if str(model).endswith(".py"):
            return {"model.kind": own_model.load_file(model).kind}
        if str(model) not in MODELS | TEXT_ENCODERS:
            own_model.plugin_model(str(model))
        return {"model.kind": str(model)}
    if model is None:
        return {}
    own_model.from_config(model)
    return {f"model.{key}": value for key, value in toml_values(model).items() if key != "vocabulary"}


def tokenizer_section(tokenizer: object) -> dict[str, object]:
    """The section [tokenizer] of a recipe for a tokenizer or its name; empty by default."""
    if tokenizer is None:
        return {}
    named = isinstance(tokenizer, str | Path)
    return toml_values(tokenizer_by_name(str(tokenizer))[0] if named else own_section(tokenizer))


def own_section(tokenizer: object) -> TokenizerConfig:
    """The section [tokenizer] of a recipe for a user-defined tokenizer."""
    source = own_tokenizer.of_object(tokenizer).source
    settings = own_tokenizer.settings_of(tokenizer)
    return TokenizerConfig(kind="own", file=source.name, sha256=source.sha256, settings=settings)


def tokenizer_by_name(name: str) -> tuple[TokenizerConfig, Tokenizer | None]:
    """The config, or the existing tokenizer, for a name: a kind, a tokenizer.json, or the folder of a model."""
    if name in TOKENIZERS:
        return TokenizerConfig(kind=None if name == "auto" else name), None  # type: ignore[arg-type]
    own = own_tokenizer.load_file(name) if name.endswith(".py") else own_tokenizer.plugin_tokenizer(name)
    if own is not None:
        return own_section(own.cls()), None
    path = Path(name)
    candidates = [path / "best" / "tokenizer.json", path / "tokenizer.json"] if path.is_dir() else [path]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        expected = f"{', '.join(TOKENIZERS)}, a tokenizer.json, or the folder of a model"
        raise InputError(f"{name}: no tokenizer here. Expected {expected}.")
    return TokenizerConfig(kind="file", file=str(file)), Tokenizer.load(file)
