"""`qkv compare`: every architecture that fits the data under one time budget, compared with baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import (
    DATA,
    DEFAULT_SPLIT,
    MODEL,
    TIME,
    Data,
    SplitOptions,
    TokenizerName,
    TrainingSeed,
    data_files,
    within,
)
from qkv.cli.output import OUTPUT, STARTED, Json, document, note, print_answer, show
from qkv.evaluation.class_metrics import ComparedMetric
from qkv.ranges import Range


def compare(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    report: Annotated[Literal["valid", "test"] | None, Parameter(group=DATA)] = None,
    models: Annotated[str | None, Parameter(group=MODEL)] = None,
    start: Annotated[list[str] | None, Parameter(name="--from", negative="", group=MODEL)] = None,
    tokenizer: TokenizerName = None,
    metric: Annotated[ComparedMetric, Parameter(group=MODEL)] = "auto",
    equal: Annotated[Literal["time", "parameters"], Parameter(group=MODEL)] = "time",
    seeds: Annotated[int, within(Range(1, 1000), group=MODEL)] = 1,
    seed: TrainingSeed = 0,
    minutes: Annotated[float, within(ranges.MINUTES, group=TIME)] = 10.0,
    picture: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    run: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
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

    Args:
        report: The data that the table reports: valid or test. Default: valid.
        models: Which networks, as bag,cnn,lstm. Default: all that fit the data.
        start: A model to fine-tune as well. Repeat it for more.
        metric: The metric of classes; f1 is that of the second of two.
        equal: What networks on text have in common: their time, or also their parameters.
        seeds: How often each network is trained; scores are means.
        minutes: The time budget, in all; divided evenly among the networks.
        picture: Also plot the scores with their intervals: FILE.svg or FILE.png.
        run: The folder of all results. Default: runs/compare-DATA, numbered when taken.
    """
    from qkv.cli import progress as shown
    from qkv.library.new_run import stem, tokenizer_section
    from qkv.studies import comparison as study
    from qkv.studies import picture as drawing
    from qkv.studies.study import ComparisonPlan

    files = data_files(data, "compare")
    if picture is not None:
        drawing.check(picture)
    with shown.reading() as progress:
        plan = ComparisonPlan(
            corpus={"files": files, **reading.given(), **({"report": report} if report else {})},
            folder=run or Path("runs") / f"compare-{stem(files[0])}",
            minutes=minutes,
            models=tuple(name.strip() for name in (models or "").split(",") if name.strip()),
            starts=tuple(start or ()),
            seeds=seeds,
            seed=seed,
            tokenizer=tokenizer_section(tokenizer),
            metric=metric,
            equal=equal,
            began=STARTED,
            progress=progress,
            note=note,
            watch=shown.show,
        )
        comparison, folder = study.compare(plan)
    if picture is not None:
        comparison.draw(picture)
    if json:
        return document({"folder": str(folder), **comparison.values()})
    show(*comparison.sections())
    return print_answer("", f"The table, the picture and every run are in {folder}.")
