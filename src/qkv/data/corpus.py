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
    """Which reader of the user's own made the rows that `files`, `valid` and `test` now name, and from which paths."""

    file: str
    sha256: str
    files: tuple[str, ...]
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


@strict
class CorpusConfig:
    """Which text, read how, split how."""

    files: tuple[str, ...]
    """Files, folders, names of the catalog, or "-" for standard input."""
    valid: tuple[str, ...] = ()
    """Text to validate on; by default a part of `files` is held out."""
    documents: Documents = "files"
    """What one document is in a text file: the whole file, a line, or a paragraph."""
    encoding: str | None = None
    """The encoding of all text files; by default the encoding of each file is detected."""
    text: str | None = None
    """The column or key that holds the text, in .jsonl, .json and .parquet; by default it is guessed, with a note."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "*.md"; by default all that look like text."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """How much is held out for validation, by characters."""
    near_copies: Literal["together", "apart"] = "together"
    """together: documents of which much stands in another one too are in one part of the split with it."""
    reader: ReaderRecord | None = None
    """The reader of your own that gave the rows; filled in when they are read."""
    fingerprint: str | None = None
    """sha256 of the content and of how it is read; filled in when the text is read."""


@strict
class ExamplesConfig:
    """Which files, which columns, which task, split how. What is not given is guessed, with a note."""

    files: tuple[str, ...]
    """Files, folders or a name of the catalog. Names of files may say their split: train, dev, test."""
    valid: tuple[str, ...] = ()
    """What to validate on; by default a part of `files` is held out."""
    test: tuple[str, ...] = ()
    """What the model is evaluated on in the end; may be left out."""
    text: str | None = None
    """The column that holds the text: its name, or its number counted from 1; none: a table of numbers."""
    text2: str | None = None
    """The column of the second text, where pairs of texts are classified."""
    label: str | None = None
    """The column to learn; in CoNLL-U also upos, xpos, feats, deprel. NAME:1 learns the first level of labels such as
    LOC:city."""
    labels: tuple[str, ...] = ()
    """Other names for the labels of the files, as OLD=NEW."""
    id: str | None = None
    """The column that names the example."""
    task: ExampleTask | None = None
    columns: tuple[str, ...] = ()
    """Of a table of numbers: the columns to learn from, as NAME or NAME=WORD; by default all."""
    header: bool | None = None
    """Whether the first row names the columns."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.1
    """How much is held out for validation, by examples, of each class alike."""
    seed: CountOrZero = 0
    """Another seed holds out other examples."""
    report: Literal["valid", "test"] | None = None
    """The split that is only reported; whatever is chosen is chosen on other examples, held out of training."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "*.csv"."""
    encoding: str | None = None
    max_tokens: CountOrZero = 0
    """How many tokens of a text are read; longer texts are cut. 0: as many as nearly all texts have."""
    max_train: CountOrZero = 0
    """How many training examples are learned from, evenly spread. 0: all, or as many as a time budget allows."""
    reader: ReaderRecord | None = None
    """The reader of your own that gave the rows; filled in when they are read."""
    fingerprint: str = ""
    """Of the examples, once they have been read."""


Directions = Literal["forward", "both"]
Vocabulary = Literal["joint", "separate"]


@strict
class ParallelConfig:
    """Which files, which languages, split how. What is not given is guessed, with a note."""

    files: tuple[str, ...]
    """Source and target file, one after the other, several such pairs for several languages; or tables of two columns,
    a folder, or a name of the catalog."""
    valid: tuple[str, ...] = ()
    """What to validate on; by default the files next to the training files, else a part is held out."""
    test: tuple[str, ...] = ()
    """What the model is evaluated on in the end; may be left out."""
    languages: tuple[str, ...] = ()
    """Source and target language of each pair of files, one after the other, such as ("en", "de", "en", "cs"); by
    default the endings of the files tell them. In a folder or named set they choose the files."""
    source: str | None = None
    """The column that is translated from: its name, or its number counted from 1."""
    target: str | None = None
    """The column that is translated to."""
    header: bool | None = None
    """Whether the first row names the columns."""
    directions: Directions = "forward"
    """both: each pair is learned from target to source as well."""
    filter: str | None = None
    """Which files of a folder or archive to read, such as "train.*"."""
    vocabulary: Vocabulary = "joint"
    """separate: each language has its own BPE vocabulary, half as large; for one direction only."""
    valid_fraction: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = None
    """How much is held out for validation; by default a twentieth, but hardly more than 2,000 pairs."""
    seed: CountOrZero = 0
    """Another seed holds out other pairs."""
    encoding: str | None = None
    max_tokens: CountOrZero = 0
    """How many tokens a text may have; longer pairs are not learned from. 0: as many as nearly all texts have."""
    max_train: CountOrZero = 0
    """How many training pairs are learned from, evenly spread. 0: all, or as many as a time budget allows."""
    reader: ReaderRecord | None = None
    """The reader of your own that gave the rows; filled in when they are read."""
    fingerprint: str = ""
    """Of the pairs, once they have been read."""


def refuse_unused(config: CorpusConfig | ExamplesConfig | ParallelConfig, names: Iterable[str], reason: str) -> None:
    """Refuse keys that were set and that the files have no use for: nothing that somebody asks for is ignored."""
    for name in names:
        value = getattr(config, name)
        if value != type(config).__dataclass_fields__[name].default:
            raise ConfigError(f"--{name} {value}: does not apply, because {reason}. Leave it out.")


def refuse_idle_filter(config: CorpusConfig | ExamplesConfig | ParallelConfig) -> None:
    """Refuse a filter where no folder and no archive is read."""
    if not any(Path(name).is_dir() or is_archive(Path(name)) for name in config.files):
        refuse_unused(config, ("filter",), f"{config.files[0]} is neither a folder nor an archive")
