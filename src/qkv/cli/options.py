"""The options that several verbs share, and the checks of what was given on the command line."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypedDict, TypeVar, Unpack, get_args

from cyclopts import Group, Parameter

from qkv import ranges
from qkv.cli.output import OUTPUT_GROUP, print_notes
from qkv.errors import DataError, InputError
from qkv.ranges import ExampleTask, Range
from qkv.tasks import TaskName

Config = TypeVar("Config")
DATA_GROUP, MODEL_GROUP, TIME_GROUP = (
    Group(title, sort_key=position) for position, title in enumerate(("Data", "Model", "Time"))
)


class RangeValidator:
    """Lets the parser refuse a number outside its range, before any file is opened."""

    def __init__(self, allowed: Range) -> None:
        self.allowed = allowed

    def __call__(self, _: object, value: int | float | None) -> None:
        if value is not None and value not in self.allowed:
            raise ValueError(str(self.allowed))


class _ParameterSettings(TypedDict, total=False):
    help: str
    group: Group
    allow_leading_hyphen: bool


def in_range(allowed: Range, **settings: Unpack[_ParameterSettings]) -> Parameter:
    """An option whose value must be in this range."""
    return Parameter(validator=RangeValidator(allowed), **settings)


Top = Annotated[int, in_range(ranges.COUNT)]
Seed = Annotated[int, in_range(ranges.SEED)]
Length = Annotated[int, in_range(ranges.LENGTH)]
Temperature = Annotated[float, in_range(ranges.TEMPERATURE)]
TopK = Annotated[int, in_range(ranges.TOP_K, help="Sample from the k most likely tokens only. 0 for all.")]
TopP = Annotated[
    float,
    in_range(
        ranges.POSITIVE_FRACTION, help="Sample from the most likely tokens whose probabilities add up to this share."
    ),
]
MinutesOrNone = Annotated[float | None, in_range(ranges.MINUTES, group=TIME_GROUP)]
TrainingSeed = Annotated[int, in_range(ranges.TRAINING_SEED, group=MODEL_GROUP, help="The seed of all randomness.")]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Repeatable = Annotated[list[str] | None, Parameter(negative="")]  # --stop a --stop b
ValueList = Annotated[list[str] | None, Parameter(negative="", consume_multiple=1)]  # --valid val.en val.de
Force = Annotated[Flag, Parameter(help="Replace an existing model folder of this name.")]

TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")
TokenizerName = Annotated[
    str | None, Parameter(group=MODEL_GROUP, help=f"{', '.join(TOKENIZERS)}, a file or model folder. Default: auto.")
]
Data = Annotated[
    str,
    Parameter(
        group=DATA_GROUP, help="Files, folders, a named data set, or - for standard input.", allow_leading_hyphen=True
    ),
]
MODEL_SOURCES = "run folder, model folder, Hugging Face folder, .gguf file or .bin file of llama2.c"
AnyModel = Annotated[str, Parameter(help=f"A {MODEL_SOURCES}.")]
Prompt = Annotated[str, Parameter(allow_leading_hyphen=True)]
Texts = Annotated[
    str,
    Parameter(
        help="One text per argument. - reads texts from standard input, one per line.", allow_leading_hyphen=True
    ),
]
TextFile = Annotated[str | None, Parameter(help="A file with one text per line.")]
TableFile = Annotated[str | None, Parameter(help="A file with one text per line, or a table with a column of text.")]
TextColumn = Annotated[str | None, Parameter(help="The column of the text, in tables, .jsonl and .parquet.")]
SourceColumn = Annotated[str | None, Parameter(help="The column to translate from, in tables, .jsonl and .parquet.")]
SecondTextColumn = Annotated[str | None, Parameter(help="The column of the second text, for pairs of texts.")]
Metrics = Annotated[
    list[str] | None,
    Parameter(negative="", help="bleu or errors, for translations; or a Python file with your own metrics."),
]


@Parameter(name="*", group=DATA_GROUP)
@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How text is read."""

    text: TextColumn = None
    documents: Literal["files", "lines", "paragraphs"] | None = None
    """What one document is. Default: files."""
    filter: Annotated[str | None, Parameter(help="Which files of a folder or zip to read, such as '*.md'.")] = None
    encoding: str | None = None
    """The encoding of all files, such as cp1252. Default: detected."""

    def given(self) -> dict[str, str | list[str]]:
        """The options that were given, under the names that they have in the section [corpus] of a recipe."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        require_languages(values.get("languages"))
        if values.get("labels") is not None:
            values["labels"] = values["labels"].split(",")
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*", group=DATA_GROUP)
@dataclass(frozen=True, kw_only=True)
class DataOptions(CorpusOptions):
    """How text, labelled examples and parallel text are read."""

    task: TaskName | None = None
    """The task. Default: by the files."""
    text2: SecondTextColumn = None
    label: str | None = None
    """The column of the label; for tagged words also upos, xpos, feats or deprel."""
    labels: Annotated[str | None, Parameter(help="Other names for the labels, such as 0=negative,1=positive.")] = None
    id: Annotated[str | None, Parameter(help="The column that identifies the examples.")] = None
    source: str | None = None
    """The column to translate from: its name, or its number from 1."""
    target: Annotated[str | None, Parameter(help="The column to translate to.")] = None
    reader: str | None = None
    """A Python file whose function `read` reads a format of your own."""
    languages: ValueList = None
    """Source and target language, such as en de. Default: by the names."""


@Parameter(name="*", group=DATA_GROUP)
@dataclass(frozen=True, kw_only=True)
class SplitOptions(DataOptions):
    """The options of `DataOptions`, and the validation and test data."""

    valid: ValueList = None
    """Validation data. Default: a tenth is held out, of parallel text a 20th."""
    test: Annotated[ValueList, Parameter(help="Test data, labelled or parallel, for the final scores.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options that `qkv train` and `qkv finetune` share, apart from those for the data."""

    class_weights: Annotated[Flag, Parameter(group=MODEL_GROUP, help="Weight the classes equally, however rare.")] = (
        False
    )
    seed: Annotated[int | None, in_range(ranges.TRAINING_SEED, group=MODEL_GROUP)] = None
    """The seed of all randomness. Default: 0."""
    recipe: Annotated[Path | None, Parameter(group=MODEL_GROUP)] = None
    """A recipe file or name, such as gpt-nano. Other options and --set override it."""
    set: Annotated[Repeatable, Parameter(group=MODEL_GROUP)] = None
    """One value of the recipe, such as model.layers=4. May be repeated."""
    minutes: MinutesOrNone = None
    """The time budget of the run: sets size, batch and steps for this machine. Default: 5."""
    steps: Annotated[int | None, in_range(ranges.STEPS, group=TIME_GROUP)] = None
    """The number of steps, instead of a time budget."""
    run: Annotated[Path | None, Parameter(group=OUTPUT_GROUP)] = None
    """The run's folder. Default: runs/DATA-MODEL, with a number if it exists."""
    resume: Annotated[
        Flag,
        Parameter(
            group=OUTPUT_GROUP, help="Continue the run in --run, as in: qkv train --run runs/book-modern --resume"
        ),
    ] = False
    tensorboard: Annotated[Flag, Parameter(group=OUTPUT_GROUP)] = False
    """Also write TensorBoard files into the run folder."""


DEFAULT_CORPUS, DEFAULT_DATA, DEFAULT_SPLIT = CorpusOptions(), DataOptions(), SplitOptions()
DEFAULT_TRAINING = TrainingOptions()


def positionals(words: tuple[str, ...], verb: str) -> list[str]:
    """Return the positional arguments; refuse a misspelled option among them. A lone - is not an option."""
    for word in words:
        if word.startswith("-") and word != "-":
            similar = difflib.get_close_matches(word, _option_names(verb), 1)
            hint = f"did you mean {similar[0]}? " if similar else ""
            raise InputError(f"unknown option {word}; {hint}`qkv {verb} --help` lists the options.")
    return list(words)


def _option_names(verb: str) -> list[str]:
    from qkv.cli.app import application

    command = application()
    for word in verb.split():
        command = command[word]
    return [name for argument in command.assemble_argument_collection() for name in argument.names]


def refuse(options: dict[str, object], reason: str) -> None:
    """Refuse the first of these options that was given: its value is neither None nor False."""
    for option, value in options.items():
        if value is not None and value is not False:
            text = "" if value is True else " ".join(map(str, value if isinstance(value, list | tuple) else [value]))
            typed = f"--{option.replace('_', '-')} {text}".rstrip()
            raise InputError(f"{typed}: does not apply, because {reason}. Leave it out.")


def split_metrics(names: list[str] | None) -> tuple[Literal["bleu", "errors"] | None, str | None]:
    """The metric of translations, and the user's own metrics: a Python file, or the name of a package's metric."""
    known: list[Literal["bleu", "errors"]] = [name for name in ("bleu", "errors") if name in (names or ())]
    own = [name for name in names or () if name not in known]
    for several in (known, own):
        if len(several) > 1:
            raise InputError(f"--metric {several[1]}: {several[0]} is given as well. Give one of them.")
    if own and not own[0].endswith(".py"):
        from qkv.evaluation.own_metrics import GROUP
        from qkv.own_files import load_plugin

        if load_plugin(GROUP, own[0]) is None:
            raise InputError(f"--metric {own[0]}: expected bleu, errors, or a Python file with metrics of your own.")
    return (known[0] if known else None), (own[0] if own else None)


def data_files(words: tuple[str, ...], verb: str, example: str = "reviews.csv") -> list[str]:
    """Return the files, folders and data sets to read; refuse a command that names none."""
    if files := positionals(words, verb):
        return files
    raise InputError(
        f"no data was given. Give files, a folder, or a name from `qkv data list`, as in: qkv {verb} {example}"
    )


def data_config(
    config_type: type[Config],
    data: tuple[str, ...],
    verb: str,
    options: CorpusOptions,
    reason: str,
    *,
    without: tuple[str, ...] = (),
    example: str = "reviews.csv",
) -> Config:
    """The `CorpusConfig`, `ExamplesConfig` or `ParallelConfig` that the data and the options describe.

    An option that the config does not have, or that is listed in `without`, is refused with the `reason`.
    """
    from qkv.config import parse
    from qkv.data import own_reader

    allowed = set(inspect.get_annotations(config_type)).difference(without)
    given = options.given()  # first, because it refuses file names among the languages
    given = own_reader.through({"files": data_files(data, verb, example), **given})
    task = given.get("task")
    if task not in (None, *get_args(ExampleTask)):  # this task selects the config, and is not one of its keys
        from qkv.tasks.registry import TASKS

        if TASKS[str(task)].corpus_config is config_type:
            del given["task"]
        else:
            allowed.discard("task")
    refuse({name: value for name, value in given.items() if name not in allowed}, reason)
    config: Config = parse(config_type, given, "the options")
    return config


def require_languages(languages: list[str] | None) -> None:
    """Refuse file names among the languages: --languages takes all arguments up to the next option."""
    for word in languages or ():
        if os.path.lexists(word) or "." in word or "/" in word:
            raise InputError(f"--languages {word}: expected a language, such as en. Name the files before --languages.")


def joined_text(words: tuple[str, ...], verb: str, encoding: str | None = None) -> str:
    """The positional arguments as one text. For a lone - it is read from standard input, up to MAX_ROW_CHARACTERS
    characters."""
    text = " ".join(positionals(words, verb))
    if text != "-":
        return text
    from qkv.data.files.decode import decode, require_encoding
    from qkv.data.files.decompress import CHUNK_SIZE
    from qkv.data.findings import Findings
    from qkv.data.formats.rows import MAX_ROW_CHARACTERS

    require_encoding(encoding)
    findings, parts, characters = Findings(), list[str](), 0
    for part in decode(iter(lambda: sys.stdin.buffer.read(CHUNK_SIZE), b""), "standard input", encoding, findings):
        parts.append(part)
        characters += len(part)
        if characters > MAX_ROW_CHARACTERS:
            raise DataError(
                "standard input", f"a text of more than {MAX_ROW_CHARACTERS:,} characters", "Give a shorter one."
            )
    print_notes(*findings.notes())
    return "".join(parts)
