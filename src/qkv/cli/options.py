"""The options that say which text to read and how: the same for every verb that reads text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

Data = Annotated[
    str, Parameter(help="Files, folders, a named data set, or - for standard input.", allow_leading_hyphen=True)
]
Encoding = Annotated[str | None, Parameter(help="The encoding of text files, as cp1252. utf-8 when nothing is said.")]
Column = Annotated[str | None, Parameter(help="The column that holds the text in .jsonl and .parquet.")]
Filter = Annotated[str | None, Parameter(help="Which files of a folder or zip to read, as '*.md'.")]
Documents = Annotated[
    Literal["files", "lines", "paragraphs"] | None,
    Parameter(help="What one document is: a file (the default), a line or a paragraph."),
]


def named(data: tuple[str, ...], verb: str) -> list[str]:
    """The data as it was named; a lone - is standard input, any other hyphen is an option that does not exist."""
    from qkv.errors import InputError

    for name in data:
        if name.startswith("-") and name != "-":
            raise InputError(f"unknown option {name}. `qkv {verb} --help` lists what there is.")
    return list(data)


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
