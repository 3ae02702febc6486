"""`qkv tune`: a search for the numbers and parts that suit the data, by development score."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import (
    MODEL,
    NO_SPLIT,
    TIME,
    Data,
    MinutesOrNone,
    SplitOptions,
    TokenizerName,
    TrainingSeed,
    named,
    which,
    within,
)
from qkv.cli.output import OUTPUT, Json, document, notes, print_answer, program, table
from qkv.cli.train import stem

SHOWN = 10  # trials of the table, the best


def tune(
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    model: Annotated[str | None, Parameter(group=MODEL, help="The model to tune. Default: several are tried.")] = None,
    tokenizer: TokenizerName = None,
    seed: TrainingSeed = 0,
    minutes: MinutesOrNone = None,
    trials: Annotated[
        int | None, within(ranges.COUNT, group=TIME, help="The number of trials; those of an earlier call count.")
    ] = None,
    each: Annotated[MinutesOrNone, Parameter(help="Minutes of a trial. Default: an eighth of --minutes.")] = None,
    store: Annotated[
        str | None,
        Parameter(group=OUTPUT, help="A file, or an SQL address as sqlite:///study.db. Default: a journal in --run."),
    ] = None,
    run: Annotated[
        Path | None, Parameter(group=OUTPUT, help="The folder of the search. Default: runs/tune-DATA.")
    ] = None,
    json: Json = False,
) -> None:
    """Search for the learning rate, width, dropout, batch size and parts that suit the data.

    Every trial is a short training, evaluated on the validation set; those that
    lag behind are pruned. The same command continues a search that was stopped or
    killed. The best trial is a recipe, best.toml, for qkv train.

    qkv tune reviews.csv --minutes 20
    qkv tune reviews.csv --trials 30 --model lstm
    qkv tune reviews.csv --trials 30 --store postgresql://me@host/studies
    qkv tune book.txt --minutes 30 --each 3

    Parameters
    ----------
    minutes
        The time budget, in all; that of an earlier call counts.
    """
    from qkv.cli import progress as shown
    from qkv.config import plain
    from qkv.errors import InputError
    from qkv.studies import tune as study

    files = named(data, "tune")
    if not files:
        raise InputError("no data was named. Give a table, a folder or a text, as in: qkv tune reviews.csv")
    with shown.reading() as progress:
        found = study.tune(
            study.Search(
                corpus={"files": files, **reading.given()},
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
