"""Files that are never half-written, and folders that notice every change."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qkv.errors import RefusedError, StorageError, storage
from qkv.storage import MANIFEST, locked, new_folder, point, remove_folder, sweep, verify, write_file


def make(folder: Path) -> Path:
    with new_folder(folder) as aside:
        (aside / "a.bin").write_bytes(bytes(range(256)) * 20)
        (aside / "b.json").write_text('{"x": 1}')
    return folder


def fail_half_way(folder: Path) -> None:
    (folder / "a").write_text("half")
    raise ZeroDivisionError


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "model") as aside:
        fail_half_way(aside)
    assert list(tmp_path.iterdir()) == []
    verify(make(tmp_path / "model"), "a.bin", "b.json")


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
                verify(folder, "a.bin", "b.json")
        except BaseException:
            # a flipped bit in the manifest's white space changes nothing that counts
            assert path.name == MANIFEST
            assert b"".join(bytes(bad).split()) == b"".join(good.split())
        path.write_bytes(good)
    verify(folder)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "", ".", ".."])
def test_a_manifest_names_plain_files_only(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "model")
    (folder / MANIFEST).write_text(json.dumps({"files": {name: {"sha256": "", "bytes": 0}}}))
    with pytest.raises(RefusedError, match="plain file names"):
        verify(folder)


def test_a_link_is_swapped_in_one_step(tmp_path: Path) -> None:
    first, second = make(tmp_path / "one"), make(tmp_path / "two")
    point(tmp_path / "best", first)
    point(tmp_path / "best", second)
    assert (tmp_path / "best").resolve() == second
    remove_folder(first)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "two"]


def test_sweeping_removes_only_what_was_left_aside(tmp_path: Path) -> None:
    make(tmp_path / "kept")
    (tmp_path / ".x.1.partial").mkdir()
    (tmp_path / ".y.1.trash").write_text("")
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_dead_process_holds_nothing(tmp_path: Path) -> None:
    code = "import sys,time; from pathlib import Path; from qkv.storage import locked\n"
    code += "with locked(Path(sys.argv[1])) as held: print(held, flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "True"
    with locked(tmp_path) as held:
        assert not held
    holder.kill()
    holder.wait()
    holder.stdout.close()
    time.sleep(0.05)
    with locked(tmp_path) as held:
        assert held


def test_storage_speaks_of_bytes(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"bytes are needed, .* bytes are free"), storage(tmp_path / "x", 2**60):
        pass
    with pytest.raises(StorageError, match="No space left"), storage(tmp_path):
        raise OSError(28, os.strerror(28))


def test_write_file_replaces(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "old")
    write_file(tmp_path / "a", "new")
    assert (tmp_path / "a").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
