"""`qkv finetune`: from a trained or imported model to one for your own task."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import (
    MODEL,
    NO_SPLIT,
    ClassWeights,
    Data,
    Flag,
    MinutesOrNone,
    RecipeFile,
    Resume,
    Run,
    SeedOrNone,
    Settings,
    SplitOptions,
    StepsOrNone,
    named,
    within,
)
from qkv.cli.output import Json
from qkv.cli.train import resumed, started, work
from qkv.ranges import Range


def finetune(
    model: str,
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    freeze: Annotated[Flag, Parameter(group=MODEL, help="Train only the head; the model is frozen.")] = False,
    lora: Annotated[
        int | None,
        within(Range(1, 2**16, "a rank, as 8"), group=MODEL, help="Train LoRA adapters of this rank, as 8."),
    ] = None,
    layer_decay: Annotated[
        float | None,
        within(ranges.ABOVE_ZERO, group=MODEL, help="Each layer's learning rate, relative to the layer above, as 0.9."),
    ] = None,
    class_weights: ClassWeights = False,
    seed: SeedOrNone = None,
    recipe: RecipeFile = None,
    set: Settings = None,
    minutes: MinutesOrNone = None,
    steps: StepsOrNone = None,
    run: Run = None,
    resume: Resume = False,
    json: Json = False,
) -> None:
    """Fine-tune a trained or imported model on a task of your own.

    A table with labels makes a classifier or a tagger of it; text continues the training of a language model.

    qkv finetune MINILM reviews.csv
    qkv finetune runs/sotu-modern reviews.csv --freeze
    qkv finetune MINILM reviews.csv --lora 8 --minutes 10

    Parameters
    ----------
    model
        The model to start from: a run, a model folder, a Hugging Face folder or a .gguf file.
    minutes
        The time budget, in all. Default: 5.
    """
    from qkv.cli.train import stem
    from qkv.errors import InputError

    if freeze and lora:
        raise InputError("--freeze and --lora: expected one of them; LoRA leaves the model's own layers as they are.")
    options = {
        "training.start": model,
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
        "training.steps": steps,
        "training.seed": seed,
        "corpus.files": named(data, "finetune") or None,
        **{f"corpus.{name}": value for name, value in reading.given().items()},
        "task.weights": "balanced" if class_weights else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if resume:
        more = {"--minutes": minutes, "--recipe": recipe, "--set": set}
        given.pop("training.start")
        session = resumed(data, run, given, [name for name, value in more.items() if value is not None])
    else:
        name = f"{stem(data[0])}-{stem(model.rstrip('/'))}" if data else ""
        session = started(given, recipe, set or [], run, minutes, name)
    work(session, False, json)
