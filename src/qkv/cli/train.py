"""`qkv train`: a file, files or a folder in, a trained and evaluated model out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli import tracking
from qkv.cli.options import (
    DATA,
    MODEL,
    NO_SPLIT,
    ClassWeights,
    Data,
    Flag,
    Metric,
    MinutesOrNone,
    RecipeFile,
    Resume,
    Run,
    SeedOrNone,
    Settings,
    SplitOptions,
    StepsOrNone,
    TokenizerName,
    named,
    which,
)
from qkv.cli.output import OUTPUT, STARTED, Json, document, notes, print_answer, print_message

if TYPE_CHECKING:
    from qkv.data.detect import Detected
    from qkv.tasks.protocol import Session


NOTHING_SAID = ("train", "training", "dev", "valid", "test", "data", "input", "model", "best")  # as names of files
# options whose names are not their keys
SAID = {"tokenizer.kind": "tokenizer", "task.weights": "class-weights", "task.kind": "task"}


def train(
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    directions: Annotated[
        Literal["forward", "both"] | None,
        Parameter(group=DATA, help="both also learns from target to source (`qkv translate --to`). Default: forward."),
    ] = None,
    model: Annotated[
        str | None, Parameter(group=MODEL, help="A model of the table above. Default: by the task.")
    ] = None,
    tokenizer: TokenizerName = None,
    class_weights: ClassWeights = False,
    metric: Annotated[Metric, Parameter(group=MODEL)] = None,
    seed: SeedOrNone = None,
    recipe: RecipeFile = None,
    set: Settings = None,
    minutes: MinutesOrNone = None,
    steps: StepsOrNone = None,
    run: Run = None,
    resume: Resume = False,
    tensorboard: Annotated[
        Flag, Parameter(group=OUTPUT, help="Also write TensorBoard files into the run folder.")
    ] = False,
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
    qkv train --run runs/book-modern --resume

    MODELS

    Parameters
    ----------
    minutes
        The time budget, in all: sets size, batch and steps for this machine. Default: 5.
    """
    split = reading.given()
    options = {
        "model.kind": model,
        "tokenizer.kind": tokenizer,
        "training.steps": steps,
        "training.seed": seed,
        "corpus.files": named(data, "train") or None,
        **{f"corpus.{name}": value for name, value in split.items() if (name, value) != ("task", "translation")},
        "task.kind": reading.task if reading.task == "translation" else None,
        "task.weights": "balanced" if class_weights else None,
        "corpus.directions": directions,
        "task.metric": metric,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if tensorboard:
        tracking.require()
    if resume:
        more = {"--minutes": minutes, "--recipe": recipe, "--set": set}
        session = resumed(data, run, given, [name for name, value in more.items() if value is not None])
    else:
        session = started(given, recipe, set or [], run, minutes)
    work(session, tensorboard, json)


def started(
    options: dict[str, Any],
    recipe: Path | None,
    settings: list[str],
    run: Path | None,
    minutes: float | None,
    called: str = "",
) -> Session:
    """A new run from a recipe file, the options above it and every --set above those; `called` so, if nobody says."""
    from qkv import session as sessions
    from qkv.cli.progress import reading
    from qkv.config import plain, set_value
    from qkv.errors import ConfigError, InputError
    from qkv.recipe.recipe import read
    from qkv.tasks.registry import detected_of

    if minutes is not None and steps_said(options, settings):
        raise InputError("--minutes and the number of steps both say how long to train. Give one of them.")
    if options.get("training.steps", 1) < 1:
        raise InputError(f"--steps {options['training.steps']}: expected at least 1.")
    values: dict[str, Any] = read(recipe) if recipe else {}
    moved = ("steps_changes", "evaluate_every_changes")  # by the clock of the run that the recipe is of
    for settled in ("steps", *moved) if minutes is not None else moved if steps_said(options, settings) else ():
        values.get("training", {}).pop(settled, None)
    if tokenizer := options.pop("tokenizer.kind", None):
        size = {key: value for key, value in values.get("tokenizer", {}).items() if key == "size"}
        values["tokenizer"] = {**size, **plain(which(tokenizer)[0])}
    for key, value in options.items():
        section, _, name = key.partition(".")
        values.setdefault(section, {})[name] = value
    for assignment in settings:
        set_value(values, assignment)
    files = values.get("corpus", {}).get("files")
    if not files:
        for side in ("valid", "test"):
            if taken := values.get("corpus", {}).get(side):
                remedy = f"Name it before --{side}, which takes all files that follow it."
                raise ConfigError(f"no text to train on: --{side} has {', '.join(map(str, taken))}. {remedy}")
        raise ConfigError("no text to train on. Give a file, a folder or a data set, as in: qkv train book.txt")
    detected = detected_of(values)
    target = run or Path("runs") / (called or f"{stem(files[0])}-{model_name(values, detected)}")
    with reading() as progress:
        return sessions.start(
            values,
            target,
            numbered=run is None,
            minutes=minutes or 5.0,
            began=STARTED,
            progress=progress,
            detected=detected,
        )


def model_name(values: dict[str, Any], detected: Detected) -> str:
    """The model's part of a run's name: as it is said, or what the data ask for."""
    from qkv.tasks.registry import default_model

    return str(values.get("model", {}).get("kind") or default_model(values, detected))


def steps_said(options: dict[str, Any], settings: list[str]) -> bool:
    """Whether the number of steps is given anew: where a clock once moved the end does not matter then."""
    return "training.steps" in options or any(each.partition("=")[0].strip() == "training.steps" for each in settings)


def resumed(data: tuple[str, ...], run: Path | None, options: dict[str, Any], more: list[str]) -> Session:
    """The run to continue: --run, or the newest of the default name. Nothing that was resolved may be said again."""
    from qkv import session as sessions
    from qkv.cli.progress import reading
    from qkv.errors import InputError
    from qkv.recipe.recipe import load
    from qkv.tasks.registry import detected_of

    names = [SAID.get(key, key) for key in options if key not in ("corpus.files", "model.kind")]
    changed = [f"--{name.rpartition('.')[2]}" for name in names]
    if changed or more:
        raise InputError(
            f"--resume continues the run's own recipe; {', '.join([*changed, *more])} cannot change it. "
            "Start a new run, as in: qkv train --recipe runs/book-modern/recipe.toml --steps 2000"
        )
    if run is None:
        if not data:
            raise InputError("--resume needs the run's folder, as in: qkv train --run runs/book-modern --resume")
        values: dict[str, Any] = {"corpus": {"files": list(data)}, "model": {"kind": options.get("model.kind")}}
        base = Path("runs") / f"{stem(data[0])}-{model_name(values, detected_of(values))}"
        taken = [base, *(base.with_name(f"{base.name}-{number}") for number in range(2, 10_000))]
        there = [folder for folder in taken if (folder / "recipe.toml").is_file()]
        if not there:
            raise InputError(f"{base}: no run to resume. Name its folder with --run.")
        run = max(there, key=lambda folder: (folder / "recipe.toml").stat().st_mtime)
    if data and (run / "recipe.toml").is_file():
        files = load(run / "recipe.toml").corpus.files
        if [Path(name).resolve() for name in data] != [Path(name).resolve() for name in files]:
            raise InputError(f"{run} was started on {', '.join(files)}, not on {', '.join(data)}. Leave the data out.")
    with reading() as progress:
        return sessions.resume(run, progress)


def stem(name: str) -> str:
    """The run's name for a data file: book.txt.gz -> book; sst2/train.tsv -> sst2, for train says nothing."""
    path = Path(name)
    base = path.name.lstrip(".").split(".")[0] or "text"
    if base in NOTHING_SAID and (above := path.absolute().parent.name):
        base = above.lstrip(".") or base
    return "stdin" if name == "-" else base


def work(session: Session, tensorboard: bool, json: bool) -> None:
    """Run the training, show it, then evaluate the best model and say what to do next."""
    from qkv.cli.progress import show
    from qkv.cli.report import finish
    from qkv.errors import InterruptedRun, OutputError, signal_of

    notes(session.task.notes)
    doctor = session.task.examine(session)
    print_message(*session.task.plan(session, doctor))
    with tracking.board(session.run.folder, tensorboard) as record:
        for event in show(
            session.run.events(session.state, session.objective), session, doctor.watch if doctor else None
        ):
            record(event)
    try:
        result = finish(session, doctor, quiet=json)
        if json:
            document(result)
        print_answer(end="", flush=True)
    except OutputError as error:
        raise OutputError(f"{error} The model is whole, in {session.run.folder}/best.") from error
    except KeyboardInterrupt as stop:
        number = signal.Signals(signal_of(stop))
        raise InterruptedRun(
            f"stopped by {number.name} after the last step, before the last evaluation; the model and the state are "
            f"saved. {session.run.how_to_go_on()}",
            number,
        ) from None
