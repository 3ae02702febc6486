"""D7: an export that is killed or whose disk fails leaves no part of a folder under its name; the old one is whole."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from interop import tiny_folder
from reliability.injection import Site
from reliability.nursery import Child, Nursery
from reliability.report import record

Hashes = dict[str, str]
CHANGES = ("write", "pwrite64", "writev", "fsync", "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir")
CHANGES += ("mkdir", "mkdirat", "ftruncate", "fallocate", "msync", "copy_file_range")


def hashes(folder: Path) -> Hashes | None:
    """What is under a name: nothing, or files by their content."""
    if not os.path.lexists(folder):
        return None
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


class Target(Site):
    """A place where a model is written for Hugging Face, over another one or not."""

    follow = ()  # the trial of the tokenizer is a process of its own and no part of the write

    def __init__(self, nursery: Nursery, model: Path, run: Path, *, force: bool) -> None:
        self.model, self.force = model, force
        super().__init__(nursery, run, 0)
        self.old = hashes(run / "copy")

    def start(self, go: Path) -> Child:
        given = {"model": str(self.model), "folder": str(self.run / "copy"), "go": str(go), "force": self.force}
        return self.nursery.start("before_an_export", **given)

    def counts(self, line: str) -> bool:
        """What changes a file of the target; between two of these nothing can differ."""
        call = line.split("(")[0].split()[-1]
        return str(self.run) in line and (call in CHANGES or (call == "openat" and "O_CREAT" in line))

    def left(self) -> list[str]:
        return sorted(path.name for path in self.run.iterdir() if path.name != "copy")


@pytest.fixture(scope="module")
def targets(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    folder = tmp_path_factory.mktemp("exports")
    made = {}
    for name in ("new", "over"):
        run = folder / name
        run.mkdir()
        if name == "over":
            tiny_folder.write(run / "copy", seed=1)
        model = folder / f"{name}-model"
        assert nursery.qkv("import", tiny_folder.write(folder / f"{name}-source"), "--to", model).code == 0
        made[name] = Target(nursery, model, run, force=name == "over")
    return made


def kill_at(target: Target, step: int, figure: str) -> None:
    points = target.points()
    new = hashes(target.run / "copy")
    assert new
    assert new != target.old
    assert target.left() == []
    failures, found = [], {"old": 0, "new": 0}
    tried = points[::step] + ([points[-1]] if step > 1 else [])
    for point in tried:
        target.reset()
        done, _ = target.write("-e", f"inject={point.call}:signal=SIGKILL:when={point.number}")
        there = hashes(target.run / "copy")
        if done.code != -signal.SIGKILL or there not in (target.old, new):
            failures.append(f"{point}: exit {done.code}: {sorted(there or {})}: {done.err[-300:]}")
            continue
        found["new" if there == new else "old"] += 1
        if step > 1 and point != tried[-1]:
            continue
        again, _ = target.write()  # and on from there: what the dead one left aside goes
        if again.code != 0 if there == target.old else again.code not in (0, 2):
            failures.append(f"{point}: afterwards exit {again.code}: {again.err[-300:]}")
        elif there == target.old and target.left():
            failures.append(f"{point}: left over: {target.left()}")
    record(figure, len(tried), len(failures), points_in_all=len(points), **found)
    assert not failures, "\n".join(failures)


@pytest.mark.root
@pytest.mark.parametrize("name", ["new", "over"])
def test_kills_at_some_system_calls(targets: dict[str, Target], name: str) -> None:
    targets[name].reset()
    kill_at(targets[name], 4, f"D7 kill during an export, {name}")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("name", ["new", "over"])
def test_kills_at_every_system_call(targets: dict[str, Target], name: str) -> None:
    targets[name].reset()
    kill_at(targets[name], 1, f"D7 kill at every system call of an export, {name}, slow")


KINDS = {
    "write": ("ENOSPC", "EIO"),
    "fsync": ("ENOSPC", "EIO"),
    "rename": ("EIO", "ENOSPC"),
    "mkdir": ("ENOSPC", "EROFS"),
}


def fail_at(target: Target, step: int, figure: str) -> None:
    """The disk refuses once: exit 4, one line with the path, the old one under its name, nothing left aside."""
    points = [(point, name) for point in target.points() for name in KINDS.get(point.call, ())][::step]
    new = hashes(target.run / "copy")
    failures = []
    for point, name in points:
        target.reset()
        done, _ = target.write("-e", f"inject={point.call}:error={name}:when={point.number}")
        said = done.err.replace("ready\n", "").strip()
        there, after_it = hashes(target.run / "copy"), point.call == "fsync"
        if done.code != 4 or "\n" in said or str(target.run) not in said or target.left():
            failures.append(f"{point} {name}: exit {done.code}: {target.left()}: {said[-300:]}")
        elif there != target.old and not (after_it and there == new):  # the last flush is after the name was given
            failures.append(f"{point} {name}: neither old nor new")
    record(figure, len(points), len(failures))
    assert not failures, "\n".join(failures)


@pytest.mark.root
@pytest.mark.parametrize("name", ["new", "over"])
def test_a_failing_disk_at_some_system_calls(targets: dict[str, Target], name: str) -> None:
    targets[name].reset()
    fail_at(targets[name], 8, f"D7 the disk refuses during an export, {name}")


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.parametrize("name", ["new", "over"])
def test_a_failing_disk_at_every_system_call(targets: dict[str, Target], name: str) -> None:
    targets[name].reset()
    fail_at(targets[name], 1, f"D7 the disk refuses at every system call of an export, {name}, slow")


@pytest.mark.root
def test_a_full_disk(nursery: Nursery, targets: dict[str, Target], disk: Callable[[int], Path]) -> None:
    """Too small for the folder at all, and too small for the old one and the new one together."""
    model = targets["new"].model
    for size in (2**16, 2**20):
        place = disk(size)
        done = nursery.qkv("export", model, place / "copy")
        assert done.code == 4, done.err
        assert "bytes are free" in done.err
        assert list(place.iterdir()) == []
    place = disk(3 * 2**19)
    old = hashes(tiny_folder.write(place / "copy", seed=1))
    (place / "ballast").write_bytes(bytes(2**20 - 2**17))
    done = nursery.qkv("export", model, place / "copy", "--force")
    assert done.code == 4, done.err
    assert hashes(place / "copy") == old
    assert sorted(path.name for path in place.iterdir()) == ["ballast", "copy"]


@pytest.mark.root
def test_a_disk_that_cannot_be_written(
    nursery: Nursery, targets: dict[str, Target], disk: Callable[[int], Path]
) -> None:
    place = disk(2**24)
    old = hashes(tiny_folder.write(place / "copy", seed=1))
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    for words in (["other"], ["copy", "--force"]):
        done = nursery.qkv("export", targets["new"].model, place / words[0], *words[1:])
        assert done.code == 4, done.err
        assert "Read-only" in done.err
    assert hashes(place / "copy") == old


def a_project(place: Path) -> None:
    """Work of somebody, with a config.json as many projects have."""
    place.mkdir()
    (place / "config.json").write_text('{"name": "my project"}')
    (place / "thesis.txt").write_text("three years")


def a_training(place: Path) -> None:
    """A model's folder that holds more than the model."""
    tiny_folder.write(place)
    (place / "checkpoint-500").mkdir()
    (place / "checkpoint-500" / "optimizer.bin").write_bytes(b"weeks")


def a_folder(place: Path) -> None:
    place.mkdir()
    (place / "notes.txt").write_text("words")


def a_link(place: Path) -> None:
    place.symlink_to(tiny_folder.write(place.with_name("elsewhere")))


KEPT: dict[str, Callable[[Path], object]] = {
    "a project": a_project,
    "a training": a_training,
    "a folder": a_folder,
    "a file": lambda place: place.write_text("words"),
    "a link to a model": a_link,
    "a link to nothing": lambda place: place.symlink_to("nowhere"),
    "a pipe": lambda place: os.mkfifo(place),
}


def everything(folder: Path) -> list[tuple[str, bytes | str]]:
    """All names below a folder, and what they hold."""
    found: list[tuple[str, bytes | str]] = []
    for path in sorted(folder.rglob("*")):
        held: bytes | str = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        found.append((str(path.relative_to(folder)), held))
    return found


@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_model_is_never_replaced(
    nursery: Nursery, targets: dict[str, Target], tmp_path: Path, what: str, force: bool
) -> None:
    KEPT[what](tmp_path / "copy")
    before = everything(tmp_path)
    for verb in ("export", "import"):
        words = [verb, targets["new"].model, *(["--to"] if verb == "import" else []), tmp_path / "copy"]
        done = nursery.qkv(*words, *(["--force"] if force else []))
        assert done.code == 2, done.err
        assert str(tmp_path / "copy") in done.err
        assert ("not a model folder" if force else "ask to replace it (force)") in done.err
        assert everything(tmp_path) == before


def test_names_of_every_kind(nursery: Nursery, targets: dict[str, Target], tmp_path: Path) -> None:
    """A folder of any name is written, a model only with --force replaced; where one stands is never replaced."""
    here, model, report = tmp_path / "here", str(targets["new"].model), tmp_path / "report.jsonl"
    old = hashes(tiny_folder.write(here / "there", seed=1))
    expected = dict.fromkeys(("copy/", "deep/er/copy", "[a]*?", "ö ß"), 0) | {".": 2, "..": 2, "there": 2}
    commands = [["export", model, name, *(["--force"] if name != "there" else [])] for name in expected]
    nursery.call("several", commands=[{"words": words} for words in commands], report=str(report), cwd=here)
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["code"] for line in lines] == list(expected.values()), lines
    written = {str(path.parent.relative_to(here)) for path in here.rglob("model.safetensors")}
    assert written == {"copy", "deep/er/copy", "[a]*?", "ö ß", "there"}
    assert hashes(here / "there") == old
    done = nursery.qkv("export", model, here / "there", "--force")
    assert done.code == 0, done.err
    assert hashes(here / "there") not in (None, old)
    assert sorted(path.name for path in here.iterdir()) == sorted(["copy", "deep", "[a]*?", "ö ß", "there"])
