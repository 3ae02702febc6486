"""The examples run as a reader would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def result(example: str, folder: Path, text: str, printed: str, **options: int) -> list[str]:
    """What is printed of `found`, which an example's `main` returns for a file with this text."""
    file = folder / "text.txt"
    file.write_text(text)
    code = f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'examples')!r})\n"
    code += f"found = runpy.run_path(sys.argv[1], run_name='example')['main'](sys.argv[2], **{options})\n"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", f"{code}print({printed})", str(ROOT / "examples" / example), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("example", ["lightning.py", "plain_torch_loop.py"])
def test_the_loss_falls(example: str, tmp_path: Path) -> None:
    if example == "lightning.py":
        pytest.importorskip("pytorch_lightning", reason="pip install 'qkv[lightning]'")
    text = "the dog sees the cat and the cat sees the dog. " * 200
    first, last = map(float, result(example, tmp_path, text, "found[0], sum(found[-5:]) / 5", steps=30, batch=8))
    assert last < 0.7 * first


def test_sklearn_pipeline(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="pip install 'qkv[compare]'")
    words = [f"{first}{second}" for first in "abcdef" for second in "ghijklmnop"]
    lines = [
        f"{'good' if n % 2 else 'bad'}\tthe {'warm' if n % 2 else 'cold'} {word}\n" for n, word in enumerate(words)
    ]
    score, best = result(
        "sklearn_pipeline.py", tmp_path, "".join(lines), "found[0], list(found[1].values())[0]", steps=20
    )
    assert float(score) > 0.9
    assert best in ("bag", "linear")
