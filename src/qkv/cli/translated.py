"""What `qkv train` and `qkv evaluate` say about a model that translates: the plan, its scores, some translations."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.output import counted, document, notes, print_answer, print_message, program, shortened, table, weights
from qkv.cli.waiting import waiting

if TYPE_CHECKING:
    from qkv.evaluation.outputs import Outputs, Score
    from qkv.recipe.starting import Session

SHOWN = 3
WORST = 5


def announce(session: Session) -> None:
    """The plan in a few lines."""

    recipe, lesson = session.recipe, session.lesson
    data, model = lesson.prepared.parallel, recipe.model
    training, clock = recipe.training, session.run.clock
    task: Any = recipe.task
    sizes = [str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name)]
    pieces = lesson.prepared.tokenizer
    apart = ", learned for each by itself" if lesson.prepared.target_tokenizer is not None else ""
    test = f", {len(data.test):,} to test with" if data.test is not None and len(data.test) else ""
    lines = [
        f"pairs   {len(data.train):,} to learn from, {len(data.valid):,} to check on{test}",
        f"words   {pieces.kind}, {pieces.vocabulary:,} pieces for both languages{apart}",
        f"model   {model.kind} {'/'.join(sizes)}, {weights(session)}",
        f"steps   of {task.tokens:,} tokens, {training.optimizer}, {training.dtype} on {training.device} with "
        f"{counted(training.threads, 'thread')}",
        f"plan    {counted(training.length, 'step')}, {training.length / session.task.samples:.1f} epochs"
        + (f", within {clock.minutes_left():.1f} min" if clock else ""),
        f"folder  {session.run.folder}",
    ]
    print_message(*lines)


def finish(session: Session, quiet: bool) -> dict[str, Any]:
    """Score the best model, write the card, show what it says. Gives what --json prints."""
    from qkv.data.even_order import even_order
    from qkv.models.language_model import learning
    from qkv.recipe import translation_card
    from qkv.training import journal

    folder, recipe, lesson = session.run.folder, session.recipe, session.lesson
    with waiting() as progress:
        found = lesson.final(recipe, folder, session.pace(progress))
    flops = translation_card.flops_of(session)
    card = translation_card.write(session, found, flops)
    if not quiet:
        print_answer()
        show(found, flops)
        said = lesson.final_outputs["valid"]  # of the model that was scored
        for side, outputs in lesson.final_outputs.items():
            if outputs.whole is not None:
                print_answer(f"{side}: {len(outputs):,} of {outputs.whole:,} sources, evenly spread")
        for number in even_order(len(said), SHOWN).tolist():
            print_answer("", *example(said, number))
        print_answer()
        for line in translation_card.remarks(session, found):
            print_answer(f"doctor  {line}")
        print_answer(*next_commands(folder, card.name, shortened(said.sources[0], 60)))
    return {
        "run": str(folder),
        "model": recipe.model.kind,
        "parameters": session.parameters,
        "learning": learning(session.model),
        "steps": session.state.step,
        "seconds": round(journal.elapsed(folder / "timings.jsonl"), 2),
        "training_flops": flops,
        **{side: score.values() for side, score in found.items()},
        "notes": list(lesson.notes),
    }


def next_commands(folder: Path, card: str, text: str) -> list[str]:
    rows = [
        (["translate", str(folder), text], "translate any text"),
        (["evaluate", str(folder), "SOURCE", "TARGET"], "score it on other pairs"),
    ]
    commands = [(f"{program()} {shlex.join(words)}", what) for words, what in rows]
    width = max(len(command) for command, _ in commands)
    lines = [f"  {command:<{width}}   {what}" for command, what in commands]
    return ["", f"The model is in {folder}/best; {card} tells all about the run. Next:", *lines]


def show(found: dict[str, Score], flops: float | None = None) -> None:
    """The scores; of a run, what its training computed beside them."""
    rows = [
        (f"{side} {figure.name}".strip(), figure.value, figure.interval)
        for side, score in found.items()
        for figure in score.figures()
    ]
    if flops is not None:
        rows.append(("FLOPs of the training", f"{flops:.2e}", ""))
    table("", ("score", "value", "95 % interval"), rows)
    for name, signature in zip(("BLEU", "chrF"), next(iter(found.values())).signatures, strict=False):
        print_answer(f"{name}  {signature}")


def example(said: Outputs, number: int) -> list[str]:
    """Source, output and references, a line each."""
    lines = [said.sources[number], said.said[number] or "(nothing)"]
    lines.append(f"({' or '.join(said.references[number])})")
    return [f"  {shortened(line, 110)}" for line in lines]


def judge(opened: Any, model: str, pairs: Any, metric: Any, beams: int, beside: str | None, json: bool) -> None:
    """`qkv evaluate` of a translator: its scores, by length, the worst outputs; another system beside it."""
    import qkv
    from qkv.evaluation.pace import Pace
    from qkv.recipe import translating
    from qkv.recipe.speaking import Examiner

    examiner = Examiner(opened.bundle, pairs, metric)
    other = None if beside is None else qkv.load(beside)
    if other is not None:
        translating.require(other.bundle)
    with waiting() as progress:
        pace = Pace(progress=progress, stage="translating")
        said, loss = examiner.outputs(opened.bundle, beams, opened.device, pace)
        compared = None
        if other is not None:
            compared = said.beside(examiner.outputs(other.bundle, beams, other.device, pace)[0])
    score = said.score(loss)
    notes(examiner.notes)
    if not json:
        print_answer(f"{counted(len(said), 'source')}, {counted(beams, 'beam')}", "")
        show({"": score})
        details(said)
        print_answer("", *([] if compared is None else [f"beside {beside}: {compared}"]))
        return None
    columns = {"source": said.sources, "said": said.said, "references": said.references}
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


def details(said: Outputs) -> None:
    """The score by length, and the worst outputs."""
    from qkv.evaluation.outputs import NAMES

    counts, by, single = NAMES[said.metric]
    digits = 2 if said.metric == "bleu" else 4
    rows = [
        (f"up to {each.most}" if each.most else "more", f"{each.count:,}", f"{each.score:.{digits}f}")
        for each in said.by_length()
    ]
    print_answer()
    table("", (counts, "sources", by), rows)
    if worst := said.worst(WORST):
        print_answer("", "the worst:")
    for row, value in worst:
        print_answer("", f"  {single} {value:.{digits}f}", *example(said, row))
