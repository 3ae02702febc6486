"""D1 through the verbs: every bad input is refused with 2 and a remedy, or accepted with a note; nothing stays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from data.bad_inputs import Case, build, state
from reliability.nursery import Done, Nursery
from reliability.report import record
from reliability.runs import command

HEAVY = ("ten-megabyte-line.txt", "bad-byte-far.txt")  # scoring ten million characters takes minutes
LABELLED = ("table.csv", "table.tsv", "table.csv.gz", "only-tables")  # no text to continue, but a class for each row
VERBS = ("train", "generate", "as a model", "evaluate", "tokenize", "data check")


class World(NamedTuple):
    """The cases, a good model to use them with, and a folder where nothing may stay behind."""

    folder: Path
    cases: list[Case]
    model: Path
    place: Path


@pytest.fixture(scope="module")
def world(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, text: Path) -> World:
    folder = tmp_path_factory.mktemp("world")
    model = folder / "model"
    done = nursery.qkv(*command(text, model, "gpt", steps=2, model__layers=1))
    assert done.code == 0, done.err
    (folder / "place").mkdir()
    return World(folder / "bad", build(folder / "bad"), model, folder / "place")


def do(nursery: Nursery, world: World, verb: str, case: Case) -> Done | None:
    tiny = ["--set", "model.layers=1", "--set", "model.width=8", "--set", "model.context=64"]
    tiny += [] if case.name in LABELLED else ["--set", "model.heads=1"]
    context = [] if case.name in LABELLED else ["--context", "64"]
    words: dict[str, list[str]] = {
        "train": ["train", str(case.path), "--steps", "2", *tiny, "--set", "training.threads=1", "--run", "run"],
        "generate": ["generate", str(world.model), "-", "--length", "2"],
        "as a model": ["generate", str(case.path), "--length", "2"],
        "evaluate": ["evaluate", str(world.model), str(case.path)],
        "tokenize": ["tokenize", "--file", str(case.path)],
        "data check": ["data", "check", str(case.path), *context],
    }
    if verb != "generate":
        return nursery.qkv(*words[verb], cwd=world.place)
    try:
        if not case.path.is_file():
            return None
    except OSError:
        return None
    return nursery.call("cli", words=words[verb], stdin=str(case.path), cwd=world.place)


def complaint(verb: str, case: Case, done: Done) -> str | None:
    """What is wrong with the answer, or None."""
    said = done.err + done.out
    expected = "accepted" if verb in ("train", "data check") and case.name in LABELLED else case.expected
    for word in ("Traceback", "bug in qkv", "panicked", "Warning", "Error:"):
        if word in said:
            return f"shows {word}"
    name = os.fsencode(case.path.name).decode("utf-8", "backslashreplace").split("\n")[0]
    last = [line for line in done.err.splitlines() if line.startswith("qkv: ")]
    if done.code == 0:
        if verb == "as a model":
            return "opened as a model"
        if verb not in ("generate", "evaluate", "tokenize") and expected == "refused":
            return "accepted"
        noted = "note:" in done.err or "warning:" in done.out
        if verb == "train" and case.must_mention and not noted:
            return "accepted without a note"
        return None
    if done.code not in ((2, 5) if verb == "as a model" else (2,)):
        return f"exit {done.code}"
    if expected == "accepted" and verb not in ("as a model", "generate"):
        return "refused"
    if len(last) != 1 or done.err.rstrip().splitlines()[-1] != last[0]:
        return "not one last line"
    if verb != "generate" and name not in last[0] and "corpus" not in last[0]:
        return "does not name the file"
    if not any(mark in last[0] for mark in (". ", "; ", "expected", "Give", "--")):
        return "names no remedy"
    return None


def go(nursery: Nursery, world: World, cases: list[Case], verbs: tuple[str, ...], figure: str) -> None:
    before = state(world.folder)
    failures, counts, messages = [], {"refused": 0, "accepted": 0}, {}
    trials = 0
    for case in cases:
        for verb in verbs:
            done = do(nursery, world, verb, case)
            if done is None:
                continue
            trials += 1
            counts["refused" if done.code else "accepted"] += 1
            messages[f"{verb} | {case.name[:60]}"] = f"{done.code} {done.err[-400:]}"
            problem = complaint(verb, case, done)
            left = sorted(path.name for path in world.place.iterdir())
            if done.code and left:
                problem = problem or f"left behind: {left}"
            if done.code == 0 and verb == "train":
                partial = [path.name for path in world.place.rglob("*") if path.name.endswith((".partial", ".trash"))]
                problem = problem or (f"left over: {partial}" if partial else None)
            clear(world.place)
            if problem:
                failures.append(f"{verb} {case.name[:60]!a}: {problem}: exit {done.code}: {done.err[-400:]}")
    if state(world.folder) != before:
        failures.append("the folder of the inputs was changed")
    if verbs != ("as a model",):
        assert counts["accepted"], "refuses all, good text too"
    record(figure, trials, len(failures), cases=len(cases), **counts)
    (world.place.parent / "messages.json").write_text(json.dumps(messages, indent=1, ensure_ascii=False))
    assert not failures, f"{len(failures)} of {trials}\n" + "\n".join(failures)


def clear(folder: Path) -> None:
    import shutil

    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def test_there_are_enough(world: World) -> None:
    assert len(world.cases) >= 80


@pytest.mark.parametrize("verb", VERBS)
def test_every_bad_input(nursery: Nursery, world: World, verb: str) -> None:
    cases = [case for case in world.cases if verb != "evaluate" or case.name not in HEAVY]
    go(nursery, world, cases, (verb,), f"D1 bad inputs, {verb}")


@pytest.mark.slow
def test_ten_megabytes_are_evaluated(nursery: Nursery, world: World) -> None:
    cases = [case for case in world.cases if case.name in HEAVY]
    assert len(cases) == len(HEAVY)
    go(nursery, world, cases, ("evaluate",), "D1 bad inputs, evaluate, ten megabytes, slow")
