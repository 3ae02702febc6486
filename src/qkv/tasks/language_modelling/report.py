"""The plan and the report of a language model: what its run will take, its loss with an interval, what the doctor says,
what to do next.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from qkv.data.prepare import Prepared
from qkv.doctor.examination import Doctor, Report
from qkv.evaluation.perplexity import Score
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe import resolve, time_budget
from qkv.recipe.memory import needs
from qkv.tasks.protocol import Session, expect
from qkv.tasks.report import CardContent, NextCommand, RunReport, Section, TableSection, indented, lines, listed
from qkv.training import metrics_log
from qkv.visible import counted

DOCTOR = """\
## Doctor

{lines}

| by counting alone | nats per token | bits per byte |
| --- | --- | --- |
{rows}

{counted}

"""


def plan(session: Session, prepared: Prepared, doctor: Doctor) -> list[str]:
    model, training = session.recipe.model, session.recipe.training
    shape = "/".join(str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name))
    size = prepared.train.bytes + prepared.valid.bytes
    return [
        f"text    {size:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} to learn from, {len(prepared.valid.tokens):,} to check on "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens)",
        f"model   {model.kind} {shape}, context {model.context}, {session.size}",
        f"steps   of {training.batch} x {model.context} tokens, {training.optimizer}, "
        f"{training.dtype} on {training.device} with {counted(training.threads, 'thread')}",
        f"plan    {forecast(session).line()}",
        f"baseline {doctor.before()}",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, prepared: Prepared, doctor: Doctor, score: Score, best_step: int) -> RunReport:
    context = session.recipe.model.context
    examined = doctor.report(score)
    held = len(prepared.valid.tokens) - 1
    amount = f"all {held:,}" if score.tokens == held else f"{score.tokens:,} of {held:,}"
    nats = score.bits_per_character * math.log(2)
    bits = f"{score.bits_per_byte:.3f} bits per byte ({nats:.3f} nats a character)"
    sections: tuple[Section, ...] = (
        lines(
            "",
            f"validation loss {score.loss:.4f}, perplexity {score.perplexity:.2f}, {bits}",
            f"(95 % interval of the loss {score.interval()}; {amount} tokens, in windows of {context})",
            "",
        ),
        indented("doctor", examined.lines()),
    )
    values = {
        **session.values,
        "best_step": best_step,
        "window": context,
        "validation": score.values(),
        "doctor": examined.values(),
    }
    commands = next_commands(session, prepared, more=examined.diagnosis.more_helps)
    return RunReport(sections, commands, card_content(session, prepared, score, examined), values, writes=True)


def score_table(score: Score) -> TableSection:
    rows = (
        ("loss (nats a token)", f"{score.loss:.4f}", score.interval()),
        ("perplexity", f"{score.perplexity:.4f}", score.interval("perplexity")),
        ("bits per byte", f"{score.bits_per_byte:.4f}", score.interval("bits_per_byte")),
        ("bits per character", f"{score.bits_per_character:.4f}", score.interval("bits_per_character")),
        ("tokens scored", f"{score.tokens:,}", ""),
    )
    return TableSection("", ("score", "value", "95 % interval"), rows)


def next_commands(session: Session, prepared: Prepared, more: bool) -> tuple[NextCommand, ...]:
    """`more`: a longer run is worth while."""
    folder, steps = session.run.folder, session.recipe.training.length
    other = "python-stdlib" if session.recipe.corpus.files[0] == "python-docs" else "python-docs"
    commands = [
        NextCommand(("generate", str(folder), *first_words(prepared)), "write with it"),
        NextCommand(("generate", str(folder), "--next", "10"), "what it expects next"),
        NextCommand(("evaluate", str(folder), other), "score it on any text"),
    ]
    if more and session.state.step == steps:  # else it stopped early
        longer = ("train", "--recipe", str(folder / "recipe.toml"), "--steps", str(2 * steps))
        commands.append(NextCommand(longer, "the same, twice as long"))
    return tuple(commands)


def first_words(prepared: Prepared) -> list[str]:
    """A prompt that the model has a chance with: how a line of the validation text begins."""
    texts = prepared.tokenizer.decode(prepared.valid.tokens[:300].tolist()).splitlines()
    whole = texts[1:] or texts  # the cut may have gone through the first one
    good = [line for line in whole if line.isprintable() and any(each.isalpha() for each in line)]
    return [" ".join(good[0].split()[:3])] if good else []


def card_content(session: Session, prepared: Prepared, score: Score, examined: Report | None = None) -> CardContent:
    recipe, folder = session.recipe, session.run.folder
    logged = metrics_log.read(folder / "metrics.jsonl")
    steps = [line for line in logged if "loss" in line]
    checks = [line for line in logged if line.get("validation_loss") is not None]  # null: not a number
    best = min(checks, key=lambda line: line["validation_loss"], default=None)
    tokens, documents, tokenizer = len(prepared.train.tokens), prepared.train.documents, prepared.tokenizer
    windows = f"independent windows of {recipe.model.context} tokens"
    rows = {
        "validation loss": f"{score.loss:.4f} (95 % interval {score.interval()}), {windows}",
        "perplexity": f"{score.perplexity:.3f}",
        "bits per byte": f"{score.bits_per_byte:.4f}",
        "best model": f"after step {best['step']} of {len(steps)}" if best else "of an unknown step",
        "text": ", ".join(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {session.epochs:.2f} epochs",
        "validation tokens": f"{len(prepared.valid.tokens):,}, {score.tokens:,} scored",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{tokenizer.kind}, {tokenizer.vocabulary:,} tokens, `{tokenizer.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` language model of {session.parameters:,} parameters"
    return CardContent(sentence, rows, doctor_section(examined) if examined else "")


def doctor_section(examined: Report) -> str:
    """The doctor's remarks, and all baselines."""
    found = examined.baselines
    values = found.values()
    nats, bits = values["nats_per_token"], values["bits_per_byte"]
    rows = [f"| {name} | {nats[name]:.4f} | {bits[name]:.4f} |" for name in nats]
    compressors = {
        "gzip": "gzip after training text",
        "gzip_alone": "gzip",
        "xz": "xz after training text",
        "xz_alone": "xz",
    }
    rows += [f"| {name} | | {bits[key]:.4f} |" for key, name in compressors.items() if bits[key] is not None]
    return DOCTOR.format(
        lines=listed(examined.lines()),
        rows="\n".join(rows),
        counted=f"Counted: {found.counted:,} of {found.of:,} training tokens, in {found.seconds:.1f} s. n-grams have "
        "Kneser-Ney smoothing.",
    )


@dataclass(frozen=True)
class Forecast:
    steps: int
    epochs: float
    bytes: int  # at the peak, beyond what the program takes before it starts
    seconds: float | None = None  # until all is over; None where nobody measured

    def line(self) -> str:
        """As in: 610 steps, 2.1 epochs, about 4.6 min, about 0.4 GiB."""
        parts = [f"{self.steps:,} step{'' if self.steps == 1 else 's'}", f"{self.epochs:.1f} epochs"]
        if self.seconds is not None:
            parts.append(f"about {self.seconds / 60:.1f} min" if self.seconds >= 60 else f"about {self.seconds:.0f} s")
        return ", ".join([*parts, f"about {max(0.1, self.bytes / 2**30):.1f} GiB"])


def forecast(session: Session) -> Forecast:
    """Time is known where a clock leads the run."""
    training, clock = session.recipe.training, session.run.clock
    return Forecast(
        steps=training.length,
        epochs=training.length * training.batch / session.objective.samples,
        bytes=needs(session.recipe).total,
        seconds=max(0.0, clock.ends_at - time.perf_counter()) if clock else None,
    )


def ahead(session: Session, done: int, a_step: float) -> float:
    """Seconds until all is over, after `done` steps that took `a_step` each: steps, evaluations, the final one."""
    recipe = session.recipe
    training, task = recipe.training, expect(recipe.task, LanguageModellingConfig)
    left = training.length - done
    held = len(expect(session.task.prepared, Prepared).valid.tokens)
    during = -(-left // training.evaluate_every) * min(held, task.evaluation_tokens or held)
    a_token = resolve.FORWARD * a_step / (training.batch * recipe.model.context)
    return left * a_step + (during + min(held, resolve.last_tokens(recipe))) * a_token + time_budget.SAMPLES
