"""Which examples to learn from and how to read them: the labelled counterpart of a recipe's `corpus` section."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from qkv.config import CountOrZero, strict

Task = Literal["classification", "regression", "multi-label", "tagging", "images"]
"""What is learned of an example: a class, a number, several classes, a class for each word, a picture's class."""


@strict
class ExamplesConfig:
    """Which files, which columns, which task, split how. What is not said is guessed and said aloud."""

    files: tuple[str, ...]
    """Files, folders or a name of the catalog. Several files may be named for their side: train, dev, test."""
    valid: tuple[str, ...] = ()
    """What to validate on; when nothing is said, a part of `files` is held out."""
    test: tuple[str, ...] = ()
    """What the model is judged by in the end; may be left out."""
    text: str | None = None
    """The column that holds the text: its name, or its number counted from 1; none: a table of numbers."""
    text2: str | None = None
    """The column of the second text, where pairs are judged."""
    label: str | None = None
    """The column to learn; in CoNLL-U also upos, xpos, feats, deprel."""
    id: str | None = None
    """The column that names the example."""
    task: Task | None = None
    columns: tuple[str, ...] = ()
    """Of a table of numbers: the columns to learn from, by name, or as NAME=WORD; nothing: all that there are."""
    header: bool | None = None
    """Whether the first row names the columns."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """How much is held out for validation, by examples, of each class alike."""
    seed: CountOrZero = 0
    """Another seed holds out other examples."""
    report: Literal["valid", "test"] | None = None
    """The side that is only reported: what is chosen is chosen on other examples, held out of the training side."""
    filter: str | None = None
    """Which files of a folder or archive to read, as in "*.csv"."""
    encoding: str = "utf-8"
    longest: CountOrZero = 0
    """How many tokens of a text are read; 0: as many as nearly all texts have."""
    fingerprint: str = ""
    """Of the examples, once they have been read."""
