"""Short scripts as users write them: strict mypy sees precise types at the front door, and each of them runs."""

from __future__ import annotations

import builtins
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import qkv

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))
ROOT = Path(__file__).parents[2]


def test_mypy_reveals_no_any(tmp_path: Path) -> None:
    options = ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache"), "--allow-untyped-calls"]
    command = [
        sys.executable,
        "-m",
        "mypy",
        *options,
        "--config-file",
        str(ROOT / "pyproject.toml"),
        *map(str, SCRIPTS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert not errors, "\n".join(errors) + done.stderr
    assert len(revealed) >= 20
    assert not [kind for kind in revealed if re.search(r"\bAny\b", kind)], revealed


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(builtins, "reveal_type", lambda value: value, raising=False)
    runpy.run_path(str(script))


def test_the_front_door_is_listed() -> None:
    assert set(dir(qkv)) - {"QkvClassifier"} == set(qkv.__all__)  # which needs scikit-learn
    assert all(getattr(qkv, name).__doc__ for name in qkv.__all__ if name != "__version__")
