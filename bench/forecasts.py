"""What `qkv train` says before and what came: seconds of the whole command, and memory at its peak, for ten real runs.

python bench/forecasts.py TINYSHAKESPEARE SOTU NAMES
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHILD = """
import json, re, sys
from pathlib import Path
import qkv.cli.output  # the command counts from here
import qkv.api
from qkv.cli import app
from qkv.recipe import memory
from qkv import session as sessions
from qkv.tasks.registry import load_recipe

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = peak()
try:
    app.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps([peak() - before, memory.forecast(load_recipe(Path("run/recipe.toml"))).total]))
"""
RUNS: list[tuple[int, str]] = [
    (0, "--steps 80"),
    (0, "--minutes 0.5"),
    (0, "--model gpt-nano --tokenizer characters --steps 150 --set model.dropout=0.1"),
    (0, "--model lstm --steps 80"),
    (0, "--model gru --tokenizer characters --steps 100"),
    (0, "--model cnn --steps 60"),
    (0, "--model gpt --steps 60 --set model.dropout=0.1 --set training.accumulate=2"),
    (0, "--steps 30 --set model.layers=6 --set model.width=192 --set model.heads=6 --set model.context=256"),
    (1, "--steps 60"),
    (2, "--tokenizer characters --steps 150"),
]


def clock(words: str) -> float:
    """Seconds in "1 min 05 s", "34 s" or "4.6 min"."""
    found = re.match(r"(?:(\d+) min (\d+) s|(\d+) s|([\d.]+) min)", words)
    assert found, words
    minutes, rest, seconds, parts = found.groups()
    return 60 * float(minutes) + float(rest) if minutes else float(seconds) if seconds else 60 * float(parts)


def run(text: Path, words: str) -> tuple[float, float, float, float]:
    """Seconds said and taken, bytes said and taken."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        order = [sys.executable, "-c", CHILD, "train", str(text), *words.split(), "--run", "run"]
        process = subprocess.Popen(
            order, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
        )
        assert process.stderr
        said, heard = None, []
        for line in process.stderr:
            heard.append(line)
            if found := re.match(r"time +about (.*) in all", line):
                said = clock(found[1])
            elif (found := re.match(r"plan +.*epochs, about (\S+ \w+)", line)) and "GiB" not in found[1]:
                said = time.perf_counter() - began + clock(found[1])
        out = process.stdout.read() if process.stdout else ""
        if process.wait() or said is None:
            raise SystemExit("".join(heard))
        taken, needed = json.loads(out.splitlines()[-1])
        return said, time.perf_counter() - began, needed, taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs=3, type=Path, help="Tiny Shakespeare, State of the Union, names")
    texts = [path.resolve() for path in parser.parse_args().texts]
    print("| run | seconds said | taken | off | MiB said | taken | off |\n|---|---|---|---|---|---|---|")
    for number, words in RUNS:
        said, taken, needed, used = run(texts[number], words)
        time_part = f"{said:.0f} | {taken:.0f} | {said / taken - 1:+.0%}"
        print(
            f"| {texts[number].name} {words} | {time_part} | {needed / 2**20:.0f} | {used / 2**20:.0f} "
            f"| {needed / used - 1:+.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
