"""What `qkv train` says before and after: the plan, then samples, scores and the next commands to try."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING, Any

from qkv.cli.output import counted, program

if TYPE_CHECKING:
    from qkv.recipe.assembly import Session


def announce(session: Session) -> None:
    """The plan in a few lines."""
    from qkv.models.language_model import count

    recipe, prepared = session.recipe, session.prepared
    model, training = recipe.model, recipe.training
    shape = "/".join(str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name))
    size = prepared.train.bytes + prepared.valid.bytes
    lines = [
        f"text    {size:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} to learn from, {len(prepared.valid.tokens):,} to check on "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} pieces)",
        f"model   {model.kind} {shape}, context {model.context}, {count(session.state.model):,} parameters",
        f"run     {training.length:,} steps of {training.batch} x {model.context} tokens "
        f"({training.length * training.batch / session.task.samples:.1f} epochs), {training.optimizer}, "
        f"{training.dtype} on {training.device} with {counted(training.threads, 'thread')}",
        f"folder  {session.run.folder}",
    ]
    print("\n".join(lines), file=sys.stderr)


def finish(session: Session, quiet: bool) -> dict[str, Any]:
    """Score the best model on all validation text, write the card, show samples. Gives what --json prints."""
    import qkv
    from qkv.models.language_model import count
    from qkv.recipe import card
    from qkv.training import journal

    folder, recipe = session.run.folder, session.recipe
    score = session.final_score()
    written = card.write(session, score)
    model = qkv.load(folder, recipe.training.device)
    samples = model.samples("", 1 if quiet else 2, length=200, temperature=0.8, seed=recipe.training.seed)
    if not quiet:
        for number, sample in enumerate(samples, 1):
            print(f"\n--- sample {number} (temperature 0.8) ---\n{sample.text.strip()}")
        held = len(session.prepared.valid.tokens) - 1
        amount = f"all {held:,}" if score.tokens == held else f"{score.tokens:,} of {held:,}"
        bits = f"{score.bits_per_byte:.3f} bits per byte"
        print(
            f"\nvalidation loss {score.loss:.4f}, perplexity {score.perplexity:.2f}, {bits}"
            f"\n(95 % interval of the loss {score.interval()}; {amount} tokens, in windows of {recipe.model.context})"
        )
        if overshoot := after_the_best(journal.read(folder / "metrics.jsonl"), model.bundle.step):
            print(overshoot)
        print(next_commands(session, written.name))
    return {
        "run": str(folder),
        "model": recipe.model.kind,
        "parameters": count(session.state.model),
        "steps": session.state.step,
        "best_step": model.bundle.step,
        "seconds": round(journal.elapsed(folder / "timings.jsonl"), 2),
        "window": recipe.model.context,
        "validation": score.values(),
        "sample": samples[0].text,
        "notes": list(session.prepared.notes),
    }


def after_the_best(lines: list[dict[str, Any]], best: int) -> str:
    """What happened after the best step, when the model learned the text by heart instead of the language."""
    checks = [line for line in lines if line.get("validation_loss") is not None]
    losses = {line["step"]: line["loss"] for line in lines if line.get("loss") is not None}
    if not checks or checks[-1]["step"] == best or best not in losses:
        return ""
    last = checks[-1]
    found = next(line["validation_loss"] for line in checks if line["step"] == best)
    return (
        f"the best model is that of step {best:,}; by step {last['step']:,} the training loss went from "
        f"{losses[best]:.3f} to {losses[last['step']]:.3f}, the validation loss from {found:.3f} to "
        f"{last['validation_loss']:.3f}"
    )


def next_commands(session: Session, card: str) -> str:
    folder, steps = session.run.folder, session.recipe.training.length
    other = "python-stdlib" if session.recipe.corpus.files[0] == "python-docs" else "python-docs"
    commands = [
        (["generate", str(folder), *first_words(session)], "write with it"),
        (["generate", str(folder), "--next", "10"], "what it expects next"),
        (["evaluate", str(folder), other], "score it on any text"),
    ]
    if session.state.step == steps:  # else it stopped early, and more would not help
        longer = ["train", "--recipe", str(folder / "recipe.toml"), "--steps", str(2 * steps)]
        commands.append((longer, "the same, twice as long"))
    rows = [(f"{program()} {shlex.join(words)}", what) for words, what in commands]
    width = max(len(command) for command, _ in rows)
    lines = [f"  {command:<{width}}   {what}" for command, what in rows]
    head = f"The model is in {folder}/best; {card} tells all about the run. Next:"
    return "\n".join(["", head, *lines])


def first_words(session: Session) -> list[str]:
    """A prompt that the model has a chance with: how a line of the validation text begins."""
    prepared = session.prepared
    lines = prepared.tokenizer.decode(prepared.valid.tokens[:300].tolist()).splitlines()
    whole = lines[1:] or lines  # the cut may have gone through the first one
    good = [line for line in whole if line.isprintable() and any(each.isalpha() for each in line)]
    return [" ".join(good[0].split()[:3])] if good else []
