"""The log of a run: one JSON object a line. On resume it is cut back to what the checkpoint knew."""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qkv.errors import RefusedError
from qkv.safe_json import parse_bounded_json
from qkv.storage import storage_errors

REMEDY = "continue with --resume, or choose another folder with --run"  # where the disk refuses a run's files
LARGEST = 1e100  # of a number in a journal: far above any of a run, and its square is a number, too


class Journal:
    """`metrics.jsonl` holds values only, so that it can be compared byte for byte; seconds go to `timings.jsonl`."""

    def __init__(self, path: Path, keep: int | None = None) -> None:
        self.path = path
        self.waiting = 0  # bytes not yet given to the disk
        with storage_errors(path):
            keep = _whole_lines(path) if keep is None else keep
            self.file = path.open("ab")
            if self.file.tell() < keep:
                raise RefusedError(
                    f"{path}: shorter than its checkpoint says ({self.file.tell():,} of {keep:,} bytes). "
                    "Put the file back, or start a new run."
                )
            self.file.truncate(keep)

    def write(self, **values: Any) -> None:
        """Not-a-number is written as null: it stays visible, and the line stays JSON."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        line = json.dumps(clean).encode() + b"\n"
        self.waiting = min(self.waiting, io.DEFAULT_BUFFER_SIZE) + len(line)
        with storage_errors(self.path, self.waiting):
            self.file.write(line)

    def length(self) -> int:
        """Bytes so far, safely on the disk."""
        with storage_errors(self.path, self.waiting):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.waiting = 0
            return self.file.tell()

    def close(self) -> None:
        with storage_errors(self.path):
            self.file.close()


class Timings(Journal):
    """`timings.jsonl`: the seconds of a run, over all its sittings, and the speed of this one."""

    def __init__(self, path: Path) -> None:
        self.before, self.began, self.tokens = elapsed(path), time.perf_counter(), 0
        super().__init__(path)

    def take(self, step: int, tokens: int) -> None:
        seconds = time.perf_counter() - self.began
        self.tokens += tokens
        speed = round(self.tokens / max(seconds, 1e-9))
        self.write(step=step, seconds=round(self.before + seconds, 4), tokens_per_second=speed)


def elapsed(timings: Path) -> float:
    """Seconds of a run over all sittings: each goes on counting where the one before it ended."""
    known = [line["seconds"] for line in read(timings) if line.get("seconds") is not None]
    return float(known[-1]) if known else 0.0


def _whole_lines(path: Path) -> int:
    """Bytes up to the last line's end: what follows was cut short by a crash or a full disk."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; one that a crash cut short, or that somebody altered, is left out."""
    return [line for line in _lines(path) if line is not None]


def unreadable(path: Path) -> int:
    """How many whole lines of a journal are not what a run writes."""
    return sum(line is None for line in _lines(path))


def _lines(path: Path) -> Iterator[dict[str, Any] | None]:
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        try:
            values = parse_bounded_json(line.decode("utf-8"))
        except (ValueError, RecursionError):
            values = None
        yield values if _sound(values) else None


def _sound(values: Any) -> bool:
    """Whether this is an object of numbers with the step that they belong to. Only `parts` are lists."""
    if not isinstance(values, dict) or type(values.get("step")) is not int or values["step"] < 0:
        return False
    return all(
        value is None
        or (isinstance(value, list) and all(map(_number, value)) if key.endswith("parts") else _number(value))
        for key, value in values.items()
    )


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST
