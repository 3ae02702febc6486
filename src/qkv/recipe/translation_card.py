"""card.md of a translator: data, its scores with their signatures, curve, machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from qkv.evaluation.outputs import Score
from qkv.recipe import page
from qkv.recipe.starting import Session
from qkv.training.operations import training_flops

LOW = 0.1  # of the best score: a translation below it is hardly one
COUNTED = "three times those of a forward pass, counted on batches of the run"


def flops_of(session: Session) -> float:
    """What the training computed, as deck 002's table has it beside BLEU."""
    return training_flops(session.state.model, session.task, session.recipe.training.batch, session.state.samples)


def write(session: Session, found: Mapping[str, Score], flops: float) -> Path:
    recipe, prepared = session.recipe, session.prepared
    data, pieces = prepared.parallel, prepared.tokenizer
    rows: dict[str, str] = {}
    for side, score in found.items():
        for figure in score.figures():
            between = f" (95 % interval {figure.interval})" if figure.interval else ""
            rows[f"{side} {figure.name}"] = figure.value + between
        whole = session.lesson.final_outputs[side].whole if side in session.lesson.final_outputs else None
        rows[f"{side} sources"] = f"{score.count:,}" + ("" if whole is None else f" of {whole:,}, evenly spread")
    first = next(iter(found.values()))
    if first.signatures:
        rows["signatures"] = ", ".join(f"`{each}`" for each in first.signatures)
    rows |= {
        "FLOPs of the training": f"{flops:.2e}; {COUNTED}",
        "directions": ", ".join(f"{one} to {other}" for one, other in data.train.directions),
        "text": ", ".join(recipe.corpus.files),
        "pairs": f"{len(data.train):,} to learn from, {page.epochs(session):.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{pieces.kind}, {pieces.vocabulary:,} pieces, `{pieces.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` of {session.parameters:,} parameters that translates"
    return page.write(session, sentence, rows, page.remarked(remarks(session, found)))


def remarks(session: Session, found: Mapping[str, Score]) -> list[str]:
    """What came out of it, in a few lines."""
    score = found["valid"]
    lines = []
    if score.worth < LOW:
        lines.append("hardly anything is translated yet: give it more time, or more pairs")
    else:
        lines.append("it translates; --beams and the text decide the rest")
    seen = page.epochs(session)
    lines.append(f"the pairs were seen {seen:.1f} times" + ("; try: more time" if seen < 10 else ""))
    return lines
