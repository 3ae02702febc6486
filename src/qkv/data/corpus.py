"""Which data to learn from and how to read it: the `corpus` section of a recipe, for text, labelled examples, pairs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from qkv.config import CountOrZero, strict
from qkv.data.files.archives import is_archive
from qkv.errors import ConfigError
from qkv.ranges import ExampleTask

Documents = Literal["files", "lines", "paragraphs"]


@strict
class ReaderRecord:
    """The user's own reader that produced the rows in `files`, `valid` and `test`, and the paths that it read."""

    file: str
    sha256: str
    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


@strict
class CorpusConfig:
    """Which text to read, how to read it, and how to split it."""

    files: tuple[str, ...]
    """Files, folders, names of the catalog, or "-" for standard input."""
    valid: tuple[str, ...] = ()
    """Validation text; by default a part of `files` is held out."""
    documents: Documents = "files"
    """What one document is in a text file: the whole file, a line, or a paragraph."""
    encoding: str | None = None
    """The encoding of all text files; by default the encoding of each file is detected."""
    text: str | None = None
    """The column or key that holds the text, in .jsonl, .json and .parquet; by default it is guessed, with a note."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "*.md"; by default all files of text."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """The share of the characters that is held out for validation."""
    near_copies: Literal["together", "apart"] = "together"
    """together: documents that share much of their text are in the same part of the split."""
    reader: ReaderRecord | None = None
    """Your own reader that produced the rows; set when they are read."""
    fingerprint: str | None = None
    """sha256 of the content and of how it is read; set when the text is read."""


@strict
class ExamplesConfig:
    """Which files, columns and task, and how to split the examples. What is not given is guessed, with a note."""

    files: tuple[str, ...]
    """Files, folders or a name of the catalog. Files may be named for their splits: train, dev, test."""
    valid: tuple[str, ...] = ()
    """Validation examples; by default a part of `files` is held out."""
    test: tuple[str, ...] = ()
    """Test data for the final evaluation; may be left out."""
    text: str | None = None
    """The column that holds the text: its name, or its number counted from 1. none: a table of numbers."""
    text2: str | None = None
    """The column of the second text, for pairs of texts."""
    label: str | None = None
    """The column to learn; in CoNLL-U also upos, xpos, feats, deprel. NAME:1 learns the first level of labels such as
    LOC:city."""
    labels: tuple[str, ...] = ()
    """Other names for the labels of the files, as OLD=NEW."""
    id: str | None = None
    """The column that identifies the examples."""
    task: ExampleTask | None = None
    columns: tuple[str, ...] = ()
    """The columns of a table of numbers to learn from, as NAME or NAME=WORD; by default all."""
    header: bool | None = None
    """Whether the first row names the columns."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """The share of the examples that is held out for validation, the same for each class."""
    seed: CountOrZero = 0
    """Another seed holds out other examples."""
    report: Literal["valid", "test"] | None = None
    """The split that is only reported; models are selected on other examples, held out of the training set."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "*.csv"."""
    encoding: str | None = None
    max_tokens: CountOrZero = 0
    """How many tokens of a text are read; longer texts are truncated. 0: enough for nearly all texts."""
    max_train: CountOrZero = 0
    """How many training examples are used, evenly spread. 0: all, or as many as the time budget allows."""
    reader: ReaderRecord | None = None
    """Your own reader that produced the rows; set when they are read."""
    fingerprint: str = ""
    """The hash of the examples; set when they are read."""


Directions = Literal["forward", "both"]
Vocabulary = Literal["joint", "separate"]


@strict
class ParallelConfig:
    """Which files and languages, and how to split the pairs. What is not given is guessed, with a note."""

    files: tuple[str, ...]
    """Source and target file, one after the other, with several such pairs for several languages; or tables of two
    columns, a folder, or a name of the catalog."""
    valid: tuple[str, ...] = ()
    """Validation pairs; by default files next to the training files, else a part is held out."""
    test: tuple[str, ...] = ()
    """Test data for the final evaluation; may be left out."""
    languages: tuple[str, ...] = ()
    """Source and target language of each pair of files, one after the other, such as ("en", "de", "en", "cs"); by
    default those in the names of the files. In a folder or named set they select the files."""
    source: str | None = None
    """The column to translate from: its name, or its number counted from 1."""
    target: str | None = None
    """The column to translate to."""
    header: bool | None = None
    """Whether the first row names the columns."""
    directions: Directions = "forward"
    """both: each pair is learned from target to source as well."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "train.*"."""
    vocabulary: Vocabulary = "joint"
    """separate: each language has its own BPE vocabulary of half the size; for one direction only."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    """The share that is held out for validation; by default a twentieth, but about 2,000 pairs at most."""
    seed: CountOrZero = 0
    """Another seed holds out other pairs."""
    encoding: str | None = None
    max_tokens: CountOrZero = 0
    """How many tokens a text may have; longer pairs are not used. 0: enough for nearly all texts."""
    max_train: CountOrZero = 0
    """How many training pairs are used, evenly spread. 0: all, or as many as the time budget allows."""
    reader: ReaderRecord | None = None
    """Your own reader that produced the rows; set when they are read."""
    fingerprint: str = ""
    """The hash of the pairs; set when they are read."""


def refuse_unused(config: CorpusConfig | ExamplesConfig | ParallelConfig, names: Iterable[str], reason: str) -> None:
    """Refuse keys that were set but have no effect on these files: no option is ever ignored."""
    for name in names:
        value = getattr(config, name)
        if value != type(config).__dataclass_fields__[name].default:
            raise ConfigError(f"--{name} {value}: does not apply, because {reason}. Leave it out.")


def refuse_idle_filter(config: CorpusConfig | ExamplesConfig | ParallelConfig) -> None:
    """Refuse a filter if neither a folder nor an archive is read."""
    if not any(Path(name).is_dir() or is_archive(Path(name)) for name in config.files):
        refuse_unused(config, ("filter",), f"{config.files[0]} is neither a folder nor an archive")
