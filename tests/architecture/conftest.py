"""Tests about the repository itself: its layers, its size, its documents, what it may call."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def source(root: Path) -> Path:
    return root / "src" / "qkv"
