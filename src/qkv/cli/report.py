"""What `qkv train` says before and after: the plan, then samples, scores and the next commands to try."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from qkv.cli.output import counted, print_answer, print_message, program, weights
from qkv.cli.waiting import waiting

if TYPE_CHECKING:
    from qkv.recipe.assembly import Session
    from qkv.recipe.doctor import Doctor


def announce(session: Session, doctor: Doctor) -> None:
    """The plan in a few lines."""
    from qkv.recipe.forecast import forecast

    recipe, prepared = session.recipe, session.prepared
    model, training = recipe.model, recipe.training
    shape = "/".join(str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name))
    size = prepared.train.bytes + prepared.valid.bytes
    lines = [
        f"text    {size:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} to learn from, {len(prepared.valid.tokens):,} to check on "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} pieces)",
        f"model   {model.kind} {shape}, context {model.context}, {weights(session)}",
        f"steps   of {training.batch} x {model.context} tokens, {training.optimizer}, "
        f"{training.dtype} on {training.device} with {counted(training.threads, 'thread')}",
        f"plan    {forecast(session).line()}",
        f"marks   {doctor.before()}",
        f"folder  {session.run.folder}",
    ]
    print_message(*lines)


def finish(session: Session, doctor: Doctor, quiet: bool) -> dict[str, Any]:
    """Score the best model on all validation text, write the card, show samples. Gives what --json prints."""
    import qkv
    from qkv.models.language_model import learning
    from qkv.recipe import card
    from qkv.training import journal

    folder, recipe = session.run.folder, session.recipe
    with waiting() as progress:
        score = session.final_score(progress)
    examined = doctor.report(score)
    written = card.write(session, score, examined)
    model = qkv.load(folder, recipe.training.device)
    samples = model.samples("", 1 if quiet else 2, length=200, seed=recipe.training.seed)
    if not quiet:
        for number, sample in enumerate(samples, 1):
            print_answer("", f"--- sample {number} (temperature 0.8) ---", *sample.text.strip().split("\n"))
        held = len(session.prepared.valid.tokens) - 1
        amount = f"all {held:,}" if score.tokens == held else f"{score.tokens:,} of {held:,}"
        nats = score.bits_per_character * math.log(2)
        bits = f"{score.bits_per_byte:.3f} bits per byte ({nats:.3f} nats a character)"
        print_answer(
            "",
            f"validation loss {score.loss:.4f}, perplexity {score.perplexity:.2f}, {bits}",
            f"(95 % interval of the loss {score.interval()}; {amount} tokens, in windows of {recipe.model.context})",
        )
        print_answer("", *labelled("doctor", examined.lines()))
        print_answer(*next_commands(session, written.name, more=examined.diagnosis.more_helps))
    return {
        "run": str(folder),
        "model": recipe.model.kind,
        "parameters": session.parameters,
        "learning": learning(session.model),
        "steps": session.state.step,
        "best_step": model.bundle.step,
        "seconds": round(journal.elapsed(folder / "timings.jsonl"), 2),
        "window": recipe.model.context,
        "validation": score.values(),
        "doctor": examined.values(),
        "sample": samples[0].text,
        "notes": list(session.prepared.notes),
    }


def labelled(label: str, lines: list[str]) -> list[str]:
    """The label before the first line, the others beneath it."""
    return [f"{label if not number else '':<{len(label)}}  {line}" for number, line in enumerate(lines)]


def next_commands(session: Session, card: str, more: bool) -> list[str]:
    """`more`: a longer run is worth while."""
    folder, steps = session.run.folder, session.recipe.training.length
    other = "python-stdlib" if session.recipe.corpus.files[0] == "python-docs" else "python-docs"
    commands = [
        (["generate", str(folder), *first_words(session)], "write with it"),
        (["generate", str(folder), "--next", "10"], "what it expects next"),
        (["evaluate", str(folder), other], "score it on any text"),
    ]
    if more and session.state.step == steps:  # else it stopped early
        longer = ["train", "--recipe", str(folder / "recipe.toml"), "--steps", str(2 * steps)]
        commands.append((longer, "the same, twice as long"))
    rows = [(f"{program()} {shlex.join(words)}", what) for words, what in commands]
    width = max(len(command) for command, _ in rows)
    lines = [f"  {command:<{width}}   {what}" for command, what in rows]
    head = f"The model is in {folder}/best; {card} tells all about the run. Next:"
    return ["", head, *lines]


def first_words(session: Session) -> list[str]:
    """A prompt that the model has a chance with: how a line of the validation text begins."""
    prepared = session.prepared
    lines = prepared.tokenizer.decode(prepared.valid.tokens[:300].tolist()).splitlines()
    whole = lines[1:] or lines  # the cut may have gone through the first one
    good = [line for line in whole if line.isprintable() and any(each.isalpha() for each in line)]
    return [" ".join(good[0].split()[:3])] if good else []
