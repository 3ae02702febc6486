"""`qkv evaluate`: loss, perplexity and bits per byte of a model on any text."""

from __future__ import annotations

from qkv.cli.options import Column, Data, Documents, Encoding, Filter, corpus
from qkv.cli.output import Json, document, notes, table


def evaluate(
    model: str,
    *data: Data,
    window: int | None = None,
    documents: Documents = None,
    text: Column = None,
    filter: Filter = None,
    encoding: Encoding = None,
    json: Json = False,
) -> None:
    """Score a model on text. Every token counts once.

    The interval says how much the loss would move on other text of the same kind (95 %, from window to window).

    Parameters
    ----------
    model
        A run folder or a model folder.
    window
        Score independent windows of this many tokens, as nanoGPT's validation does. Otherwise windows overlap by half.
    """
    import qkv

    chosen = corpus(data, "evaluate", documents=documents, text=text, filter=filter, encoding=encoding)
    opened = qkv.load(model)
    score = opened.evaluate(corpus=chosen, window=window)
    notes(opened.notes)
    if json:
        return document({"model": model, "data": list(data), "window": window, **score.values(), "notes": opened.notes})
    rows = [
        ("loss (nats a token)", f"{score.loss:.4f}", score.interval()),
        ("perplexity", f"{score.perplexity:.4f}", score.interval("perplexity")),
        ("bits per byte", f"{score.bits_per_byte:.4f}", score.interval("bits_per_byte")),
        ("bits per character", f"{score.bits_per_character:.4f}", score.interval("bits_per_character")),
        ("tokens scored", f"{score.tokens:,}", ""),
    ]
    return table("", ("score", "value", "95 % interval"), rows)
