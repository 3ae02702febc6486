"""Which pairs of texts to learn from and how to read them: the `corpus` section of a recipe that translates."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from qkv.config import CountOrZero, strict

Directions = Literal["forward", "both"]
Vocabulary = Literal["joint", "separate"]


@strict
class ParallelConfig:
    """Which files, which languages, split how. What is not said is guessed and said aloud."""

    files: tuple[str, ...]
    """Source and target file, one after the other, several such pairs for several languages; or tables of two columns,
    a folder, or a name of the catalog."""
    valid: tuple[str, ...] = ()
    """What to validate on; when nothing is said, what stands beside the training files, else a part is held out."""
    test: tuple[str, ...] = ()
    """What the model is judged by in the end; may be left out."""
    languages: tuple[str, ...] = ()
    """Source and target language of each pair of files, one after the other, as in ("en", "de", "en", "cs"); the
    endings of the files say them when nothing is said. Of a folder or named set they choose the files."""
    source: str | None = None
    """The column that is translated from: its name, or its number counted from 1."""
    target: str | None = None
    """The column that is translated to."""
    header: bool | None = None
    """Whether the first row names the columns."""
    directions: Directions = "forward"
    """both: each pair is learned from target to source as well."""
    vocabulary: Vocabulary = "joint"
    """separate: byte pairs are learned for each language by itself, half as many for each; one direction only."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    """How much is held out for validation; when nothing is said, a twentieth, but hardly more than 2,000 pairs."""
    seed: CountOrZero = 0
    """Another seed holds out other pairs."""
    encoding: str = "utf-8"
    longest: CountOrZero = 0
    """How many tokens a text may have to be learned from; 0: as many as nearly all texts have."""
    fingerprint: str = ""
    """Of the pairs, once they have been read."""
