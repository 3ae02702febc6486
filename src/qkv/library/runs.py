"""`qkv.train`, `qkv.finetune` and `qkv.resume`: the names and defaults of the command line, and Python objects as data.

    model = qkv.train((texts, labels), minutes=1)
    for event in qkv.train("book.txt", steps=500, stream=True): ...

`data` is the name of a file, a folder or a data set, several of them, or an object that `data.objects` can store.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, overload

import torch
from torch import nn
from typing_extensions import Unpack

from qkv import session as sessions
from qkv.api import Model, load
from qkv.blocks.fast_paths import evaluating
from qkv.data.corpus import Documents
from qkv.errors import InputError, require_type
from qkv.library.arguments import (
    FinetuneOptions,
    Metrics,
    OwnMetric,
    RunOptions,
    Stop,
    TrainOptions,
    checked,
    corpus_section,
    python_names,
)
from qkv.library.new_run import RecipeSource, model_section, start, stem
from qkv.models.registry import ModelConfig
from qkv.recipe import own_model
from qkv.tasks import TaskName
from qkv.tasks.protocol import Session
from qkv.training.run import Evaluation, Event, Scores


@overload
def train(data: object, *, stream: Literal[True], **options: Unpack[TrainOptions]) -> Iterator[Event]: ...
@overload
def train(data: object, *, stream: Literal[False] = False, **options: Unpack[TrainOptions]) -> Model: ...
def train(
    data: object,
    *,
    model: str | Path | ModelConfig | None = None,
    tokenizer: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    run: str | Path | None = None,
    valid: object = None,
    test: object = None,
    task: TaskName | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    languages: Sequence[str] | None = None,
    directions: Literal["forward", "both"] | None = None,
    documents: Documents | None = None,
    filter: str | None = None,
    encoding: str | None = None,
    class_weights: bool = False,
    metric: Literal["bleu", "errors"] | None = None,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object] | None = None,
    metrics: Mapping[str, OwnMetric] | None = None,
    stop: Stop | None = None,
    stream: bool = False,
) -> Model | Iterator[Event]:
    """Train a model on your data and evaluate it; returns the best model. The task follows from the data.

    Args:
        data: Files, a folder, a named data set, or an object: a list of texts, (texts, labels), a list of
            (source, target), dicts, a DataFrame, a Dataset, numpy arrays.
        model: The kind of model, such as "gpt-nano" or "lstm"; a config, such as GPTConfig(layers=2); or the Python
            file of a model of your own. Default: by the task.
        tokenizer: auto, characters, words, bpe, wordpiece, or a file. Default: auto.
        minutes: The time budget, in all: sets size, batch and steps for this machine. Default: 5.
        steps: The number of steps, instead of a time budget.
        seed: The seed of all randomness. Default: 0.
        run: The run's folder. Default: runs/DATA-MODEL, numbered when taken.
        valid: Validation data, in any form that `data` may have. Default: a tenth is held out, of parallel text a 20th.
        test: Test data for the final scores.
        task: The task, where the data leave it open.
        text: The column of the text.
        text2: The column of the second text, for pairs of texts.
        label: The column of the label.
        id: The column that identifies the examples.
        source: The column to translate from.
        target: The column to translate to.
        languages: Source and target language, such as ("en", "de").
        directions: "both" also learns from target to source. Default: "forward".
        documents: What one document of a text file is. Default: "files".
        filter: Which files of a folder or zip to read, such as "*.md".
        encoding: The encoding of text files. Default: "utf-8".
        class_weights: Weight the classes equally, however rare.
        metric: The score of translations: "bleu", or "errors" (of symbols).
        recipe: A recipe: a file, a name such as "gpt-nano", or its sections. Other arguments override it.
        settings: Single values of the recipe, such as {"model.layers": 4}.
        metrics: Metrics of your own by name, computed on the model at each evaluation and logged.
        stop: Asked after each evaluation; True ends the run, and its best model is kept.
        stream: Yield an event for each step, evaluation and checkpoint instead; the run ends with the last one.
    """
    options = checked(TrainOptions, locals(), "train")
    own = {
        **model_section(model),
        "tokenizer.kind": tokenizer,
        "corpus.directions": directions,
        "task.metric": metric,
    }
    events = _train(data, options, own)
    return events if stream else _model(events)


@overload
def finetune(
    model: str | Path | Model, data: object, *, stream: Literal[True], **options: Unpack[FinetuneOptions]
) -> Iterator[Event]: ...
@overload
def finetune(
    model: str | Path | Model, data: object, *, stream: Literal[False] = False, **options: Unpack[FinetuneOptions]
) -> Model: ...
def finetune(
    model: str | Path | Model,
    data: object,
    *,
    freeze: bool = False,
    lora: int | None = None,
    layer_decay: float | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    run: str | Path | None = None,
    valid: object = None,
    test: object = None,
    task: TaskName | None = None,
    text: str | None = None,
    text2: str | None = None,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    languages: Sequence[str] | None = None,
    documents: Documents | None = None,
    filter: str | None = None,
    encoding: str | None = None,
    class_weights: bool = False,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object] | None = None,
    metrics: Mapping[str, OwnMetric] | None = None,
    stop: Stop | None = None,
    stream: bool = False,
) -> Model | Iterator[Event]:
    """Fine-tune a trained or imported model on a task of your own; returns the best model.

    Args:
        model: The model to start from: a run, a model folder, a Hugging Face folder, a .gguf file, or a loaded model.
        data: As for `train`: labels make a classifier or a tagger, text continues the training of a language model.
        freeze: Train only the head; the model is frozen.
        lora: Train LoRA adapters of this rank, such as 8.
        layer_decay: Each layer's learning rate, relative to the layer above, such as 0.9.

    The other arguments are those of `train`.
    """
    options = checked(FinetuneOptions, locals(), "finetune")
    if freeze and lora:
        raise InputError("freeze and lora: expected one of them; LoRA leaves the model's own layers as they are.")
    require_type("model", model, str, Path, Model)
    folder = model.bundle.folder if isinstance(model, Model) else model
    if folder is None:
        raise InputError("model: this one has no folder to start from. Export or train it first.")
    own = {
        "training.start": str(folder),
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
    }
    events = _train(data, options, own, stem(str(folder).rstrip("/")))
    return events if stream else _model(events)


@overload
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: Literal[True],
) -> Iterator[Event]: ...
@overload
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: Literal[False] = False,
) -> Model: ...
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: bool = False,
) -> Model | Iterator[Event]:
    """Continue a run where its newest checkpoint left it, to the same result as if it had never stopped.

    Args:
        run: The run's folder.
        model_file: The Python file of a model of one's own, as it was given to `train`.
        metrics: Metrics of your own, as in `train`.
        stop: Asked after each evaluation, as in `train`.
        stream: Yield events, as `train` does.
    """
    require_type("run", run, str, Path)
    if model_file is not None:
        own_model.load_file(model_file)
    events = _events(lambda: sessions.resume(Path(run)), metrics or {}, stop)
    return events if stream else _model(events)


Events = Generator[Event, None, Path]  # returns the run's folder


def _model(events: Events) -> Model:
    while True:
        try:
            next(events)
        except StopIteration as end:
            return load(end.value)


def _train(data: object, options: RunOptions, own: Mapping[str, object], model: str = "") -> Events:
    def begin() -> Session:
        corpus, data_name = corpus_section(data, options)
        run, weights = options.get("run"), "balanced" if options.get("class_weights") else None
        shared = {"training.steps": options.get("steps"), "training.seed": options.get("seed"), "task.weights": weights}
        given = {key: value for key, value in {**own, **shared}.items() if value is not None}
        given |= {f"corpus.{key}": value for key, value in corpus.items()}
        return start(
            given,
            recipe=options.get("recipe"),
            settings=options.get("settings") or {},
            minutes=options.get("minutes"),
            run=None if run is None else Path(run),
            names=(data_name, model),
        )

    return _events(begin, options.get("metrics") or {}, options.get("stop"))


def _events(begin: Callable[[], Session], metrics: Metrics, stop: Stop | None) -> Events:
    """Start or resume, train, and finish: score the best model and write the card."""
    with python_names():
        session = begin()
        if metrics:
            _measure_also(session, metrics)
        doctor = session.task.examine(session)
        for event in session.run.events(session.state, session.objective):
            if isinstance(event, Evaluation) and stop is not None and stop(event):
                session.run.stop_asked = True
            yield event
        sessions.finish(session, doctor)
        return session.run.folder


def _measure_also(session: Session, metrics: Metrics) -> None:
    """Compute metrics of the user's own at each evaluation, after the task's; what they draw does not move the run."""
    evaluate, recipe = session.run.evaluate, session.planned

    def measured(module: nn.Module) -> Scores:
        scores = evaluate(module)
        model = Model(session.task.bundle(recipe, module, session.state.step), recipe.training.device)
        with torch.random.fork_rng(), evaluating(module):
            return {**scores, **{name: float(metric(model)) for name, metric in metrics.items()}}

    session.run.evaluate = measured
