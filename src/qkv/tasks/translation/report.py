"""The plan and the report of a translation run: scores with their signatures, some translations, the next commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from qkv.data.corpus import ParallelConfig
from qkv.data.findings import Progress
from qkv.data.object_names import names_of
from qkv.data.pair_columns import directions_in_words, sides_in_words
from qkv.data.prepare_pairs import PreparedPairs
from qkv.data.split import even_order
from qkv.doctor.baseline_table import BaselineTable, ComparedBaseline
from qkv.doctor.messages import curve_verdict
from qkv.evaluation.intervals import Estimate
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import Outputs, TranslationScore
from qkv.objectives.translation import TranslationConfig
from qkv.recipe.bundle import Bundle, load
from qkv.tasks.curve import curve_advice, curve_diagnosis
from qkv.tasks.protocol import EvaluationOptions, Session, expect
from qkv.tasks.report import (
    CardContent,
    EvaluationReport,
    NextCommand,
    ReportSection,
    RunReport,
    TableSection,
    baseline_sections,
    doctor_section,
    indented,
    lines,
)
from qkv.tasks.translation.evaluate import PairsEvaluator, TranslationEvaluation
from qkv.tasks.translation.predict import require_translator
from qkv.training.loop import training_flops
from qkv.visible import counted, shortened

FLOPS_METHOD = "three times those of a forward pass, counted on batches of the run"
EXAMPLES = 3
WORST = 5
BEAMS = 5


def plan(session: Session, prepared: PreparedPairs) -> list[str]:
    data, model, tokenizer = prepared.parallel, session.recipe.model, prepared.tokenizer
    sizes = [str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name)]
    separate = ", trained separately for each" if prepared.target_tokenizer is not None else ""
    test = f", {len(data.test):,} for testing" if data.test else ""
    return [
        f"pairs   {len(data.train):,} for training, {len(data.valid):,} for validation{test}",
        f"words   {tokenizer.kind}, {tokenizer.vocabulary:,} tokens for {sides_in_words(data.directions)}{separate}",
        f"model   {model.kind} {'/'.join(sizes)}, {session.size}",
        *session.plan_lines(f"{expect(session.recipe.task, TranslationConfig).tokens:,} tokens", 1),
        f"folder  {session.run.folder}",
    ]


def report(
    session: Session, prepared: PreparedPairs, scores: Mapping[str, TranslationScore], outputs: Mapping[str, Outputs]
) -> RunReport:
    """`scores` and `outputs` are by split."""
    folder = session.run.folder
    # the FLOPs of training, which deck 002's table shows next to BLEU
    flops = None
    if session.run.clock is None or session.run.clock.minutes_left():  # counting runs a few forward passes
        flops = training_flops(session.model, session.objective, session.recipe.training.batch, session.state.samples)
    table = baseline_table(outputs, scores)
    doctor_lines = remarks(session, table)
    valid = outputs["valid"]
    sections: list[ReportSection] = [lines(""), *score_sections(scores, flops)]
    for split, translated in outputs.items():
        if translated.whole is not None:
            sections.append(lines(f"{split}: {len(translated):,} of {translated.whole:,} sources, evenly spread"))
    sections += [lines("", *example(valid, row)) for row in even_order(len(valid), EXAMPLES).tolist()]
    sections += [*(baseline_sections(table) if table else []), lines(""), indented("doctor", doctor_lines)]
    corpus = session.recipe.corpus
    new_pairs = ("TABLE",) if isinstance(corpus, ParallelConfig) and corpus.source else ("SOURCE", "TARGET")
    commands = (
        NextCommand(("translate", str(folder), shortened(valid.sources[0], 60)), "translate any text"),
        NextCommand(("evaluate", str(folder), *new_pairs), "score it on other pairs"),
    )
    values = {**session.values, "training_flops": flops}
    values |= {split: score.values() for split, score in scores.items()}
    values |= {"doctor": doctor_lines, "baselines": table.values() if table else None}
    card = card_content(session, prepared, scores, outputs, flops, doctor_section(doctor_lines, table))
    return RunReport(tuple(sections), commands, card, values)


def score_sections(scores: Mapping[str, TranslationScore], flops: float | None = None) -> list[ReportSection]:
    """The scores of each split and, for a training run, the FLOPs of the training."""
    rows = [
        (f"{split} {estimate.name}".strip(), estimate.value, estimate.interval)
        for split, score in scores.items()
        for estimate in score.rows()
    ]
    if flops is not None:
        rows.append(("FLOPs of the training", f"{flops:.2e}", ""))
    signatures = zip(("BLEU", "chrF"), next(iter(scores.values())).signatures.values(), strict=False)
    return [
        TableSection("", ("score", "value", "95 % interval"), tuple(rows)),
        *(lines(f"{name}  {signature}") for name, signature in signatures),
    ]


def example(outputs: Outputs, row: int) -> list[str]:
    """A source, its translation and its references, each on a line."""
    texts = [
        outputs.sources[row],
        outputs.translations[row] or "(nothing)",
        f"({' or '.join(outputs.references[row])})",
    ]
    return [f"  {shortened(line, 110)}" for line in texts]


def detail_sections(outputs: Outputs) -> list[ReportSection]:
    """The score by length, and the worst translations."""
    length_title, score_title, output_title = outputs.labels
    digits = outputs.digits
    rows = tuple(
        (f"up to {group.most}" if group.most else "more", f"{group.count:,}", f"{group.score:.{digits}f}")
        for group in outputs.by_length()
    )
    sections: list[ReportSection] = [lines(""), TableSection("", (length_title, "sources", score_title), rows)]
    if worst := outputs.worst(WORST):
        sections.append(lines("", "the worst:"))
    sections += [lines("", f"  {output_title} {value:.{digits}f}", *example(outputs, row)) for row, value in worst]
    return sections


def card_content(
    session: Session,
    prepared: PreparedPairs,
    scores: Mapping[str, TranslationScore],
    outputs: Mapping[str, Outputs],
    flops: float | None,
    doctor: str,
) -> CardContent:
    recipe, data, tokenizer = session.recipe, prepared.parallel, prepared.tokenizer
    rows: dict[str, str] = {}
    for split, score in scores.items():
        for estimate in score.rows():
            interval = f" (95 % interval {estimate.interval})" if estimate.interval else ""
            rows[f"{split} {estimate.name}"] = estimate.value + interval
        whole = outputs[split].whole
        rows[f"{split} sources"] = f"{score.count:,}" + ("" if whole is None else f" of {whole:,}, evenly spread")
    if signatures := next(iter(scores.values())).signatures:
        rows["signatures"] = ", ".join(f"`{signature}`" for signature in signatures.values())
    rows |= {
        **({} if flops is None else {"FLOPs of the training": f"{flops:.2e}; {FLOPS_METHOD}"}),
        "directions": directions_in_words(data.train.directions, data.columns),
        "text": names_of(recipe.corpus.files),
        "pairs": f"{len(data.train):,} for training, {session.epochs:.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{tokenizer.kind}, {tokenizer.vocabulary:,} tokens, `{tokenizer.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` of {session.parameters:,} parameters that translates"
    return CardContent(sentence, rows, doctor)


def baseline_table(outputs: Mapping[str, Outputs], scores: Mapping[str, TranslationScore]) -> BaselineTable | None:
    """The model compared with copies of the sources; None where a copy says nothing, as with letters and phonemes."""
    split = "test" if "test" in outputs else "valid"
    translated, own = outputs[split], scores[split].scores.get("bleu")
    if not isinstance(own, Estimate):
        return None
    copy = replace(translated, translations=list(translated.sources))
    copied, compared = copy.score().scores["bleu"], translated.compared_with(copy)
    assert isinstance(copied, Estimate)
    baseline = ComparedBaseline("copying the source", copied, compared.verdict)
    names = {"valid": "validation", "test": "test"}
    rows = f"{len(translated):,} {names[split]} sources"
    return BaselineTable("BLEU", rows, len(translated), own, (baseline,), digits=2)


def remarks(session: Session, table: BaselineTable | None) -> list[str]:
    """The doctor's lines: the comparison with the baseline, how the loss went, what to try."""
    lines = [] if table is None else [" ".join(table.sentences())]
    diagnosis = curve_diagnosis(session)
    advice = curve_advice(session, diagnosis) or "more pairs"
    seen = f"the pairs were seen {session.epochs:.1f} times"
    return [*lines, curve_verdict(diagnosis), seen, f"try: {advice}"]


def evaluation_report(
    bundle: Bundle, pairs: ParallelConfig, options: EvaluationOptions, device: str, progress: Progress
) -> EvaluationReport:
    """The report of `qkv evaluate` on parallel text; with another translator to compare with, if one is given."""
    beams = BEAMS if options.beams is None else options.beams
    evaluator = PairsEvaluator(bundle, pairs, options.metric)
    named = options.compare_with
    other = load(named, device) if isinstance(named, str) else named
    if other is not None:
        require_translator(other)
    pace = Pace(progress=progress, stage="translating")
    outputs, loss = evaluator.outputs(bundle, beams, device, pace)
    compared = None if other is None else outputs.compared_with(evaluator.outputs(other, beams, device, pace)[0])
    scored = outputs.score(loss)
    scored = replace(scored, scores={**scored.scores, **options.own.of_outputs(outputs)})
    score = TranslationEvaluation(
        **vars(scored), outputs=outputs, metric=evaluator.metric, beams=beams, comparison=compared
    )
    head = lines(f"{counted(len(outputs), 'source')}, {counted(beams, 'beam')}", "")
    end = lines("", *([] if compared is None else [f"compared with {named}: {compared.sentence}"]))
    columns = {"source": outputs.sources, "translation": outputs.translations, "references": outputs.references}
    values = {
        "beams": beams,
        "metric": evaluator.metric,
        **score.values(),
        "by_length": [vars(group) for group in outputs.by_length()],
        "worst": [
            {"row": row, "score": value, **{name: column[row] for name, column in columns.items()}}
            for row, value in outputs.worst(WORST)
        ],
        **({} if compared is None else {"compared_with": {"model": named, **compared.values}}),
    }
    return EvaluationReport(
        (head, *score_sections({"": score}), *detail_sections(outputs), end), values, score, evaluator.notes
    )
