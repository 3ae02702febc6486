"""`--help` of every verb, in plain lines: usage, description, then one group of options after the other.

`qkv --install-completion`: the shell completes verbs, options and values from a file, without starting qkv.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts.help import PlainFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS = ("qkv ", "cat ")  # how the lines of examples begin
TABLE = "MODELS"  # a paragraph of a docstring that stands for the table of models
GPT_PRESETS = ("gpt-nano", "gpt-micro", "gpt-mini", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
BERT_PRESETS = ("bert-tiny", "bert-mini", "bert-small", "bert-medium", "bert-base", "bert-large")
ENCODERS = ("cnn", "rnn", "gru", "encoder", "bert", "modern", "gpt")
MODELS = {
    "text": GPT_PRESETS,  # after all kinds of language models
    "masked text": BERT_PRESETS,
    "labelled texts": ("lstm", "linear", "mlp", "bag", *ENCODERS),
    "tagged words": ("lstm", *ENCODERS),
    "images": ("cnn", "vision"),
    "numbers": ("mlp", "linear"),
    "parallel text": (
        "transformer",
        "transformer-tiny",
        "transformer-small",
        "transformer-base",
        "transformer-big",
        "rnn-translator",
    ),
}
"""The models of each task, the default first. Help must not import torch: a test compares this with the
registry."""


class HelpFormatter(PlainFormatter):
    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if not panel.entries:
            return
        names = [_names(entry) for entry in panel.entries]
        indent = 4 + max(map(len, names))
        lines = [f"{panel.title}:"]
        for entry, name in zip(panel.entries, names, strict=True):
            lines += _row(name, _described(entry), indent, console.width)
        self._lines(console, lines)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        lines: list[str] = []
        for paragraph in joined(_plain(description)).split("\n\n"):
            if paragraph == TABLE:
                lines += models(console.width)
            else:
                for line in paragraph.split("\n"):
                    indent = " " * 6 if line.startswith(COMMANDS) else ""
                    lines += textwrap.wrap(line, console.width, subsequent_indent=indent) or [""]
            lines.append("")
        self._lines(console, lines[:-1])

    def _lines(self, console: Console, lines: list[str]) -> None:
        """Print the lines, and a blank one after them."""
        console.print("\n".join(lines), end="\n\n", markup=False, highlight=False, soft_wrap=True)


def models(width: int) -> list[str]:
    """The table of models by task."""
    from qkv.models.registry import LANGUAGE_MODELS

    indent = 4 + max(map(len, MODELS))
    lines = ["Models by task, the default first:"]
    for task, names in {**MODELS, "text": (*LANGUAGE_MODELS, *GPT_PRESETS)}.items():
        lines += _row(task, ", ".join(names), indent, width)
    return lines


def _row(name: str, text: str, indent: int, width: int) -> list[str]:
    first = f"  {name}".ljust(indent)
    wrapper = textwrap.TextWrapper(width, first, " " * indent, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text) or [first.rstrip()]


def _names(entry: HelpEntry) -> str:
    if entry.positional_label:
        return entry.positional_label
    return ", ".join((*entry.positive_names, *entry.positive_shorts, *entry.negative_names))


def _described(entry: HelpEntry) -> str:
    parts = [" ".join(_plain(entry.description).split())]
    if entry.choices and not all(choice in parts[0] for choice in entry.choices):
        parts.append(f"One of {', '.join(entry.choices)}.")
    if entry.default is not None and "Default:" not in parts[0]:
        default = entry.default.removesuffix(".0")
        parts.append(f"Default: {default}.")
    if entry.required and not entry.positional_label:
        parts.append("Required.")
    return " ".join(part for part in parts if part)


def _plain(described: Any) -> str:
    inside = getattr(described, "primary_renderable", described)
    return str(getattr(inside, "plain", inside if isinstance(inside, str) else "")).rstrip()


def joined(text: str) -> str:
    """Every paragraph on one line; commands keep their own."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines: list[str] = []
        for line in paragraph.splitlines():
            if lines and not line.startswith(COMMANDS) and not lines[-1].startswith(COMMANDS):
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(line)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


SHELLS = ("bash", "zsh", "fish")


def install(words: list[str]) -> int:
    """Write the file for a shell (default: that of $SHELL) and the line that loads it into the shell's settings."""
    from qkv.cli.app import application
    from qkv.cli.output import print_answer
    from qkv.errors import InputError, StorageError

    shell = words[0] if words else Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS or len(words) > 1:
        given = " ".join(words) or f"for the shell {shell!r}"
        example = "as in: qkv --install-completion bash"
        raise InputError(f"--install-completion {given}: expected one of {', '.join(SHELLS)}, {example}")
    chosen: dict[str, Any] = {"shell": shell}  # which one to write for; none is run
    try:
        path = application().install_completion(**chosen)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}. Make it writable, then try again.") from None
    print_answer(f"written: {path}. A new {shell} completes qkv's verbs and options.")
    return 0
