"""The import contracts of pyproject.toml hold: imports go downward only."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any


def test_import_contracts_hold(root: Path) -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def contracts(root: Path, kind: str) -> list[dict[str, Any]]:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [item for item in settings["tool"]["importlinter"]["contracts"] if item["type"] == kind]


SHARED = {"tag_schemes", "defaults", "encoders", "language_model", "registry"}  # what models share
AROUND = {"classifier", "masked", "tagger"}  # built on an encoder, by default BERT's


def test_models_do_not_know_each_other(source: Path) -> None:
    for path in (source / "models").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        known = set(re.findall(r"qkv\.models\.(\w+)", text)) | set(re.findall(r"from qkv\.models import (\w+)", text))
        if path.stem not in SHARED:
            assert known <= SHARED | ({"bert"} if path.stem in AROUND else set()), path.name


def test_every_room_has_its_layer(root: Path, source: Path) -> None:
    """A new folder or module beside the others must be given its place in the contract."""
    placed = {name.strip("() ") for layer in contracts(root, "layers")[0]["layers"] for name in layer.split("|")}
    rooms = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= placed
