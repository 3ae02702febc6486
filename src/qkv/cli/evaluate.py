"""`qkv evaluate`: loss, perplexity and bits per byte of a model on any text."""

from __future__ import annotations

from typing import Any, Literal

from qkv.cli.output import Json, document, notes, table


def evaluate(
    model: str,
    *data: str,
    window: int | None = None,
    documents: Literal["files", "lines", "paragraphs"] | None = None,
    text: str | None = None,
    filter: str | None = None,
    encoding: str | None = None,
    json: Json = False,
) -> None:
    """Score a model on text. Every token counts once.

    The interval says how much the loss would move on other text of the same kind (95 %, from window to window).

    Parameters
    ----------
    model
        A run folder or a model folder.
    data
        Files, folders, a named data set, or - for standard input.
    window
        Score independent windows of this many tokens, as nanoGPT's validation does. Otherwise windows overlap by half.
    documents
        What one document is: a file (the default), a line or a paragraph.
    text
        The column that holds the text in .jsonl and .parquet files.
    filter
        Which files of a folder to read, as '*.md'.
    encoding
        The encoding of the files, as cp1252. utf-8 when nothing is said.
    """
    import qkv
    from qkv.config import parse
    from qkv.data.corpus import CorpusConfig
    from qkv.errors import InputError

    if not data:
        raise InputError(f"no text to score on. Give a file, as in: qkv evaluate {model} book.txt")
    options = {"documents": documents, "text": text, "filter": filter, "encoding": encoding}
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    corpus = parse(CorpusConfig, {"files": list(data), **given}, "the options")
    opened = qkv.load(model)
    score = opened.evaluate(corpus=corpus, window=window)
    notes(opened.notes)
    if json:
        return document({"model": model, "data": list(data), "window": window, **score.values(), "notes": opened.notes})
    rows = [
        ("loss (nats a token)", f"{score.loss:.4f}", f"{score.low:.4f} to {score.high:.4f}"),
        ("perplexity", f"{score.perplexity:.3f}", ""),
        ("bits per byte", f"{score.bits_per_byte:.4f}", ""),
        ("bits per character", f"{score.bits_per_character:.4f}", ""),
        ("tokens scored", f"{score.tokens:,}", ""),
    ]
    return table("", ("score", "value", "95 % interval"), rows)
