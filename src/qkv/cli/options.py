"""The options that verbs share: which data to read and how, the numbers and their ranges, the tokenizer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Unpack

from cyclopts import Group, Parameter

from qkv import ranges
from qkv.cli.output import OUTPUT, notes
from qkv.ranges import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyclopts import Argument

    from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
    from qkv.text.tokenizer import Tokenizer, TokenizerConfig

DATA, MODEL, TIME = (Group(name, sort_key=at) for at, name in enumerate(("Data", "Model", "Time")))


class Within:
    """The parser's check that a number is in its range: no file is opened for one that cannot be meant."""

    def __init__(self, allowed: Range) -> None:
        self.allowed = allowed

    def __call__(self, _: object, value: int | float | None) -> None:
        if value is not None and value not in self.allowed:
            raise ValueError(str(self.allowed))


class _More(TypedDict, total=False):
    help: str
    group: Group
    allow_leading_hyphen: bool


def within(allowed: Range, **more: Unpack[_More]) -> Parameter:
    return Parameter(validator=Within(allowed), **more)


Top = Annotated[int, within(ranges.COUNT)]
Seed = Annotated[int, within(ranges.SEED)]
Length = Annotated[int, within(ranges.LENGTH)]
Temperature = Annotated[float, within(ranges.TEMPERATURE)]
TopK = Annotated[int, within(ranges.TOP_K)]
TopP = Annotated[float, within(ranges.ABOVE_ZERO)]
Minutes = Annotated[float, within(ranges.MINUTES, group=TIME)]
MinutesOrNone = Annotated[float | None, within(ranges.MINUTES, group=TIME)]
StepsOrNone = Annotated[
    int | None, within(ranges.STEPS, group=TIME, help="The number of steps, instead of a time budget.")
]
TrainingSeed = Annotated[int, within(ranges.TRAINING_SEED, group=MODEL, help="The seed of all randomness.")]
SeedOrNone = Annotated[
    int | None, within(ranges.TRAINING_SEED, group=MODEL, help="The seed of all randomness. Default: 0.")
]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Many = Annotated[list[str] | None, Parameter(negative="")]
Several = Annotated[list[str] | None, Parameter(negative="", consume_multiple=1)]  # --valid val.en val.de

TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")
TokenizerName = Annotated[
    str | None,
    Parameter(
        group=MODEL,
        help=f"{', '.join(TOKENIZERS)}, a file or model folder. Default: auto.",
    ),
]
Data = Annotated[
    str,
    Parameter(group=DATA, help="Files, folders, a named data set, or - for standard input.", allow_leading_hyphen=True),
]
Encoding = Annotated[str | None, Parameter(help="The encoding of text files, as cp1252. Default: utf-8.")]
Column = Annotated[str | None, Parameter(help="The column of the text, in tables, .jsonl and .parquet.")]
Second = Annotated[str | None, Parameter(help="The column of the second text, for pairs of texts.")]
Label = Annotated[str | None, Parameter(help="The column of the label; of words also upos, xpos, feats, deprel.")]
Identity = Annotated[str | None, Parameter(help="The column that identifies the examples.")]
Task = Annotated[
    Literal["classification", "regression", "multi-label", "tagging", "images"] | None,
    Parameter(help="The task of labelled data, where the files leave it open."),
]
AnyTask = Annotated[
    Literal["classification", "regression", "multi-label", "tagging", "images", "translation"] | None,
    Parameter(help="The task, where the files leave it open."),
]
SourceColumn = Annotated[str | None, Parameter(help="The column to translate from: its name, or its number from 1.")]
TargetColumn = Annotated[str | None, Parameter(help="The column to translate to.")]
Languages = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        consume_multiple=1,
        help="Source and target language, as --languages en de. Default: by the file names.",
    ),
]
Metric = Annotated[
    Literal["bleu", "errors"] | None,
    Parameter(help="The score of translations: bleu, or errors (of symbols)."),
]
Filter = Annotated[str | None, Parameter(help="Which files of a folder or zip to read, as '*.md'.")]
Documents = Annotated[
    Literal["files", "lines", "paragraphs"] | None, Parameter(help="What one document is. Default: files.")
]


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """How data are read: the same options for every verb that reads data."""

    task: AnyTask = None
    text: Column = None
    text2: Second = None
    label: Label = None
    id: Identity = None
    source: SourceColumn = None
    target: TargetColumn = None
    languages: Languages = None
    documents: Documents = None
    filter: Filter = None
    encoding: Encoding = None

    def given(self) -> dict[str, str | list[str]]:
        """The options that were given, by the names of a recipe's section [corpus]."""
        require_languages(self.languages)
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class SplitOptions(DataOptions):
    """The same, with the validation and the test set."""

    valid: Annotated[
        Several, Parameter(help="Validation data. Default: a tenth is held out, of parallel text a 20th.")
    ] = None
    test: Annotated[Several, Parameter(help="Test data, labelled or parallel, for the final scores.")] = None


Run = Annotated[
    Path | None, Parameter(group=OUTPUT, help="The run's folder. Default: runs/DATA-MODEL, numbered when taken.")
]
RecipeFile = Annotated[
    Path | None,
    Parameter(group=MODEL, help="A recipe: a file, or a name, as gpt-nano. Other options and --set override it."),
]
Settings = Annotated[
    Many, Parameter(group=MODEL, help="One value of the recipe, as --set model.layers=4. Repeat it for more.")
]
ClassWeights = Annotated[Flag, Parameter(group=MODEL, help="Weight the classes equally, however rare.")]
Resume = Annotated[Flag, Parameter(group=OUTPUT, help="Continue the run in --run where it stopped.")]
NO_DATA, NO_SPLIT = DataOptions(), SplitOptions()


def named(words: tuple[str, ...], verb: str) -> list[str]:
    """The words as they were typed; a lone - is standard input, any other hyphen is an option that does not exist."""
    import difflib

    from qkv.errors import InputError

    for word in words:
        if word.startswith("-") and word != "-":
            options = [name for argument in _arguments(verb) for name in argument.names]
            near = difflib.get_close_matches(word, options, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"unknown option {word}; {hint}`qkv {verb} --help` lists what there is.")
    return list(words)


def _arguments(verb: str) -> Iterable[Argument]:
    from qkv.cli.app import application

    part = application()
    for word in verb.split():
        part = part[word]
    return part.assemble_argument_collection()


def refuse(options: DataOptions, names: tuple[str, ...], verb: str, what: str) -> None:
    """Refuse, by name, the options that do not apply to what a verb reads."""
    from qkv.errors import InputError

    given = options.given()
    for name in names:
        if (value := given.get(name)) is not None:
            shown = " ".join(value) if isinstance(value, list) else value
            raise InputError(f"--{name} {shown}: does not apply, for {verb} reads {what}. Leave it out.")


def corpus(data: tuple[str, ...], verb: str, **options: Any) -> CorpusConfig:
    """The `CorpusConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.corpus import CorpusConfig
    from qkv.errors import InputError

    files = named(data, verb)
    if not files:
        raise InputError("no text was named. Give a file, a folder, or a name from `qkv data list`.")
    given = {key: value for key, value in options.items() if value is not None}
    return parse(CorpusConfig, {"files": files, **given}, "the options")


def examples(data: tuple[str, ...], verb: str, **options: Any) -> ExamplesConfig:
    """The `ExamplesConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.corpus import ExamplesConfig

    given = {key: value for key, value in options.items() if value is not None}
    return parse(ExamplesConfig, {"files": named(data, verb), **given}, "the options")


def pairs(data: tuple[str, ...], verb: str, **options: Any) -> ParallelConfig:
    """The `ParallelConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.corpus import ParallelConfig
    from qkv.errors import InputError

    files = named(data, verb)
    require_languages(options.get("languages"))
    if not files:
        raise InputError(f"no pairs were named. Give source and target file, or a table: qkv {verb} MODEL A.en A.de")
    given = {key: value for key, value in options.items() if value is not None}
    return parse(ParallelConfig, {"files": files, **given}, "the options")


def require_languages(languages: list[str] | None) -> None:
    """Refuse files among the languages: --languages takes every word up to the next option."""
    import os

    from qkv.errors import InputError

    for word in languages or ():
        if os.path.lexists(word) or "." in word or "/" in word:
            raise InputError(f"--languages {word}: expected a language, as en. Name the files before --languages.")


def which(name: str) -> tuple[TokenizerConfig, Tokenizer | None]:
    """What `--tokenizer NAME` means: a kind, a tokenizer.json, or the folder of a model."""
    from pathlib import Path

    from qkv.errors import InputError
    from qkv.text.tokenizer import Tokenizer, TokenizerConfig

    if name in TOKENIZERS:
        return TokenizerConfig(kind=name), None  # type: ignore[arg-type]
    path = Path(name)
    places = [path / "best" / "tokenizer.json", path / "tokenizer.json"] if path.is_dir() else [path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        expected = f"{', '.join(TOKENIZERS)}, a tokenizer.json, or the folder of a model"
        raise InputError(f"{name}: no tokenizer here. Expected {expected}.")
    return TokenizerConfig(kind="file", file=str(found)), Tokenizer.load(found)


def standard_input(encoding: str) -> str:
    """What is piped in, as one text; more than a text can be is refused before it fills the memory."""
    import sys

    from qkv.data.files.decode import decode, require_encoding
    from qkv.data.files.unpack import CHUNK
    from qkv.data.findings import Findings
    from qkv.data.formats.rows import LONGEST_ROW
    from qkv.errors import DataError

    require_encoding(encoding)
    findings, parts, size = Findings(), list[str](), 0
    for part in decode(iter(lambda: sys.stdin.buffer.read(CHUNK), b""), "standard input", encoding, findings):
        parts.append(part)
        size += len(part)
        if size > LONGEST_ROW:
            raise DataError("standard input", f"a text of more than {LONGEST_ROW:,} characters", "Give a shorter one.")
    notes(findings.notes())
    return "".join(parts)
