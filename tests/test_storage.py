"""Files that are never half-written, and folders that notice every change."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qkv.data import cache
from qkv.errors import RefusedError, StorageError
from qkv.storage import (
    MANIFEST,
    atomic_folder,
    flush,
    point_link,
    previous_path,
    recover_folder,
    remove_folder,
    storage_errors,
    storage_remedy,
    try_lock,
    verify_files,
    write_file,
)
from qkv.training.run import Run
from tiny import TRAINING, state, task


def make(folder: Path, mark: str = '{"x": 1}') -> Path:
    with atomic_folder(folder) as aside:
        (aside / "a.bin").write_bytes(bytes(range(256)) * 20)
        (aside / "b.json").write_text(mark)
    return folder


def fail_half_way(folder: Path) -> None:
    (folder / "a").write_text("half")
    raise ZeroDivisionError


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / "model") as aside:
        fail_half_way(aside)
    assert list(tmp_path.iterdir()) == []
    verify_files(make(tmp_path / "model"), "a.bin", "b.json")


def test_every_change_is_noticed(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    chance = random.Random(1)
    for _ in range(300):
        path = chance.choice(sorted(folder.iterdir()))
        good = path.read_bytes()
        bad = bytearray(good)
        if chance.random() < 0.3:
            del bad[chance.randrange(len(bad)) :]
        else:
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        try:
            with pytest.raises(RefusedError, match=r"a\.bin|b\.json|manifest"):
                verify_files(folder, "a.bin", "b.json")
        except BaseException:
            # a flipped bit in the manifest's white space changes nothing that counts
            assert path.name == MANIFEST
            assert b"".join(bytes(bad).split()) == b"".join(good.split())
        path.write_bytes(good)
    verify_files(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", ".", ".."])
def test_a_manifest_names_plain_files_only(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "model")
    (folder / MANIFEST).write_text(json.dumps({"files": {name: {"sha256": "", "bytes": 0}}}))
    with pytest.raises(RefusedError, match="plain file names"):
        verify_files(folder)


def test_a_link_is_swapped_in_one_step(tmp_path: Path) -> None:
    first, second = make(tmp_path / "one"), make(tmp_path / "two")
    point_link(tmp_path / "best", first)
    point_link(tmp_path / "best", second)
    assert (tmp_path / "best").resolve() == second
    remove_folder(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "two"]


def test_sweeping_removes_only_what_was_left_aside(tmp_path: Path) -> None:
    make(tmp_path / "kept")
    (tmp_path / ".x.1.partial").mkdir()
    (tmp_path / ".y.1.trash").write_text("")
    recover_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from qkv.storage import try_lock\n"
    code += "with try_lock(Path(sys.argv[1])) as held: print(held, flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], text=True, **pipes)
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "True"
    with try_lock(tmp_path) as held:
        assert not held
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    with try_lock(tmp_path) as held:
        assert held


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))


def test_a_refusal_speaks_of_bytes(tmp_path: Path) -> None:
    refused = pytest.raises(StorageError, match=r"bytes are needed, .* bytes are free")
    with refused, storage_errors(tmp_path / "x", 2**60):
        pass
    with pytest.raises(StorageError, match="No space left"), storage_errors(tmp_path):
        refuse(errno.ENOSPC)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES])
def test_the_caller_says_the_remedy(tmp_path: Path, number: int) -> None:
    """Only a run is continued with --resume; the innermost advice counts."""
    default = pytest.raises(StorageError, match=r", then try again, or choose another place\.$")
    with default as plain, storage_errors(tmp_path):
        refuse(number)
    assert "--" not in str(plain.value)
    wanted = pytest.raises(StorageError, match=r"then knock on wood\.$")
    with wanted as caught, storage_remedy("pray"), storage_remedy("knock on wood"), storage_errors(tmp_path):
        refuse(number)
    assert str(tmp_path) in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_full_cache_and_a_full_run_have_remedies_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"Make room, then .*QKV_CACHE") as caught:
        cache.obtain("room", "key", lambda folder: refuse(errno.ENOSPC))
    assert "--resume" not in str(caught.value)

    def keep(model: object, step: int) -> None:
        with storage_errors(tmp_path):
            refuse(errno.EDQUOT)

    made = Run(tmp_path, TRAINING, lambda model: {"loss": 1.0}, keep)
    with pytest.raises(StorageError, match=r"Make room, then continue with --resume, or .* --run\.$"):
        list(made.events(state(), task()))


class Crash(BaseException):
    """The process ends here."""


def crashing(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Every change of a name is counted; the one of this number never happens."""
    counted = iter(range(1000))

    def counting(change: Callable[..., None]) -> Callable[..., None]:
        def changed(*given: Any, **named: Any) -> None:
            if next(counted) == at:
                raise Crash
            change(*given, **named)

        return changed

    for place, name in ((os, "rename"), (os, "replace"), (os, "unlink"), (shutil, "rmtree")):
        monkeypatch.setattr(place, name, counting(getattr(place, name)))


def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that gives links to administrators only."""
    monkeypatch.setattr(os, "symlink", lambda *given, **named: refuse(errno.EPERM))


def without_replacing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows: a link to a folder cannot take the place of another."""
    replace = os.replace

    def refusing(source: Any, target: Any) -> None:
        if os.path.isdir(target):
            refuse(errno.EACCES)
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)


@pytest.mark.parametrize("lack", [without_links, without_replacing])
def test_where_one_step_is_not_to_be_had_a_crash_loses_nothing(
    tmp_path: Path, lack: Callable[[pytest.MonkeyPatch], None]
) -> None:
    crashes = 0
    for at in range(20):
        folder = tmp_path / f"{at}"
        with pytest.MonkeyPatch.context() as patch:
            lack(patch)
            first, second = (make(folder / name, mark=name) for name in ("one", "two"))
            point_link(folder / "best", first)
            crashing(patch, at)
            try:
                point_link(folder / "best", second)
            except Crash:
                crashes += 1
        aside, best = previous_path(folder / "best"), folder / "best"
        found = best if best.exists() else aside  # what a reader opens meanwhile
        assert (found / "b.json").read_text() in ("one", "two")
        verify_files(found)
        recover_folder(folder)
        verify_files(best)
        assert (best / "b.json").read_text() in ("one", "two")
        assert not aside.exists()
        with pytest.MonkeyPatch.context() as patch:
            lack(patch)
            point_link(best, make(folder / "three", mark="three"))
        assert (best / "b.json").read_text() == "three"
    assert crashes >= 3, "the changes of names were not counted"


def test_files_are_open_for_writing_when_they_are_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows refuses to flush what is open for reading."""
    fsync = os.fsync

    def strict(descriptor: int) -> None:
        reading = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        if reading and stat.S_ISREG(os.fstat(descriptor).st_mode):
            refuse(errno.EBADF)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", strict)
    verify_files(make(tmp_path / "model"))
    write_file(tmp_path / "file", "text")
    flush(tmp_path / "file")
    flush(tmp_path)


def test_write_file_replaces(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    write_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
