"""D5: hostile models are refused in words, soon, and cheaply; none runs a program, calls anybody or reads elsewhere."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import hostile
from interop.hostile import CASES, OUTSIDE, RAN, Case
from reliability.injection import attached
from reliability.nursery import Nursery
from reliability.report import record

SECONDS, BYTES = 2.0, 200 * 2**20
# every call that opens a file, runs a program or speaks to somebody
CALLS = "open,openat,openat2,execve,execveat,connect,sendto,bind,socket,truncate,unlink,rename,chmod,readlink"

Made = list[tuple[Case, Path]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made(root: Path) -> Made:
    return hostile.build(root)


def words(path: Path) -> list[str]:
    return ["generate", str(path), "hello", "--length", "1", "--precision", "f32"]


def complaint(case: Case, code: int, err: str) -> str | None:
    """What is wrong with an answer, or None."""
    if code not in case.codes:
        return f"exit {code}, expected {case.codes}"
    if code == 0:
        return None
    if err.count("\n") != 1 or not err.startswith("qkv: "):
        return "not one line"
    if any(word in err for word in ("Traceback", "panicked", "bug in qkv")):
        return "shows its inside"
    return None if re.search(case.says, err) else f"does not say {case.says!r}"


def test_there_are_enough() -> None:
    assert len([case for case in CASES if 0 not in case.codes]) >= 200
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_hostile_model_is_refused_soon_and_cheaply(nursery: Nursery, made: Made, tmp_path: Path) -> None:
    """One after the other in a process that has opened a good model before."""
    good = next(path for case, path in made if 0 in case.codes)
    refused = [(case, path) for case, path in made if 0 not in case.codes]
    report = tmp_path / "report.json"
    commands = [{"words": words(path)} for path in (good, *(path for _, path in refused))]
    done = nursery.call("measured", commands=commands, report=str(report), seconds=1800)
    assert done.code == 0, done.err
    found = json.loads(report.read_text())[1:]
    failures = []
    for (case, _), facts in zip(refused, found, strict=True):
        problem = complaint(case, facts["code"], facts["err"])
        if facts["seconds"] > SECONDS or facts["bytes"] > BYTES:
            problem = problem or f"{facts['seconds']:.1f} s, {facts['bytes'] // 10**6} MB"
        if problem:
            failures.append(f"{case.name}: {problem}: {facts['err'][-300:]}")
    slowest, waited, largest = (max(facts[name] for facts in found) for name in ("seconds", "waited", "bytes"))
    record(
        "D5 hostile models of other projects",
        len(refused),
        len(failures),
        slowest_seconds=round(slowest, 2),
        slowest_seconds_on_the_clock=round(waited, 2),
        largest_megabytes=largest // 10**6,
    )
    assert not failures, f"{len(failures)} of {len(refused)}\n" + "\n".join(failures)


def test_what_does_no_harm_loads(nursery: Nursery, made: Made, root: Path) -> None:
    good = [(case, path) for case, path in made if 0 in case.codes]
    assert len(good) >= 4
    for case, path in good:
        done = nursery.qkv(*words(path))
        assert done.code == 0, f"{case.name}: {done.err}"
    assert not (root / RAN).exists()


@pytest.mark.root
def test_nothing_is_run_called_or_read_elsewhere(nursery: Nursery, made: Made, root: Path, tmp_path: Path) -> None:
    """All cases in one process under strace. Only the trial of a tokenizer is a program: this Python itself."""
    commands = [{"words": words(path)} for _, path in made]
    assert nursery.qkv(*words(made[-1][1])).code == 0  # the step that writes is compiled now, if there is a compiler
    report = tmp_path / "report.jsonl"
    child = nursery.start("watched", commands=commands, report=str(report), go=str(tmp_path / "go"))
    log = attached(child, tmp_path, CALLS)
    lines = report.read_text().splitlines()
    assert len(lines) == len(commands), f"ended in {made[len(lines)][0].name}: {child.err.read_text()[-500:]}"
    calls = [line for line in log.splitlines() if re.match(r"\d+\s+\w+\(", line) and "ENOENT" not in line]
    bad = [line for line in calls if suspicious(line, root, (str(nursery.folder), str(tmp_path)))]
    programs = sum("execve(" in line for line in calls)
    record("D5 hostile models under strace", len(made), len(bad), calls=len(calls), trials_of_tokenizers=programs)
    assert not bad, "\n".join(bad[:20])
    assert programs > 20, "the watch saw no trial at all"
    assert any(str(path) in line for _, path in made for line in calls), "the watch saw no file at all"
    assert not (root / RAN).exists()


def suspicious(line: str, root: Path, ours: tuple[str, ...]) -> bool:
    """Whether a system call is one that opening a hostile model must not make."""
    call = line.split("(", 1)[0].split()[-1]
    if call in ("connect", "sendto", "bind", "socket", "truncate", "chmod", "execveat"):
        return True
    if call == "execve":
        return f'execve("{sys.executable}", ["{sys.executable}", "-I", "-c"' not in line
    if f"{root}/{OUTSIDE}" in line or f"../{OUTSIDE}" in line:
        return call != "readlink"
    if call in ("open", "openat", "openat2"):
        path = re.search(r'"([^"]*)"', line)
        writes = any(flag in line for flag in ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"))
        return bool(writes and path and path[1].startswith(str(root))) or bool(
            path and not allowed(path[1], root, ours)
        )
    return call in ("unlink", "rename") and str(root) in line


HOME = Path(__file__).resolve().parents[2]
SYSTEM = ("/proc/", "/sys/", "/dev/", "/usr/", "/lib", "/etc/", "/bin/")


def allowed(path: str, root: Path, ours: tuple[str, ...]) -> bool:
    """The case's own folder, Python and its packages, our own source, the system's libraries, what the test writes."""
    if path.startswith(str(root)):
        return not path.startswith(f"{root}/{OUTSIDE}")
    places = (str(HOME), sys.prefix, sys.base_prefix, *SYSTEM, *ours)
    return path.startswith(places) or not path.startswith("/")
