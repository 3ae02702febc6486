"""card.md: what a run was, on one page: data, numbers, curve, machine."""

from __future__ import annotations

from pathlib import Path

from qkv.evaluation.language import Score
from qkv.recipe import page
from qkv.recipe.assembly import Session
from qkv.recipe.doctor import Report
from qkv.training import journal

DOCTOR = """\
## Doctor

{lines}

| by counting alone | nats per token | bits per byte |
| --- | --- | --- |
{rows}

{counted}

"""


def write(session: Session, score: Score, report: Report | None = None) -> Path:
    recipe, prepared, folder = session.recipe, session.prepared, session.run.folder
    lines = journal.read(folder / "metrics.jsonl")
    steps = [line for line in lines if "loss" in line]
    checks = [line for line in lines if line.get("validation_loss") is not None]  # null: not a number
    best = min(checks, key=lambda line: line["validation_loss"], default=None)
    tokens, documents, pieces = len(prepared.train.tokens), prepared.train.documents, prepared.tokenizer
    windows = f"independent windows of {recipe.model.context} tokens"
    rows = {
        "validation loss": f"{score.loss:.4f} (95 % interval {score.interval()}), {windows}",
        "perplexity": f"{score.perplexity:.3f}",
        "bits per byte": f"{score.bits_per_byte:.4f}",
        "best model": f"after step {best['step']} of {len(steps)}" if best else "of an unknown step",
        "text": ", ".join(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {page.epochs(session):.2f} epochs",
        "validation tokens": f"{len(prepared.valid.tokens):,}, {score.tokens:,} scored",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{pieces.kind}, {pieces.vocabulary:,} pieces, `{pieces.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` language model of {session.parameters:,} parameters"
    return page.write(session, sentence, rows, examined(report) if report else "")


def examined(report: Report) -> str:
    """What the doctor said, and all it compared with."""
    found = report.baselines
    values = found.values()
    nats, bits = values["nats_per_token"], values["bits_per_byte"]
    rows = [f"| {name} | {nats[name]:.4f} | {bits[name]:.4f} |" for name in nats]
    said = {"gzip": "gzip after training text", "gzip_alone": "gzip", "xz": "xz after training text", "xz_alone": "xz"}
    rows += [f"| {name} | | {bits[key]:.4f} |" for key, name in said.items() if bits[key] is not None]
    return DOCTOR.format(
        lines=page.listed(report.lines()),
        rows="\n".join(rows),
        counted=f"Counted: {found.counted:,} of {found.of:,} training tokens, in {found.seconds:.1f} s. n-grams have "
        "Kneser-Ney smoothing.",
    )
