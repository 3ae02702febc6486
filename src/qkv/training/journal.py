"""The log of a run: one JSON object a line. On resume it is cut back to what the checkpoint knew."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from qkv.errors import RefusedError, storage


class Journal:
    """`metrics.jsonl` holds values only, so that it can be compared byte for byte; seconds go to `timings.jsonl`."""

    def __init__(self, path: Path, keep: int | None = None) -> None:
        self.path = path
        with storage(path):
            self.file = path.open("ab")
            if keep is not None:
                if self.file.tell() < keep:
                    raise RefusedError(
                        f"{path}: shorter than its checkpoint says ({self.file.tell()} of {keep} bytes)."
                    )
                self.file.truncate(keep)

    def write(self, **values: Any) -> None:
        """Not-a-number is written as null: it stays visible, and the line stays JSON."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        with storage(self.path):
            self.file.write(json.dumps(clean).encode() + b"\n")

    def length(self) -> int:
        """Bytes so far, safely on the disk."""
        with storage(self.path):
            self.file.flush()
            os.fsync(self.file.fileno())
            return self.file.tell()

    def close(self) -> None:
        with storage(self.path):
            self.file.close()


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a journal; a last line that a crash cut short is left out."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]
