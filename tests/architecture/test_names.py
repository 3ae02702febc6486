"""One meaning a name: no two classes of one name, and file names that repeat only inside tasks/.

The allow-lists hold what collides today. They may only shrink.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

CLASSES = {"Search", "Subject"}
FILES = {"compare", "tune", "verify"}


@pytest.fixture(scope="module")
def figures(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("figures", root / "bench" / "figures.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["figures"] = module
    spec.loader.exec_module(module)
    return module


def test_class_names_are_unique(figures: ModuleType, source: Path) -> None:
    collisions = figures.collisions(figures.modules(source), figures.class_names)
    assert not {name: paths for name, paths in collisions.items() if name not in CLASSES}


def test_file_names_are_unique(figures: ModuleType, source: Path) -> None:
    repeated = figures.repeated_files(list(figures.modules(source)))
    assert not {name: paths for name, paths in repeated.items() if name[:-3] not in FILES}
