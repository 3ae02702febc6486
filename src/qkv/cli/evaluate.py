"""`qkv evaluate`: a language model's loss on any text; the decisions of a classifier or a tagger on other examples;
the translations of a translator on other pairs."""

from __future__ import annotations

from typing import Annotated, Any

from qkv import ranges
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
    within,
)
from qkv.cli.output import Json, document, notes, print_answer
from qkv.cli.progress import waiting
from qkv.visible import counted


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
        The beam width of a translator. Default: 5.
    beside
        Another translator to compare with on the same sentences, by the paired bootstrap.
    """
    import qkv
    from qkv.errors import InputError
    from qkv.models.registry import TRANSLATORS
    from qkv.tasks.classification.evaluate import JUDGES

    opened = qkv.load(model)
    kind = opened.bundle.config.kind
    wanted = "labelled examples" if kind in JUDGES else "pairs of texts" if kind in TRANSLATORS else "text"
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
        aligned = pairs(data, "evaluate", source=source, target=target, languages=languages, encoding=encoding)
        return judge(opened, model, aligned, metric, 5 if beams is None else beams, beside, json)
    chosen = corpus(data, "evaluate", documents=documents, text=text, filter=filter, encoding=encoding)
    if kind == "masked":
        return filled(opened, model, data, chosen, json)
    return scored(opened, model, data, chosen, window, json)


def scored(opened: Any, model: str, data: tuple[str, ...], chosen: Any, window: int | None, json: bool) -> None:
    """A language model on text."""
    from qkv.cli.report import show
    from qkv.evaluation.timed_scoring import Pace
    from qkv.tasks.language_modelling.report import score_table

    with waiting() as progress:
        score = opened.evaluate(corpus=chosen, window=window, pace=Pace(progress=progress, stage="scoring tokens"))
    notes(opened.notes)
    if json:
        return document({"model": model, "data": list(data), "window": window, **score.values(), "notes": opened.notes})
    return show([score_table(score)])


def filled(opened: Any, model: str, data: tuple[str, ...], chosen: Any, json: bool) -> None:
    """A model that fills gaps, on text."""
    from qkv.cli.report import show
    from qkv.tasks.masked_language_modelling.report import score_gaps, score_table

    with waiting() as progress:
        score, said = score_gaps(opened.bundle, chosen, progress)
    notes(said)
    if json:
        return document({"model": model, "data": list(data), **score.values(), "notes": said})
    return show([score_table(score)])


def judged(opened: Any, model: str, data: tuple[str, ...], columns: dict[str, Any], json: bool) -> None:
    """A classifier or a tagger on labelled examples."""
    from qkv.cli.options import examples
    from qkv.cli.report import show
    from qkv.tasks.classification.report import judgement_sections, mistakes

    with waiting() as progress:
        found, read = opened.examined(examples(data, "evaluate", **columns), progress)
    notes(opened.notes)
    if not json:
        return show(judgement_sections(found, read, ", ".join(data)))
    values = {"model": model, "data": list(data), "examples": len(read), **found.values(), **found.tables()}
    return document({**values, "mistakes": mistakes(found, read), "notes": opened.notes})


def judge(opened: Any, model: str, pairs: Any, metric: Any, beams: int, beside: str | None, json: bool) -> None:
    """`qkv evaluate` of a translator: its scores, by length, the worst outputs; another system beside it."""
    import qkv
    from qkv.cli.report import show
    from qkv.evaluation.timed_scoring import Pace
    from qkv.tasks.translation import predict
    from qkv.tasks.translation.evaluate import Examiner
    from qkv.tasks.translation.report import WORST, detail_sections, score_sections

    examiner = Examiner(opened.bundle, pairs, metric)
    other = None if beside is None else qkv.load(beside)
    if other is not None:
        predict.require(other.bundle)
    with waiting() as progress:
        pace = Pace(progress=progress, stage="translating")
        said, loss = examiner.outputs(opened.bundle, beams, opened.device, pace)
        compared = None
        if other is not None:
            compared = said.compared_with(examiner.outputs(other.bundle, beams, other.device, pace)[0])
    score = said.score(loss)
    notes(examiner.notes)
    if not json:
        print_answer(f"{counted(len(said), 'source')}, {counted(beams, 'beam')}", "")
        show([*score_sections({"": score}), *detail_sections(said)])
        print_answer("", *([] if compared is None else [f"beside {beside}: {compared}"]))
        return None
    columns = {"source": said.sources, "said": said.translations, "references": said.references}
    return document(
        {
            "model": model,
            "data": list(pairs.files),
            "beams": beams,
            "metric": examiner.metric,
            **score.values(),
            "by_length": [vars(each) for each in said.by_length()],
            "worst": [
                {"row": row, "score": value, **{name: column[row] for name, column in columns.items()}}
                for row, value in said.worst(WORST)
            ],
            **({} if compared is None else {"beside": {"model": beside, **compared.values()}}),
            "notes": examiner.notes,
        }
    )
