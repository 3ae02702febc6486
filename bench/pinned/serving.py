"""The process of one commit: imports torch and qkv once, forks a child for every command, and answers with outcomes.

PYTHONPATH=COMMIT/src python serving.py ORDERS ANSWERS WORKERS SECONDS, where ORDERS is a JSON list of name, words,
needs, out; ANSWERS gets a line of JSON for each as soon as it has ended; none starts after SECONDS (0: no limit). Paths
are relative to the current folder.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

LONGEST = 600  # seconds for a command that takes a few


def preload() -> None:
    """Import whatever of qkv can be imported: a child then starts in milliseconds."""
    import importlib
    import pkgutil

    import torch

    import qkv

    torch.set_num_threads(1)
    for found in pkgutil.walk_packages(qkv.__path__, "qkv."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ImportError:  # an optional package is absent
                continue


def child(order: dict[str, Any]) -> None:
    """Run the command as `python -m qkv` does, its streams into files."""
    code = 70
    try:
        for descriptor, name in ((0, os.devnull), (1, f"{order['out']}/stdout"), (2, f"{order['out']}/stderr")):
            opened = os.open(name, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(opened, descriptor)
            os.close(opened)
        sys.argv = ["qkv", *order["words"]]
        from qkv.__main__ import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(orders: list[dict[str, Any]], answers: Path, workers: int, seconds: float = 0.0) -> None:
    ends = time.monotonic() + seconds
    waiting, running, ended = list(orders), {}, set()
    names = {order["name"] for order in orders}
    with answers.open("a", encoding="utf-8") as file:
        while waiting or running:
            if seconds and time.monotonic() > ends:
                waiting = []
            if not (waiting or running):
                break
            ready = [order for order in waiting if all(need in ended or need not in names for need in order["needs"])]
            while ready and len(running) < workers:
                order = ready.pop(0)
                waiting.remove(order)
                shutil.rmtree(order["out"], ignore_errors=True)
                Path(order["out"]).mkdir(parents=True)
                pid = os.fork()
                if not pid:
                    child(order)
                running[pid] = (order, time.monotonic())
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                order, began = running.pop(pid)
                ended.add(order["name"])
                answer = {"name": order["name"], "words": order["words"], "code": os.waitstatus_to_exitcode(status)}
                file.write(json.dumps({**answer, "seconds": round(time.monotonic() - began, 2)}) + "\n")
                file.flush()
                continue
            for pid, (_, began) in running.items():
                if time.monotonic() - began > LONGEST:
                    os.kill(pid, 9)
            time.sleep(0.005)


if __name__ == "__main__":
    preload()
    asked = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    serve(asked, Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
