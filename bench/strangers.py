"""Are public inputs that qkv never met read as a person reads them? The list is strangers.toml; it does not change.

    python bench/strangers.py --data FOLDER [NAME ...] [--list FILE] [--json FILE]

FOLDER has a sub-folder for each name, with the files of its `source` as they lie on disk (archives stay archives); a
sub-folder with a single file or folder in it stands for that. `qkv data describe --json` reads each in a process of its
own with limits of memory and time. What is not understood is read again with each option that the message, or a note,
names with a value ("--task regression", and not "--text NAME"), until one is enough. Understood: the task is that of
the list, and so is the number of labels where the list has it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("strangers.toml")
MAX_MESSAGE = 400
OPTION = re.compile(r"--([a-z][a-z0-9-]*)[ =]('[^']+'|\"[^\"]+\"|[^\s,;)]+)")
"""An option with its value in a message. A value in capitals stands for one that the reader has to choose."""
VERBS = {"gives", "learns", "names", "reads", "says", "shows", "takes"}
"""Words that follow the name of an option in a sentence."""


@dataclass(frozen=True)
class Answer:
    """What one call of `describe` printed, and what it took."""

    option: tuple[str, ...]
    task: str
    labels: int | None
    counts: str
    beginning: str
    messages: tuple[str, ...]
    """The error, or else the notes."""
    seconds: float
    peak_mb: int
    exit_code: int

    def is_expected(self, entry: dict[str, Any]) -> bool:
        return self.exit_code == 0 and self.task == entry["task"] and entry.get("labels") in (None, self.labels)

    @property
    def found(self) -> str:
        return self.task if self.labels is None else f"{self.task}, {self.labels} labels"


def describe(path: Path, option: tuple[str, ...], gigabytes: float, seconds: float) -> Answer:
    command = [sys.executable, "-m", "qkv", "data", "describe", str(path), "--json", *option]
    limit = int(gigabytes * 2**30)
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - started
        output.seek(0)
        errors.seek(0)
        printed, complaint = output.read(), errors.read().strip()
    values = json.loads(printed) if process.returncode == 0 else {}
    if taken >= seconds:
        complaint = f"stopped after {seconds:.0f} s. {complaint}"
    crashed = "Traceback" in complaint or process.returncode < 0
    task = "crashed" if crashed else "refused"
    if values:
        task = values.get("task") or "language-modelling"
    counts = values.get("splits") or {"documents": values.get("documents")}
    return Answer(
        option,
        task,
        len(values["labels"]) if values.get("labels") else None,
        ", ".join(f"{name} {count:,}" for name, count in counts.items() if count is not None),
        json.dumps(values.get("beginning", ""), ensure_ascii=False)[:MAX_MESSAGE],
        tuple(values["notes"]) if values else (complaint[-MAX_MESSAGE:] if crashed else complaint,),
        taken,
        usage.ru_maxrss // 1024,
        process.returncode,
    )


def named_options(messages: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The options that messages name with a value, in their order."""
    options: dict[tuple[str, ...], None] = {}
    for name, value in OPTION.findall("\n".join(messages)):
        value = value.rstrip(".`:").strip("'\"")
        if value and value not in VERBS and value != value.upper():
            options[f"--{name}", value] = None
    return list(options)


def only_child(folder: Path) -> Path:
    children = sorted(folder.iterdir())
    return children[0] if len(children) == 1 else folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="entries of strangers.toml; default: all")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--list", type=Path, default=LIST, help="another list of what is expected")
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path, help="a file for what was printed")
    options = parser.parse_args()
    entries = tomllib.loads(options.list.read_text(encoding="utf-8"))
    if unknown := set(options.names) - set(entries):
        parser.error(f"not in {options.list.name}: {', '.join(sorted(unknown))}")
    entries = {name: entry for name, entry in entries.items() if not options.names or name in options.names}
    understood, with_option, report = 0, 0, {}
    for name, entry in entries.items():
        folder = options.data / name
        if not folder.is_dir() or not any(folder.iterdir()):
            print(f"{name:<24} absent: {folder}", flush=True)
            report[name] = {"absent": str(folder)}
            continue
        answers = [describe(only_child(folder), (), options.gigabytes, options.seconds)]
        if not answers[0].is_expected(entry):
            for option in named_options(answers[0].messages):
                answers.append(describe(only_child(folder), option, options.gigabytes, options.seconds))
                if answers[-1].is_expected(entry):
                    break
        good = answers[-1].is_expected(entry)
        understood += good
        with_option += good and len(answers) > 1
        expected = entry["task"] + (f", {entry['labels']} labels" if "labels" in entry else "")
        for answer in answers:
            mark = "yes" if answer.is_expected(entry) else "NO "
            called = " ".join((name, *answer.option))
            print(f"{mark} {called:<44} {answer.found:<32} {answer.counts:<44} ", end="")
            print(f"{answer.seconds:5.1f} s {answer.peak_mb:6,} MB", flush=True)
        if not good:
            print(f"      expected: {expected}")
            for message in answers[0].messages:
                print(f"      {message[:MAX_MESSAGE]}")
        report[name] = {"expected": expected, "understood": good, "answers": [vars(answer) for answer in answers]}
    print(f"{understood} of {len(entries)} understood, {with_option} of them with the option that the message names")
    if options.json:
        options.json.write_text(json.dumps(report, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
