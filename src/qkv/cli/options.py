"""The options that say which text to read, how, and with which tokenizer: the same for every verb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.output import notes

if TYPE_CHECKING:
    from qkv.text.tokenizer import Tokenizer, TokenizerConfig

TOKENIZERS = ("auto", "characters", "words", "bpe", "wordpiece")
Data = Annotated[
    str, Parameter(help="Files, folders, a named data set, or - for standard input.", allow_leading_hyphen=True)
]
Encoding = Annotated[str | None, Parameter(help="The encoding of text files, as cp1252. utf-8 when nothing is said.")]
Column = Annotated[str | None, Parameter(help="The column that holds the text in tables, .jsonl and .parquet.")]
Second = Annotated[str | None, Parameter(help="The column of the second text, where pairs of texts are judged.")]
Label = Annotated[str | None, Parameter(help="The column to learn; of tagged words also upos, xpos, feats, deprel.")]
Identity = Annotated[str | None, Parameter(help="The column that names the examples.")]
Task = Annotated[
    Literal["classification", "regression", "multi-label", "tagging", "images"] | None,
    Parameter(help="What to learn of labelled examples, where the files leave it open."),
]
Learned = Annotated[
    Literal["classification", "regression", "multi-label", "tagging", "images", "translation"] | None,
    Parameter(help="What to learn, where the files leave it open."),
]
SourceColumn = Annotated[str | None, Parameter(help="The column to translate from: its name, or its number from 1.")]
TargetColumn = Annotated[str | None, Parameter(help="The column to translate to.")]
Several = Annotated[list[str] | None, Parameter(negative="", consume_multiple=1)]  # --valid val.en val.de
Languages = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        consume_multiple=1,
        help="Source and target language of the files, as --languages en de; of a folder or set, which to read. "
        "The endings of files say them otherwise.",
    ),
]
Metric = Annotated[
    Literal["bleu", "errors"] | None,
    Parameter(help="How translations are scored: bleu, or errors of symbols parted by blanks, as phonemes."),
]
Filter = Annotated[str | None, Parameter(help="Which files of a folder or zip to read, as '*.md'.")]
Documents = Annotated[
    Literal["files", "lines", "paragraphs"] | None,
    Parameter(help="What one document is: a file (the default), a line or a paragraph."),
]


def named(words: tuple[str, ...], verb: str) -> list[str]:
    """The words as they were typed; a lone - is standard input, any other hyphen is an option that does not exist."""
    import difflib
    import inspect
    import sys

    from qkv.errors import InputError

    for word in words:
        if word.startswith("-") and word != "-":
            room, name = verb.split()[0], verb.split()[-1]
            function = getattr(sys.modules[f"qkv.cli.{room}"], name)
            options = [f"--{each.replace('_', '-')}" for each in inspect.signature(function).parameters]
            near = difflib.get_close_matches(word, options, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise InputError(f"unknown option {word}; {hint}`qkv {verb} --help` lists what there is.")
    return list(words)


def corpus(data: tuple[str, ...], verb: str, **options: Any) -> Any:
    """The `CorpusConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.corpus import CorpusConfig
    from qkv.errors import InputError

    files = named(data, verb)
    if not files:
        raise InputError("no text was named. Give a file, a folder, or a name from `qkv data list`.")
    given = {key: value for key, value in options.items() if value is not None}
    return parse(CorpusConfig, {"files": files, **given}, "the options")


def examples(data: tuple[str, ...], verb: str, **options: Any) -> Any:
    """The `ExamplesConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.labelled.config import ExamplesConfig

    given = {key: value for key, value in options.items() if value is not None}
    return parse(ExamplesConfig, {"files": named(data, verb), **given}, "the options")


def pairs(data: tuple[str, ...], verb: str, **options: Any) -> Any:
    """The `ParallelConfig` that the options describe."""
    from qkv.config import parse
    from qkv.data.parallel.config import ParallelConfig
    from qkv.errors import InputError

    files = named(data, verb)
    spoken(options.get("languages"))
    if not files:
        raise InputError(f"no pairs were named. Give source and target file, or a table: qkv {verb} MODEL A.en A.de")
    given = {key: value for key, value in options.items() if value is not None}
    return parse(ParallelConfig, {"files": files, **given}, "the options")


def spoken(languages: list[str] | None) -> None:
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

    from qkv.data.decoding import decode, require_encoding
    from qkv.data.findings import Findings
    from qkv.data.formats import CHUNK
    from qkv.data.rows import LONGEST_ROW
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
