"""A process that has imported torch and qkv once and forks a child for every trial: imports cost seconds.

It runs outside pytest (no threads, no checked annotations), takes one JSON line per order and answers with one:
{"call": "cli", "with": {...}, "out": path, "err": path, "cwd": path, "environment": {...}} -> {"pid": n}
{"wait": n, "seconds": s} -> {"code": n}, as subprocess counts: negative for a signal; null when the time is over
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
SOURCE = HERE.parents[2] / "src"
PATIENCE = 900  # seconds for what takes a few: a busy machine is no failure


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Child:
    """A trial under way."""

    def __init__(self, nursery: Nursery, pid: int, out: Path, err: Path) -> None:
        self.nursery, self.pid, self.out, self.err = nursery, pid, out, err

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def wait(self, seconds: float = PATIENCE) -> Done:
        code = self.nursery.order({"wait": self.pid, "seconds": seconds})["code"]
        if code is None:
            self.kill()
            self.nursery.order({"wait": self.pid, "seconds": PATIENCE})
            raise TimeoutError(f"no end after {seconds} s; it said: {self.err.read_text()[-500:]}")
        out, err = (path.read_text(encoding="utf-8", errors="replace") for path in (self.out, self.err))
        return Done(code, out, err)


class Nursery:
    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        folder.mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE.parents[1]}",
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self.process = subprocess.Popen(
            [sys.executable, str(HERE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def order(self, words: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(
        self, call: str, *, cwd: Path | None = None, environment: dict[str, str] | None = None, **given: Any
    ) -> Child:
        """Fork a child that calls a function of children.py."""
        self.count += 1
        out, err = (self.folder / f"{self.count}.{name}" for name in ("out", "err"))
        out.touch()
        err.touch()
        words = {"call": call, "with": given, "out": str(out), "err": str(err), "environment": environment or {}}
        answer = self.order({**words, "cwd": str(cwd or self.folder)})
        return Child(self, answer["pid"], out, err)

    def call(self, call: str, *, seconds: float = PATIENCE, **given: Any) -> Done:
        return self.start(call, **given).wait(seconds)

    def qkv(self, *words: object, seconds: float = PATIENCE, **given: Any) -> Done:
        """A command, as a person types it."""
        return self.call("cli", words=[str(word) for word in words], seconds=seconds, **given)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def serve() -> None:
    from reliability import children

    gc.collect()
    gc.freeze()  # otherwise a child's first collection copies the pages of all that was imported
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        words = json.loads(line)
        answer = {"code": _wait(words)} if "wait" in words else {"pid": _fork(children, words)}
        print(json.dumps(answer), flush=True)


def _wait(words: dict[str, Any]) -> int | None:
    until = time.monotonic() + words["seconds"]
    while time.monotonic() < until:
        pid, status = os.waitpid(words["wait"], os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


def _fork(children: Any, words: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        for descriptor, path in ((0, os.devnull), (1, words["out"]), (2, words["err"])):
            opened = os.open(path, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.chdir(words["cwd"])
        os.environ.update(words["environment"])
        signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may ignore it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        code = getattr(children, words["call"])(**words["with"]) or 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
