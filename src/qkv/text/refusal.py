"""How a file that holds a tokenizer is refused, and how its parts are compared with what is known here."""

from __future__ import annotations

from typing import Any

from qkv.errors import RefusedError

# keys that change nothing we rely on; a table of characters is looked at by itself
IDLE_KEYS = {"trim_offsets", "add_prefix_space", "cleanup", "precompiled_charsmap"}


class Refusal:
    """Builds the refusals of one file, so that each names the file and the field."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self, field: str, problem: str) -> RefusedError:
        return RefusedError(
            f"{self.where}: {field}: {problem}. Use the tokenizer.json that was saved with the model, or train "
            "a new one with `qkv tokenize --train`."
        )


def essence(value: Any) -> Any:
    """A part of a tokenizer.json without its idle keys."""
    if isinstance(value, dict):
        return {key: essence(item) for key, item in value.items() if key not in IDLE_KEYS}
    if isinstance(value, list):
        return [essence(item) for item in value]
    return value


def short(value: Any) -> str:
    """A value of a file, fit for a message."""
    shown = ascii(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."
