"""`qkv --install-completion`: the shell completes verbs, options and values from a file, without starting qkv."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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
