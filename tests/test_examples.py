"""The examples run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_lightning(tmp_path: Path) -> None:
    pytest.importorskip("pytorch_lightning", reason="pip install 'qkv[lightning]'")
    text = tmp_path / "text.txt"
    text.write_text("the dog sees the cat and the cat sees the dog. " * 200)
    code = f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
    code += "losses = runpy.run_path(sys.argv[1], run_name='example')['main'](sys.argv[2], steps=30, batch=8)\n"
    code += "print(losses[0], sum(losses[-5:]) / 5)"
    path = ROOT / "examples" / "lightning.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code, str(path), str(text)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=1800)
    assert done.returncode == 0, done.stderr
    first, last = map(float, done.stdout.split()[-2:])
    assert last < 0.7 * first
