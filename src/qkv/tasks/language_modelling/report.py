"""The plan and the report of a language modelling run: the forecast, the loss with an interval, the doctor's remarks,
the next commands.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from qkv.data.object_names import names_of
from qkv.data.prepare import Prepared
from qkv.doctor.examination import Doctor, DoctorReport
from qkv.evaluation.perplexity import Score
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe import resolve, time_budget
from qkv.recipe.memory import forecast as forecast_memory
from qkv.tasks.protocol import Session, expect
from qkv.tasks.report import (
    CardContent,
    NextCommand,
    ReportSection,
    RunReport,
    TableSection,
    baseline_markdown,
    baseline_sections,
    indented,
    lines,
    markdown_list,
)
from qkv.training import metrics_log
from qkv.visible import counted

DOCTOR = """\
## Doctor

{lines}

{table}| by counting alone | nats per token | bits per byte |
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
        f"tokens  {len(prepared.train.tokens):,} for training, {len(prepared.valid.tokens):,} for validation "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens)",
        f"model   {model.kind} {shape}, context {model.context}, {session.size}",
        f"steps   of {training.batch} x {model.context} tokens, {training.optimizer}, "
        f"{training.dtype} on {training.device} with {counted(training.threads, 'thread')}",
        f"plan    {forecast(session).line()}",
        f"baseline {doctor.baselines_line()}",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, prepared: Prepared, doctor: Doctor, score: Score, best_step: int) -> RunReport:
    context = session.recipe.model.context
    doctor_report = doctor.report(score)
    predicted = len(prepared.valid.tokens) - 1
    amount = f"all {predicted:,}" if score.tokens == predicted else f"{score.tokens:,} of {predicted:,}"
    nats = score.bits_per_character * math.log(2)
    bits = f"{score.bits_per_byte:.3f} bits per byte ({nats:.3f} nats a character)"
    sections: tuple[ReportSection, ...] = (
        lines(
            "",
            f"validation loss {score.loss:.4f}, perplexity {score.perplexity:.2f}, {bits}",
            f"(95 % interval of the loss {score.interval()}; {amount} tokens, in windows of {context})",
            "",
        ),
        indented("doctor", doctor_report.lines()),
        *baseline_sections(doctor_report.table),
    )
    values = {
        **session.values,
        "best_step": best_step,
        "window": context,
        "validation": score.values(),
        "doctor": doctor_report.values(),
    }
    commands = next_commands(session, prepared, longer_helps=doctor_report.diagnosis.more_may_help)
    card = card_content(session, prepared, score, doctor_report)
    return RunReport(sections, commands, card, values, samples_wanted=True)


def score_table(score: Score) -> TableSection:
    rows = (
        ("loss (nats a token)", f"{score.loss:.4f}", score.interval()),
        ("perplexity", f"{score.perplexity:.4f}", score.interval("perplexity")),
        ("bits per byte", f"{score.bits_per_byte:.4f}", score.interval("bits_per_byte")),
        ("bits per character", f"{score.bits_per_character:.4f}", score.interval("bits_per_character")),
        ("tokens scored", f"{score.tokens:,}", ""),
    )
    return TableSection("", ("score", "value", "95 % interval"), rows)


def next_commands(session: Session, prepared: Prepared, longer_helps: bool) -> tuple[NextCommand, ...]:
    folder, steps = session.run.folder, session.recipe.training.length
    other_text = "python-stdlib" if session.recipe.corpus.files[0] == "python-docs" else "python-docs"
    commands = [
        NextCommand(("generate", str(folder), *example_prompt(prepared)), "write with it"),
        NextCommand(("generate", str(folder), "--next", "10"), "what it expects next"),
        NextCommand(("evaluate", str(folder), other_text), "score it on any text"),
    ]
    if longer_helps and session.state.step == steps:  # a run that stopped early would do so again
        longer = ("train", "--recipe", str(folder / "recipe.toml"), "--steps", str(2 * steps))
        commands.append(NextCommand(longer, "the same, twice as long"))
    return tuple(commands)


def example_prompt(prepared: Prepared) -> list[str]:
    """The first words of a line of the validation text, a prompt like the training text; empty without such a line."""
    lines = prepared.tokenizer.decode(prepared.valid.tokens[:300].tolist()).splitlines()
    complete = lines[1:] or lines  # the split may have cut the first line
    usable = [line for line in complete if line.isprintable() and any(map(str.isalpha, line))]
    return [" ".join(usable[0].split()[:3])] if usable else []


def card_content(
    session: Session, prepared: Prepared, score: Score, doctor_report: DoctorReport | None = None
) -> CardContent:
    recipe, folder = session.recipe, session.run.folder
    log = metrics_log.read(folder / "metrics.jsonl")
    steps = [line for line in log if "loss" in line]
    evaluations = [line for line in log if line.get("validation_loss") is not None]  # null stands for not-a-number
    best = min(evaluations, key=lambda line: line["validation_loss"], default=None)
    tokens, documents, tokenizer = len(prepared.train.tokens), prepared.train.documents, prepared.tokenizer
    windows = f"independent windows of {recipe.model.context} tokens"
    rows = {
        "validation loss": f"{score.loss:.4f} (95 % interval {score.interval()}), {windows}",
        "perplexity": f"{score.perplexity:.3f}",
        "bits per byte": f"{score.bits_per_byte:.4f}",
        "best model": f"after step {best['step']} of {len(steps)}" if best else "of an unknown step",
        "text": names_of(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {session.epochs:.2f} epochs",
        "validation tokens": f"{len(prepared.valid.tokens):,}, {score.tokens:,} scored",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{tokenizer.kind}, {tokenizer.vocabulary:,} tokens, `{tokenizer.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` language model of {session.parameters:,} parameters"
    return CardContent(sentence, rows, doctor_section_with_baselines(doctor_report) if doctor_report else "")


def doctor_section_with_baselines(doctor_report: DoctorReport) -> str:
    """The doctor's remarks and a table of all baselines, in Markdown."""
    baselines = doctor_report.baselines
    values = baselines.values()
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
        lines=markdown_list(doctor_report.lines()),
        table=baseline_markdown(doctor_report.table),
        rows="\n".join(rows),
        counted=f"Counted: {baselines.counted:,} of {baselines.training_tokens:,} training tokens, "
        f"in {baselines.seconds:.1f} s. n-grams have Kneser-Ney smoothing.",
    )


@dataclass(frozen=True)
class Forecast:
    steps: int
    epochs: float
    bytes: int  # peak memory, beyond that of the program before the run
    seconds: float | None = None  # until the report is written; None for a run without a time budget

    def line(self) -> str:
        """A line such as: 610 steps, 2.1 epochs, about 4.6 min, about 0.4 GiB."""
        parts = [counted(self.steps, "step"), f"{self.epochs:.1f} epochs"]
        if self.seconds is not None:
            parts.append(f"about {self.seconds / 60:.1f} min" if self.seconds >= 60 else f"about {self.seconds:.0f} s")
        return ", ".join([*parts, f"about {max(0.1, self.bytes / 2**30):.1f} GiB"])


def forecast(session: Session) -> Forecast:
    training, clock = session.recipe.training, session.run.clock
    return Forecast(
        steps=training.length,
        epochs=training.length * training.batch / session.objective.samples,
        bytes=forecast_memory(session.recipe).total,
        seconds=max(0.0, clock.ends_at - time.perf_counter()) if clock else None,
    )


def seconds_left(session: Session, done: int, step_seconds: float) -> float:
    """The seconds from step `done` to the end of the run: for steps, all evaluations, and the report."""
    recipe = session.recipe
    training, task = recipe.training, expect(recipe.task, LanguageModellingConfig)
    steps = training.length - done
    valid = len(expect(session.task.prepared, Prepared).valid.tokens)
    evaluated = -(-steps // training.evaluate_every) * min(valid, task.evaluation_tokens or valid)
    evaluated += min(valid, resolve.final_tokens(recipe))
    token_seconds = resolve.FORWARD_SHARE * step_seconds / (training.batch * recipe.model.context)
    return steps * step_seconds + evaluated * token_seconds + time_budget.REPORT_SECONDS
