"""The log of a run: a line that is damaged or altered is left out, and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from damaged_logs import NO_LINES
from qkv.training.metrics_log import MetricsLog, TimingsLog, count_damaged, elapsed_seconds, read


@pytest.mark.parametrize("name", NO_LINES)
def test_a_line_that_no_run_writes_is_left_out(tmp_path: Path, name: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 2.5}\n' + NO_LINES[name] + b'{"step": 2, "loss": null}\n{"step": 3, "lo')
    assert read(path) == [{"step": 1, "loss": 2.5}, {"step": 2, "loss": None}]
    assert count_damaged(path) == 1  # what a crash cut short is no damage


@pytest.mark.parametrize("name", NO_LINES)
def test_seconds_go_on_from_the_last_sound_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / "timings.jsonl"
    path.write_bytes(b'{"step": 1, "seconds": 2.5, "tokens_per_second": 8}\n' + NO_LINES[name])
    assert elapsed_seconds(path) == 2.5
    timings = TimingsLog(path)
    timings.add_step(2, 8)
    timings.close()
    assert [line["step"] for line in read(path)] == [1, 2]
    assert elapsed_seconds(path) >= 2.5


def test_what_a_run_writes_is_read(tmp_path: Path) -> None:
    journal = MetricsLog(tmp_path / "metrics.jsonl")
    journal.write(step=1, loss=float("nan"), gradient_norm=3e38, rate_share=0.5)
    journal.write(step=1, validation_loss=2.0, validation_parts=[1.0, 2.0])
    journal.close()
    assert count_damaged(journal.path) == 0
    assert [line.get("loss", "none") for line in read(journal.path)] == [None, "none"]
