"""A command run inside the tests' own process."""

from __future__ import annotations

from qkv.cli import app


def run(words: list[str], debug: bool) -> int:
    """The exit code of a command."""
    try:
        return app.run(words, debug)
    except SystemExit as left:
        return int(left.code or 0)
