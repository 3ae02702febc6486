"""The arguments of `train` and `finetune`, and the data of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, TypeVar, cast

from qkv.api import Metrics
from qkv.library.new_run import RecipeSource, stem
from qkv.models.registry import ModelConfig
from qkv.tasks.given import ReadingOptions, section_of
from qkv.text.own_tokenizer import OwnTokenizer
from qkv.training.run import Evaluation

Stop = Callable[[Evaluation], bool]
"""A function that is called after each evaluation; if it returns true, the run ends. `evaluation.best` is true for the
best evaluation so far, and `evaluation.scores` has the scores, such as `scores["loss"]`."""
Options = TypeVar("Options")


class RunOptions(ReadingOptions, total=False):
    """The options that `train` and `finetune` share."""

    run: str | Path | None
    minutes: float | None
    steps: int | None
    seed: int | None
    class_weights: bool
    recipe: RecipeSource | None
    settings: Mapping[str, object] | None
    metrics: Metrics | None
    stop: Stop | None
    progress: bool


class TrainOptions(RunOptions, total=False):
    model: str | Path | ModelConfig | None
    tokenizer: str | Path | OwnTokenizer | None
    directions: Literal["forward", "both"] | None
    metric: Literal["bleu", "errors"] | None


class FinetuneOptions(RunOptions, total=False):
    freeze: bool
    lora: int | None
    layer_decay: float | None


def chosen(kind: type[Options], given: Mapping[str, object]) -> Options:
    """The arguments of a call that are options of this kind."""
    return cast(Options, {name: given[name] for name in kind.__annotations__})


def corpus_section(data: object, options: ReadingOptions) -> tuple[dict[str, object], str]:
    """The section [corpus] for data and options, and the data's part of a run's name."""
    values, given = section_of(data, options)
    return values, given.object_name or stem(given.files[0])
