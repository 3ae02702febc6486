"""Which text to learn from and how to read it: the `corpus` section of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from qkv.config import strict

Documents = Literal["files", "lines", "paragraphs"]


@strict
class CorpusConfig:
    """Which text, read how, split how."""

    files: tuple[str, ...]
    """Files, folders, names of the catalog, or "-" for standard input."""
    valid: tuple[str, ...] = ()
    """Text to validate on; when nothing is said, a part of `files` is held out."""
    documents: Documents = "files"
    """What one document is in a text file: the whole file, a line, or a paragraph."""
    encoding: str = "utf-8"
    """How the bytes of text files spell characters."""
    text: str | None = None
    """The column or key that holds the text, in .jsonl and .parquet; guessed, and said aloud, when not given."""
    filter: str | None = None
    """Which files of a folder or archive to read, as in "*.md"; all that look like text when not given."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """How much is held out for validation, by characters."""
    fingerprint: str | None = None
    """sha256 of the content and of how it is read; filled in when the text is read."""
