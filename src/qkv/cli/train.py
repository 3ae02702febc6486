"""`qkv train`: a file, files or a folder in, a trained and evaluated model out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli import tracking
from qkv.cli.numbers import MinutesOrNone, SeedOrNone, StepsOrNone
from qkv.cli.options import (
    Column,
    Data,
    Documents,
    Encoding,
    Filter,
    Identity,
    Label,
    Languages,
    Learned,
    Metric,
    Second,
    Several,
    SourceColumn,
    TargetColumn,
    named,
    spoken,
    which,
)
from qkv.cli.output import STARTED, Json, document, notes, print_answer

if TYPE_CHECKING:
    from qkv.recipe.assembly import Session


Many = Annotated[list[str] | None, Parameter(negative="")]
NOTHING_SAID = ("train", "training", "dev", "valid", "test", "data", "input", "model", "best")  # as names of files
# options whose names are not their keys
SAID = {"tokenizer.kind": "tokenizer", "task.weights": "class-weights", "task.kind": "task"}
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def train(
    *data: Data,
    model: str | None = None,
    tokenizer: str | None = None,
    minutes: MinutesOrNone = None,
    steps: StepsOrNone = None,
    valid: Several = None,
    documents: Documents = None,
    test: Several = None,
    task: Learned = None,
    text: Column = None,
    text2: Second = None,
    label: Label = None,
    id: Identity = None,
    class_weights: Flag = False,
    source: SourceColumn = None,
    target: TargetColumn = None,
    languages: Languages = None,
    directions: Literal["forward", "both"] | None = None,
    metric: Metric = None,
    filter: Filter = None,
    encoding: Encoding = None,
    run: Path | None = None,
    resume: Flag = False,
    seed: SeedOrNone = None,
    recipe: Path | None = None,
    set: Many = None,
    tensorboard: Flag = False,
    json: Json = False,
) -> None:
    """Train a model on your data, and evaluate it.

    Text makes a language model; a table with a text and a label column a
    classifier; words with tags (CoNLL) a tagger; pictures a classifier of
    pictures; two files that translate each other line by line, or a table
    of both, a translator. Reads .txt and other text, .csv .tsv .jsonl
    .parquet, CoNLL, idx, npz and folders of pictures, also in .gz .zip .zst.
    Writes a run folder: the best model, checkpoints to resume from, the
    resolved recipe, metrics and a card.

    qkv train book.txt
    qkv train python-docs --minutes 1
    qkv train book.txt --model gpt-nano --steps 500
    qkv train notes/ --filter '*.md' --documents paragraphs
    qkv train notes/ --model bert-mini --minutes 15
    qkv train reviews.csv --text review --label stars
    qkv train train.conllu --valid dev.conllu
    qkv train train.en train.de --valid val.en val.de
    qkv train pairs.tsv --source english --target german
    qkv train words.tsv --metric errors --model rnn-translator
    qkv train --run runs/book-modern --resume

    Parameters
    ----------
    model
        modern (the default), modern-fast, gpt, llama, qwen2, rnn, gru, lstm, mlp, cnn, or a preset: gpt-nano,
        gpt-micro, gpt-mini, gpt2, gpt2-medium, gpt2-large, gpt2-xl. bert-tiny, bert-mini, bert-small, bert-medium,
        bert-base and bert-large learn to fill gaps. On labelled texts: linear, mlp, bag, cnn, rnn, gru, lstm (the
        default), encoder, bert, modern, gpt or a preset; on pictures cnn or vision; on tables of numbers linear or
        mlp. On texts and their translations: transformer (the default), transformer-tiny, transformer-small,
        transformer-base, transformer-big or rnn-translator.
    tokenizer
        auto (the default), characters, words, bpe, wordpiece, a tokenizer.json file, or a model's folder.
    minutes
        How long you have, in all: picks size, context, batch and steps for this machine. 5 when nothing is said.
    steps
        The number of steps, instead of a time.
    valid
        Text or examples to check on; of pairs, source and target file. Otherwise a tenth is held out: whole
        documents, or the end of the only one; of pairs a twentieth, unless val.en and val.de stand by train.en and
        train.de.
    class_weights
        Every class counts alike, however rare: a mistake on one of few examples weighs more.
    test
        Labelled examples, or pairs, to judge the model by in the end.
    directions
        both: every pair is learned from target to source as well, and `qkv translate --to` says which way.
    run
        The run's folder. runs/DATA-MODEL when nothing is said, numbered when taken.
    resume
        Continue the run in --run where it stopped.
    seed
        Where all randomness starts from. 0 when nothing is said.
    recipe
        A recipe: a file, or the name of one of qkv's own, such as gpt-nano. Options and --set override it.
    set
        One value of the recipe, as --set model.layers=4. Repeat it for more.
    tensorboard
        Also write TensorBoard files into the run folder.
    """
    options = {
        "model.kind": model,
        "tokenizer.kind": tokenizer,
        "training.steps": steps,
        "training.seed": seed,
        "corpus.files": named(data, "train") or None,
        "corpus.valid": valid,
        "corpus.documents": documents,
        "corpus.test": test,
        "corpus.task": None if task == "translation" else task,
        "task.kind": task if task == "translation" else None,
        "corpus.text": text,
        "corpus.text2": text2,
        "corpus.label": label,
        "corpus.id": id,
        "task.weights": "balanced" if class_weights else None,
        "corpus.source": source,
        "corpus.target": target,
        "corpus.languages": languages,
        "corpus.directions": directions,
        "task.metric": metric,
        "corpus.filter": filter,
        "corpus.encoding": encoding,
    }
    spoken(languages)
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
    from qkv.cli.progress import reading
    from qkv.config import plain, set_value
    from qkv.errors import ConfigError, InputError
    from qkv.recipe import assembly
    from qkv.recipe.recipe import read

    if minutes is not None and steps_said(options, settings):
        raise InputError("--minutes and the number of steps both say how long to train. Give one of them.")
    if options.get("training.steps", 1) < 1:
        raise InputError(f"--steps {options['training.steps']}: expected at least 1.")
    values: dict[str, Any] = read(recipe) if recipe else {}
    moved = ("turns", "evaluations")  # by the clock of the run that the recipe is of
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
    target = run or Path("runs") / (called or f"{stem(files[0])}-{model_name(values)}")
    with reading() as progress:
        return assembly.begin(
            values, target, numbered=run is None, minutes=minutes or 5.0, began=STARTED, progress=progress
        )


def model_name(values: dict[str, Any]) -> str:
    """The model's part of a run's name: as it is said, or what the data ask for."""
    from qkv.recipe.lessons import usual_model

    return str(values.get("model", {}).get("kind") or usual_model(values))


def steps_said(options: dict[str, Any], settings: list[str]) -> bool:
    """Whether the number of steps is given anew: where a clock once moved the end does not matter then."""
    return "training.steps" in options or any(each.partition("=")[0].strip() == "training.steps" for each in settings)


def resumed(data: tuple[str, ...], run: Path | None, options: dict[str, Any], more: list[str]) -> Session:
    """The run to continue: --run, or the newest of the default name. Nothing that was resolved may be said again."""
    from qkv.cli.progress import reading
    from qkv.errors import InputError
    from qkv.recipe import assembly
    from qkv.recipe.recipe import load

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
        values = {"corpus": {"files": list(data)}, "model": {"kind": options.get("model.kind")}}
        base = Path("runs") / f"{stem(data[0])}-{model_name(values)}"
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
        return assembly.resume(run, progress)


def stem(name: str) -> str:
    """The run's name for a data file: book.txt.gz -> book; sst2/train.tsv -> sst2, for train says nothing."""
    path = Path(name)
    base = path.name.lstrip(".").split(".")[0] or "text"
    if base in NOTHING_SAID and (above := path.absolute().parent.name):
        base = above.lstrip(".") or base
    return "stdin" if name == "-" else base


def work(session: Session, tensorboard: bool, json: bool) -> None:
    """Run the training, show it, then evaluate the best model and say what to do next."""
    from qkv.cli import gaps, judged, translated
    from qkv.cli.progress import show
    from qkv.cli.report import announce, finish
    from qkv.errors import InterruptedRun, OutputError, signal_of
    from qkv.recipe.doctor import Doctor

    notes(session.lesson.notes)
    task: str = session.recipe.task.kind
    doctor = Doctor(session) if task == "language-modelling" else None
    other: Any = {"masked-language-modelling": gaps, "translation": translated}.get(task, judged)
    announce(session, doctor) if doctor else other.announce(session)
    with tracking.board(session.run.folder, tensorboard) as record:
        for event in show(session.run.events(session.state, session.task), session, doctor.watch if doctor else None):
            record(event)
    try:
        result = finish(session, doctor, quiet=json) if doctor else other.finish(session, quiet=json)
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
