"""Messages for callers from Python: with arguments, not options of the command line, and with calls, not commands.

--label NAME            label="NAME"                    qkv train FILE --model bert    qkv.train(FILE, model="bert")
--set model.layers=2    settings={"model.layers": 2}    `qkv import`                   `qkv.import_model`

The name of an object replaces that of the file in the cache that holds its rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import get_args

from qkv.data import object_names
from qkv.data.corpus import Documents
from qkv.errors import QkvError
from qkv.models.registry import MODELS, TEXT_ENCODERS
from qkv.ranges import ExampleTask
from qkv.tasks import TASK_FILES

ON_COMMAND_LINE: ContextVar[bool] = ContextVar("ON_COMMAND_LINE", default=False)
"""Whether the command line called: then messages stay as they are."""

CHOICES = (  # values that are words: other words after an option go on with the sentence
    *("characters", "words", "bpe", "wordpiece"),
    *get_args(Documents),
    *get_args(ExampleTask),
    *TASK_FILES,
    *MODELS,
    *TEXT_ENCODERS,
)
ARGUMENTS = {"from": "start"}  # options with another name in Python
FLAGS = ("force", "freeze")
FUNCTIONS = {
    **{verb: verb for verb in ("train", "finetune", "compare", "tune", "export", "verify")},
    "import": "import_model",
}

ASSIGNED = r"--set [a-z_]+\.[a-z_]+=(?:\.\.\.|[\w.+-]*\w)"
VALUE = rf"""
    (?:\ (?P<value>
        '[^']*'                                       # '*.md'
      | [A-Z]{{2,}}(?:\.[a-z]+)?\b                    # NAME, OTHER.txt
      | [^\s:?]+(?=[:?](?:\s|$))                      # --metric f1: expected ...
      | [\w/-]*[./\d][\w./+-]*(?<=\w)                 # 0.2, runs/mine, mine.py
      | (?:{"|".join(sorted(map(re.escape, CHOICES), key=len, reverse=True))})\b(?!-)
    ))?"""
SETTINGS = re.compile(rf"{ASSIGNED}(?: {ASSIGNED})*")
OPTION = re.compile(rf"(?<!qkv\ )--(?P<no>no-)?(?P<name>[a-z][a-z0-9-]*){VALUE}", re.VERBOSE)
LANGUAGES = re.compile(r"--languages((?: [a-z]{2}\b)+)")
RESUME = re.compile(r"qkv train --run (?P<run>'[^']*'|\S+) --resume")
OWN_FILE = re.compile(r"Name the file again: --(model|tokenizer) (.+)$", re.MULTILINE)
COMMAND = re.compile(
    rf"\bqkv (?P<verb>{'|'.join(FUNCTIONS)})\b(?! -(?!-))"
    r"(?P<words>(?: (?:[A-Z]{2,}|[\w/-]+(?:\.[a-z]+)+)\b)*)(?P<options>(?: --[a-z-]+ [\w./-]*\w)*)"
)


@contextmanager
def python_names() -> Iterator[None]:
    """In this context, messages name options as arguments (minutes, not --minutes), and objects by their type."""
    try:
        yield
    except QkvError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python_names(error.args[0]), *error.args[1:])
        raise


def in_python_names(message: str) -> str:
    """A message or a note for callers from Python."""
    if ON_COMMAND_LINE.get():
        return message
    message = OWN_FILE.sub(r'Name the file again, as in qkv.load(..., \1_file="\2").', message)
    message = RESUME.sub(lambda match: f"qkv.resume({_quoted(match['run'])})", message)
    message = message.replace("without --resume", "with qkv.train").replace("--resume", "qkv.resume")
    message = SETTINGS.sub(_settings, message)
    message = COMMAND.sub(_call, message)
    message = LANGUAGES.sub(lambda match: f"languages={match[1].split()}".replace("'", '"'), message)
    return object_names.with_object_names(OPTION.sub(_argument, message))


def _quoted(value: str) -> str:
    """A value as Python writes it; numbers and ... as they are."""
    value = value.strip("'")
    return value if re.fullmatch(r"-?[\d.]+(?:e-?\d+)?|\.\.\.|N", value) else f'"{value}"'


def _settings(options: re.Match[str]) -> str:
    pairs = (option.split("=", 1) for option in options[0].removeprefix("--set ").split(" --set "))
    return f"settings={{{', '.join(f'{_quoted(key)}: {_quoted(value)}' for key, value in pairs)}}}"


def _argument(option: re.Match[str]) -> str:
    name, value = option["name"].replace("-", "_"), option["value"]
    name = ARGUMENTS.get(name, name)
    if option["no"]:
        return f"{name}=False" + (f" {value}" if value else "")
    if value is None:
        return f"{name}=True" if name in FLAGS else name
    return f"{name}={_quoted(value)}"


def _call(command: re.Match[str]) -> str:
    """A command as a call: qkv train FILE --model bert is qkv.train(FILE, model="bert")."""
    verb, words = command["verb"], command["words"].split()
    words = [word if word.isupper() else _quoted(word) for word in words]
    if verb != "finetune" and len(words) > 1:
        words = [f"[{', '.join(words)}]"]
    options = command["options"].split()
    words += [
        f"{name[2:].replace('-', '_')}={_quoted(value)}"
        for name, value in zip(options[::2], options[1::2], strict=True)
    ]
    return f"qkv.{FUNCTIONS[verb]}" + (f"({', '.join(words)})" if words else "")
