"""`--help` of every verb as plain lines: usage, description, then the options by group.

`qkv --install-completion` writes a file from which the shell completes verbs, options and values without starting qkv.
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

COMMAND_PREFIXES = ("qkv ", "cat ")  # with one of which the examples in a docstring start
MODEL_TABLE_PLACEHOLDER = "MODELS"  # a paragraph of a docstring that is replaced by the table of models
GPT_PRESETS = ("gpt-nano", "gpt-micro", "gpt-mini", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
BERT_PRESETS = ("bert-tiny", "bert-mini", "bert-small", "bert-medium", "bert-base", "bert-large")
ENCODERS = ("cnn", "rnn", "gru", "encoder", "bert", "modern", "gpt")
MODELS = {
    "text": GPT_PRESETS,  # `model_table_lines` puts the kinds of language models before them
    "masked text": BERT_PRESETS,
    "labelled texts": ("lstm", "linear", "mlp", "bag", *ENCODERS),
    "tagged words": ("lstm", "linear", *ENCODERS),
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
"""The models of each task, the default first. Help must not import torch, so a test compares this with the registry."""


class HelpFormatter(PlainFormatter):
    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        if not panel.entries:
            return
        names = [_names(entry) for entry in panel.entries]
        indent = 4 + max(map(len, names))
        lines = [f"{panel.title}:"]
        for entry, name in zip(panel.entries, names, strict=True):
            lines += _row(name, _entry_text(entry), indent, console.width)
        self._print_lines(console, lines)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        lines: list[str] = []
        for paragraph in unwrapped(_plain_text(description)).split("\n\n"):
            if paragraph == MODEL_TABLE_PLACEHOLDER:
                lines += model_table_lines(console.width)
            else:
                for line in paragraph.split("\n"):
                    indent = " " * 6 if line.startswith(COMMAND_PREFIXES) else ""
                    lines += textwrap.wrap(line, console.width, subsequent_indent=indent) or [""]
            lines.append("")
        self._print_lines(console, lines[:-1])

    def _print_lines(self, console: Console, lines: list[str]) -> None:
        """Print the lines and an empty one."""
        console.print("\n".join(lines), end="\n\n", markup=False, highlight=False, soft_wrap=True)


def model_table_lines(width: int) -> list[str]:
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


def _entry_text(entry: HelpEntry) -> str:
    """The description of an option, with its choices and its default if the description does not name them."""
    parts = [" ".join(_plain_text(entry.description).split())]
    if entry.choices and not all(choice in parts[0] for choice in entry.choices):
        parts.append(f"One of {', '.join(entry.choices)}.")
    if entry.default is not None and "Default:" not in parts[0]:
        default = entry.default.removesuffix(".0")
        parts.append(f"Default: {default}.")
    if entry.required and not entry.positional_label:
        parts.append("Required.")
    return " ".join(part for part in parts if part)


def _plain_text(description: Any) -> str:
    """The text of a string or of one of rich's renderables."""
    content = getattr(description, "primary_renderable", description)
    return str(getattr(content, "plain", content if isinstance(content, str) else "")).rstrip()


def unwrapped(text: str) -> str:
    """Join the lines of each paragraph; each command keeps a line of its own."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        lines: list[str] = []
        for line in paragraph.splitlines():
            if lines and not line.startswith(COMMAND_PREFIXES) and not lines[-1].startswith(COMMAND_PREFIXES):
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(line)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs)


SHELLS = ("bash", "zsh", "fish")


def install_completion(arguments: list[str]) -> int:
    """Write the completion file of a shell, by default of $SHELL, and a line in the shell's settings that loads it."""
    from qkv.cli.app import application
    from qkv.cli.output import print_answer
    from qkv.errors import InputError, StorageError

    shell = arguments[0] if arguments else Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS or len(arguments) > 1:
        given = " ".join(arguments) or f"for the shell {shell!r}"
        example = "as in: qkv --install-completion bash"
        raise InputError(f"--install-completion {given}: expected one of {', '.join(SHELLS)}, {example}")
    options: dict[str, Any] = {"shell": shell}
    try:
        path = application().install_completion(**options)
    except OSError as error:
        raise StorageError(f"{error.filename}: {error.strerror}. Make it writable, then try again.") from None
    print_answer(f"written: {path}. A new {shell} completes qkv's verbs and options.")
    return 0
