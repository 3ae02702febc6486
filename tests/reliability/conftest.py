"""The nursery, and tiny runs on real text, for every reliability test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from data_at_hand import real
from reliability.nursery import Nursery


@pytest.fixture(scope="session")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("nursery")) as made:
        yield made


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of Shakespeare's plays: real text, and little of it."""
    whole = real("tinyshakespeare/input.txt").read_bytes()
    path = tmp_path_factory.mktemp("text") / "plays.txt"
    path.write_bytes(whole[:40_000])
    return path
