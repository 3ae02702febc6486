"""`qkv evaluate`: a language model's loss on any text; the decisions of a classifier or a tagger on other examples;
the translations of a translator on other pairs."""

from __future__ import annotations

from typing import Annotated, Any

from qkv import ranges
from qkv.cli.numbers import within
from qkv.cli.options import (
    Column,
    Data,
    Documents,
    Encoding,
    Filter,
    Identity,
    Label,
    Languages,
    Metric,
    Second,
    SourceColumn,
    TargetColumn,
    Task,
    corpus,
    pairs,
)
from qkv.cli.output import Json, document, notes, table
from qkv.cli.waiting import waiting


def evaluate(
    model: str,
    *data: Data,
    window: Annotated[int | None, within(ranges.CONTEXT)] = None,
    documents: Documents = None,
    text: Column = None,
    text2: Second = None,
    label: Label = None,
    id: Identity = None,
    task: Task = None,
    source: SourceColumn = None,
    target: TargetColumn = None,
    languages: Languages = None,
    metric: Metric = None,
    beams: Annotated[int | None, within(ranges.BEAMS)] = None,
    beside: str | None = None,
    filter: Filter = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Score a model on text, on labelled examples, or on pairs of texts.

    Of a language model every token counts once; the interval says how much the loss would move on other text of the
    same kind (95 %, from window to window). A classifier or a tagger is scored on a table, on tagged words or on
    pictures: figures with intervals, which labels are confused, the surest mistakes. A translator is scored on two
    files that translate each other line by line, or on a table of both: BLEU and chrF with their signatures, by the
    length of the reference, the worst sentences.

    qkv evaluate runs/book-modern other.txt
    qkv evaluate runs/reviews-lstm other.csv --label stars
    qkv evaluate runs/multi30k-transformer test.en test.de --beside runs/other

    Parameters
    ----------
    model
        A run folder or a model folder.
    window
        Score independent windows of this many tokens, as nanoGPT's validation does. Otherwise windows overlap by half.
    beams
        How many translations a translator follows at once; 5 when nothing is said.
    beside
        Another translator to compare with on the same sentences, by the paired bootstrap.
    """
    import qkv
    from qkv.cli.translated import judge
    from qkv.errors import InputError
    from qkv.recipe.examining import JUDGES
    from qkv.recipe.recipe import TRANSLATING

    opened = qkv.load(model)
    kind = opened.bundle.config.kind
    wanted = "labelled examples" if kind in JUDGES else "pairs of texts" if kind in TRANSLATING else "text"
    others: dict[str, dict[str, Any]] = {
        "text": {"--window": window, "--documents": documents},
        "labelled examples": {"--text2": text2, "--label": label, "--id": id, "--task": task},
        "pairs of texts": {
            "--source": source, "--target": target, "--languages": languages, "--metric": metric, "--beams": beams,
            "--beside": beside,
        },
    }  # fmt: skip
    of_others = {option: value for what, named in others.items() if what != wanted for option, value in named.items()}
    if wanted == "pairs of texts":
        of_others |= {"--text": text, "--filter": filter}
    for option, value in of_others.items():
        if value is not None:
            raise InputError(f"{option} {value}: this model is of kind {kind} and is scored on {wanted}; leave it out.")
    if wanted == "labelled examples":
        columns = {"text": text, "text2": text2, "label": label, "id": id, "task": task, "encoding": encoding}
        columns["filter"] = filter
        return judged(opened, model, data, columns, json)
    if wanted == "pairs of texts":
        chosen = pairs(data, "evaluate", source=source, target=target, languages=languages, encoding=encoding)
        return judge(opened, model, chosen, metric, 5 if beams is None else beams, beside, json)
    chosen = corpus(data, "evaluate", documents=documents, text=text, filter=filter, encoding=encoding)
    if kind == "masked":
        return filled(opened, model, data, chosen, json)
    return scored(opened, model, data, chosen, window, json)


def scored(opened: Any, model: str, data: tuple[str, ...], chosen: Any, window: int | None, json: bool) -> None:
    """A language model on text."""
    from qkv.evaluation.pace import Pace

    with waiting() as progress:
        score = opened.evaluate(corpus=chosen, window=window, pace=Pace(progress=progress, stage="scoring tokens"))
    notes(opened.notes)
    if json:
        return document({"model": model, "data": list(data), "window": window, **score.values(), "notes": opened.notes})
    rows = [
        ("loss (nats a token)", f"{score.loss:.4f}", score.interval()),
        ("perplexity", f"{score.perplexity:.4f}", score.interval("perplexity")),
        ("bits per byte", f"{score.bits_per_byte:.4f}", score.interval("bits_per_byte")),
        ("bits per character", f"{score.bits_per_character:.4f}", score.interval("bits_per_character")),
        ("tokens scored", f"{score.tokens:,}", ""),
    ]
    return table("", ("score", "value", "95 % interval"), rows)


def filled(opened: Any, model: str, data: tuple[str, ...], chosen: Any, json: bool) -> None:
    """A model that fills gaps, on text."""
    from qkv.cli import gaps
    from qkv.recipe.gaps import score_gaps

    with waiting() as progress:
        score, said = score_gaps(opened.bundle, chosen, progress)
    notes(said)
    if json:
        return document({"model": model, "data": list(data), **score.values(), "notes": said})
    return gaps.show(score)


def judged(opened: Any, model: str, data: tuple[str, ...], columns: dict[str, Any], json: bool) -> None:
    """A classifier or a tagger on labelled examples."""
    from qkv.cli.judged import mistakes, show
    from qkv.cli.options import examples

    with waiting() as progress:
        found, read = opened.examined(examples(data, "evaluate", **columns), progress)
    notes(opened.notes)
    if not json:
        return show(found, read, ", ".join(data))
    values = {"model": model, "data": list(data), "examples": len(read), **found.values(), **found.tables()}
    return document({**values, "mistakes": mistakes(found, read), "notes": opened.notes})
