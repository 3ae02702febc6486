"""`--help` at any width: the lines of a docstring's paragraph are joined, and broken where the terminal ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cyclopts.help import DefaultFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

COMMANDS = ("qkv ", "cat ")  # how the lines of examples begin


class Reflowing(DefaultFormatter):
    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        for entry in panel.entries:
            _reflow(entry.description)
        super().__call__(console, options, panel)

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        _reflow(description)
        super().render_description(console, options, description)


def _reflow(described: Any) -> None:
    from rich.text import Text

    inside = getattr(described, "primary_renderable", None)
    if isinstance(inside, Text):
        described.primary_renderable = Text(joined(inside.plain), end=inside.end)


def joined(text: str) -> str:
    """Every paragraph on one line; commands keep their own."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        found: list[str] = []
        for line in paragraph.splitlines():
            if found and not line.startswith(COMMANDS) and not found[-1].startswith(COMMANDS):
                found[-1] += f" {line.strip()}"
            else:
                found.append(line)
        paragraphs.append("\n".join(found))
    return "\n\n".join(paragraphs)
