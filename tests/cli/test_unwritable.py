"""Files beside the answer that cannot be written: they stop nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from qkv.cli import app, tensorboard
from qkv.training.loop import Step


def test_the_traceback_of_a_bug_without_a_place_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ValueError) as caught:
        raise ValueError("unforeseen")
    assert app.report_bug(caught.value) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1].startswith("qkv: this is a bug in qkv, not in your input: ValueError: unforeseen. The traceback")


@pytest.mark.parametrize("late", [False, True])
def test_tensorboard_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], late: bool
) -> None:
    """Refused when they are opened, or when they are written, which a thread of tensorboard does."""
    writing = pytest.importorskip("tensorboard.summary.writer.record_writer")
    if late:
        full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115
        monkeypatch.setattr(writing.RecordWriter, "write", lambda self, data: full.write(data))
    else:
        (tmp_path / "tensorboard").write_text("a file is in the way")
    with tensorboard.tensorboard_writer(tmp_path, True) as record:
        for number in range(200):  # more than tensorboard keeps before it waits for its thread
            record(Step(number, 1.0, 1.0, 1.0, 5))
    if late:
        full.close()
    said = capsys.readouterr().err
    reason = "No space left on device" if late else "File exists"
    assert said == f"note: {tmp_path / 'tensorboard'}: {reason}; the run continues without TensorBoard files\n"
