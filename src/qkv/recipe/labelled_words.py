"""Classifiers, taggers and models of tables in words: what they are, and what is reached without them."""

from __future__ import annotations

from typing import Any

import numpy as np

from qkv.data.labelled.examples import Examples
from qkv.evaluation.judging import NAMES, Judgement
from qkv.training import journal


def about(model: Any) -> str:
    """A model in a few words: what it is built around, and its sizes."""
    encoder = getattr(model, "encoder", model)
    shape = "/".join(str(getattr(encoder, name)) for name in ("layers", "heads", "width") if hasattr(encoder, name))
    kind = getattr(encoder, "cell", encoder.kind)
    pooled = f", {model.pooling} pooling" if hasattr(model, "pooling") else ""
    context = f", texts of {model.context} tokens" if model.vocabulary else ""
    if encoder is model:
        return f"{'linear' if kind == 'linear-table' else f'mlp {shape}'} on {len(model.columns):,} columns of numbers"
    if kind == "linear":  # it is the scores, and has no shape of its own
        return f"linear {model.kind} on words and their {encoder.ngrams}-grams{context}"
    head = {"two-layer": ", two-layer head", "no-bias": ", no bias"}.get(getattr(model, "head", "linear"), "")
    return f"{kind} {shape} {model.kind}{pooled}{head}{context}"


def untaught(train: Examples, valid: Examples) -> str:
    """What is reached without learning anything: one answer for all."""
    if not len(valid):
        return "nothing is held out"
    targets = train.targets
    if targets.dtype.kind == "f":
        spread = float(np.mean((valid.targets - targets.mean()) ** 2))
        return f"squared error {spread:.3f} by always saying the mean, {float(targets.mean()):.3f}"
    if targets.ndim == 2:
        return f"{float(targets.mean()):.1%} of all labels are given"
    often = int(np.bincount(targets).argmax())
    return f"{float((valid.targets == often).mean()):.1%} right by always saying {train.labels[often]!r}"


def remarks(session: Any, found: dict[str, Judgement]) -> list[str]:
    """The end of a run in a few lines: what it learned beside one answer for all, which step was kept, what to try."""
    lesson, recipe = session.lesson, session.recipe
    data, judged = lesson.prepared.labelled, found["valid"]
    checks = [line for line in journal.read(session.run.folder / "metrics.jsonl") if "validation_judged" in line]
    best = min(checks, key=lambda line: line["validation_judged"])
    low = judged.figure.low if judged.figure.low is not None else judged.value
    lines = [f"{NAMES[judged.name]} {judged.value:.4f}; without learning: {untaught(data.train, data.valid)}"]
    rising = checks[-1]["validation_loss"] > 1.1 * min(line["validation_loss"] for line in checks)
    last = checks[-1]["step"]
    if best["step"] == last:
        lines.append(f"the model is of the last step, {last:,}, the best of {len(checks)} looks")
    else:
        lines.append(f"the model is of step {best['step']:,} of {last:,}; later ones were no better")
    if judged.name == "accuracy" and data.task != "tagging":
        often = int(np.bincount(data.train.targets).argmax())
        if low <= float((data.valid.targets == often).mean()):
            lines.append("it may have learned nothing: one answer for all lies within its interval")
    if rising:
        lines.append("the validation loss rises while answers stay right: it grows too sure; more dropout may help")
    epochs = session.state.samples / session.task.samples
    if epochs < 0.7 * lesson.system.epochs and session.run.clock is not None:
        lines.append(f"try: more time; {epochs:.1f} epochs were seen")
    elif data.numeric:
        more = "--model mlp, which bends" if recipe.model.kind == "linear-table" else "--model linear beside it"
        lines.append(f"try: more rows; {more}")
    elif recipe.model.encoder.kind in ("linear", "bag"):
        lines.append("try: --model lstm or cnn, which see the order of words")
    else:
        lines.append("try: more examples; or `qkv finetune` from a model that was trained on more text")
    return lines
