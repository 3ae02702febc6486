"""`qkv compare`: every architecture that fits the data under one time budget, beside systems that need no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.numbers import Minutes, TrainingSeed, within
from qkv.cli.options import Column, Data, Documents, Encoding, Filter, Identity, Label, Second, Task, named, which
from qkv.cli.output import STARTED, Json, document, notes, print_answer, table
from qkv.cli.train import Many, stem
from qkv.ranges import Range

if TYPE_CHECKING:
    from qkv.studies.contest import Comparison


def compare(
    *data: Data,
    minutes: Minutes = 10.0,
    models: str | None = None,
    start: Annotated[list[str] | None, Parameter(name="--from", negative="")] = None,
    seeds: Annotated[int, within(Range(1, 1_000))] = 1,
    metric: Literal["auto", "accuracy", "f1", "macro_f1", "matthews"] = "auto",
    equal: Literal["time", "parameters"] = "time",
    report: Literal["valid", "test"] | None = None,
    picture: Path | None = None,
    tokenizer: str | None = None,
    valid: Many = None,
    test: Many = None,
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
    """Compare every architecture that fits the data under one time budget.

    Networks are trained as `qkv train` does it, each for the same time, and
    shown beside systems that need none: one answer for all, naive Bayes and
    TF-IDF with logistic regression; of text, n-grams. Which is best is decided
    on examples held out of the training side, never on those of the table.

    qkv compare reviews.csv
    qkv compare sst2/ --minutes 30 --seeds 3
    qkv compare reviews.csv --models bag,lstm --from MINILM
    qkv compare book.txt --equal parameters --picture book.png

    Parameters
    ----------
    minutes
        How long you have, in all; divided evenly among the networks.
    models
        Which networks, as bag,cnn,lstm. All that fit when nothing is said.
    start
        A model to fine-tune beside them: a run, a model folder, a Hugging Face folder. Repeat it for more.
    seeds
        How often each network is trained; figures are means.
    metric
        What classes are judged by. Accuracy when nothing is said; CoLA has matthews, MRPC f1 (of the second
        of two).
    equal
        What networks on text have in common besides their time: with parameters, also their size.
    report
        The side that the table shows: valid (the default) or test.
    picture
        Also draw the figures with their intervals into this .svg or .png file.
    tokenizer
        auto (the default), characters, words, bpe, wordpiece, a tokenizer.json file, or a model's folder.
    valid
        Examples or text for the table. Otherwise a part is held out.
    test
        Examples of the test side, for --report test.
    run
        The folder for the results and all runs. runs/compare-DATA when nothing is said, numbered when taken.
    seed
        Where all randomness starts from.
    """
    from qkv.cli.progress import reading, show
    from qkv.config import plain
    from qkv.errors import InputError
    from qkv.studies import compare as study
    from qkv.studies import picture as drawing
    from qkv.studies.contest import Plan

    files = named(data, "compare")
    if not files:
        raise InputError("no data was named. Give a table, a folder or a text, as in: qkv compare reviews.csv")
    if picture is not None:
        drawing.check(picture)
    options: dict[str, Any] = {
        "files": files, "valid": valid, "test": test, "documents": documents, "task": task, "text": text,
        "text2": text2, "label": label, "id": id, "filter": filter, "encoding": encoding, "report": report,
    }  # fmt: skip
    with reading() as progress:
        plan = Plan(
            corpus={key: value for key, value in options.items() if value is not None},
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
            watch=show,
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
