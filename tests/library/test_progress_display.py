"""Long calls show how far they are in a notebook and on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from qkv.library import progress_display

SOURCE = Path(__file__).resolve().parents[2] / "src"
TRAIN = """
import qkv
from qkv.library import progress_display
progress_display.FIRST_DRAW_SECONDS = progress_display.REDRAW_SECONDS = 0.0
texts = [f"the dog sat on mat {number}" for number in range(300)]
model = qkv.train(texts, model="gpt-nano", steps=4, run=RUN, OPTIONS)
"""


def script(run: Path, options: str = "") -> str:
    return TRAIN.replace("RUN", repr(str(run))).replace("OPTIONS", options)


def test_a_script_whose_output_is_captured_shows_nothing(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", script(tmp_path / "run")], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_a_terminal_shows_it(tmp_path: Path, wanted: bool) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-c", script(tmp_path / "run", f"progress={wanted}")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(words, stderr=theirs, stdout=subprocess.PIPE, env=environment) as process:
        os.close(theirs)
        shown = b""
        while part := read(ours):
            shown += part
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(ours)
    assert process.returncode == 0
    assert (b"training, loss" in shown) == wanted
    assert wanted or shown == b""


def read(file: int) -> bytes:
    try:
        return os.read(file, 4096)
    except OSError:  # the other end is closed
        return b""


def outputs(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a notebook with this cell shows beneath it."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    found: list[Any] = book.cells[0].outputs
    return found


def test_a_notebook_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again = "\nqkv.resume(model.bundle.folder.parent, progress=False)"
    (shown,) = outputs(script(tmp_path / "run") + again, tmp_path, monkeypatch)[:1]
    assert shown.output_type == "display_data"
    assert "training, loss" in shown.data["text/plain"]
    assert "4/4" in shown.data["text/plain"]
    assert "<pre" in shown.data["text/html"]


def test_a_notebook_may_be_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outputs(script(tmp_path / "run", "progress=False"), tmp_path, monkeypatch) == []


def test_stages_follow_each_other() -> None:
    from rich.progress import Progress

    pictures: list[list[str]] = []

    class Drawn(progress_display.BarDisplay):
        def draw(self) -> None:
            pictures.append([task.description for task in self.bars.tasks])

    display = Drawn(Progress(auto_refresh=False))
    display.drawn_at = 0.0
    display.report("reading", 1, 2)
    display.drawn_at = 0.0
    display.report("encoding", 1, None)
    display.drawn_at = 0.0
    display.note("bag, seed 0")
    assert pictures == [["reading"], ["reading", "encoding"], ["bag, seed 0"]]
