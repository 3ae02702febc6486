"""`qkv compare`: train every architecture that fits the data under one time budget, and compare them with baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.command_start import started_at
from qkv.cli.options import (
    DATA_GROUP,
    DEFAULT_SPLIT,
    MODEL_GROUP,
    TIME_GROUP,
    Data,
    SplitOptions,
    TokenizerName,
    TrainingSeed,
    data_files,
    in_range,
)
from qkv.cli.output import OUTPUT_GROUP, Json, print_answer, print_json, print_notes, print_sections
from qkv.evaluation.class_metrics import ComparedMetric
from qkv.ranges import Range


def compare(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    report: Annotated[Literal["valid", "test"] | None, Parameter(group=DATA_GROUP)] = None,
    models: Annotated[str | None, Parameter(group=MODEL_GROUP)] = None,
    start: Annotated[list[str] | None, Parameter(name="--from", negative="", group=MODEL_GROUP)] = None,
    tokenizer: TokenizerName = None,
    metric: Annotated[ComparedMetric, Parameter(group=MODEL_GROUP)] = "auto",
    equal: Annotated[Literal["time", "parameters"], Parameter(group=MODEL_GROUP)] = "time",
    seeds: Annotated[int, in_range(Range(1, 1000), group=MODEL_GROUP)] = 1,
    seed: TrainingSeed = 0,
    minutes: Annotated[float, in_range(ranges.MINUTES, group=TIME_GROUP)] = 10.0,
    picture: Annotated[Path | None, Parameter(group=OUTPUT_GROUP)] = None,
    run: Annotated[Path | None, Parameter(group=OUTPUT_GROUP)] = None,
    json: Json = False,
) -> None:
    """Compare every architecture that fits the data under one time budget.

    Networks are trained as `qkv train` does, each for the same time, and compared with baselines: majority class, naive
    Bayes, and TF-IDF with logistic regression; for plain text, n-grams. The best model of each run is chosen on
    examples held out of the training set, never on those that the table reports.

    qkv compare reviews.csv
    qkv compare sst2/ --minutes 30 --seeds 3
    qkv compare reviews.csv --models bag,lstm --from MINILM
    qkv compare book.txt --equal parameters --picture book.png

    Args:
        report: The split that the table reports: valid or test. Default: valid.
        models: The networks to train, such as bag,cnn,lstm. Default: all that fit the data.
        start: A model to fine-tune as well. May be repeated.
        metric: The metric for classes. f1 is for two classes: the F1 of the second one.
        equal: What networks on plain text have in common: the time, or also the number of parameters.
        seeds: The number of runs of each network; scores are means.
        minutes: The total time budget, divided evenly among the runs.
        picture: Also plot the scores with their intervals: FILE.svg or FILE.png.
        run: The folder of all results. Default: runs/compare-DATA, with a number if it exists.
    """
    from qkv.cli.progress import progress_in_bytes, show_training
    from qkv.data import own_reader
    from qkv.library.new_run import stem, tokenizer_section
    from qkv.studies import comparison as study
    from qkv.studies import picture as pictures
    from qkv.studies.study import ComparisonPlan

    files = data_files(data, "compare")
    if picture is not None:
        pictures.require_format(picture)
    with progress_in_bytes() as progress:
        plan = ComparisonPlan(
            corpus=own_reader.through({"files": files, **reading.given(), **({"report": report} if report else {})}),
            folder=run or Path("runs") / f"compare-{stem(files[0])}",
            minutes=minutes,
            models=tuple(name.strip() for name in (models or "").split(",") if name.strip()),
            starts=tuple(start or ()),
            seeds=seeds,
            seed=seed,
            tokenizer=tokenizer_section(tokenizer),
            metric=metric,
            equal=equal,
            started_at=started_at(),
            progress=progress,
            note=print_notes,
            watch=show_training,
        )
        comparison, folder = study.compare(plan)
    if picture is not None:
        comparison.draw(picture)
    if json:
        return print_json({"folder": str(folder), **comparison.values()})
    print_sections(*comparison.sections())
    return print_answer("", f"The table, the picture and every run are in {folder}.")
