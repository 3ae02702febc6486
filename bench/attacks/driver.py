"""Runs trials two at a time, each child forked from a process that has imported all; keeps a line of JSON for each."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from reliability.nursery import SOURCE, Nursery

LONGEST = 300.0  # seconds that anything may take on a machine that is busy
UGLY = ("Traceback (most recent", "terminate called", "Fatal Python error", "Exception ignored", "Segmentation fault")
Facts = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """A command that has ended: as subprocess counts, negative for a signal; None when it never ended by itself."""

    code: int | None
    out: bytes
    err: bytes
    seconds: float

    def problems(self, *allowed: int) -> list[str]:
        """What no command may do, whatever it was given."""
        found = []
        shown = (self.err or self.out).decode(errors="backslashreplace").strip()  # a terminal has one stream for both
        if self.code is None:
            found.append(f"did not end in {self.seconds:.0f} s")
        elif self.code == 1 or self.code < 0 or self.code > 5:
            if self.code not in allowed:
                found.append(f"exit {self.code}: {shown[-300:]}{_cause(shown)}")
        elif allowed and self.code not in allowed:
            found.append(f"exit {self.code}, expected {' or '.join(map(str, allowed))}: {shown[-300:]}")
        if not _before_qkv(shown):
            found += [f"{word!r} was shown: {shown[-400:]}" for word in UGLY if word in shown]
        return found


def _before_qkv(shown: str) -> bool:
    """Whether Python itself was interrupted, before it had read the first line of qkv: no program can change that."""
    files = re.findall(r'File "(.*?)", line', shown)
    return bool(files) and shown.endswith("KeyboardInterrupt") and not any("qkv" in Path(file).parts for file in files)


def _cause(message: str) -> str:
    """The last frames of the traceback that a fault leaves in a file."""
    if not (place := re.search(r"The traceback is in (\S+);", message)) or not Path(place[1]).exists():
        return ""
    frames = re.findall(r'File ".*?/(qkv/\S+)", line (\d+)', Path(place[1]).read_text(encoding="utf-8"))
    return " <- " + " <- ".join(f"{file}:{line}" for file, line in frames[:-4:-1])


class Suite(Protocol):
    """A module of this package: draws trials, and carries one out."""

    COUNT: int

    def draw(self, chance: random.Random, count: int) -> list[Facts]: ...

    def attempt(self, worker: Worker, facts: Facts) -> list[str]: ...


class Worker:
    """One pair of hands: a nursery of its own, and a folder for the trial under way."""

    def __init__(self, folder: Path, stage: Path, number: int) -> None:
        self.stage, self.root = stage, folder / f"worker-{number}"
        self.nursery = Nursery(self.root)
        self.here = self.root / "trial"
        self.commands: list[str] = []

    def fresh(self, name: str) -> None:
        """A new folder for the next trial."""
        self.here = self.root / name
        self.here.mkdir(parents=True)
        self.commands = []

    def words(self, words: list[str]) -> list[str]:
        placed = [word.replace("{stage}", str(self.stage)).replace("{here}", str(self.here)) for word in words]
        self.commands.append(shell(["qkv", *placed]))
        return placed

    def start(self, words: list[str], **given: Any) -> Running:
        """A fork that runs the command. `given` as reliability.children.guarded takes it."""
        child = self.nursery.start("guarded", words=self.words(words), cwd=self.here, **given)
        return Running(child.pid, lambda: self.nursery.order({"wait": child.pid, "seconds": 0.05})["code"], child)

    def real(self, words: list[str], before: Sequence[str] = (), **given: Any) -> Running:
        """The command as a process of its own, started by the words `before` it."""
        out, err = (self.here / f"real.{name}" for name in ("out", "err"))
        environment = {**os.environ, "PYTHONPATH": str(SOURCE), "QKV_CACHE": str(self.root / "cache")}
        program = [*before, sys.executable, "-m", "qkv", *self.words(words)]
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            streams = {"stdout": stdout, "stderr": stderr, "stdin": subprocess.DEVNULL, **given}
            process = subprocess.Popen(program, cwd=self.here, env={**environment, "OMP_NUM_THREADS": "1"}, **streams)

        def poll() -> int | None:
            time.sleep(0.01)
            return process.poll()

        return Running(process.pid, poll, Files(out, err))

    def qkv(self, words: list[str], seconds: float = LONGEST, **given: Any) -> Ended:
        return self.start(words, **given).wait(seconds)

    def close(self) -> None:
        self.nursery.__exit__(None, None, None)


@dataclass(frozen=True)
class Files:
    out: Path
    err: Path


@dataclass
class Running:
    """A command under way."""

    pid: int
    poll: Callable[[], int | None]
    files: Any  # with out and err
    began: float = field(default_factory=time.monotonic)

    def kill(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = LONGEST, *, kill: bool = True) -> Ended:
        """Until it ends, or so long; what goes on is killed unless `kill` is false."""
        code, until = self.poll(), time.monotonic() + seconds
        while code is None and time.monotonic() < until:
            code = self.poll()
        spent = time.monotonic() - self.began
        if code is None and kill:
            self.kill(9)
            while self.poll() is None:
                pass
        return Ended(code, self.files.out.read_bytes(), self.files.err.read_bytes(), spent)


def shell(words: list[str]) -> str:
    """Words as one can paste them into bash, whatever they are made of."""
    import shlex

    def quoted(word: str) -> str:
        raw = (
            os.fsencode(word)
            if not re.search("[\ud800-\udc7f\udd00-\udfff]", word)
            else word.encode("utf-8", "replace")
        )
        if all(32 <= byte < 127 for byte in raw):
            return shlex.quote(word)
        safe = "".join(chr(b) if 32 <= b < 127 and b not in b"\\'" else f"\\x{b:02x}" for b in raw)
        return f"$'{safe}'"

    return " ".join(map(quoted, words))


def drive(
    suites: dict[str, Suite], seed: int, counts: dict[str, int], workers: list[Worker], out: Path, only: set[int]
) -> list[Facts]:
    """Every trial that `out` does not hold yet; all of its lines in the end."""
    known = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.exists() else []
    done = {(line["suite"], line["seed"], line["number"]) for line in known}
    queue = []
    for name, suite in suites.items():
        for number, facts in enumerate(suite.draw(random.Random(f"{name} {seed}"), counts[name])):
            if (name, seed, number) not in done and (not only or number in only):
                queue.append((name, number, facts))
    queue.reverse()
    lock, total = threading.Lock(), len(queue)

    def work(worker: Worker) -> None:
        while True:
            with lock:
                if not queue:
                    return
                name, number, facts = queue.pop()
            line = _one(suites[name], worker, name, seed, number, facts)
            with lock:
                known.append(line)
                with open(out, "a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                if line["problems"]:
                    print(f"{report(line)}\n", file=sys.stderr, flush=True)
                if len(queue) % 25 == 0:
                    print(f"{total - len(queue)} of {total} begun", file=sys.stderr, flush=True)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [line for line in known if line["seed"] == seed and line["suite"] in suites]


def _one(suite: Suite, worker: Worker, name: str, seed: int, number: int, facts: Facts) -> Facts:
    worker.fresh(f"{name}-{seed}-{number}")
    began = time.monotonic()
    try:
        problems = suite.attempt(worker, facts)
    except Exception as error:  # the trial itself is at fault, and that must not pass for a success
        problems = [f"the trial broke: {type(error).__name__}: {error}"]
    line = {"suite": name, "seed": seed, "number": number, "facts": facts, "problems": problems}
    line |= {"commands": worker.commands, "seconds": round(time.monotonic() - began, 2)}
    if not problems:
        shutil.rmtree(worker.here, ignore_errors=True)
    return line


def report(line: Facts) -> str:
    commands = "\n".join(f"    {command}" for command in line["commands"])
    problems = "\n".join(f"  {problem}" for problem in line["problems"])
    return f"{line['suite']} {line['number']} {json.dumps(line['facts'])}\n{problems}\n{commands}"


def table(lines: list[Facts], wall: float) -> str:
    """Trials, failures and seconds of each suite; then every failure with its commands."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    rows = ["suite      trials  failed  commands  seconds"]
    for suite in dict.fromkeys(line["suite"] for line in lines):
        own = [line for line in lines if line["suite"] == suite]
        failed = sum(bool(line["problems"]) for line in own)
        commands, spent = sum(len(line["commands"]) for line in own), sum(line["seconds"] for line in own)
        rows.append(f"{suite:<9}  {len(own):>6}  {failed:>6}  {commands:>8}  {spent:>7.0f}")
    rows.append(f"wall {wall:.0f} s, CPU {sum(each.ru_utime + each.ru_stime for each in used):.0f} s")
    failures = [report(line) for line in lines if line["problems"]]
    return "\n".join([*rows, "", *failures])
