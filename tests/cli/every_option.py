"""Every option of every verb, from the verbs' own signatures, and the models and data that it is tried on.

A new option is among `options()` without further ado; one whose type does not give a value needs it in `VALUES`.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from cyclopts import App

from qkv.cli.app import application

Words = tuple[str, ...]

VALUES: dict[str, Words] = {
    "--documents": ("lines",),
    "--filter": ("*.txt",),
    "--encoding": ("latin-1",),
    "--text": ("sentence",),
    "--text2": ("second",),
    "--label": ("tag",),
    "--id": ("number",),
    "--source": ("en",),
    "--target": ("de",),
    "--languages": ("de", "fr"),
    "--length": ("7",),
    "--samples": ("2",),
    "--temperature": ("1.7",),
    "--top-k": ("3",),
    "--top-p": ("0.3",),
    "--min-p": ("0.2",),
    "--repetition-penalty": ("30",),
    "--stop": ("a",),
    "--seed": ("7",),
    "--next": ("4",),
    "--top": ("2",),
    "--beams": ("1",),
    "--nbest": ("2",),
    "--penalty": ("-4",),
    "--window": ("8",),
    "--layer": ("0",),
    "--word": ("river",),
    "--system": ("Answer briefly.",),
    "--context": ("16",),
    "--size": ("40",),
    "--ablate": ("1",),
    "--token": ("0",),
    "--head": ("1.1",),
    "--second": ("A second text.",),
}


class Option(NamedTuple):
    name: str
    words: Words


def verb_app(verb: Words) -> App:
    part = application()
    for word in verb:
        part = part[word]
    return part


def options(verb: Words) -> Iterator[Option]:
    """Every option of a verb, with a value other than its default; one of several choices for each choice."""
    for argument in verb_app(verb).assemble_argument_collection():
        names = [name for name in argument.names if name.startswith("--")]
        if not names or argument.required:
            continue
        hint, default = argument.hint, argument.field_info.default
        for words in _words(names, hint, default):
            yield Option(names[0], words)


def _words(names: list[str], hint: Any, default: Any) -> Iterator[Words]:
    choices = list(_choices(hint))
    if choices:
        yield from ((names[0], choice) for choice in choices if choice != default)
    elif hint is bool or bool in typing.get_args(hint):
        yield (next(name for name in names if name.startswith("--no-") == (default is True)),)
    else:
        yield (names[0], *VALUES[names[0]])


def _choices(hint: Any) -> Iterator[str]:
    if typing.get_origin(hint) is Literal:
        yield from map(str, typing.get_args(hint))
    else:
        for each in typing.get_args(hint):
            yield from _choices(each)
