"""T10: no more memory, at many levels: exit 2, batch x context and what needs less are said, the last state whole."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from reliability.nursery import Done, Nursery
from reliability.report import record
from reliability.runs import command, fingerprint, left_over, resume

BATCH, CONTEXT = 32, 128
SHAPE = {"model__context": CONTEXT, "model__width": 96, "model__layers": 3, "training__batch": BATCH}
EVERY = {"training__accumulate": 1, "training__checkpoint_every": 1, "training__evaluate_every": 2, "training__keep": 4}
SOME = [1, 8, 60]  # mebibytes above what the process has before it starts; a step of this run needs some 300
MANY = list(range(2, 102, 5))


def said(done: Done) -> str:
    """The one line that says why the command ended."""
    assert "Traceback" not in done.err
    lines = [line for line in done.err.splitlines() if line.startswith("qkv: ")]
    assert done.code == 2, f"exit {done.code}: {done.err}"
    assert len(lines) == 1, done.err
    assert "not enough memory" in lines[0]
    assert "bug in qkv" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("levels", [SOME, pytest.param(MANY, marks=pytest.mark.slow)], ids=["some", "many"])
def test_too_little_memory(nursery: Nursery, tmp_path: Path, text: Path, levels: list[int]) -> None:
    words = command(text, tmp_path / "whole", steps=4, **SHAPE, **EVERY)
    assert nursery.qkv(*words).code == 0
    wanted = fingerprint(tmp_path / "whole")
    failures, sized, lines = [], 0, []
    for level in levels:
        run = tmp_path / f"run-{level}"
        shutil.copytree(tmp_path / "whole", run, symlinks=True)
        for number in ("000003", "000004"):
            shutil.rmtree(run / "checkpoints" / number)
        try:
            line = said(nursery.call("limited", words=resume(run), mebibytes=level))
            lines.append(f"{level} MiB: {line}")
            sized += f"{BATCH} x {CONTEXT}" in line and "--set training.accumulate=2" in line
            done = nursery.qkv(*resume(run))
            assert done.code == 0, done.err
            assert fingerprint(run) == wanted
            assert left_over(run) == []
        except AssertionError as error:
            failures.append(f"{level} MiB: {error}")
    record(f"T10 too little memory, {len(levels)} levels", len(levels), len(failures), named_batch_and_context=sized)
    assert not failures, "\n".join(failures)
    assert sized >= len(levels) - 1, lines  # where not even the text can be read, there is no batch yet


def test_what_is_said_leads_to_a_run_that_fits(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    parts = 1
    for trial in range(8):
        more = {**SHAPE, **EVERY, "training__accumulate": parts}
        words = command(text, tmp_path / f"{trial}", steps=2, **more)
        done = nursery.call("limited", words=words, mebibytes=120)
        if not done.code:
            break
        found = re.search(r"training\.accumulate=(\d+)", said(done))
        assert found, done.err
        assert int(found[1]) >= 2 * parts
        parts = int(found[1])
    assert done.code == 0
    assert parts > 1
