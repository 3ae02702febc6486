"""T2, T4: a kill or a failing disk at every system call of a checkpoint and best-model write: old or new, no half."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from reliability.injection import Point, Site
from reliability.nursery import Nursery
from reliability.report import record
from reliability.runs import command, fingerprint, left_over, resume

pytestmark = pytest.mark.root
STEP = 6  # the write under test: evaluation, best model, log, checkpoint, rotation


def contents(run: Path) -> frozenset[tuple[str, str]]:
    """Every name of a run folder with the sha256 of what it holds; of timings only how much was written."""
    found = set()
    for path in run.rglob("*"):
        if path.is_symlink():
            held = os.readlink(path)
        elif path.is_dir():
            held = "folder"
        elif path.name == "timings.jsonl":
            held = str([bool(line.endswith("\n")) for line in path.read_text().splitlines(keepends=True)])
        else:
            held = hashlib.sha256(path.read_bytes()).hexdigest()
        name = re.sub(r"\.\d+(?=\.(partial|trash))", "", path.relative_to(run).as_posix())  # the process's id
        found.add((name, held))
    return frozenset(found)


class Ground:
    """A run whose sixth step is written again and again, and what may be found afterwards."""

    def __init__(self, nursery: Nursery, folder: Path, text: Path) -> None:
        self.nursery = nursery
        self.verdicts: dict[frozenset[tuple[str, str]], str] = {}  # "old" or "new", by the files that a trial left
        run = folder / "run"
        every = {"training__checkpoint_every": 2, "training__evaluate_every": 2}
        words = command(text, run, "gpt", steps=8, model__layers=1, **every)
        done = nursery.qkv(*words)
        assert done.code == 0, done.err
        self.wanted = fingerprint(run)
        # stop another one after its fourth step: step 6 is two steps away
        cut = folder / "cut"
        words[words.index("--run") + 1] = str(cut)
        (folder / "go").touch()
        assert nursery.qkv(*words).code == 0
        self._rewind(cut, 4)
        self.site = Site(nursery, cut, STEP)
        self.old = self.examine(cut)
        self.points = self.site.points()
        self.new = self.examine(cut)
        assert self.new["best"] != self.old["best"], "step 6 was not better: the write of best/ would not be tested"

    def _rewind(self, run: Path, step: int) -> None:
        """Back to the state after a step, by resuming from the start and stopping there."""
        for path in [*(run / "checkpoints").iterdir(), *run.glob(".best-*")]:
            shutil.rmtree(path)
        (run / "best").unlink()
        (run / "metrics.jsonl").write_bytes(b"")
        done = self.nursery.call("before_a_write", folder=str(run), step=step, go=str(run.parent / "go"))
        assert done.code == 0, done.err

    def examine(self, run: Path) -> dict[str, Any]:
        done = self.nursery.call("examine", folder=str(run))
        assert done.code == 0, f"the folder does not load: {done.err}"
        return json.loads(done.out)

    def after(self, run: Path, code_wanted: set[int], code: int) -> str:
        """What a trial left behind: old or new, whole, and able to go on to the same bits.

        Many trials leave the very same files; what was found in them once is not looked for again.
        """
        assert code in code_wanted, f"exit code {code}"
        state = contents(run)
        if state not in self.verdicts:
            self.verdicts[state] = self.verdict(run)
        return self.verdicts[state]

    def verdict(self, run: Path) -> str:
        found = self.examine(run)
        known = self.old["checkpoints"] | self.new["checkpoints"]
        assert all(known[name] == hashes for name, hashes in found["checkpoints"].items()), "an unknown checkpoint"
        assert max(found["checkpoints"]) in (max(self.old["checkpoints"]), max(self.new["checkpoints"]))
        assert found["best"] in (self.old["best"], self.new["best"]), "best/ is neither old nor new"
        done = self.nursery.call("go_on", folder=str(run))
        assert done.code == 0, f"does not go on: {done.err}"
        assert fingerprint(run) == self.wanted, "other bits after going on"
        assert left_over(run) == []
        return "new" if max(found["checkpoints"]) == max(self.new["checkpoints"]) else "old"


@pytest.fixture(scope="module")
def ground(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, text: Path) -> Ground:
    return Ground(nursery, tmp_path_factory.mktemp("ground"), text)


def kill_at(ground: Ground, points: list[Point], figure: str) -> None:
    failures: list[str] = []
    found = {"old": 0, "new": 0}
    for point in points:
        ground.site.reset()
        done, _ = ground.site.write("-e", f"inject={point.call}:signal=SIGKILL:when={point.number}")
        try:
            found[ground.after(ground.site.run, {-signal.SIGKILL}, done.code)] += 1
        except (AssertionError, KeyError, ValueError) as error:
            failures.append(f"{point}: {error}")
    states = len(ground.verdicts)
    record(figure, len(points), len(failures), points_in_all=len(ground.points), states=states, **found)
    assert not failures, "\n".join(failures)


def test_kills_at_every_system_call(ground: Ground) -> None:
    kill_at(ground, ground.points, "T2 kill at every system call of a write")


def fail_at(ground: Ground, points: list[tuple[Point, str, str]], figure: str) -> None:
    """The disk refuses, once or from then on: exit 4, one line with the path, nothing lost."""
    failures: list[str] = []
    found = {"old": 0, "new": 0}
    for point, error_name, more in points:
        ground.site.reset()
        done, _ = ground.site.write("-e", f"inject={point.call}:error={error_name}:when={point.number}{more}")
        try:
            found[ground.after(ground.site.run, {4}, done.code)] += 1
            said = done.err.replace("ready\n", "").strip()
            assert said.count("\n") == 0, f"more than one line: {said}"
            assert str(ground.site.run) in said
            assert "bytes are free" in said
        except (AssertionError, KeyError, ValueError) as error:
            failures.append(f"{point} {error_name}{more}: {error}: {done.err[-300:]}")
    record(figure, len(points), len(failures), **found)
    assert not failures, "\n".join(failures)


def disk_points(ground: Ground) -> list[tuple[Point, str, str]]:
    """Writes, flushes, renames and new names of the write under test, each with errors that fit."""
    kinds = {
        "write": ("ENOSPC", "EIO", "EDQUOT"),
        "fsync": ("ENOSPC", "EIO", "EDQUOT"),
        "rename": ("EIO", "ENOSPC"),
        "mkdir": ("ENOSPC", "EROFS"),
        "symlink": ("ENOSPC", "EDQUOT", "EIO"),
    }
    # a write that fails for good would also fail on the way to standard error
    lasting = {call: ("",) if call == "write" else ("", "+") for call in kinds}
    return [(p, name, more) for p in ground.points for name in kinds.get(p.call, ()) for more in lasting[p.call]]


def test_a_failing_disk_at_some_system_calls(ground: Ground) -> None:
    fail_at(ground, disk_points(ground)[::5], "T4 the disk refuses at system calls of a write")


@pytest.mark.slow
def test_a_failing_disk_at_every_system_call(ground: Ground) -> None:
    fail_at(ground, disk_points(ground), "T4 the disk refuses at every system call of a write, slow")


@pytest.mark.slow
def test_the_command_goes_on_after_a_kill(ground: Ground) -> None:
    """The same with `qkv train --resume` instead of the library, at a few points."""
    failures = []
    for point in ground.points[::25]:
        ground.site.reset()
        ground.site.write("-e", f"inject={point.call}:signal=SIGKILL:when={point.number}")
        done = ground.nursery.qkv(*resume(ground.site.run))
        if done.code or fingerprint(ground.site.run) != ground.wanted:
            failures.append(f"{point}: {done.err}")
    record("T2 kill at system calls, resumed by the command, slow", len(ground.points[::25]), len(failures))
    assert not failures
