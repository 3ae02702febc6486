"""`qkv compare`: every architecture that fits the data under one time budget, beside systems that need no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.options import (
    DATA,
    MODEL,
    NO_SPLIT,
    Data,
    Minutes,
    SplitOptions,
    TokenizerName,
    TrainingSeed,
    named,
    which,
    within,
)
from qkv.cli.output import OUTPUT, STARTED, Json, document, notes, print_answer, table
from qkv.cli.train import stem
from qkv.ranges import Range

if TYPE_CHECKING:
    from qkv.studies.comparison import Comparison


def compare(
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    report: Annotated[
        Literal["valid", "test"] | None,
        Parameter(group=DATA, help="The data that the table reports: valid or test. Default: valid."),
    ] = None,
    models: Annotated[
        str | None, Parameter(group=MODEL, help="Which networks, as bag,cnn,lstm. Default: all that fit the data.")
    ] = None,
    start: Annotated[
        list[str] | None,
        Parameter(name="--from", negative="", group=MODEL, help="A model to fine-tune as well. Repeat it for more."),
    ] = None,
    tokenizer: TokenizerName = None,
    metric: Annotated[
        Literal["auto", "accuracy", "f1", "macro_f1", "matthews"],
        Parameter(group=MODEL, help="The metric of classes; f1 is that of the second of two."),
    ] = "auto",
    equal: Annotated[
        Literal["time", "parameters"],
        Parameter(group=MODEL, help="What networks on text have in common: their time, or also their parameters."),
    ] = "time",
    seeds: Annotated[
        int, within(Range(1, 1_000), group=MODEL, help="How often each network is trained; scores are means.")
    ] = 1,
    seed: TrainingSeed = 0,
    minutes: Minutes = 10.0,
    picture: Annotated[
        Path | None, Parameter(group=OUTPUT, help="Also plot the scores with their intervals: FILE.svg or FILE.png.")
    ] = None,
    run: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="The folder of all results. Default: runs/compare-DATA, numbered when taken."),
    ] = None,
    json: Json = False,
) -> None:
    """Compare every architecture that fits the data under one time budget.

    Networks are trained as by `qkv train`, each for the same time, and compared with baselines: majority class,
    naive Bayes and TF-IDF with logistic regression; of text, n-grams. Which is best is decided on examples held out
    of the training set, never on those of the table.

    qkv compare reviews.csv
    qkv compare sst2/ --minutes 30 --seeds 3
    qkv compare reviews.csv --models bag,lstm --from MINILM
    qkv compare book.txt --equal parameters --picture book.png

    Parameters
    ----------
    minutes
        The time budget, in all; divided evenly among the networks.
    """
    from qkv.cli import progress as shown
    from qkv.config import plain
    from qkv.errors import InputError
    from qkv.studies import compare as study
    from qkv.studies import picture as drawing
    from qkv.studies.comparison import Plan

    files = named(data, "compare")
    if not files:
        raise InputError("no data was named. Give a table, a folder or a text, as in: qkv compare reviews.csv")
    if picture is not None:
        drawing.check(picture)
    corpus: dict[str, Any] = {"files": files, **reading.given(), **({"report": report} if report else {})}
    with shown.reading() as progress:
        plan = Plan(
            corpus=corpus,
            folder=run or Path("runs") / f"compare-{stem(files[0])}",
            minutes=minutes,
            models=tuple(name.strip() for name in (models or "").split(",") if name.strip()),
            starts=tuple(start or ()),
            seeds=seeds,
            seed=seed,
            tokenizer=plain(which(tokenizer)[0]) if tokenizer else {},
            metric=metric,
            equal=equal,
            began=STARTED,
            progress=progress,
            say=lambda line: notes([line]),
            watch=shown.show,
        )
        found, folder = study.compare(plan)
    if picture is not None:
        study.draw(found, picture)
    if json:
        return document({"folder": str(folder), **found.values()})
    return tell(found, folder)


def tell(found: Comparison, folder: Path) -> None:
    """The table, the picture in characters, and what may be said about them."""
    from qkv.studies.compare import FLOPS, cells, columns

    table("", columns(found), [cells(entry, found) for entry in found.entries])
    print_answer("", *drawn(found).split("\n"), "")
    print_answer(*found.sentences())
    for name, reason in found.failed.items():
        print_answer(f"{name} is left out: {reason}")
    print_answer(FLOPS, "", f"The table, the picture and every run are in {folder}.")


def drawn(found: Comparison, width: int = 60) -> str:
    """Figures with their intervals in characters; an o for the figure."""
    from qkv.studies.picture import scale

    ends = [(each.name, each.figure.low, each.figure.value, each.figure.high) for each in found.entries]
    known = [value for _, *values in ends for value in values if value is not None]
    low, high, _ = scale(known)
    longest = max(len(name) for name, *_ in ends)

    def place(value: float) -> int:
        return round((value - low) / (high - low) * (width - 1))

    lines = []
    for name, left, value, right in ends:
        row = [" "] * width
        if value is not None:
            if left is not None and right is not None:
                row[place(left) : place(right) + 1] = "-" * (place(right) - place(left) + 1)
            row[place(value)] = "o"
        lines.append(f"{name:>{longest}} |{''.join(row).rstrip()}")
    return "\n".join([*lines, f"{'':>{longest}}  {low:<{width // 2}g}{high:>{width - width // 2}g}"])
