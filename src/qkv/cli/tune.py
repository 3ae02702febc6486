"""`qkv tune`: a search for the numbers and parts that suit the data, by development score."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from qkv import ranges
from qkv.cli.numbers import MinutesOrNone, TrainingSeed, within
from qkv.cli.options import Column, Data, Documents, Encoding, Filter, Identity, Label, Second, Task, named, which
from qkv.cli.output import Json, document, notes, print_answer, program, table
from qkv.cli.train import Many, stem

SHOWN = 10  # trials of the table, the best


def tune(
    *data: Data,
    minutes: MinutesOrNone = None,
    trials: Annotated[int | None, within(ranges.COUNT)] = None,
    each: MinutesOrNone = None,
    model: str | None = None,
    store: str | None = None,
    tokenizer: str | None = None,
    valid: Many = None,
    documents: Documents = None,
    task: Task = None,
    text: Column = None,
    text2: Second = None,
    label: Label = None,
    id: Identity = None,
    filter: Filter = None,
    encoding: Encoding = None,
    run: Path | None = None,
    seed: TrainingSeed = 0,
    json: Json = False,
) -> None:
    """Search for the rate, width, dropout, batch and parts that suit the data.

    Every trial is a short training, judged on the development side; those that
    lag behind are cut short. The same command goes on where it was stopped or
    killed. The winner is a recipe, best.toml, for qkv train.

    qkv tune reviews.csv --minutes 20
    qkv tune reviews.csv --trials 30 --model lstm
    qkv tune reviews.csv --trials 30 --store postgresql://me@host/studies
    qkv tune book.txt --minutes 30 --each 3

    Parameters
    ----------
    minutes
        How long to search, in all; trials of an earlier call count.
    trials
        How many trials, in all; those of an earlier call count.
    each
        The minutes of a trial, at most. An eighth of --minutes when nothing is said.
    model
        The system whose numbers are searched. Several are tried when nothing is said.
    store
        A file, or an SQL address as sqlite:///study.db. A journal in the folder when nothing is said.
    tokenizer
        auto (the default), characters, words, bpe, wordpiece, a tokenizer.json file, or a model's folder.
    valid
        Examples or text to judge trials by. Otherwise a part is held out.
    run
        The folder of the search. runs/tune-DATA when nothing is said.
    seed
        Where all randomness starts from.
    """
    from qkv.cli.progress import reading
    from qkv.config import plain
    from qkv.errors import InputError
    from qkv.studies import tune as study

    files = named(data, "tune")
    if not files:
        raise InputError("no data was named. Give a table, a folder or a text, as in: qkv tune reviews.csv")
    options: dict[str, Any] = {
        "files": files, "valid": valid, "documents": documents, "task": task, "text": text, "text2": text2,
        "label": label, "id": id, "filter": filter, "encoding": encoding,
    }  # fmt: skip
    with reading() as progress:
        found = study.tune(
            study.Search(
                corpus={key: value for key, value in options.items() if value is not None},
                folder=run or Path("runs") / f"tune-{stem(files[0])}{f'-{model}' if model else ''}",
                model=model,
                trials=trials,
                minutes=minutes,
                each=each,
                store=store,
                seed=seed,
                tokenizer=plain(which(tokenizer)[0]) if tokenizer else {},
                progress=progress,
                say=lambda line: notes([line]),
            )
        )
    if json:
        return document(found.values())
    if found.recipe is None:
        raise InputError(f"{found.folder}: no trial came to its end. Give more minutes, or fewer examples.")
    values = found.values()
    better = sorted(
        (each for each in found.trials if each["state"] == "complete"),
        key=lambda each: abs((each["score"] or 0.0) - (found.score or 0.0)),
    )
    rows = [
        (str(each["trial"]), f"{each['score']:.4f}", f"{each['seconds']:.1f}", _figures(study.shown(each["figures"])))
        for each in better[:SHOWN]
    ]
    table("", ("trial", "score", "seconds", "figures"), rows, words=("figures",))
    print_answer(
        "", f"{values['finished']} trials, {values['pruned']} of them cut short. The winner, {found.recipe}:", ""
    )
    print_answer(*found.recipe.read_text(encoding="utf-8").split("\n"))
    return print_answer(f"Next:  {program()} {shlex.join(['train', '--recipe', str(found.recipe)])}")


def _figures(values: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in values.items())
