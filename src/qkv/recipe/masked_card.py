"""card.md of a model that fills gaps: data, figures beside counting, curve, machine."""

from __future__ import annotations

from pathlib import Path

from qkv.evaluation.masked import MaskedScore
from qkv.recipe import page
from qkv.recipe.starting import Session


def write(session: Session, score: MaskedScore) -> Path:
    recipe, prepared = session.recipe, session.prepared
    tokens, documents = len(prepared.train.tokens), prepared.train.documents
    rows = {name.replace("_", " "): f"{value:.4f}" for name, value in score.values().items()} | {
        "text": ", ".join(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {page.epochs(session):.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} pieces",
    }
    sentence = f"A BERT of {session.parameters:,} parameters that fills gaps"
    return page.write(session, sentence, rows, page.remarked(remarks(session, score)))


def remarks(session: Session, score: MaskedScore) -> list[str]:
    """What was learned beside counting, in a few lines."""
    times = score.accuracy / max(score.baseline_accuracy, 1e-9)
    lines = [f"{times:.1f} times as many hidden pieces are told as by always saying the most frequent one"]
    if score.accuracy_low <= score.baseline_accuracy:
        lines = ["no more hidden pieces are told than by always saying the most frequent one: give it more time"]
    if score.pairs:
        known = score.followed_low > 0.5
        lines.append("it knows what follows" if known else "it does not know yet which passage follows which")
    epochs = page.epochs(session)
    if epochs < 10:
        lines.append(f"try: more time; the text was seen {epochs:.1f} times")
    return lines
