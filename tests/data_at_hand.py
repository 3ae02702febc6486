"""Real data for tests: skipped, saying so, where it is absent; a failure where CI is set and it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def folder() -> Path:
    """The folder of QKV_TEST_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("QKV_TEST_DATA") or BESIDE)


def real(name: str) -> Path:
    """A file of the real data, as real("tinyshakespeare/input.txt")."""
    path = folder() / name
    if not path.exists():
        message = f"real data {name} is absent; set QKV_TEST_DATA to a folder that holds it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path
