"""`qkv evaluate`: score a language model on text, a classifier or tagger on examples, a translator on parallel text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import qkv
from qkv import ranges
from qkv.cli.options import (
    DEFAULT_DATA,
    AnyModel,
    Data,
    DataOptions,
    Metrics,
    data_config,
    in_range,
    refuse,
    split_metrics,
)
from qkv.cli.output import Json, print_json, print_notes, print_sections
from qkv.cli.progress import progress_in_items
from qkv.data.findings import ranked

if TYPE_CHECKING:
    from qkv.recipe.recipe import CorpusSection


def evaluate(
    model: AnyModel,
    *data: Data,
    reading: DataOptions = DEFAULT_DATA,
    window: Annotated[int | None, in_range(ranges.CONTEXT)] = None,
    metric: Metrics = None,
    beams: Annotated[int | None, in_range(ranges.BEAMS)] = None,
    compare_with: str | None = None,
    json: Json = False,
) -> None:
    """Score a model on text, on labelled examples, or on parallel text.

    A language model is scored by its loss, in which every token counts once; the 95 % interval, estimated from the
    windows, shows how much the loss would vary on other text of the same kind. A classifier or a tagger is scored on a
    table, on tagged words or on images: scores with intervals, confused labels, the most confident mistakes. A
    translator is scored on two line-aligned files, or on a table with both texts: BLEU and chrF with their signatures,
    scores by the length of the reference, the worst sentences.

    qkv evaluate runs/book-modern other.txt
    qkv evaluate runs/reviews-lstm other.csv --label stars
    qkv evaluate runs/multi30k-transformer test.en test.de --compare-with runs/other

    Args:
        window: Score independent windows of this many tokens, as nanoGPT's validation does. By default, windows overlap
            by half.
        beams: The beam width of a translator. Default: 5.
        compare_with: Another translator to compare with on the same sentences, by a paired bootstrap test.
    """
    from qkv.api import own_metrics_of
    from qkv.tasks.protocol import EvaluationOptions
    from qkv.tasks.registry import evaluate_model, task_of_model

    opened = qkv.load(model)
    task = task_of_model(opened.bundle)
    score, own = split_metrics(metric)
    given = {"window": window, "metric": score, "beams": beams, "compare_with": compare_with}
    reason = f"this model is of kind {opened.bundle.config.kind} and is scored on {task.data_name}"
    refuse({name: value for name, value in given.items() if name not in task.evaluation_options}, reason)
    if not task.labelled and reading.task != task.kind:
        refuse({"task": reading.task}, reason)
    corpus: CorpusSection = data_config(
        task.corpus_config, data, "evaluate", reading, reason, example=f"MODEL {task.example}"
    )
    options = EvaluationOptions(
        window=window, metric=score, beams=beams, compare_with=compare_with, own=own_metrics_of(own)
    )
    with progress_in_items() as progress:
        report = evaluate_model(opened.bundle, corpus, options, opened.device, progress)
    notes = ranked(report.notes)
    print_notes(*notes)
    if json:
        return print_json({"model": model, "data": list(corpus.files), **report.values, "notes": list(notes)})
    return print_sections(*report.sections)
