"""What a forked child does: run a command, go on with a run, stand before a write. Imports all that is heavy, once."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import pkgutil
import pty
import resource
import signal
import sys
import termios
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cyclopts
import plotext
import rich.console
import rich.table
import torch
import torch._dynamo  # every optimizer imports it, and it is as heavy as the rest of torch

import qkv
from qkv import api
from qkv import session as sessions
from qkv.cli import app
from qkv.errors import QkvError
from qkv.interop import export
from qkv.recipe import bundle
from qkv.storage import verify_files
from qkv.training import checkpoints
from qkv.training import run as running
from qkv.training.loop import Step
from qkv.training.run import Saved

# Every module now, for those that the commands import late would be imported anew by each child.
for _module in pkgutil.walk_packages(qkv.__path__, "qkv."):
    if _module.name not in ("qkv.__main__", "qkv.library.lm_eval_adapter"):
        importlib.import_module(_module.name)

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate", "os.link")
torch.set_num_threads(1)
assert cyclopts
assert plotext
assert rich.table


def cli(words: list[str], stdin: str | None = None) -> None:
    """What the command `qkv` does."""
    if stdin is not None:
        opened = os.open(stdin, os.O_RDONLY)
        os.dup2(opened, 0)
        os.close(opened)
    app.main(words)


def python(code: str) -> None:
    """What `python -c` does."""
    exec(compile(code, "<block>", "exec"), {"__name__": "__main__"})


def killed(words: list[str], step: int, number: int = signal.SIGKILL, stuck: bool = False) -> None:
    """The command; it gets a signal when it has made this step, before the step is written down.

    `stuck`: the step never ends, as if torch computed on, and a second signal comes.
    """
    steps = running.train

    def cut_short(*given: Any) -> Iterator[Step]:
        for each in steps(*given):
            if each.number == step:
                os.kill(os.getpid(), number)
                while stuck:
                    os.kill(os.getpid(), number)
                    time.sleep(1)
            yield each

    running.train = cut_short
    cli(words)


def counted(words: list[str], at: int = 0, report: str = "") -> None:
    """The command, killed at a point of its progress, if `at` is one; else the report holds how many points it has.

    A point is a step, or a moment before a file is opened for writing, or a name made, changed or removed.
    """
    points, steps = 0, running.train

    def point() -> None:
        nonlocal points
        points += 1
        if points == at:
            os.kill(os.getpid(), signal.SIGKILL)

    def look(event: str, given: tuple[Any, ...]) -> None:
        opened = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if opened or event in CHANGES:
            point()

    def stepping(*given: Any) -> Iterator[Step]:
        for each in steps(*given):
            point()
            yield each

    running.train = stepping
    sys.addaudithook(look)
    try:
        cli(words)
    finally:
        if report:
            Path(report).write_text(str(points))


def several(commands: list[dict[str, Any]], report: str) -> None:
    """Many commands one after the other in one process; a line of the report for each: code, out, err."""
    with open(report, "w", encoding="utf-8") as file:
        for command in commands:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    app.main(command["words"])
                except SystemExit as end:
                    code = end.code
            file.write(json.dumps({"code": code, "out": out.getvalue(), "err": err.getvalue()}) + "\n")
            file.flush()


def go_on(folder: str) -> None:
    """Resume a run and train to its end, without the report that the command prints after it."""
    session = sessions.resume(Path(folder))
    for _ in session.run.events(session.state, session.objective):
        pass


def before_a_write(folder: str, step: int, go: str) -> int:
    """Resume, train to `step`, wait for the file `go`; then evaluate, keep the best model, write the checkpoint."""
    try:
        _write(folder, step, go)
    except QkvError as error:  # as the command says it
        return app.print_error(str(error), error.exit_code)
    return 0


def _write(folder: str, step: int, go: str) -> None:
    session = sessions.resume(Path(folder))
    for event in session.run.events(session.state, session.objective):
        if isinstance(event, Step) and event.number == step:
            sys.stderr.write("ready\n")
            sys.stderr.flush()
            while not os.path.exists(go):
                time.sleep(0.003)
        if isinstance(event, Saved) and event.step == step:
            os._exit(0)


def before_an_export(model: str, folder: str, go: str, force: bool) -> int:
    """Open a model, wait for the file `go`, then write it for Hugging Face; `transformers` stays out of it."""
    opened = api.load(model, device="cpu")
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    while not os.path.exists(go):
        time.sleep(0.003)
    try:
        export.write(Path(folder), opened.bundle, "tiny", force=force, outside=False)
    except QkvError as error:  # as the command says it
        return app.print_error(str(error), error.exit_code)
    return 0


def examine(folder: str) -> None:
    """Say what of a run folder is whole: every checkpoint and the best model, opened as a user would."""
    run = Path(folder)
    found = {"checkpoints": {}, "best": None}
    for path in checkpoints.list_checkpoints(run / "checkpoints"):
        verify_files(path, checkpoints.WEIGHTS, checkpoints.OPTIMIZER, checkpoints.RANDOM, checkpoints.STATE)
        found["checkpoints"][path.name] = hashes(path)
    if (run / "best").exists():
        made = bundle.load(run)
        verify_files(run / "best")
        found["best"] = {"step": made.step, **hashes(run / "best")}
    print(json.dumps(found))


def hashes(folder: Path) -> dict[str, str]:
    from qkv.storage import sha256

    return {path.name: sha256(path) for path in sorted(folder.iterdir())}


def all_finite(folder: str) -> int:
    """Whether every number of every checkpoint and of the best model is one."""
    run = Path(folder)
    files = [path / checkpoints.WEIGHTS for path in checkpoints.list_checkpoints(run / "checkpoints")]
    files += [path for path in [run / "best" / bundle.WEIGHTS] if path.exists()]
    return int(not all(t.isfinite().all() for path in files for t in checkpoints.read_tensors(path).values()))


def fresh(words: list[str]) -> None:
    """The command in a new interpreter."""
    os.execv(sys.executable, [sys.executable, "-c", "from qkv.cli.app import main; main()", *words])


def limited(words: list[str], mebibytes: int) -> None:
    """The command with so much more memory than it has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + mebibytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    app.main(words)


def meddled(words: list[str], path: str, time_opened: int, done: str) -> None:
    """The command, and somebody who deletes the file, or cuts it in half, when it is opened for the so-manieth time."""
    seen = 0

    def look(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if event != "open" or not isinstance(given[0], str | os.PathLike) or os.fspath(given[0]) != path:
            return
        seen += 1
        if seen == time_opened:
            sys.stderr.write("meddled\n")
            os.unlink(path) if done == "deleted" else os.truncate(path, os.path.getsize(path) // 2)

    sys.addaudithook(look)
    app.main(words)


def measured(commands: list[dict[str, Any]], report: str) -> None:
    """As `several`, with the seconds of work that each took and the bytes it needed beyond those held before it."""
    facts = []
    for command in commands:
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
        before, began, worked = _status("VmRSS"), time.monotonic(), _work()
        several([command], f"{report}.one")
        fact = {"seconds": _work() - worked, "waited": time.monotonic() - began, "bytes": _status("VmHWM") - before}
        facts.append({**json.loads(Path(f"{report}.one").read_text()), **fact})
    Path(report).write_text(json.dumps(facts))


def _work() -> float:
    """Seconds that this process and its children have worked: a busy machine makes no difference to them."""
    return sum(os.times()[:4])


def _status(name: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def watched(commands: list[dict[str, Any]], report: str, go: str) -> None:
    """As `several`, once the file `go` is there: whoever watches has come by then."""
    sys.stderr.write("ready\n")
    sys.stderr.flush()
    while not os.path.exists(go):
        time.sleep(0.003)
    several(commands, report)


def guarded(
    words: list[str],
    streams: dict[str, str] | None = None,
    stdin: str | None = None,
    mebibytes: int = 0,
    seconds: int = 0,
    terminal: bool = False,
) -> None:
    """The command within bounds of memory and work, its streams as a shell may leave them; ends as Python does."""
    if terminal:
        _go_to_a_terminal()
    for name, number in (("stdout", 1), ("stderr", 2)):
        if state := (streams or {}).get(name):
            _spoil(number, state)
            fresh = None if state == "closed" else open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            for place in (name, f"__{name}__"):
                setattr(sys, place, fresh)
    if mebibytes:
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes * 2**20,) * 2)
    if seconds:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    code = 1
    try:
        cli(words, stdin)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        code = 120
    os._exit(code)


def _go_to_a_terminal() -> None:
    """Go on in a process whose output is a pseudo-terminal. This one copies what it writes, and ends as it ends."""
    pid, screen = pty.fork()
    if pid == 0:
        settings = termios.tcgetattr(1)
        settings[1] &= ~termios.OPOST  # a line ends with what the command writes
        termios.tcsetattr(1, termios.TCSANOW, settings)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ["TERM"] = "dumb"  # no colours: whatever else steers it came from outside
        return
    with contextlib.suppress(OSError):  # as the other end is closed
        while data := os.read(screen, 65_536):
            os.write(1, data)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(code if code >= 0 else 128 - code)


def _spoil(number: int, state: str) -> None:
    """Make a stream one that is closed, full, read only, or a pipe that nobody reads."""
    if state == "closed":
        os.close(number)
        return
    if state == "pipe":
        reader, opened = os.pipe()
        os.close(reader)
    else:
        opened = os.open(*{"full": ("/dev/full", os.O_WRONLY), "read-only": (os.devnull, os.O_RDONLY)}[state])
    os.dup2(opened, number)
    os.close(opened)
