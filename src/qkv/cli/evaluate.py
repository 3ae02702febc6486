"""`qkv evaluate`: a language model's loss on any text; the decisions of a classifier or a tagger on other examples;
the translations of a translator on other pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import qkv
from qkv import ranges
from qkv.cli.options import DEFAULT_DATA, AnyModel, Data, DataOptions, Metric, read_config, refuse, within
from qkv.cli.output import Json, document, notes, show
from qkv.cli.progress import waiting

if TYPE_CHECKING:
    from qkv.recipe.recipe import CorpusSection


def evaluate(
    model: AnyModel,
    *data: Data,
    reading: DataOptions = DEFAULT_DATA,
    window: Annotated[int | None, within(ranges.CONTEXT)] = None,
    metric: Metric = None,
    beams: Annotated[int | None, within(ranges.BEAMS)] = None,
    compare_with: str | None = None,
    json: Json = False,
) -> None:
    """Score a model on text, on labelled examples, or on parallel text.

    Of a language model every token counts once; the interval says how much the loss would move on other text of the
    same kind (95 %, from window to window). A classifier or a tagger is scored on a table, on tagged words or on
    images: scores with intervals, which labels are confused, the most confident mistakes. A translator is scored on two
    files that translate each other line by line, or on a table of both: BLEU and chrF with their signatures, by the
    length of the reference, the worst sentences.

    qkv evaluate runs/book-modern other.txt
    qkv evaluate runs/reviews-lstm other.csv --label stars
    qkv evaluate runs/multi30k-transformer test.en test.de --compare-with runs/other

    Args:
        window: Score independent windows of this many tokens, as nanoGPT's validation does. Otherwise windows overlap
            by half.
        beams: The beam width of a translator. Default: 5.
        compare_with: Another translator to compare with on the same sentences, by the paired bootstrap.
    """
    from qkv.tasks.protocol import EvaluationOptions
    from qkv.tasks.registry import task_of_model

    opened = qkv.load(model)
    task = task_of_model(opened.bundle)
    options = EvaluationOptions(window=window, metric=metric, beams=beams, compare_with=compare_with)
    reason = f"this model is of kind {opened.bundle.config.kind} and is scored on {task.data_name}"
    refuse({name: value for name, value in vars(options).items() if name not in task.evaluation_options}, reason)
    corpus: CorpusSection = read_config(
        task.corpus_config, data, "evaluate", reading, reason, example=f"MODEL {task.example}"
    )
    with waiting() as progress:
        report = task.evaluate(opened.bundle, corpus, options, opened.device, progress)
    notes(report.notes)
    if json:
        return document({"model": model, "data": list(corpus.files), **report.values, "notes": list(report.notes)})
    return show(*report.sections)
