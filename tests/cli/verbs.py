"""Every verb of the command line, those of `data` one by one."""

from __future__ import annotations

from qkv.cli import data
from qkv.cli.app import VERBS


def every_verb() -> list[list[str]]:
    """The words that call each; a new verb is among them without further ado."""
    below = [name for name in data.app if not name.startswith("-")]
    return [[verb] for verb in VERBS if verb != "data"] + [["data", name] for name in below]
