"""`qkv.train`, `qkv.finetune` and `qkv.resume`: the names and defaults of the command line, and Python objects as data.

    model = qkv.train((texts, labels), minutes=1)
    for event in qkv.train("book.txt", steps=500, stream=True): ...

`data` is the name of a file, a folder or a data set, a list of names, or an object that `data.objects` can store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, overload

from typing_extensions import Unpack

from qkv import session as sessions
from qkv.api import Metrics, Model, own_metrics_of
from qkv.data import own_reader
from qkv.data.corpus import Documents
from qkv.data.findings import Progress
from qkv.errors import InputError
from qkv.library.arguments import FinetuneOptions, Stop, TrainOptions, chosen
from qkv.library.new_run import RecipeSource, model_section, stem
from qkv.library.run_events import events_of, model_of, trained
from qkv.models.registry import ModelConfig
from qkv.recipe import own_model
from qkv.tasks import TaskName
from qkv.tasks.protocol import Session
from qkv.tasks.python_calls import python_call
from qkv.text import own_tokenizer
from qkv.text.own_tokenizer import OwnTokenizer
from qkv.training.run import Event


@overload
def train(data: object, *, stream: Literal[True], **options: Unpack[TrainOptions]) -> Iterator[Event]: ...
@overload
def train(data: object, *, stream: Literal[False] = False, **options: Unpack[TrainOptions]) -> Model: ...
@python_call
def train(
    data: object,
    *,
    model: str | Path | ModelConfig | None = None,
    tokenizer: str | Path | OwnTokenizer | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int | None = None,
    run: str | Path | None = None,
    valid: object = None,
    test: object = None,
    task: TaskName | None = None,
    text: str | int | None = None,
    text2: str | int | None = None,
    label: str | int | None = None,
    labels: Mapping[str | int, str] | None = None,
    id: str | int | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    languages: Sequence[str] | None = None,
    directions: Literal["forward", "both"] | None = None,
    documents: Documents | None = None,
    filter: str | None = None,
    encoding: str | None = None,
    reader: str | Path | None = None,
    class_weights: bool = False,
    metric: Literal["bleu", "errors"] | None = None,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object] | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: bool = False,
    progress: bool = True,
) -> Model | Iterator[Event]:
    """Train a model on your data and evaluate it; returns the best model. The task follows from the data.

    Args:
        data: Files, a folder, a named data set, or an object: a list of texts, (texts, labels), a list of
            (source, target), dicts, a DataFrame, a Dataset, numpy arrays.
        model: The kind of model, such as "gpt-nano" or "lstm"; a config, such as GPTConfig(layers=2); or the Python
            file of a model of your own. Default: by the task.
        tokenizer: auto, characters, words, bpe, wordpiece, a tokenizer.json, or a tokenizer of your own: an object, or
            its Python file. Default: auto.
        minutes: The total time budget, which sets size, batch and steps for this machine. Default: 5.
        steps: The number of steps, instead of a time budget.
        seed: The seed of all randomness. Default: 0.
        run: The run's folder. Default: runs/DATA-MODEL, with a number if it exists.
        valid: Validation data, in any form that `data` may have. Default: a tenth is held out, of parallel text a 20th.
        test: Test data for the final scores.
        task: The task, if the data leave it open.
        text: The column of the text.
        text2: The column of the second text, for pairs of texts.
        label: The column of the label.
        labels: Other names for the labels, such as {"0": "negative", "1": "positive"}.
        id: The column that identifies the examples.
        source: The column to translate from.
        target: The column to translate to.
        languages: Source and target language, such as ("en", "de").
        directions: "both" also learns from target to source. Default: "forward".
        documents: What one document of a text file is. Default: "files".
        filter: Which files of a folder or zip to read, such as "*.md".
        encoding: The encoding of all text files. Default: that of each file, detected.
        reader: A Python file with a function `read`, from a path to rows or texts, for files of a format of your own.
        class_weights: Weight the classes equally, however rare.
        metric: The score of translations: "bleu", or "errors" (of symbols).
        recipe: A recipe: a file, a name such as "gpt-nano", or its sections. Other arguments override it.
        settings: Single values of the recipe, such as {"model.layers": 4}.
        metrics: Your own metrics by name: functions of the model or of (true, predicted); or a Python file. They are
            computed and logged at each evaluation, and reported at the end.
        stop: A function that is called after each evaluation; True ends the run, and its best model is kept.
        stream: Yield an event for each step, evaluation and checkpoint instead; the run ends with the last one.
        progress: Show the progress in a notebook or on a terminal.
    """
    options = chosen(TrainOptions, locals())
    own = {
        **model_section(model),
        "tokenizer.kind": tokenizer,
        "corpus.directions": directions,
        "task.metric": metric,
    }
    events = trained(data, options, own, shown=progress and not stream)
    return events if stream else model_of(events)


@overload
def finetune(
    model: str | Path | Model, data: object, *, stream: Literal[True], **options: Unpack[FinetuneOptions]
) -> Iterator[Event]: ...
@overload
def finetune(
    model: str | Path | Model, data: object, *, stream: Literal[False] = False, **options: Unpack[FinetuneOptions]
) -> Model: ...
@python_call
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
    text: str | int | None = None,
    text2: str | int | None = None,
    label: str | int | None = None,
    labels: Mapping[str | int, str] | None = None,
    id: str | int | None = None,
    source: str | int | None = None,
    target: str | int | None = None,
    languages: Sequence[str] | None = None,
    documents: Documents | None = None,
    filter: str | None = None,
    encoding: str | None = None,
    reader: str | Path | None = None,
    class_weights: bool = False,
    recipe: RecipeSource | None = None,
    settings: Mapping[str, object] | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: bool = False,
    progress: bool = True,
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
    options = chosen(FinetuneOptions, locals())
    if freeze and lora:
        raise InputError("freeze and lora: expected one of them; LoRA leaves the model's own layers unchanged.")
    folder = model.bundle.folder if isinstance(model, Model) else model
    if folder is None:
        raise InputError("model: this model has no folder to start from. Export or train it first.")
    own = {
        "training.start": str(folder),
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
    }
    events = trained(data, options, own, stem(str(folder).rstrip("/")), shown=progress and not stream)
    return events if stream else model_of(events)


@overload
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    tokenizer_file: str | Path | None = None,
    reader: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: Literal[True],
    progress: bool = True,
) -> Iterator[Event]: ...
@overload
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    tokenizer_file: str | Path | None = None,
    reader: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: Literal[False] = False,
    progress: bool = True,
) -> Model: ...
@python_call
def resume(
    run: str | Path,
    *,
    model_file: str | Path | None = None,
    tokenizer_file: str | Path | None = None,
    reader: str | Path | None = None,
    metrics: Metrics | None = None,
    stop: Stop | None = None,
    stream: bool = False,
    progress: bool = True,
) -> Model | Iterator[Event]:
    """Continue a run from its newest checkpoint, with the same result as if it had never stopped.

    Args:
        run: The run's folder.
        model_file: The Python file of your own model, as it was given to `train`.
        tokenizer_file: The Python file of your own tokenizer.
        reader: The Python file of your own reader; needed if its rows are no longer in the cache.
        metrics: Metrics of your own, as in `train`.
        stop: A function that is called after each evaluation, as in `train`.
        stream: Yield events, as `train` does.
        progress: As for `train`.
    """
    if model_file is not None:
        own_model.load_file(model_file)
    if tokenizer_file is not None:
        own_tokenizer.load_file(tokenizer_file)
    if reader is not None:
        own_reader.load(reader)

    def begin(report: Progress) -> Session:
        return sessions.resume(Path(run), report, own_metrics_of(metrics))

    events = events_of(begin, stop, shown=progress and not stream)
    return events if stream else model_of(events)
