"""strace on a child that stands before a write: count its system calls, then kill it or fail it at each of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from reliability.nursery import PATIENCE, Child, Done, Nursery

# every call that changes a file, a name or a folder, or asks the disk to keep it
CALLS = "openat,write,pwrite64,writev,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,mkdirat"
CALLS += ",symlink,symlinkat,ftruncate,close,copy_file_range,msync,fallocate"


class Point(NamedTuple):
    """The number-th use of a system call."""

    call: str
    number: int


class Site:
    """A run folder before the write of a step: copied anew for every trial."""

    follow: tuple[str, ...] = ("-f",)  # whether strace looks at children and threads too

    def __init__(self, nursery: Nursery, run: Path, step: int) -> None:
        self.nursery, self.run, self.step = nursery, run, step
        self.before = run.with_name(run.name + "-before")
        if not self.before.exists():
            shutil.copytree(run, self.before, symlinks=True)

    def reset(self) -> None:
        shutil.rmtree(self.run)
        shutil.copytree(self.before, self.run, symlinks=True)

    def start(self, go: Path) -> Child:
        """A child that says "ready" and writes once the file `go` is there."""
        return self.nursery.start("before_a_write", folder=str(self.run), step=self.step, go=str(go))

    def write(self, *options: str) -> tuple[Done, str]:
        """Let the child do the write under strace with these options; what became of it, and strace's log."""
        go = self.nursery.folder / f"go-{self.nursery.count}"
        log = self.nursery.folder / f"strace-{self.nursery.count}.log"
        child = self.start(go)
        _until(lambda: "ready" in child.err.read_text(), child.err)
        words = [
            "strace",
            *self.follow,
            "-y",
            "-s",
            "0",
            "-o",
            str(log),
            "-p",
            str(child.pid),
            "-e",
            f"trace={CALLS}",
            *options,
        ]
        tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        assert tracer.stderr
        assert "attached" in tracer.stderr.readline()
        go.touch()
        tracer.communicate(timeout=PATIENCE)  # it ends with the child
        done = child.wait()
        go.unlink()
        return done, log.read_text()

    def points(self) -> list[Point]:
        """Every system call of the write that touches files, in order."""
        done, log = self.write()
        assert done.code == 0, done.err
        seen: Counter[str] = Counter()
        found = []
        for line in log.splitlines():
            if match := re.match(r"(?:\d+\s+)?(\w+)\(", line):
                seen[match[1]] += 1
                if self.counts(line):
                    found.append(Point(match[1], seen[match[1]]))
        return found

    def counts(self, line: str) -> bool:
        """Whether a line of strace's log is a call to try."""
        return True


def attached(child: Child, folder: Path, calls: str) -> str:
    """Let a child that waits for the file `go` of a folder do its work under strace, and give strace's log."""
    log = folder / "strace.log"
    _until(lambda: "ready" in child.err.read_text(), child.err)
    words = ["strace", "-f", "-s", "4096", "-o", str(log), "-p", str(child.pid), "-e", f"trace={calls}"]
    tracer = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr
    assert "attached" in tracer.stderr.readline()
    (folder / "go").touch()
    child.wait()
    tracer.communicate(timeout=PATIENCE)
    return log.read_text(errors="replace")


def _until(ready: object, err: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not ready():  # type: ignore[operator]
        if time.monotonic() > end:
            raise TimeoutError(err.read_text())
        time.sleep(0.005)
