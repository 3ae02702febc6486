"""What `qkv train` says about a model that fills gaps: the plan, its score beside counting, what to do next."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from qkv.cli.output import counted, print_answer, print_message, program, table, weights
from qkv.cli.waiting import waiting

if TYPE_CHECKING:
    from qkv.evaluation.masked import MaskedScore
    from qkv.recipe.starting import Session


def announce(session: Session) -> None:
    """The plan in a few lines."""

    recipe, prepared = session.recipe, session.prepared
    model: Any = recipe.model
    training, clock, encoder = recipe.training, session.run.clock, model.encoder
    epochs = training.length * training.batch / session.task.samples
    lines = [
        f"text    {prepared.train.bytes + prepared.valid.bytes:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} to learn from, {len(prepared.valid.tokens):,} to check on "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} pieces)",
        f"model   bert {encoder.layers}/{encoder.heads}/{encoder.width}, context {encoder.context}, {weights(session)}",
        f"steps   of {training.batch} x {encoder.context} tokens, {training.optimizer}, {training.dtype} on "
        f"{training.device} with {counted(training.threads, 'thread')}",
        f"plan    {counted(training.length, 'step')}, {epochs:.1f} epochs"
        + (f", within {clock.minutes_left():.1f} min" if clock else ""),
        f"marks   {session.lesson.constant:.1%} of hidden pieces by always saying the most frequent one",
        f"folder  {session.run.folder}",
    ]
    print_message(*lines)


def finish(session: Session, quiet: bool) -> dict[str, Any]:
    """Score the best model, write the card, show what it fills in. Gives what --json prints."""
    from qkv.models.language_model import learning
    from qkv.recipe import masked_card
    from qkv.training import journal

    folder, recipe = session.run.folder, session.recipe
    with waiting() as progress:
        score = session.final_score(progress)
    card = masked_card.write(session, score)
    if not quiet:
        print_answer()
        show(score)
        for line in masked_card.remarks(session, score):
            print_answer(f"doctor  {line}")
        command = f"{program()} {shlex.join(['fill', str(folder), 'The president of the United [MASK] .'])}"
        print_answer("", f"The model is in {folder}/best; {card.name} tells all about the run. Next:", f"  {command}")
    return {
        "run": str(folder),
        "model": recipe.model.kind,
        "parameters": session.parameters,
        "learning": learning(session.model),
        "steps": session.state.step,
        "seconds": round(journal.elapsed(folder / "timings.jsonl"), 2),
        "validation": score.values(),
        "notes": list(session.lesson.notes),
    }


def show(score: MaskedScore) -> None:
    rows = [
        ("hidden pieces", f"{score.pieces:,}", ""),
        ("hidden pieces told", f"{score.accuracy:.4f}", f"{score.accuracy_low:.4f} to {score.accuracy_high:.4f}"),
        ("the same by the most frequent piece", f"{score.baseline_accuracy:.4f}", ""),
        ("loss (nats a hidden piece)", f"{score.loss:.4f}", ""),
        ("the same by frequency alone", f"{score.baseline_loss:.4f}", ""),
        ("perplexity", f"{score.perplexity:.2f}", ""),
    ]
    if score.pseudo_pieces:
        hidden = f"pseudo-perplexity, {score.pseudo_pieces:,} pieces one by one"
        rows.append((hidden, f"{score.pseudo_perplexity:.2f}", ""))
    if score.pairs:
        between = f"{score.followed_low:.4f} to {score.followed_high:.4f}"
        rows.append(("next sentence known", f"{score.followed_accuracy:.4f}", between))
    table("", ("score", "value", "95 % interval"), rows)
