"""card.md: what a run was, on one page: data, numbers, curve, machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qkv.evaluation.language import Score
from qkv.models.language_model import count
from qkv.recipe.assembly import Session
from qkv.storage import write_file
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

The same recipe on the same kind of machine, with the same torch, gives the same bits. Elsewhere it gives the same model
within rounding.

```
{curve}
```

{notes}
"""


def write(session: Session, score: Score) -> Path:
    recipe, prepared, folder = session.recipe, session.prepared, session.run.folder
    training = recipe.training
    lines = journal.read(folder / "metrics.jsonl")
    timings = journal.read(folder / "timings.jsonl")
    steps = [line for line in lines if "loss" in line]
    checks = [line for line in lines if "validation_loss" in line]
    best = min(checks, key=lambda line: line["validation_loss"])
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
        seconds=elapsed(timings),
        machine=devices.describe(training.device),
        device=training.device,
        dtype=training.dtype,
        threads=training.threads,
        compile=training.compile,
        curve=curve(lines),
        notes="\n".join(f"- {note}" for note in prepared.notes),
    )
    path = folder / "card.md"
    write_file(path, text.rstrip() + "\n")
    return path


def elapsed(timings: Sequence[dict[str, Any]]) -> float:
    """Seconds over all sittings: the clock starts anew on every resume."""
    total, last = 0.0, 0.0
    for line in timings:
        if line["seconds"] < last:
            total += last
        last = line["seconds"]
    return total + last


def curve(lines: Sequence[dict[str, Any]], width: int = 76, height: int = 16) -> str:
    """The losses of a journal as a picture of characters, without colour."""
    import plotext

    steps = [(line["step"], line["loss"]) for line in lines if line.get("loss") is not None]
    checks = [(line["step"], line["validation_loss"]) for line in lines if line.get("validation_loss") is not None]
    figure = plotext.figure
    figure.clear()
    figure.theme("colorless")
    figure.plot_size(width, height)
    for points, marker in ((smooth(steps), "braille"), (checks, "x")):
        if points:
            signal = figure.signal(*(list(axis) for axis in zip(*points, strict=True)), marker=marker)
            figure.draw(signal.lines(marker == "braille"))
    if last := max((step for step, _ in [*steps, *checks]), default=0):
        figure.ruler("x").ticks(sorted({round(last * part / 5) for part in range(6)} - {0} | {1}))
    figure.label("step (line: loss on training windows, smoothed; x: validation)", "x")
    return str(plotext.uncolorize(str(figure.build()))).rstrip()


def smooth(points: Sequence[tuple[int, float]], share: float = 0.9) -> list[tuple[int, float]]:
    """A running mean that starts unbiased."""
    found, mean, weight = [], 0.0, 0.0
    for step, value in points:
        mean, weight = share * mean + (1 - share) * value, share * weight + (1 - share)
        found.append((step, mean / weight))
    return found
