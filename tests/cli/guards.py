"""Commands that could wait for ever or fill the memory, run so that they fail instead."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cli.commands import run

SECONDS = 120  # a command that waits for a pipe waits for ever; a busy machine is slow
BYTES = 2 * 2**30


class LateError(Exception):
    """No OSError, as TimeoutError is: those are taken for a file that cannot be read."""


@contextmanager
def bounded() -> Iterator[None]:
    """An alarm after a while, and no more memory than some: both end in exit 1 or in a message about memory."""

    def late(*_: Any) -> None:
        raise LateError("the command does not end")

    size = re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    if size:
        resource.setrlimit(resource.RLIMIT_AS, (int(size[1]) * 1024 + BYTES, hard))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def guarded(words: list[str]) -> int:
    with bounded():
        return run(words, debug=False)
