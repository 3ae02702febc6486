"""What `qkv train` says about classifiers and taggers, and how their scores are shown: the plan, figures, confusions,
the surest mistakes, what to do next.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from qkv.cli.output import counted, print_answer, print_message, program, shortened, table, weights
from qkv.cli.waiting import waiting

if TYPE_CHECKING:
    from qkv.data.labelled.examples import Examples
    from qkv.evaluation.intervals import Estimate
    from qkv.evaluation.judging import Judgement
    from qkv.recipe.starting import Session

MOST_CLASSES = 12  # that a table of confusions shows
MISTAKES = 5


def announce(session: Session) -> None:
    """The plan in a few lines."""
    from qkv.recipe.labelled_words import about

    recipe, lesson = session.recipe, session.lesson
    found, training = lesson.prepared.labelled, recipe.training
    clock = session.run.clock
    epochs = training.length * training.batch / session.task.samples
    lines = [
        f"data    {len(found.train):,} examples to learn from, {len(found.valid):,} to check on"
        + (f", {len(found.test):,} to test with" if found.test is not None else ""),
        f"task    {found.task}, {counted(len(lesson.labels), 'label')}",
        f"model   {about(recipe.model)}, {weights(session)}",
        f"steps   of {counted(training.batch, 'example')}, {training.optimizer}, {training.dtype} on {training.device} "
        f"with {counted(training.threads, 'thread')}",
        f"plan    {counted(training.length, 'step')}, {epochs:.1f} epochs"
        + (f", within {clock.minutes_left():.1f} min" if clock else ""),
        f"marks   {marks(found.train, found.valid)}",
        f"folder  {session.run.folder}",
    ]
    print_message(*lines)


def marks(train: Examples, valid: Examples) -> str:
    """What is reached without learning: the figures to hold a score against."""
    from qkv.recipe.labelled_words import untaught

    found = untaught(train, valid)
    return "nothing is held out" if found is None else found.words


def finish(session: Session, quiet: bool) -> dict[str, Any]:
    """Score the best model on all held-out examples, write the card, show the mistakes. Gives what --json prints."""
    from qkv.models.language_model import learning
    from qkv.recipe import labelled_card
    from qkv.recipe.labelled_words import remarks
    from qkv.training import journal

    folder, recipe, lesson = session.run.folder, session.recipe, session.lesson
    model: Any = recipe.model
    with waiting() as progress:
        found = lesson.final(recipe, folder, session.pace(progress))
    said = remarks(session, found)
    card = labelled_card.write(session, found, said)
    if not quiet:
        for side, judgement in found.items():
            whole = len(getattr(lesson.prepared.labelled, side))
            print_answer()
            show(judgement, lesson.scored(side), {"valid": "validation", "test": "test"}[side], whole)
        print_answer("", *(f"{'doctor' if not number else '':<6}  {line}" for number, line in enumerate(said)))
        print_answer(*next_commands(session, card.name))
    return {
        "run": str(folder),
        "model": recipe.model.kind,
        "encoder": getattr(model, "encoder", model).kind,
        "parameters": session.parameters,
        "learning": learning(session.model),
        "steps": session.state.step,
        "seconds": round(journal.elapsed(folder / "timings.jsonl"), 2),
        "examples": {side: len(lesson.scored(side)) for side in found},
        "validation": {**found["valid"].values(), **found["valid"].tables()},
        "test": {**found["test"].values(), **found["test"].tables()} if "test" in found else None,
        "doctor": said,
        "notes": list(session.lesson.notes),
    }


def show(judgement: Judgement, examples: Examples, name: str, whole: int | None = None) -> None:
    """A score as people read it; `whole`: the number of examples of which these are a part."""
    from qkv.evaluation.classes import ClassScore
    from qkv.evaluation.numbers import NumberScore
    from qkv.evaluation.spans import SpanScore

    score = judgement.score
    amount = counted(len(examples), "example")
    if whole is not None and len(examples) < whole:
        amount = f"{len(examples):,} of {whole:,} examples, evenly spread: there was no time for more"
    table(f"{name}: {amount}", ("score", "value", "95 % interval"), figures(judgement))
    if isinstance(score, SpanScore):
        rows = [
            (kind, f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}", f"{each.support:,}")
            for kind, each in score.by_type.items()
        ]
        print_answer()
        table("", ("span", "precision", "recall", "F1", "there"), rows)
    elif isinstance(score, ClassScore):
        print_answer()
        _confusion(score)
    if isinstance(score, ClassScore | NumberScore) and (wrong := mistakes(judgement, examples)):
        print_answer("", "the surest mistakes:" if isinstance(score, ClassScore) else "farthest off:")
        for each in wrong:
            print_answer(f"  {each['said']} instead of {each['true']}: {each['text']}")


def figures(judgement: Judgement) -> list[tuple[str, str, str]]:
    from qkv.evaluation.classes import ClassScore
    from qkv.evaluation.numbers import NumberScore
    from qkv.evaluation.several import SeveralScore

    score = judgement.score
    rows: list[tuple[str, Estimate | float]] = []
    match score:
        case ClassScore():
            rows = [("accuracy", score.accuracy), ("macro-F1", score.macro_f1), ("Matthews", score.matthews)]
            rows += [("calibration error", score.calibration_error)]
        case SeveralScore():
            rows = [("micro-F1", score.micro_f1), ("macro-F1", score.macro_f1), ("all labels right", score.exact)]
        case NumberScore():
            rows = [("Pearson", score.pearson), ("Spearman", score.spearman), ("R²", score.r_squared)]
            rows += [("mean absolute error", score.absolute_error)]
        case _:
            rows = [("F1 of spans", score.f1), ("precision", score.micro.precision), ("recall", score.micro.recall)]
            rows += [("macro-F1 of types", score.macro.f1), ("tags right", score.accuracy)]
    rows.append(("loss", judgement.loss))
    return [(name, *_figure(each)) for name, each in rows]


def _figure(value: Estimate | float) -> tuple[str, str]:
    if isinstance(value, float):
        return f"{value:.4f}", ""
    if value.value is None:
        return "undefined", ""
    interval = f"{value.low:.4f} to {value.high:.4f}" if value.low is not None and value.high is not None else ""
    return f"{value.value:.4f}", interval


def _confusion(score: Any) -> None:
    """Rows are the true classes, columns the answers; of many classes, the most frequent mistakes."""
    if len(score.names) <= MOST_CLASSES:
        rows = [
            (shortened(name, 20), *(f"{number:,}" for number in counts), f"{each.f1:.3f}")
            for name, counts, each in zip(score.names, score.confusion.tolist(), score.by_class, strict=True)
        ]
        table("rows: what is true, columns: what was said", ("", *(shortened(n, 12) for n in score.names), "F1"), rows)
        return
    rows = [(true, said, f"{often:,}") for true, said, often in score.confused(MOST_CLASSES)]
    table("the most frequent mistakes", ("true", "said", "times"), rows, words=("said",))


def mistakes(judgement: Judgement, examples: Examples, most: int = MISTAKES) -> list[dict[str, Any]]:
    """The surest errors with their texts."""
    from qkv.data.labelled.examples import ImageExamples, NumberExamples, TagExamples
    from qkv.evaluation.classes import ClassScore
    from qkv.evaluation.numbers import NumberScore

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
            numbers = examples[each["row"]].numbers.tolist()
            each["text"] = shortened(", ".join(f"{n}={v:.4g}" for n, v in zip(examples.columns, numbers, strict=True)))
        else:
            example = examples[each["row"]]
            each["text"] = shortened(example.text if example.second is None else f"{example.text} | {example.second}")
    return found


def next_commands(session: Session, card: str) -> list[str]:
    folder, found = session.run.folder, session.lesson.prepared.labelled
    commands = []
    if found.task == "tagging":
        words = " ".join(found.valid[0].words[:8])
        commands.append((["tag", str(folder), words], "tag any text"))
    elif found.numeric:
        commands.append((["classify", str(folder), "--file", "rows.csv"], "answer other rows"))
    elif found.task != "images":
        example = found.valid[0]
        texts = [shortened(example.text, 60)] if example.second is None else []
        verb = ["classify", str(folder), *texts] if texts else ["classify", str(folder), "--file", "pairs.tsv"]
        commands.append((verb, "judge any text"))
    commands.append((["evaluate", str(folder), "FILE"], "score it on other examples"))
    rows = [(f"{program()} {shlex.join(words)}", what) for words, what in commands]
    width = max(len(command) for command, _ in rows)
    lines = [f"  {command:<{width}}   {what}" for command, what in rows]
    head = f"The model is in {folder}/best; {card} tells all about the run. Next:"
    return ["", head, *lines]
