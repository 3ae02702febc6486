"""The import contracts of pyproject.toml hold: imports go downward only."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path


def test_import_contracts_hold(root: Path) -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_its_layer(root: Path, source: Path) -> None:
    """A new folder or module beside the others must be given its place in the contract."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(item for item in settings["tool"]["importlinter"]["contracts"] if item["type"] == "layers")
    placed = {name.strip("() ") for layer in contract["layers"] for name in layer.split("|")}
    rooms = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= placed
