"""`qkv train`: a file, files or a folder in, a trained and evaluated model out.

`qkv finetune`: from a trained or imported model to one for your own task.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import qkv
from qkv import ranges
from qkv.cli import progress as shown
from qkv.cli.options import (
    DATA,
    DEFAULT_SPLIT,
    DEFAULT_TRAINING,
    MODEL,
    OPENED,
    Data,
    Flag,
    Metric,
    SplitOptions,
    TokenizerName,
    TrainingOptions,
    positionals,
    within,
)
from qkv.cli.output import STARTED, Json, document, notes, print_answer, print_message, program, show
from qkv.errors import InputError, InterruptedRun, OutputError, signal_number_of
from qkv.ranges import Range

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.doctor.examination import Doctor
    from qkv.tasks.protocol import Session
    from qkv.tasks.report import NextCommand

OPTION_NAMES = {"tokenizer.kind": "tokenizer", "task.weights": "class-weights", "task.kind": "task"}  # by their keys


def train(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    directions: Annotated[Literal["forward", "both"] | None, Parameter(group=DATA)] = None,
    model: Annotated[str | None, Parameter(group=MODEL)] = None,
    tokenizer: TokenizerName = None,
    metric: Annotated[Metric, Parameter(group=MODEL)] = None,
    training: TrainingOptions = DEFAULT_TRAINING,
    json: Json = False,
) -> None:
    """Train a model on your data, and evaluate it. The task follows from the data: text makes a language
    model, a table with labels a classifier, words with tags (CoNLL) a tagger, images an image classifier,
    two files that are translations line by line (or a table of both) a translator. Reads .txt .csv .tsv
    .jsonl .parquet, CoNLL, idx, npz, folders of images, also in .gz .zip .zst.

    qkv train book.txt --model gpt-nano --minutes 1
    qkv train notes/ --filter '*.md' --documents paragraphs --model bert-mini
    qkv train reviews.csv --text review --label stars
    qkv train train.en train.de --valid val.en val.de

    MODELS

    Args:
        directions: both also learns from target to source (`qkv translate --to`). Default: forward.
        model: A model of the table above. Default: by the task.
    """
    own = {"model.kind": model, "tokenizer.kind": tokenizer, "corpus.directions": directions, "task.metric": metric}
    perform("train", data, reading, training, own, json)


def finetune(
    model: Annotated[str, Parameter(help=f"The model to start from: a {OPENED}.")],
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    freeze: Annotated[Flag, Parameter(group=MODEL)] = False,
    lora: Annotated[int | None, within(Range(1, 2**16, "a rank, as 8"), group=MODEL)] = None,
    layer_decay: Annotated[float | None, within(ranges.POSITIVE_FRACTION, group=MODEL)] = None,
    training: TrainingOptions = DEFAULT_TRAINING,
    json: Json = False,
) -> None:
    """Fine-tune a trained or imported model on a task of your own.

    A table with labels makes a classifier or a tagger of it; text continues the training of a language model.

    qkv finetune MINILM reviews.csv
    qkv finetune runs/sotu-modern reviews.csv --freeze
    qkv finetune MINILM reviews.csv --lora 8 --minutes 10

    Args:
        freeze: Train only the head; the model is frozen.
        lora: Train LoRA adapters of this rank, as 8.
        layer_decay: Each layer's learning rate, relative to the layer above, as 0.9.
    """
    from qkv.library.new_run import stem

    if freeze and lora:
        raise InputError("--freeze and --lora: expected one of them; LoRA leaves the model's own layers as they are.")
    own = {
        "training.start": None if training.resume else model,
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
    }
    perform("finetune", data, reading, training, own, json, stem(model.rstrip("/")))


def perform(
    verb: str,
    data: tuple[str, ...],
    reading: SplitOptions,
    training: TrainingOptions,
    own: dict[str, Any],
    json: bool,
    model: str = "",
) -> None:
    """Start or resume the run that the options describe, and train it; `model` is its part of the run's name."""
    options = {
        **own,
        "training.steps": training.steps,
        "training.seed": training.seed,
        "corpus.files": positionals(data, verb) or None,
        **{f"corpus.{name}": value for name, value in reading.given().items()},
        "task.weights": "balanced" if training.class_weights else None,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if training.tensorboard:
        shown.require_tensorboard()
    session = resumed(data, training, given) if training.resume else started(given, training, model)
    work(session, training.tensorboard, json)


def started(options: dict[str, Any], training: TrainingOptions, model: str) -> Session:
    """A new run from a recipe file, the options above it and every --set above those."""
    from qkv.config import parse_assignment
    from qkv.library.new_run import start

    with shown.reading() as progress:
        return start(
            options,
            recipe=training.recipe,
            settings=dict(map(parse_assignment, training.set or [])),
            minutes=training.minutes,
            run=training.run,
            names=("", model),
            progress=progress,
            began=STARTED,
        )


def model_name(values: dict[str, Any], detected: Detected) -> str:
    """The model's part of a run's name: as given, or by the data."""
    from qkv.tasks.registry import default_model

    return str(values.get("model", {}).get("kind") or default_model(values, detected))


def resumed(data: tuple[str, ...], training: TrainingOptions, options: dict[str, Any]) -> Session:
    """The run to continue: --run, or the newest of the default name. Nothing that was resolved may be given again."""
    from qkv import session as sessions
    from qkv.library.new_run import stem
    from qkv.tasks.registry import detect_corpus, load_recipe

    run = training.run
    names = [OPTION_NAMES.get(key, key) for key in options if key not in ("corpus.files", "model.kind")]
    names += [name for name in ("minutes", "recipe", "set") if getattr(training, name) is not None]
    changed = [f"--{name.rpartition('.')[2]}" for name in names]
    if changed:
        raise InputError(
            f"--resume continues the run's own recipe; {', '.join(changed)} cannot change it. "
            "Start a new run, as in: qkv train --recipe runs/book-modern/recipe.toml --steps 2000"
        )
    if run is None:
        if not data:
            raise InputError("--resume needs the run's folder, as in: qkv train --run runs/book-modern --resume")
        values: dict[str, Any] = {"corpus": {"files": list(data)}, "model": {"kind": options.get("model.kind")}}
        base = Path("runs") / f"{stem(data[0])}-{model_name(values, detect_corpus(values))}"
        taken = [base, *(base.with_name(f"{base.name}-{number}") for number in range(2, 10_000))]
        existing = [folder for folder in taken if (folder / "recipe.toml").is_file()]
        if not existing:
            raise InputError(f"{base}: no run to resume. Name its folder with --run.")
        run = max(existing, key=lambda folder: (folder / "recipe.toml").stat().st_mtime)
    if data and (run / "recipe.toml").is_file():
        files = load_recipe(run / "recipe.toml").corpus.files
        if [Path(name).resolve() for name in data] != [Path(name).resolve() for name in files]:
            raise InputError(f"{run} was started on {', '.join(files)}, not on {', '.join(data)}. Leave the data out.")
    with shown.reading() as progress:
        return sessions.resume(run, progress)


def work(session: Session, tensorboard: bool, json: bool) -> None:
    """Run the training, show it, then evaluate the best model, write the card and suggest what to do next."""
    folder = session.run.folder
    notes(session.task.notes)
    doctor = session.task.examine(session)
    print_message(*session.task.plan(session, doctor))
    events = session.run.events(session.state, session.objective)
    with shown.board(folder, tensorboard) as record:
        for event in shown.show(events, session, doctor.watch if doctor else None):
            record(event)
    try:
        values = finish(session, doctor, quiet=json)
        if json:
            document(values)
        print_answer(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error} The model is whole, in {folder}/best.") from error
    except KeyboardInterrupt as stop:
        number = signal.Signals(signal_number_of(stop))
        raise InterruptedRun(
            f"stopped by {number.name} after the last step, before the last evaluation; the model and the state are "
            f"saved. {session.run.resume_hint()}",
            number,
        ) from None


def finish(session: Session, doctor: Doctor | None, quiet: bool) -> dict[str, Any]:
    """Score the best model, write the card and, unless `quiet`, print the report. Gives what --json prints."""
    from qkv import session as sessions

    with shown.waiting() as progress:
        report = sessions.finish(session, doctor, progress)
    values = report.values
    if report.samples_wanted:
        values["sample"] = samples(session, quiet)
    if not quiet:
        show(*report.sections)
        print_answer(*next_commands(report.commands, session.run.folder))
    return values


def samples(session: Session, quiet: bool) -> str:
    """Let the model write, and print that unless `quiet`; gives the first sample."""
    training = session.recipe.training
    written = qkv.load(session.run.folder, training.device).samples(
        "", 1 if quiet else 2, length=200, seed=training.seed
    )
    for number, sample in enumerate([] if quiet else written, 1):
        print_answer("", f"--- sample {number} (temperature 0.8) ---", *sample.text.strip().split("\n"))
    return written[0].text


def next_commands(commands: Iterable[NextCommand], folder: Path) -> list[str]:
    """Give the commands to try next as lines, their purposes in one column."""
    rows = [(f"{program()} {shlex.join(command.words)}", command.purpose) for command in commands]
    width = max(len(command) for command, _ in rows)
    texts = [f"  {command:<{width}}   {purpose}".rstrip() for command, purpose in rows]
    return ["", f"The model is in {folder}/best; card.md describes the run. Next:", *texts]
