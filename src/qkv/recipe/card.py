"""card.md: what a run was, on one page: data, numbers, curve, machine."""

from __future__ import annotations

from pathlib import Path

from qkv.evaluation.language import Score
from qkv.models.language_model import count
from qkv.recipe.assembly import Session
from qkv.recipe.curve import Curve
from qkv.recipe.doctor import Report
from qkv.storage import advised, write_file
from qkv.training import devices, journal
from qkv.version import __version__

CARD = """\
# {name}

A `{kind}` language model of {parameters:,} parameters, trained with qkv {version}.

| | |
| --- | --- |
| validation loss | {loss:.4f} (95 % interval {interval}), independent windows of {context} tokens |
| perplexity | {perplexity:.3f} |
| bits per byte | {bits:.4f} |
| best model | after step {best} of {steps} |
| text | {files} |
| training tokens | {train:,} in {documents:,} document(s), {epochs:.2f} epochs |
| validation tokens | {valid:,}, {scored:,} scored |
| data fingerprint | `{fingerprint}` |
| tokenizer | {tokenizer}, {vocabulary:,} pieces, `{tokenizer_fingerprint}` |
| seconds | {seconds:.1f} |
| machine | {machine} |
| exactness | {device}, {dtype}, {threads} threads, compile {compile} |

{exactness}

```
{curve}
```

{doctor}{notes}
"""

DOCTOR = """\
## Doctor

{lines}

| by counting alone | nats per token | bits per byte |
| --- | --- | --- |
{rows}

{counted}

"""

EXACT = """\
The same recipe on the same kind of machine, with the same torch, gives the same bits. Elsewhere it gives the same model
within rounding."""
ROUNDED = "This device adds in no fixed order: the same recipe gives the same model within rounding."


def write(session: Session, score: Score, report: Report | None = None) -> Path:
    recipe, prepared, folder = session.recipe, session.prepared, session.run.folder
    training = recipe.training
    lines = journal.read(folder / "metrics.jsonl")
    steps = [line for line in lines if "loss" in line]
    checks = [line for line in lines if line.get("validation_loss") is not None]  # null: not a number
    best = min(checks, key=lambda line: line["validation_loss"])
    curve = Curve()
    for line in lines:
        curve.add(line)
    text = CARD.format(
        name=folder.name,
        kind=recipe.model.kind,
        parameters=count(session.state.model),
        version=__version__,
        loss=score.loss,
        scored=score.tokens,
        interval=score.interval(),
        context=recipe.model.context,
        perplexity=score.perplexity,
        bits=score.bits_per_byte,
        best=best["step"],
        steps=len(steps),
        files=", ".join(recipe.corpus.files),
        train=len(prepared.train.tokens),
        valid=len(prepared.valid.tokens),
        documents=prepared.train.documents,
        epochs=session.state.samples / session.task.samples,
        fingerprint=recipe.corpus.fingerprint,
        tokenizer=prepared.tokenizer.kind,
        vocabulary=prepared.tokenizer.vocabulary,
        tokenizer_fingerprint=prepared.tokenizer.fingerprint,
        seconds=journal.elapsed(folder / "timings.jsonl"),
        machine=devices.describe(training.device),
        device=training.device,
        dtype=training.dtype,
        threads=training.threads,
        compile=training.compile,
        exactness=EXACT if training.device == "cpu" else ROUNDED,
        curve=curve.draw(),
        doctor=examined(report) if report else "",
        notes="\n".join(f"- {note}" for note in prepared.notes),
    )
    path = folder / "card.md"
    with advised(journal.REMEDY):
        write_file(path, text.rstrip() + "\n")
    return path


def examined(report: Report) -> str:
    """What the doctor said, and all it compared with."""
    found = report.baselines
    values = found.values()
    nats, bits = values["nats_per_token"], values["bits_per_byte"]
    rows = [f"| {name} | {nats[name]:.4f} | {bits[name]:.4f} |" for name in nats]
    said = {"gzip": "gzip after training text", "gzip_alone": "gzip", "xz": "xz after training text", "xz_alone": "xz"}
    rows += [f"| {name} | | {bits[key]:.4f} |" for key, name in said.items() if bits[key] is not None]
    return DOCTOR.format(
        lines="\n".join(f"- {line}" for line in report.lines()),
        rows="\n".join(rows),
        counted=f"Counted: {found.counted:,} of {found.of:,} training tokens, in {found.seconds:.1f} s. n-grams have "
        "Kneser-Ney smoothing.",
    )
