"""`qkv evaluate`: a language model's loss on any text; the decisions of a classifier or a tagger on other examples;
the translations of a translator on other pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import qkv
from qkv import ranges
from qkv.cli.options import DEFAULT_DATA, AnyModel, Data, DataOptions, Metric, read_config, refuse, within
from qkv.cli.output import Json, document, notes, show
from qkv.cli.progress import waiting
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.api import Model
    from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig


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
    from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
    from qkv.models.registry import LABELLED_MODELS, TRANSLATORS

    opened = qkv.load(model)
    kind = opened.bundle.config.kind
    labelled, translates = kind in LABELLED_MODELS, kind in TRANSLATORS
    scored_on = "labelled examples" if labelled else "parallel text" if translates else "text"
    reason = f"this model is of kind {kind} and is scored on {scored_on}"
    of_text = {} if kind == "masked" else {"window": window}
    of_translators = {"metric": metric, "beams": beams, "compare_with": compare_with}
    applicable = {} if labelled else of_translators if translates else of_text
    given = {"window": window, **of_translators}
    refuse({option: value for option, value in given.items() if option not in applicable}, reason)
    if labelled:
        return label(opened, model, read_config(ExamplesConfig, data, "evaluate", reading, reason), json)
    if translates:
        pairs = read_config(
            ParallelConfig, data, "evaluate", reading, reason, without=("valid", "test"), example="MODEL a.en a.de"
        )
        return translate(opened, model, pairs, metric, 5 if beams is None else beams, compare_with, json)
    corpus = read_config(CorpusConfig, data, "evaluate", reading, reason, example="MODEL book.txt")
    return score_text(opened, model, corpus, window, json)


def score_text(opened: Model, model: str, corpus: CorpusConfig, window: int | None, json: bool) -> None:
    """A language model on text: its next tokens, or those under the mask."""
    from qkv.evaluation.timed_scoring import Pace
    from qkv.tasks.language_modelling.report import score_table
    from qkv.tasks.masked_language_modelling import report as masked

    with waiting() as progress:
        if opened.bundle.config.kind == "masked":
            gaps, noted = masked.score_gaps(opened.bundle, corpus, progress)
            values: dict[str, object] = {**gaps.values()}
            section = masked.score_table(gaps)
        else:
            score = opened.evaluate(corpus=corpus, window=window, pace=Pace(progress=progress, stage="scoring tokens"))
            values, section, noted = {"window": window, **score.values()}, score_table(score), opened.notes
    notes(noted)
    if json:
        return document({"model": model, "data": list(corpus.files), **values, "notes": noted})
    return show(section)


def label(opened: Model, model: str, examples: ExamplesConfig, json: bool) -> None:
    """A classifier or a tagger on labelled examples."""
    from qkv.tasks.classification.report import judgement_sections, mistakes

    with waiting() as progress:
        score, read = opened.examined(examples, progress)
    notes(opened.notes)
    if not json:
        return show(*judgement_sections(score, read, ", ".join(examples.files)))
    values = {"model": model, "data": list(examples.files), "examples": len(read)}
    values |= {**score.values(), **score.tables()}
    return document({**values, "mistakes": mistakes(score, read), "notes": opened.notes})


def translate(
    opened: Model, model: str, pairs: ParallelConfig, metric: Metric, beams: int, compare_with: str | None, json: bool
) -> None:
    """A translator: its scores, by length, the worst outputs; compared with another system."""
    from qkv.evaluation.timed_scoring import Pace
    from qkv.tasks.report import lines
    from qkv.tasks.translation import predict
    from qkv.tasks.translation.evaluate import Examiner
    from qkv.tasks.translation.report import WORST, detail_sections, score_sections

    examiner = Examiner(opened.bundle, pairs, metric)
    other = None if compare_with is None else qkv.load(compare_with)
    if other is not None:
        predict.require(other.bundle)
    with waiting() as progress:
        pace = Pace(progress=progress, stage="translating")
        outputs, loss = examiner.outputs(opened.bundle, beams, opened.device, pace)
        compared = None
        if other is not None:
            compared = outputs.compared_with(examiner.outputs(other.bundle, beams, other.device, pace)[0])
    score = outputs.score(loss)
    notes(examiner.notes)
    if not json:
        head = lines(f"{counted(len(outputs), 'source')}, {counted(beams, 'beam')}", "")
        end = lines("", *([] if compared is None else [f"compared with {compare_with}: {compared.sentence}"]))
        return show(head, *score_sections({"": score}), *detail_sections(outputs), end)
    columns = {"source": outputs.sources, "translation": outputs.translations, "references": outputs.references}
    return document(
        {
            "model": model,
            "data": list(pairs.files),
            "beams": beams,
            "metric": examiner.metric,
            **score.values(),
            "by_length": [vars(group) for group in outputs.by_length()],
            "worst": [
                {"row": row, "score": value, **{name: column[row] for name, column in columns.items()}}
                for row, value in outputs.worst(WORST)
            ],
            **({} if compared is None else {"compared_with": {"model": compare_with, **compared.values}}),
            "notes": examiner.notes,
        }
    )
