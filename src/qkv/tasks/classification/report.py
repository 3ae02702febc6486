"""The plan and the report of a classifier or a tagger: figures compared with one answer for all, confusions, the surest
mistakes, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.examples import Examples, ImageExamples, NumberExamples, TagExamples
from qkv.evaluation.class_metrics import f1
from qkv.evaluation.classification_metrics import ClassScore
from qkv.evaluation.labelled_evaluation import NAMES, LabelledScore
from qkv.evaluation.regression import NumberScore
from qkv.evaluation.spans import OUTSIDE, SpanScore, is_spans, span_score
from qkv.tasks.protocol import Session
from qkv.tasks.report import (
    CardContent,
    EvaluationReport,
    RunReport,
    Section,
    TableSection,
    doctor_section,
    indented,
    lines,
)  # fmt: skip
from qkv.training import metrics_log
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from qkv.tasks.classification.task import ClassificationTask

MOST_LABELS = 30
MOST_CLASSES = 12  # that a table of confusions shows
MISTAKES = 5


def plan(session: Session, task: ClassificationTask) -> list[str]:
    found, training = task.prepared.labelled, session.recipe.training
    constant = constant_answer(found.train, found.valid)
    return [
        f"data    {len(found.train):,} examples to learn from, {len(found.valid):,} to check on"
        + (f", {len(found.test):,} to test with" if found.test is not None else ""),
        f"task    {found.task}, {counted(len(task.labels), 'label')}",
        f"model   {about(session.recipe.model)}, {session.size}",
        *session.plan_lines(counted(training.batch, "example"), training.batch),
        f"baseline {'nothing is held out' if constant is None else constant.words}",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, task: ClassificationTask, found: dict[str, LabelledScore]) -> RunReport:
    folder, model = session.run.folder, session.recipe.model
    remarked = remarks(session, task, found)
    sections: list[Section] = []
    for side, judgement in found.items():
        whole = len(getattr(task.prepared.labelled, side))
        name = {"valid": "validation", "test": "test"}[side]
        sections += [lines(""), *judgement_sections(judgement, task.scored(side), name, whole)]
    sections += [lines(""), indented("doctor", remarked)]
    values = {
        **session.values,
        "encoder": getattr(model, "encoder", model).kind,
        "examples": {side: len(task.scored(side)) for side in found},
        "validation": {**found["valid"].values(), **found["valid"].tables()},
        "test": {**found["test"].values(), **found["test"].tables()} if "test" in found else None,
        "doctor": remarked,
    }
    return RunReport(tuple(sections), task.next_commands(folder), card_content(session, task, found, remarked), values)


def judgement_sections(
    judgement: LabelledScore, examples: Examples, name: str, whole: int | None = None
) -> list[Section]:
    """A score as people read it; `whole`: the number of examples of which these are a part."""
    score = judgement.score
    amount = counted(len(examples), "example")
    if whole is not None and len(examples) < whole:
        amount = f"{len(examples):,} of {whole:,} examples, evenly spread: there was no time for more"
    rows = tuple(figures(judgement))
    sections: list[Section] = [TableSection(f"{name}: {amount}", ("score", "value", "95 % interval"), rows)]
    if isinstance(score, SpanScore):
        by_type = tuple(
            (kind, f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}", f"{each.support:,}")
            for kind, each in score.by_type.items()
        )
        sections += [lines(""), TableSection("", ("span", "precision", "recall", "F1", "support"), by_type)]
    elif isinstance(score, ClassScore):
        sections += [lines(""), _confusion(score)]
    if isinstance(score, ClassScore | NumberScore) and (wrong := mistakes(judgement, examples)):
        sections.append(lines("", "the surest mistakes:" if isinstance(score, ClassScore) else "farthest off:"))
        sections += [lines(f"  {each['said']} instead of {each['true']}: {each['text']}") for each in wrong]
    return sections


def figures(judgement: LabelledScore) -> list[tuple[str, str, str]]:
    """The score's metrics and the loss: title, value, interval."""
    values = {**judgement.score.values(), "loss": judgement.loss}
    return [(title, *_figure(values, name)) for name, title in {**judgement.score.titles, "loss": "loss"}.items()]


def _figure(values: Mapping[str, Any], name: str) -> tuple[str, str]:
    """A metric and its interval, of the values of a score."""
    value, low, high = (values.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return "undefined", ""
    return f"{value:.4f}", "" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _confusion(score: ClassScore) -> TableSection:
    """Rows are the true classes, columns the answers; of many classes, the most frequent mistakes."""
    if len(score.names) <= MOST_CLASSES:
        rows = tuple(
            (shortened(name, 20), *(f"{number:,}" for number in counts), f"{each.f1:.3f}")
            for name, counts, each in zip(score.names, score.confusion.tolist(), score.by_class, strict=True)
        )
        columns = ("", *(shortened(name, 12) for name in score.names), "F1")
        return TableSection("rows: what is true, columns: what was said", columns, rows)
    often = tuple((true, said, f"{times:,}") for true, said, times in score.confused(MOST_CLASSES))
    return TableSection("the most frequent mistakes", ("true", "said", "times"), often, words=("said",))


def mistakes(judgement: LabelledScore, examples: Examples, most: int = MISTAKES) -> list[dict[str, Any]]:
    """The surest errors with their texts."""

    score = judgement.score
    found: list[dict[str, Any]] = []
    if isinstance(examples, TagExamples):
        return []
    if isinstance(score, ClassScore):
        for row in score.worst(most):
            answer = f"{score.names[int(score.predictions[row])]} ({score.confidence[row]:.0%})"
            found.append({"row": row, "said": answer, "true": score.names[int(score.targets[row])]})
    elif isinstance(score, NumberScore):
        targets = examples.targets
        for row in score.worst(most):
            found.append({"row": row, "said": f"{float(judgement.answers[row, 0]):.2f}", "true": f"{targets[row]:.2f}"})
    for each in found:
        if isinstance(examples, ImageExamples):
            each["text"] = f"picture {each['row'] + 1}"
        elif isinstance(examples, NumberExamples):
            numbers = examples[each["row"]].values.tolist()
            each["text"] = shortened(", ".join(f"{n}={v:.4g}" for n, v in zip(examples.columns, numbers, strict=True)))
        else:
            example = examples[each["row"]]
            each["text"] = shortened(example.text if example.second is None else f"{example.text} | {example.second}")
    return found


def card_content(
    session: Session, task: ClassificationTask, found: Mapping[str, LabelledScore], remarked: Sequence[str]
) -> CardContent:
    recipe = session.recipe
    data, names = task.prepared.labelled, task.labels.names
    more = f" and {len(names) - MOST_LABELS:,} more" if len(names) > MOST_LABELS else ""
    figures = {name: value for side, each in found.items() for name, value in _figures(side, each).items()}
    steps = f"{session.state.step} of {recipe.training.batch} examples"
    rows = figures | {
        "labels": ", ".join(names[:MOST_LABELS]) + more,
        "data": ", ".join(recipe.corpus.files),
        "examples": ", ".join(f"{len(examples):,} {side}" for side, examples in data.splits),
        **{f"{side} examples scored": f"{len(task.scored(side)):,} of {len(getattr(data, side)):,}" for side in found},
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "steps": f"{steps}, {session.epochs:.2f} epochs",
    }
    sentence = f"A {about(recipe.model)} of {session.parameters:,} parameters for {data.task}"
    return CardContent(sentence, rows, doctor_section(remarked))


def _figures(side: str, found: LabelledScore) -> dict[str, str]:
    values = found.values()
    rows = {}
    for name, value in values.items():
        if isinstance(value, float) and not name.endswith(("_low", "_high")):
            shown, interval = _figure(values, name)
            rows[f"{side} {name.replace('_', ' ')}"] = shown + (f" (95 % interval {interval})" if interval else "")
    return rows


def remarks(session: Session, task: ClassificationTask, found: dict[str, LabelledScore]) -> list[str]:
    """The end of a run in a few lines: how it compares with one answer for all, which step was kept, what to try."""
    model = session.recipe.model
    data, judged = task.prepared.labelled, found["valid"]
    logged = metrics_log.read(session.run.folder / "metrics.jsonl")
    checks = [line for line in logged if None not in (line.get("validation_criterion"), line.get("validation_loss"))]
    constant = constant_answer(data.train, task.scored("valid"))
    assert constant is not None, "a run has scored something"
    said = [f"{in_words(judged)}; without learning: {constant.words}"]
    if checks:  # a log that somebody altered may have none
        best, last = min(checks, key=lambda line: line["validation_criterion"])["step"], checks[-1]["step"]
        if best == last:
            said.append(f"the model is of the last step, {last:,}, the best of {len(checks)} evaluations")
        else:
            said.append(f"the model is of step {best:,} of {last:,}; later ones were no better")
    if no_better(judged, constant):
        said.append("it may have learned nothing: one answer for all lies within its interval")
    if checks and checks[-1]["validation_loss"] > 1.1 * min(line["validation_loss"] for line in checks):
        said.append("the validation loss rises while answers stay right: it grows too sure; more dropout may help")
    epochs = session.epochs
    if epochs < 0.7 * task.system.epochs and session.run.clock is not None:
        said.append(f"try: more time; {epochs:.1f} epochs were seen")
    elif data.numeric:
        more = "--model mlp, which bends" if model.kind == "linear-table" else "--model linear beside it"
        said.append(f"try: more rows; {more}")
    elif getattr(model, "encoder", model).kind in ("linear", "bag"):
        said.append("try: --model lstm or cnn, which see the order of words")
    else:
        said.append("try: more examples; or `qkv finetune` from a model that was trained on more text")
    return said


def about(model: Any) -> str:
    """A model in a few words: what it is built around, and its sizes."""
    encoder = getattr(model, "encoder", model)
    shape = "/".join(str(getattr(encoder, name)) for name in ("layers", "heads", "width") if hasattr(encoder, name))
    kind = getattr(encoder, "cell", encoder.kind)
    pooled = f", {model.pooling} pooling" if hasattr(model, "pooling") else ""
    context = f", texts of {model.context} tokens" if model.vocabulary else ""
    if encoder is model:
        return f"{'linear' if kind == 'linear-table' else f'mlp {shape}'} on {len(model.columns):,} columns of numbers"
    if kind == "linear":  # it is the scores, and has no shape of its own
        return f"linear {model.kind} on words and their {encoder.ngrams}-grams{context}"
    head = {"two-layer": ", two-layer head", "no-bias": ", no bias"}.get(getattr(model, "head", "linear"), "")
    return f"{kind} {shape} {model.kind}{pooled}{head}{context}"


@dataclass(frozen=True)
class Constant:
    """The same answer to every example, chosen by the training examples: its figure on others, and in words.

    The figure is the one the task is judged by, but for regression, where the correlation of a constant is not defined
    and the squared error is taken.
    """

    value: float
    words: str


def constant_answer(train: Examples, scored: Examples) -> Constant | None:
    """What is reached without learning anything, on the examples that are scored; None where there are none."""
    if not len(scored):
        return None
    targets, names = train.targets, train.labels.names
    if targets.dtype.kind == "f":
        error = float(np.mean((scored.targets - targets.mean()) ** 2))
        return Constant(error, f"squared error {error:.3f} by always saying the mean, {float(targets.mean()):.3f}")
    if targets.ndim == 2:
        given = _likely(targets)
        right = float(scored.targets[:, given].sum())
        value = 2 * right / max(1.0, float(len(scored.targets) * len(given) + scored.targets.sum()))
        said = " and ".join(repr(names[label]) for label in given[:3]) + (" ..." if len(given) > 3 else "")
        return Constant(value, f"micro-F1 {value:.4f} by always giving {said}")
    often = int(np.bincount(targets).argmax())
    share = float((scored.targets == often).mean())
    if isinstance(scored, TagExamples) and is_spans(names):
        value = 0.0
        if names[often] != OUTSIDE:
            said_tags = [[names[often]] * int(length) for length in scored.lengths]
            true = np.split(scored.targets, np.cumsum(scored.lengths)[:-1])
            value = span_score([[names[tag] for tag in tags] for tags in true], said_tags).f1.value or 0.0
        return Constant(value, f"F1 of spans {value:.4f}, {share:.1%} of tags right by always saying {names[often]!r}")
    return Constant(share, f"{share:.1%} right by always saying {names[often]!r}")


def _likely(targets: NDArray[Any]) -> list[int]:
    """The labels to give to every example for the best micro-F1 on these."""
    counts = targets.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    right, number = np.cumsum(counts[order]), np.arange(1, len(order) + 1)
    best = int(np.argmax(f1(right, number * len(targets), np.array(counts.sum()))))
    return [int(label) for label in order[: best + 1]]


def in_words(judged: LabelledScore) -> str:
    """The score with every figure that `constant_answer` has."""
    match judged.score:
        case NumberScore():
            return f"squared error {judged.loss:.3f}, {NAMES[judged.name]} {judged.value:.4f}"
        case SpanScore(accuracy=tags):
            return f"{NAMES[judged.name]} {judged.value:.4f}, {tags:.1%} of tags right"
    return f"{NAMES[judged.name]} {judged.value:.4f}"


def no_better(judged: LabelledScore, constant: Constant) -> bool:
    """Whether the interval of the score reaches what one answer for all has."""
    if isinstance(judged.score, NumberScore):
        high = judged.score.squared_error.high
        return constant.value <= (judged.loss if high is None else high)
    low = judged.figure.low
    return (judged.value if low is None else low) <= constant.value


def evaluation(score: LabelledScore, examples: Examples, notes: Sequence[str], files: str) -> EvaluationReport:
    """A classifier or a tagger on labelled examples of any files."""
    values = {"examples": len(examples), **score.values(), **score.tables(), "mistakes": mistakes(score, examples)}
    return EvaluationReport(tuple(judgement_sections(score, examples, files)), values, notes)
