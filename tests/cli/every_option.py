"""Every option of every verb, from the verbs' own signatures; and commands run where nothing is left behind.

A new option is among `options()` without further ado. One whose type does not give a value needs it in `VALUES`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from cli.commands import run
from qkv.cli.app import application
from qkv.cli.output import OUTPUT_GROUP

Words = tuple[str, ...]
VALUES: Mapping[str, Words] = {
    "--ablate": ("1",),
    "--beams": ("1",),
    "--context": ("16",),
    "--documents": ("lines",),
    "--encoding": ("cp1252",),
    "--filter": ("*.txt",),
    "--format": ("chatml",),
    "--from": ("a-model",),
    "--head": ("1.1",),
    "--id": ("number",),
    "--label": ("label",),
    "--labels": ("good=bad,bad=good",),
    "--languages": ("en", "fr"),
    "--layer": ("0",),
    "--layer-decay": ("0.5",),
    "--length": ("4",),
    "--lora": ("2",),
    "--metric": ("errors",),
    "--min-p": ("0.05",),
    "--minutes": ("0.3",),
    "--model": ("no-model",),
    "--models": ("no-model",),
    "--nbest": ("2",),
    "--next": ("4",),
    "--pool": ("max",),
    "--penalty": ("-4",),
    "--reader": ("no-reader.py",),
    "--repetition-penalty": ("30",),
    "--samples": ("2",),
    "--second": ("A second text.",),
    "--seed": ("7",),
    "--seeds": ("2",),
    "--set": ("training.decay=0.3",),
    "--size": ("40",),
    "--source": ("en",),
    "--steps": ("7",),
    "--stop": ("e",),
    "--system": ("Answer briefly.",),
    "--target": ("de",),
    "--temperature": ("1.7",),
    "--text": ("text",),
    "--text2": ("second",),
    "--to": ("de",),
    "--token": ("0",),
    "--tokenizer": ("characters",),
    "--top": ("2",),
    "--top-k": ("4",),
    "--top-p": ("0.7",),
    "--trials": ("2",),
    "--window": ("8",),
    "--word": ("river",),
}
"""For options whose type does not give one; files are given by the tests."""


class Option(NamedTuple):
    name: str
    words: Words
    output: bool  # says where results go, whatever they are


def options(verb: Words, values: Mapping[str, Words]) -> list[Option]:
    """Every option of a verb, with a value other than its default; one of several choices with each."""
    part = application()
    for word in verb:
        part = part[word]
    found = []
    for argument in part.assemble_argument_collection():
        names = [name for name in argument.names if name.startswith("--")]
        if names and not argument.required and argument.name != "--debug":
            default, output = argument.field_info.default, OUTPUT_GROUP in argument.parameter.group
            for words in _words(names, argument.hint, default, {**VALUES, **values}):
                found.append(Option(names[0], words, output))
    return found


def _words(names: list[str], hint: Any, default: Any, values: Mapping[str, Words]) -> Iterator[Words]:
    if names[0] in values:
        yield (names[0], *values[names[0]])
    elif choices := [choice for choice in _choices(hint) if choice != default]:
        yield from ((names[0], choice) for choice in choices)
    elif hint is bool or bool in typing.get_args(hint):
        yield (next(name for name in names if name.startswith("--no-") == (default is True)),)
    elif hint in (int, float) and default:
        yield (names[0], str(hint(default / 2) or 2))
    else:
        pytest.fail(f"{names[0]}: give a value that makes a difference in VALUES of tests/cli/every_option.py")


def _choices(hint: Any) -> Iterator[str]:
    if typing.get_origin(hint) is Literal:
        yield from map(str, typing.get_args(hint))
    else:
        for part in typing.get_args(hint):
            yield from _choices(part)


class Result(NamedTuple):
    """What a command did: its exit code, what it printed, the files that it wrote."""

    code: int
    out: str
    err: str
    files: dict[str, bytes]

    def refuses(self, *names: str) -> bool:
        return self.code == 2 and any(re.search(rf"(^|[ -]){name[2:]}\b", self.err) for name in names)


class Runner:
    """Runs commands in an empty folder."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        folder.mkdir(exist_ok=True)

    def __call__(self, *words: str) -> Result:
        for path in self.folder.iterdir():
            path.unlink()
        self.capsys.readouterr()
        code = run(list(words), False)
        out, err = self.capsys.readouterr()
        return Result(code, out, err, {path.name: path.read_bytes() for path in self.folder.iterdir()})


def ignored(
    call: Runner,
    verb: Words,
    base: Words,
    values: Mapping[str, Words],
    silent: Words = (),
    single: Words = (),
    *,
    pairs: bool = True,
) -> list[str]:
    """The options that neither change anything nor are refused by name: alone, and beside every other one.

    `silent` options promise the same answer; `single` ones leave little that others could change.
    """
    plain = call(*verb, *base)
    assert plain.code == 0, plain.err
    tried = [option for option in options(verb, values) if option.name not in base]
    alone = [(option, call(*verb, *base, *option.words)) for option in tried]
    found = [
        f"{' '.join(option.words)}: {result.err[-200:] if result.code else 'ignored'}"
        for option, result in alone
        if not result.refuses(option.name) and (result.code or (result[1:] == plain[1:] and option.name not in silent))
    ]
    accepted = [
        (option, result) for option, result in alone if result.code == 0 and option.name not in (*silent, *single)
    ]
    for place, (one, of_one) in enumerate(accepted if pairs else ()):
        for other, of_other in accepted[place + 1 :]:
            if one.name == other.name:
                continue
            both = call(*verb, *base, *one.words, *other.words)
            words = " ".join((*one.words, *other.words))
            if both.code and not both.refuses(one.name, other.name):
                found.append(f"{words}: {both.err[-200:]}")
            elif both.code == 0:
                found += [f"{words}: {other.name} ignored"] * (both[1:] == of_one[1:])
                found += [f"{words}: {one.name} ignored"] * (both[1:] == of_other[1:])
    return found
