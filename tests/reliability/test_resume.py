"""Every kind of run, killed and resumed: the bits of the run that nobody interrupted. The list is the project's own."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import small_tasks
from damaged_logs import NO_LINES
from reliability import families
from reliability.families import Family
from reliability.nursery import Nursery
from reliability.runs import fingerprint, left_over, resume

STEPS = 6
Written = Callable[[str], list[str]]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Tiny data of every kind, each written once."""
    folder, made = tmp_path_factory.mktemp("data"), {}
    return lambda data: made.setdefault(data, families.write(folder / data.replace(", ", "-"), data))


def interrupted(nursery: Nursery, tmp_path: Path, family: Family, data: list[str], steps: list[int]) -> None:
    """Kill a run like the whole one at each of these steps, resume it, compare."""
    start = small_tasks.origin(tmp_path / "origin", family.start) if family.start else None
    done = nursery.qkv(*families.command(family, data, tmp_path / "whole", start=start, steps=STEPS))
    assert done.code == 0, done.err
    wanted = fingerprint(tmp_path / "whole")
    for step in steps:
        run = tmp_path / f"killed-{step}"
        words = families.command(family, data, run, start=start, steps=STEPS)
        assert nursery.call("killed", words=words, step=step).code == -signal.SIGKILL
        done = nursery.qkv(*resume(run))
        assert done.code == 0, f"killed at step {step}: {done.err}"
        assert fingerprint(run) == wanted, f"killed at step {step}: other bits"
        assert left_over(run) == []


@pytest.mark.parametrize("family", [*families.one_of_each(), *families.tuned()], ids=str)
def test_every_family_goes_on_after_a_kill(nursery: Nursery, tmp_path: Path, written: Written, family: Family) -> None:
    interrupted(nursery, tmp_path, family, written(family.data), [5])  # between checkpoints, after an evaluation


@pytest.mark.slow
@pytest.mark.parametrize("family", [*families.families(), *families.tuned()], ids=str)
def test_every_family_goes_on_after_a_kill_at_every_step(
    nursery: Nursery, tmp_path: Path, written: Written, family: Family
) -> None:
    interrupted(nursery, tmp_path, family, written(family.data), list(range(1, STEPS + 1)))


def test_every_kind_of_data_and_every_model_is_among_those_killed() -> None:
    chosen = families.one_of_each()
    assert {family.data for family in chosen} == set(families.DATA)
    assert {family.model for family in chosen} == {family.model for family in families.families()}


@pytest.mark.parametrize("data", families.DATA)
def test_data_that_changed_or_moved(nursery: Nursery, tmp_path: Path, data: str) -> None:
    """A run goes on with its own data only: otherwise it says which file, and what to do."""
    words = families.write(tmp_path / "data", data)
    file, run = Path(words[0]), tmp_path / "run"
    command = families.command(Family(data, families.models(data)[0]), words, run, steps=4)
    assert nursery.call("killed", words=command, step=3).code == -signal.SIGKILL
    moved = file.with_name("moved")
    file.rename(moved)
    gone = nursery.qkv(*resume(run))
    assert (gone.code, "Traceback" in gone.err) == (2, False), gone.err
    assert str(file) in gone.err
    if data == "images":
        small_tasks.write(tmp_path / "other", "images")
        other = (tmp_path / "other" / "pictures.npz").read_bytes()
        file.write_bytes(other[:-64] + bytes(64))  # not even an archive any more
    else:
        lines = moved.read_text(encoding="utf-8").splitlines(keepends=True)
        file.write_text("".join([*lines[:1], *lines[2:], lines[1]]), encoding="utf-8")
    other = nursery.qkv(*resume(run))
    assert (other.code, "Traceback" in other.err) == (2, False), other.err
    assert str(file) in other.err
    shutil.move(moved, file)
    done = nursery.qkv(*resume(run))
    assert done.code == 0, done.err


@pytest.mark.parametrize("data", ["text", "classification", "numbers", "translation"])
def test_damaged_logs_are_no_fault(nursery: Nursery, tmp_path: Path, data: str) -> None:
    """Lines that no run writes are left out, with a note; training does not use the logs."""
    words = families.write(tmp_path / "data", data)
    family, first = Family(data, families.models(data)[-1]), tmp_path / "first"
    assert nursery.qkv(*families.command(family, words, first, steps=4)).code == 0
    before = fingerprint(first)
    for log in ("metrics.jsonl", "timings.jsonl"):
        for kept in (2, 0):  # a shorter log than the checkpoint knows is refused, so the first line is a long one
            run = tmp_path / f"{log}-{kept}"
            shutil.copytree(first, run, symlinks=True)
            lines = (run / log).read_bytes().splitlines(keepends=True)
            (run / log).write_bytes(b"".join([*lines[:kept], b"[" * 10_000 + b"\n", *NO_LINES.values()]))
            state = next((run / "checkpoints").glob("*4/state.json"))
            known = json.loads(state.read_text())["memory"]["metrics_bytes"]
            assert (run / log).stat().st_size > known or log == "timings.jsonl"
            done = nursery.qkv(*resume(run))
            assert done.code == 0, f"{log}, {kept} good lines: {done.err}"
            assert "damaged lines are left out" in done.err
            after = fingerprint(run)
            assert {name for name in before if before[name] != after[name]} <= {"metrics.jsonl"}
