"""`qkv train` trains and evaluates a model on files or folders; `qkv finetune` starts from a trained model."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import qkv
from qkv import ranges
from qkv.cli.command_start import started_at
from qkv.cli.options import (
    DATA_GROUP,
    DEFAULT_SPLIT,
    DEFAULT_TRAINING,
    MODEL_GROUP,
    MODEL_SOURCES,
    Data,
    Flag,
    Metrics,
    SplitOptions,
    TokenizerName,
    TrainingOptions,
    in_range,
    positionals,
    refuse,
    split_metrics,
)
from qkv.cli.output import (
    Json,
    print_answer,
    print_json,
    print_message,
    print_notes,
    print_sections,
    program_name,
)
from qkv.cli.progress import progress_in_bytes, progress_in_items, show_training
from qkv.cli.tensorboard import require_tensorboard, tensorboard_writer
from qkv.data.findings import first_notes
from qkv.errors import InputError, InterruptedRun, OutputError, signal_number_of
from qkv.own_files import named_again

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor
    from qkv.evaluation.own_metrics import OwnMetrics
    from qkv.tasks.protocol import Session
    from qkv.tasks.report import NextCommand

OPTION_NAMES = {"tokenizer.kind": "tokenizer", "task.weights": "class-weights", "task.kind": "task"}
"""The options whose names differ from those of their recipe keys."""


def train(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    directions: Annotated[Literal["forward", "both"] | None, Parameter(group=DATA_GROUP)] = None,
    model: Annotated[str | None, Parameter(group=MODEL_GROUP)] = None,
    tokenizer: TokenizerName = None,
    metric: Annotated[Metrics, Parameter(group=MODEL_GROUP)] = None,
    training: TrainingOptions = DEFAULT_TRAINING,
    json: Json = False,
) -> None:
    """Train a model on your data, and evaluate it. The task follows from the data: text makes a language
    model, a table with labels a classifier, words with tags a tagger, images an image classifier, parallel
    text a translator. Reads .txt .html .pdf .docx .epub .ipynb .csv .jsonl .parquet, images.

    qkv train book.txt --model gpt-nano --minutes 1
    qkv train notes/ --filter '*.md' --documents paragraphs --model bert-mini
    qkv train reviews.csv --text review --label stars
    qkv train train.en train.de --valid val.en val.de

    MODELS

    Args:
        directions: both also learns from target to source (`qkv translate --to`). Default: forward.
        model: A model of the table above. Default: the one of the task.
    """
    score, own = split_metrics(metric)
    options = {"model.kind": model, "tokenizer.kind": tokenizer, "corpus.directions": directions, "task.metric": score}
    train_or_resume("train", data, reading, training, options, json, own_metrics=own)


def finetune(
    model: Annotated[str, Parameter(help=f"The model to start from: a {MODEL_SOURCES}.")],
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    freeze: Annotated[Flag, Parameter(group=MODEL_GROUP)] = False,
    lora: Annotated[int | None, in_range(ranges.LORA_RANK, group=MODEL_GROUP)] = None,
    layer_decay: Annotated[float | None, in_range(ranges.POSITIVE_FRACTION, group=MODEL_GROUP)] = None,
    metric: Annotated[Metrics, Parameter(group=MODEL_GROUP)] = None,
    training: TrainingOptions = DEFAULT_TRAINING,
    json: Json = False,
) -> None:
    """Fine-tune a trained or imported model on a task of your own.

    With labelled examples it becomes a classifier or a tagger; with text, a language model is trained further.

    qkv finetune MINILM reviews.csv
    qkv finetune runs/sotu-modern reviews.csv --freeze
    qkv finetune MINILM reviews.csv --lora 8 --minutes 10

    Args:
        freeze: Train only the head; the model is frozen.
        lora: Train LoRA adapters of this rank, such as 8.
        layer_decay: The learning rate of each layer relative to the layer above, such as 0.9.
    """
    from qkv.library.new_run import stem

    if freeze and lora:
        raise InputError("--freeze and --lora: expected one of them; LoRA leaves the model's own layers unchanged.")
    score, own = split_metrics(metric)
    refuse({"metric": score}, "translators are not fine-tuned")
    options = {
        "training.start": None if training.resume else model,
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
    }
    train_or_resume("finetune", data, reading, training, options, json, stem(model.rstrip("/")), own)


def train_or_resume(
    verb: str,
    data: tuple[str, ...],
    reading: SplitOptions,
    training: TrainingOptions,
    verb_options: dict[str, Any],
    json: bool,
    model_name: str = "",
    own_metrics: str | None = None,
) -> None:
    """Start or resume the run that the options describe, and train it. `verb_options` are the verb's own options, by
    their recipe keys; `model_name` is the model's part of the run's name, by default the model's kind; `own_metrics`
    is a Python file of the user."""
    from qkv.api import own_metrics_of

    options = {
        **verb_options,
        "training.steps": training.steps,
        "training.seed": training.seed,
        "corpus.files": positionals(data, verb) or None,
        **{f"corpus.{name}": value for name, value in reading.given().items()},
        "task.weights": "balanced" if training.class_weights else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if training.tensorboard:
        require_tensorboard()
    metrics = None if own_metrics is None else own_metrics_of(own_metrics)
    if training.resume:
        session = resume_run(data, training, given, metrics)
    else:
        session = start_run(given, training, model_name, metrics)
    train_and_report(session, training.tensorboard, json)


def start_run(
    options: dict[str, Any], training: TrainingOptions, model_name: str, metrics: OwnMetrics | None
) -> Session:
    """Start a run from a recipe. Options override the recipe, and --set overrides both."""
    from qkv.config import parse_assignment
    from qkv.library.new_run import start

    with progress_in_bytes() as progress:
        return start(
            options,
            recipe=training.recipe,
            settings=dict(map(parse_assignment, training.set or [])),
            minutes=training.minutes,
            run=training.run,
            names=("", model_name),
            progress=progress,
            started_at=started_at(),
            own=metrics,
        )


def resume_run(
    data: tuple[str, ...], training: TrainingOptions, options: dict[str, Any], metrics: OwnMetrics | None
) -> Session:
    """Continue the run of --run or, without it, the newest run on this data. Options that would change its recipe are
    refused."""
    from qkv import session as sessions
    from qkv.data import own_reader
    from qkv.tasks.registry import load_recipe

    if (reader := options.pop("corpus.reader", None)) is not None:
        own_reader.load(reader)
    names = [OPTION_NAMES.get(key, key) for key in options if key not in ("corpus.files", "model.kind")]
    names += [name for name in ("minutes", "recipe", "set") if getattr(training, name) is not None]
    if refused := [f"--{name.rpartition('.')[2]}" for name in names]:
        raise InputError(
            f"--resume continues the run's own recipe; {', '.join(refused)} cannot change it. "
            "Start a new run, as in: qkv train --recipe runs/book-modern/recipe.toml --steps 2000"
        )
    run = training.run or newest_run(data, options.get("model.kind"))
    if data and (run / "recipe.toml").is_file():
        corpus = load_recipe(run / "recipe.toml").corpus
        files = corpus.reader.files if corpus.reader else corpus.files
        if [Path(name).resolve() for name in data] != [Path(name).resolve() for name in files]:
            raise InputError(f"{run} was started on {', '.join(files)}, not on {', '.join(data)}. Leave the data out.")
    with progress_in_bytes() as progress:
        return sessions.resume(run, progress, metrics)


def newest_run(data: tuple[str, ...], model_kind: str | None) -> Path:
    """The newest run in runs/ that is named after this data (and this model), by the time of its recipe."""
    from qkv.library.new_run import stem

    if not data:
        raise InputError("--resume needs the run's folder, as in: qkv train --run runs/book-modern --resume")
    base = f"{stem(data[0])}-{model_kind or ''}"
    name = re.compile(rf"{re.escape(base)}(-\d+)?" if model_kind else rf"{re.escape(base)}.+")
    runs = [path.parent for path in Path("runs").glob("*/recipe.toml") if name.fullmatch(path.parent.name)]
    if not runs:
        wanted = Path("runs") / (base if model_kind else f"{base}MODEL")
        raise InputError(f"{wanted}: no run to resume. Name its folder with --run.")
    return max(runs, key=lambda run: (run / "recipe.toml").stat().st_mtime)


def train_and_report(session: Session, tensorboard: bool, json: bool) -> None:
    """Train, show the progress, and finish the run with its report."""
    folder = session.run.folder
    print_notes(*first_notes(session.task.notes, "card.md"))
    doctor = session.task.examine(session)
    print_message(*session.task.plan(session, doctor))
    events = session.run.events(session.state, session.objective)
    with tensorboard_writer(folder, tensorboard) as write_event:
        for event in show_training(events, session, doctor.early_warning if doctor else None):
            write_event(event)
    try:
        values = finish(session, doctor, quiet=json)
        if json:
            print_json(values)
        print_answer(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error} The model is complete, in {folder}/best.") from error
    except KeyboardInterrupt as stop:
        received = signal.Signals(signal_number_of(stop))
        raise InterruptedRun(
            f"stopped by {received.name} after the last step, before the last evaluation; the model and the state are "
            f"saved. {session.run.resume_hint()}",
            received,
        ) from None


def finish(session: Session, doctor: Doctor | None, quiet: bool) -> dict[str, Any]:
    """Score the best model, write card.md and, unless `quiet`, print the report. Return the values for --json."""
    from qkv import session as sessions

    with progress_in_items() as progress:
        report = sessions.finish(session, doctor, progress)
    values = report.values
    if report.samples_wanted:
        values["sample"] = write_samples(session, quiet)
    if not quiet:
        print_sections(*report.sections)
        print_answer(*next_command_lines(report.commands, session.run.folder))
    return values


def write_samples(session: Session, quiet: bool) -> str:
    """Let the model write two samples and print them, or only one if `quiet`. Return the first."""
    training = session.recipe.training
    model = qkv.load(session.run.folder, training.device)
    samples = model.samples("", 1 if quiet else 2, length=200, seed=training.seed)
    for number, sample in enumerate([] if quiet else samples, 1):
        print_answer("", f"--- sample {number} (temperature 0.8) ---", *sample.text.strip().split("\n"))
    return samples[0].text


def next_command_lines(commands: Iterable[NextCommand], folder: Path) -> list[str]:
    """The commands to try next, with their purposes in one column."""
    rows = []
    for command in commands:
        files = named_again() if command.words[0] == "train" else named_again("--model", "--tokenizer")
        rows.append((f"{program_name()} {shlex.join((*command.words, *files))}", command.purpose))
    width = max(len(command) for command, _ in rows)
    lines = [f"  {command:<{width}}   {purpose}".rstrip() for command, purpose in rows]
    return ["", f"The model is in {folder}/best; card.md describes the run. Next:", *lines]
