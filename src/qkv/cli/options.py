"""The options that verbs share: which data to read and how, the numbers and their ranges, the tokenizer."""

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
from qkv.cli.output import OUTPUT, notes
from qkv.errors import DataError, InputError
from qkv.ranges import ExampleTask, Range
from qkv.tasks import TaskName

Config = TypeVar("Config")
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
TopK = Annotated[int, within(ranges.TOP_K, help="Choose among the k likeliest tokens only. 0 for all.")]
TopP = Annotated[
    float, within(ranges.POSITIVE_FRACTION, help="Choose among the likeliest tokens that together reach this share.")
]
MinutesOrNone = Annotated[float | None, within(ranges.MINUTES, group=TIME)]
TrainingSeed = Annotated[int, within(ranges.TRAINING_SEED, group=MODEL, help="The seed of all randomness.")]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Repeatable = Annotated[list[str] | None, Parameter(negative="")]  # --stop a --stop b
ValueList = Annotated[list[str] | None, Parameter(negative="", consume_multiple=1)]  # --valid val.en val.de
Force = Annotated[Flag, Parameter(help="Replace a model folder of this name.")]

TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")
TokenizerName = Annotated[
    str | None, Parameter(group=MODEL, help=f"{', '.join(TOKENIZERS)}, a file or model folder. Default: auto.")
]
Data = Annotated[
    str,
    Parameter(group=DATA, help="Files, folders, a named data set, or - for standard input.", allow_leading_hyphen=True),
]
OPENED = "run folder, model folder, Hugging Face folder, .gguf file or .bin of llama2.c"
AnyModel = Annotated[str, Parameter(help=f"A {OPENED}.")]
Prompt = Annotated[str, Parameter(allow_leading_hyphen=True)]
Texts = Annotated[
    str, Parameter(help="The texts, one each. - reads them from standard input, one a line.", allow_leading_hyphen=True)
]
TextFile = Annotated[str | None, Parameter(help="A file with one text a line.")]
Column = Annotated[str | None, Parameter(help="The column of the text, in tables, .jsonl and .parquet.")]
SecondColumn = Annotated[str | None, Parameter(help="The column of the second text, for pairs of texts.")]
Metric = Annotated[
    Literal["bleu", "errors"] | None, Parameter(help="The score of translations: bleu, or errors (of symbols).")
]


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class CorpusOptions:
    """How text is read."""

    text: Column = None
    documents: Literal["files", "lines", "paragraphs"] | None = None
    """What one document is. Default: files."""
    filter: Annotated[str | None, Parameter(help="Which files of a folder or zip to read, as '*.md'.")] = None
    encoding: Annotated[str | None, Parameter(help="The encoding of text files, as cp1252. Default: utf-8.")] = None

    def given(self) -> dict[str, str | list[str]]:
        """The options that were given, by the names of a recipe's section [corpus]."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        require_languages(values.get("languages"))
        return {name: value for name, value in values.items() if value is not None}


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class DataOptions(CorpusOptions):
    """How data of any kind are read: the same options for every verb that reads them."""

    task: TaskName | None = None
    """The task. Default: by the files."""
    text2: SecondColumn = None
    label: str | None = None
    """The column of the label; of words also upos, xpos, feats, deprel."""
    id: Annotated[str | None, Parameter(help="The column that identifies the examples.")] = None
    source: str | None = None
    """The column to translate from: its name, or its number from 1."""
    target: Annotated[str | None, Parameter(help="The column to translate to.")] = None
    languages: ValueList = None
    """Source and target language, as --languages en de. Default: by the file names."""


@Parameter(name="*", group=DATA)
@dataclass(frozen=True, kw_only=True)
class SplitOptions(DataOptions):
    """The same, with the validation and the test set."""

    valid: ValueList = None
    """Validation data. Default: a tenth is held out, of parallel text a 20th."""
    test: Annotated[ValueList, Parameter(help="Test data, labelled or parallel, for the final scores.")] = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """What `qkv train` and `qkv finetune` share, apart from the data."""

    class_weights: Annotated[Flag, Parameter(group=MODEL, help="Weight the classes equally, however rare.")] = False
    seed: Annotated[int | None, within(ranges.TRAINING_SEED, group=MODEL)] = None
    """The seed of all randomness. Default: 0."""
    recipe: Annotated[Path | None, Parameter(group=MODEL)] = None
    """A recipe: a file, or a name, as gpt-nano. Other options and --set override it."""
    set: Annotated[Repeatable, Parameter(group=MODEL)] = None
    """One value of the recipe, as --set model.layers=4. Repeat it for more."""
    minutes: MinutesOrNone = None
    """The time budget, in all: sets size, batch and steps for this machine. Default: 5."""
    steps: Annotated[int | None, within(ranges.STEPS, group=TIME)] = None
    """The number of steps, instead of a time budget."""
    run: Annotated[Path | None, Parameter(group=OUTPUT)] = None
    """The run's folder. Default: runs/DATA-MODEL, numbered when taken."""
    resume: Annotated[
        Flag,
        Parameter(group=OUTPUT, help="Continue the run in --run, as in: qkv train --run runs/book-modern --resume"),
    ] = False
    tensorboard: Annotated[Flag, Parameter(group=OUTPUT)] = False
    """Also write TensorBoard files into the run folder."""


DEFAULT_CORPUS, DEFAULT_DATA, DEFAULT_SPLIT = CorpusOptions(), DataOptions(), SplitOptions()
DEFAULT_TRAINING = TrainingOptions()


def positionals(words: tuple[str, ...], verb: str) -> list[str]:
    """The words as they were typed; a lone - is standard input, any other hyphen is an option that does not exist."""
    for word in words:
        if word.startswith("-") and word != "-":
            near = difflib.get_close_matches(word, _option_names(verb), 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"unknown option {word}; {hint}`qkv {verb} --help` lists the options.")
    return list(words)


def _option_names(verb: str) -> list[str]:
    from qkv.cli.app import application

    part = application()
    for word in verb.split():
        part = part[word]
    return [name for argument in part.assemble_argument_collection() for name in argument.names]


def refuse(options: dict[str, object], reason: str) -> None:
    """Refuse the first of these options that was given, whose value is neither None nor False."""
    for option, value in options.items():
        if value is not None and value is not False:
            shown = "" if value is True else " ".join(map(str, value if isinstance(value, list | tuple) else [value]))
            name = f"--{option.replace('_', '-')} {shown}".rstrip()
            raise InputError(f"{name}: does not apply, because {reason}. Leave it out.")


def data_files(words: tuple[str, ...], verb: str, example: str = "reviews.csv") -> list[str]:
    """The files, folders and data sets to read: at least one."""
    if files := positionals(words, verb):
        return files
    raise InputError(
        f"no data was given. Give files, a folder, or a name from `qkv data list`, as in: qkv {verb} {example}"
    )


def read_config(
    kind: type[Config],
    data: tuple[str, ...],
    verb: str,
    options: CorpusOptions,
    reason: str,
    *,
    without: tuple[str, ...] = (),
    example: str = "reviews.csv",
) -> Config:
    """The `CorpusConfig`, `ExamplesConfig` or `ParallelConfig` that the data and the options describe.

    An option that the config does not have, or that the verb does `without`, is refused by name.
    """
    from qkv.config import parse

    own = set(inspect.get_annotations(kind)).difference(without)
    given = options.given()
    if (task := given.get("task")) not in (None, *get_args(ExampleTask)):  # as what the files are read follows from it
        from qkv.tasks.registry import TASKS

        if TASKS[str(task)].corpus_config is kind:
            del given["task"]
        else:
            own.discard("task")
    refuse({name: value for name, value in given.items() if name not in own}, reason)
    config: Config = parse(kind, {"files": data_files(data, verb, example), **given}, "the options")
    return config


def require_languages(languages: list[str] | None) -> None:
    """Refuse files among the languages: --languages takes every word up to the next option."""
    for word in languages or ():
        if os.path.lexists(word) or "." in word or "/" in word:
            raise InputError(f"--languages {word}: expected a language, as en. Name the files before --languages.")


def typed_text(words: tuple[str, ...], verb: str, encoding: str = "utf-8") -> str:
    """The words of a command as one text; a lone - stands for what is piped in. More than a text can be is refused
    before it fills the memory."""
    text = " ".join(positionals(words, verb))
    if text != "-":
        return text
    from qkv.data.files.decode import decode, require_encoding
    from qkv.data.files.unpack import CHUNK_SIZE
    from qkv.data.findings import Findings
    from qkv.data.formats.rows import MAX_ROW_CHARACTERS

    require_encoding(encoding)
    findings, parts, size = Findings(), list[str](), 0
    for part in decode(iter(lambda: sys.stdin.buffer.read(CHUNK_SIZE), b""), "standard input", encoding, findings):
        parts.append(part)
        size += len(part)
        if size > MAX_ROW_CHARACTERS:
            raise DataError(
                "standard input", f"a text of more than {MAX_ROW_CHARACTERS:,} characters", "Give a shorter one."
            )
    notes(findings.notes())
    return "".join(parts)
