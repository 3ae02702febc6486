"""The logs of a run, with one JSON object in each line. When a run is resumed, they are cut back to its checkpoint."""

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

REMEDY = "continue with --resume, or choose another folder with --run"  # if files of a run cannot be written
MAX_NUMBER = 1e100  # in a log: far above what a run writes, and its square is still finite


class MetricsLog:
    """The log `metrics.jsonl`. It has no times, so that those of two runs can be compared byte for byte."""

    def __init__(self, path: Path, keep: int | None = None) -> None:
        """Open a log and cut it to its first `keep` bytes, by default to its complete lines."""
        self.path = path
        self.buffered = 0  # bytes that are not yet on the disk
        with storage_errors(path):
            keep = _complete_lines(path) if keep is None else keep
            self.file = path.open("ab")
            if self.file.tell() < keep:
                raise RefusedError(
                    f"{path}: shorter than its checkpoint says ({self.file.tell():,} of {keep:,} bytes). "
                    "Put the file back, or start a new run."
                )
            self.file.truncate(keep)

    def write(self, **values: Any) -> None:
        """Append a line. Numbers that are not finite are written as null, because JSON has no others."""
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        line = json.dumps(finite).encode() + b"\n"
        self.buffered = min(self.buffered, io.DEFAULT_BUFFER_SIZE) + len(line)
        with storage_errors(self.path, self.buffered):
            self.file.write(line)

    def length(self) -> int:
        """Write everything to the disk, and return the length of the file."""
        with storage_errors(self.path, self.buffered):
            self.file.flush()
            os.fsync(self.file.fileno())
            self.buffered = 0
            return self.file.tell()

    def close(self) -> None:
        with storage_errors(self.path):
            self.file.close()


class TimingsLog(MetricsLog):
    """The log `timings.jsonl`: the seconds of a run over all its sessions, and the speed in the present one."""

    def __init__(self, path: Path) -> None:
        self.before, self.began, self.tokens = elapsed_seconds(path), time.perf_counter(), 0
        super().__init__(path)

    def add_step(self, step: int, tokens: int) -> None:
        seconds = time.perf_counter() - self.began
        self.tokens += tokens
        speed = round(self.tokens / max(seconds, 1e-9))
        self.write(step=step, seconds=round(self.before + seconds, 4), tokens_per_second=speed)


def elapsed_seconds(timings: Path) -> float:
    """The seconds of a run over all sessions; each session continues the count of the one before."""
    known = [line["seconds"] for line in read(timings) if line.get("seconds") is not None]
    return float(known[-1]) if known else 0.0


def _complete_lines(path: Path) -> int:
    """The length of a file without an incomplete last line, which a crash or a full disk may leave."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, apart from damaged ones and an incomplete last one."""
    return [line for line in _lines(path) if line is not None]


def count_damaged(path: Path) -> int:
    """The number of complete lines that no run would write."""
    return sum(line is None for line in _lines(path))


def _lines(path: Path) -> Iterator[dict[str, Any] | None]:
    for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else []:
        try:
            values = parse_bounded_json(line.decode("utf-8"))
        except (ValueError, RecursionError):
            values = None
        yield values if _is_valid(values) else None


def _is_valid(values: Any) -> bool:
    """Whether this is an object with a step and with numbers; only the values of `parts` are lists."""
    if not isinstance(values, dict) or type(values.get("step")) is not int or values["step"] < 0:
        return False
    return all(
        value is None
        or (isinstance(value, list) and all(map(_is_number, value)) if key.endswith("parts") else _is_number(value))
        for key, value in values.items()
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < MAX_NUMBER
