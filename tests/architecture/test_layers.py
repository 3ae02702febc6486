"""The import contracts of pyproject.toml hold: imports go downward only."""

from __future__ import annotations

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


def test_every_model_is_under_the_contract(root: Path, source: Path) -> None:
    """Models do not know each other, but for the encoders that some are built on; what they all offer is no model, nor
    are their defaults and the list of them."""
    others = {"__init__", "language_model", "encoded", "encoders", "defaults", "registry"}
    models = {path.stem for path in (source / "models").glob("*.py")} - others
    listed = [name for each in contracts(root, "independence") for name in each["modules"]]
    assert {f"qkv.models.{name}" for name in models} == set(listed)


def test_every_room_has_its_layer(root: Path, source: Path) -> None:
    """A new folder or module beside the others must be given its place in the contract."""
    placed = {name.strip("() ") for layer in contracts(root, "layers")[0]["layers"] for name in layer.split("|")}
    rooms = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= placed
