"""What the tests of several verbs stand on."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.bad_inputs import prose


@pytest.fixture
def book(tmp_path: Path) -> str:
    path = tmp_path / "book.txt"
    path.write_text(prose())
    return str(path)
