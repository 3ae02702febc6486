"""Holes: parts of a file that the disk does not hold and that are read as zeros. A terabyte of them costs nothing to
make and hours to read."""

from __future__ import annotations

import os
from pathlib import Path

from qkv.errors import DataError

# a file this large of which the disk holds so little is a mistake or a trap; zeros inside archives make small holes
SPARSE_SIZE, SPARSE_RATIO = 2**30, 10
REMEDY = "Copy or download it again."


def require_stored(path: Path, where: str) -> None:
    """Refuse a file that is nearly all holes. OSError where it cannot be looked at."""
    status = path.stat()
    stored = status.st_blocks * 512 if hasattr(status, "st_blocks") else status.st_size
    if status.st_size > max(SPARSE_SIZE, SPARSE_RATIO * stored):
        problem = f"of its {status.st_size:,} bytes only {stored:,} are stored, the rest are holes"
        raise DataError(where, problem, REMEDY)


def require_no_hole(path: Path, where: str) -> None:
    """Refuse a text with a hole, which is read as NUL bytes. OSError where it cannot be looked at."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not hasattr(os, "SEEK_HOLE") or status.st_blocks * 512 >= status.st_size:
            return
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        if hole < status.st_size and os.pread(file.fileno(), 1, hole) == b"\0":
            problem = f"from byte {hole:,} on the file has a hole, which is read as NUL bytes; text has none"
            raise DataError(where, problem, REMEDY)
