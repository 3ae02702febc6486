"""`qkv tune`: search for the hyperparameters and parts that give the best validation score."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import (
    DEFAULT_SPLIT,
    MODEL_GROUP,
    TIME_GROUP,
    Data,
    MinutesOrNone,
    SplitOptions,
    TokenizerName,
    TrainingSeed,
    data_files,
    in_range,
)
from qkv.cli.output import OUTPUT_GROUP, Json, print_answer, print_json, print_notes, print_sections, program_name
from qkv.cli.progress import progress_in_bytes
from qkv.errors import InputError
from qkv.tasks.report import TableSection

SHOWN_TRIALS = 10


def tune(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    model: Annotated[str | None, Parameter(group=MODEL_GROUP)] = None,
    tokenizer: TokenizerName = None,
    seed: TrainingSeed = 0,
    minutes: MinutesOrNone = None,
    trials: Annotated[int | None, in_range(ranges.COUNT, group=TIME_GROUP)] = None,
    each: MinutesOrNone = None,
    store: Annotated[str | None, Parameter(group=OUTPUT_GROUP)] = None,
    run: Annotated[Path | None, Parameter(group=OUTPUT_GROUP)] = None,
    json: Json = False,
) -> None:
    """Search for the learning rate, width, dropout, batch size and parts that suit the data.

    Every trial is a short run, evaluated on the validation set; trials that fall
    behind are pruned. The same command continues a search that was stopped or
    killed. The best trial is saved as a recipe for qkv train, best.toml.

    qkv tune reviews.csv --minutes 20
    qkv tune reviews.csv --trials 30 --model lstm
    qkv tune reviews.csv --trials 30 --store postgresql://me@host/studies
    qkv tune book.txt --minutes 30 --each 3

    Args:
        model: The model to tune. Default: several are tried.
        minutes: The time budget of all trials, including those of earlier calls.
        trials: The number of trials, including those of earlier calls.
        each: The minutes of a trial. Default: an eighth of --minutes.
        store: A file, or an SQL address such as sqlite:///study.db. Default: a journal in --run.
        run: The folder of the search. Default: runs/tune-DATA.
    """
    from qkv.data import own_reader
    from qkv.library.new_run import stem, tokenizer_section
    from qkv.studies import search

    files = data_files(data, "tune")
    with progress_in_bytes() as progress:
        result = search.tune(
            search.TuningPlan(
                corpus=own_reader.through({"files": files, **reading.given()}),
                folder=run or Path("runs") / f"tune-{stem(files[0])}{f'-{model}' if model else ''}",
                model=model,
                trials=trials,
                minutes=minutes,
                each=each,
                store=store,
                seed=seed,
                tokenizer=tokenizer_section(tokenizer),
                progress=progress,
                note=print_notes,
            )
        )
    values = result.values()
    if json:
        return print_json(values)
    if result.recipe is None:
        raise InputError(f"{result.folder}: no trial was completed. Give more minutes, or fewer examples.")
    complete = [trial for trial in result.trials if trial["state"] == "complete"]
    complete.sort(key=lambda trial: abs((trial["score"] or 0.0) - (result.score or 0.0)))
    rows = [
        (
            str(trial["trial"]),
            f"{trial['score']:.4f}",
            f"{trial['seconds']:.1f}",
            " ".join(f"{key}={value}" for key, value in search.readable(trial["figures"]).items()),
        )
        for trial in complete[:SHOWN_TRIALS]
    ]
    print_sections(TableSection("", ("trial", "score", "seconds", "parameters"), rows, words=("parameters",)))
    print_answer("", f"{values['finished']} trials, {values['pruned']} of them pruned. The best, {result.recipe}:", "")
    print_answer(*result.recipe.read_text(encoding="utf-8").split("\n"))
    return print_answer(f"Next:  {program_name()} {shlex.join(['train', '--recipe', str(result.recipe)])}")
