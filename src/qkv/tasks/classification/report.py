"""The plan and the report of a classification or tagging run: scores compared with a constant answer, the confusion
table, the most confident mistakes, the next commands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Examples, NumberExamples, TagExamples, TextExamples
from qkv.data.findings import Progress
from qkv.data.object_names import names_of
from qkv.doctor.baseline_table import BaselineTable
from qkv.doctor.messages import curve_verdict, early_end
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.own_metrics import OwnMetrics
from qkv.evaluation.timed_scoring import MIN_SCORED
from qkv.recipe.bundle import Bundle
from qkv.tasks.classification.evaluate import evaluate_files
from qkv.tasks.classification.score_tables import mistakes, score_sections, value_and_interval
from qkv.tasks.classification.systems import system_name
from qkv.tasks.curve import curve_advice, curve_diagnosis
from qkv.tasks.protocol import Session
from qkv.tasks.report import (
    CardContent,
    EvaluationReport,
    NextCommand,
    ReportSection,
    RunReport,
    baseline_sections,
    doctor_section,
    indented,
    lines,
)
from qkv.training import metrics_log
from qkv.training.diagnosis import Diagnosis
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from qkv.tasks.classification.task import ClassificationTask

MAX_LABELS = 30  # that the card lists
HIGH_DROPOUT = 0.3


def plan(session: Session, task: ClassificationTask) -> list[str]:
    data, training = task.prepared.labelled, session.recipe.training
    return [
        f"data    {len(data.train):,} examples for training, {len(data.valid):,} for validation"
        + (f", {len(data.test):,} for testing" if data.test is not None else ""),
        f"task    {data.task}" + (f", {counted(len(data.labels), 'label')}" if data.labels.names else ""),
        f"model   {model_summary(session.recipe.model)}, {session.size}",
        *session.plan_lines(counted(training.batch, "example"), training.batch),
        f"baseline {task.baselines(session).line()}",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, task: ClassificationTask, results: dict[str, LabelledScore]) -> RunReport:
    """`results` are the scores by split."""
    folder, model = session.run.folder, session.recipe.model
    table = baseline_table(session, task, results)
    doctor_lines = remarks(session, task, results, table)
    sections: list[ReportSection] = []
    for split, result in results.items():
        total = len(getattr(task.prepared.labelled, split))
        name = {"valid": "validation", "test": "test"}[split]
        sections += [lines(""), *score_sections(result, task.scored_examples(split), name, total)]
    sections += [*baseline_sections(table), lines(""), indented("doctor", doctor_lines)]
    values = {
        **session.values,
        "encoder": getattr(model, "encoder", model).kind,
        "examples": {split: len(task.scored_examples(split)) for split in results},
        "validation": {**results["valid"].values(), **results["valid"].tables()},
        "test": {**results["test"].values(), **results["test"].tables()} if "test" in results else None,
        "doctor": doctor_lines,
        "baselines": table.values(),
    }
    card = card_content(session, task, results, doctor_lines, table)
    return RunReport(tuple(sections), next_commands(folder, task.prepared.labelled.valid), card, values)


def next_commands(folder: Path, examples: Examples) -> tuple[NextCommand, ...]:
    evaluate = NextCommand(("evaluate", str(folder), "FILE"), "score it on other examples")
    if isinstance(examples, TagExamples):
        return NextCommand(("tag", str(folder), " ".join(examples[0].words[:8])), "tag any text"), evaluate
    if isinstance(examples, NumberExamples):
        return NextCommand(("classify", str(folder), "--file", "rows.csv"), "answer other rows"), evaluate
    if isinstance(examples, TextExamples):
        example = examples[0]
        arguments = (shortened(example.text, 60),) if example.second is None else ("--file", "pairs.tsv")
        return NextCommand(("classify", str(folder), *arguments), "classify any text"), evaluate
    return NextCommand(("classify", str(folder), "IMAGE"), "classify any image"), evaluate


def baseline_table(session: Session, task: ClassificationTask, results: Mapping[str, LabelledScore]) -> BaselineTable:
    baselines = task.baselines(session)
    return baselines.table(results[baselines.split], task.scored_examples(baselines.split))


def card_content(
    session: Session,
    task: ClassificationTask,
    results: Mapping[str, LabelledScore],
    doctor_lines: Sequence[str],
    table: BaselineTable | None,
) -> CardContent:
    recipe = session.recipe
    data, names = task.prepared.labelled, task.labels.names
    more = f" and {len(names) - MAX_LABELS:,} more" if len(names) > MAX_LABELS else ""
    rows: dict[str, str] = {}
    for split, result in results.items():
        values = result.values()
        for name, value in values.items():
            if isinstance(value, float) and not name.endswith(("_low", "_high")):
                shown, interval = value_and_interval(values, name)
                rows[f"{split} {name.replace('_', ' ')}"] = shown + (f" (95 % interval {interval})" if interval else "")
    rows["labels"] = ", ".join(names[:MAX_LABELS]) + more
    rows["data"] = names_of(recipe.corpus.files)
    rows["examples"] = ", ".join(f"{len(examples):,} {split}" for split, examples in data.splits)
    for split in results:
        scored, total = len(task.scored_examples(split)), len(getattr(data, split))
        rows[f"{split} examples scored"] = f"{scored:,} of {total:,}"
    rows["data fingerprint"] = f"`{recipe.corpus.fingerprint}`"
    steps = f"{session.state.step} of {recipe.training.batch} examples"
    rows["steps"] = f"{steps}, {session.epochs:.2f} epochs"
    sentence = f"A {model_summary(recipe.model)} of {session.parameters:,} parameters for {data.task}"
    return CardContent(sentence, rows, doctor_section(doctor_lines, table))


def remarks(
    session: Session, task: ClassificationTask, results: dict[str, LabelledScore], table: BaselineTable | None
) -> list[str]:
    """The doctor's lines: the comparison with baselines, which step was kept, how the loss went, what to try."""
    log = metrics_log.read(session.run.folder / "metrics.jsonl")
    evaluations = [line for line in log if None not in (line.get("validation_criterion"), line.get("validation_loss"))]
    lines = [] if table is None else [" ".join(table.sentences())]
    if evaluations:  # a damaged log may have none
        best, last = min(evaluations, key=lambda line: line["validation_criterion"])["step"], evaluations[-1]["step"]
        if best == last:
            lines.append(
                f"the model is of the last step, {last:,}, the best of {counted(len(evaluations), 'evaluation')}"
            )
        else:
            lines.append(f"the model is of step {best:,} of {last:,}; no later evaluation was better")
    if session.recipe.training.optimizer == "lbfgs":  # there is no curve to read: the optimum has no later step
        return [*lines, solver_verdict(session), f"try: {_advice_of_kind(session, task)}"]
    diagnosis = curve_diagnosis(session, log)
    early = early_end(session.run.clock)
    return [*lines, curve_verdict(diagnosis), *([early] if early else []), f"try: {_advice(session, task, diagnosis)}"]


def solver_verdict(session: Session) -> str:
    """Whether the run ended because the optimum was found."""
    if any(getattr(optimizer, "converged", False) for optimizer in session.state.optimizers.values()):
        return f"converged: the optimum of the loss with its penalty was found in {counted(session.state.step, 'step')}"
    return "not converged: the run ended before the optimum; more time, or a larger --set training.tolerance"


def _advice(session: Session, task: ClassificationTask, diagnosis: Diagnosis) -> str:
    model = session.recipe.model
    scored, held_out = len(task.scored_examples("valid")), len(task.prepared.labelled.valid)
    if scored < min(held_out, MIN_SCORED):
        return f"more time: there was none to score more than {scored:,} of the {held_out:,} validation examples"
    if (general := curve_advice(session, diagnosis)) is not None:
        return general
    if diagnosis.kind in ("overfitting", "rising"):
        has_dropout = getattr(model, "dropout", 1.0) < HIGH_DROPOUT
        return "more examples" + (f"; or --set model.dropout={HIGH_DROPOUT}" if has_dropout else "")
    return _advice_of_kind(session, task)


def _advice_of_kind(session: Session, task: ClassificationTask) -> str:
    model, training = session.recipe.model, session.recipe.training
    if task.prepared.labelled.numeric:
        linear = model.kind == "linear-table"
        other = "--model mlp, which is not limited to straight lines" if linear else "--model linear, to compare with"
        return f"more rows; {other}"
    if getattr(model, "encoder", model).kind in ("linear", "bag"):
        return "--model lstm or cnn, which see the order of words"
    return "more examples" if training.start else "more examples; or `qkv finetune` from a model of more text"


def model_summary(model: Any) -> str:
    """A model in a few words: its kind, its sizes, its pooling and head, and the length of texts."""
    encoder = getattr(model, "encoder", model)
    shape = "/".join(str(getattr(encoder, name)) for name in ("layers", "heads", "width") if hasattr(encoder, name))
    kind = system_name(model)
    pooling = f", {model.pooling} pooling" if hasattr(model, "pooling") else ""
    context = f", texts of {model.context} tokens" if model.vocabulary else ""
    if encoder is model:
        return f"{kind if kind == 'linear' else f'{kind} {shape}'} on {len(model.columns):,} columns of numbers"
    if encoder.kind == "linear-words":
        return f"linear {model.kind} on features of words and their neighbours{_chain(model)}{context}"
    if kind == "linear":  # it has no layers, heads or width
        letters = f" and of 2 to {encoder.letters} letters" if encoder.letters else ""
        known = f" ({encoder.features:,} n-grams)" if encoder.features else ""
        return f"linear {model.kind} on n-grams of 1 to {encoder.ngrams} words{letters}{known}, whole texts"
    head = {"two-layer": ", two-layer head", "no-bias": ", no bias"}.get(getattr(model, "head", "linear"), "")
    return f"{kind} {shape} {model.kind}{pooling}{head}{_chain(model)}{context}"


def _chain(model: Any) -> str:
    """The words for a tagger that chooses the tags of a sentence together."""
    return " with a CRF" if getattr(model, "head", "") == "crf" else ""


def evaluation_report(bundle: Bundle, config: ExamplesConfig, own: OwnMetrics, progress: Progress) -> EvaluationReport:
    """The report of `qkv evaluate` on labelled examples."""
    result, examples, notes = evaluate_files(bundle, config, progress)
    result = own.added_to(replace(result, examples=examples), examples)
    values = {"examples": len(examples), **result.values(), **result.tables(), "mistakes": mistakes(result, examples)}
    sections = score_sections(result, examples, names_of(config.files))
    return EvaluationReport(tuple(sections), values, result, notes)
