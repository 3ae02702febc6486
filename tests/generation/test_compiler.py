"""The compiled library: a compiler that fails is reported once; nothing that other users can write is ever loaded."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import qkv
from cli.commands import run
from qkv.data.cache import cache_folder, only_user_can_write
from qkv.generation import compiler
from qkv.models.gpt import GPTConfig
from qkv.recipe import bundle
from qkv.storage import MANIFEST, sha256
from text.kinds import tokenizer

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="no C compiler here")
ROOT_ONLY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
NOBODY = 65534


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches of its own, and a library that was not looked for yet."""
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "shared"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("QKV_NATIVE", raising=False)
    compiler.library.cache_clear()
    compiler.unreported()
    yield
    monkeypatch.undo()
    compiler.library.cache_clear()
    compiler.unreported()


def libraries(folder: Path) -> list[Path]:
    return sorted(folder.rglob(compiler.NAME))


@pytest.fixture
def model(tmp_path: Path) -> str:
    words = tokenizer("characters")
    config = GPTConfig(vocabulary=words.vocabulary, layers=1, heads=2, width=16, context=32)
    bundle.save(tmp_path / "model", bundle.Bundle(config.build(), config, words, documents=1))
    return str(tmp_path / "model")


def test_a_compiler_that_fails_is_reported_once(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "false")
    opened = qkv.load(model)
    opened.generate("a", length=2)
    (note,) = opened.notes
    assert note.startswith("text is generated more slowly, without compiled code: false could not compile decode.c")
    assert "exit code 1, without a message" in note
    assert "Set CC to another compiler, or QKV_NATIVE=0 to use none." in note
    opened.generate("a", length=2)
    assert opened.notes == []
    assert run(["generate", model, "a", "--length", "2"], True) == 0
    assert "compiled" not in capsys.readouterr().err
    compiler.library.cache_clear()
    assert run(["generate", model, "a", "--length", "2"], True) == 0
    assert capsys.readouterr().err == f"note: {note}\n"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("cc -no-such-option-at-all", "no-such-option-at-all"),
        ("no-such-compiler", "No such file or directory"),
        ("cc 'unclosed", "No closing quotation"),
        ("/dev/null", "Permission denied"),
    ],
)
def test_the_reason_is_given(command: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", command)
    assert compiler.library() is None
    (note,) = compiler.unreported()
    assert command in note
    assert reason in note
    assert "\n" not in note


def test_a_verb_without_notes_reports_it_at_its_end(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "false")
    assert run(["verify", model], True) == 0
    assert capsys.readouterr().err.count("note: text is generated more slowly, without compiled code") == 1


def test_folders_of_the_cache_are_for_one_user(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert compiler.library() is not None
        cache_folder("sets", "one", "two")
    finally:
        os.umask(before)
    for each in (tmp_path / "shared", *(tmp_path / "shared").rglob("*")):
        if each.is_dir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o700, each
    (made,) = libraries(tmp_path / "shared")
    assert only_user_can_write(made, tmp_path / "shared")


@pytest.mark.parametrize("above", range(4))
def test_what_others_can_write_is_not_loaded(above: int, tmp_path: Path) -> None:
    """The library, its folder, the room, the whole cache: in the user's own cache another one is built."""
    assert compiler.library() is not None
    (made,) = libraries(tmp_path / "shared")
    (made, *made.parents)[above].chmod(0o777)
    compiler.library.cache_clear()
    loaded = compiler.library()
    assert loaded is not None
    assert loaded._name == str(libraries(tmp_path / "home")[0])


@ROOT_ONLY
def test_a_library_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    """As an attacker leaves it in a folder for everybody, for the key that anybody can compute."""
    assert compiler.library() is not None
    shared = tmp_path / "shared"
    (made,) = libraries(shared)
    source = tmp_path / "harm.c"
    source.write_text('#include <stdio.h>\n__attribute__((constructor)) void harm(void) { fopen(HARMED, "w"); }\n')
    words = ["cc", "-shared", "-fPIC", f'-DHARMED="{tmp_path / "harmed"}"', "-o", str(made), str(source)]
    subprocess.run(words, check=True)
    listed = json.loads((made.parent / MANIFEST).read_text())
    listed["files"][made.name] = {"sha256": sha256(made), "bytes": made.stat().st_size}
    (made.parent / MANIFEST).write_text(json.dumps(listed))
    shared.chmod(0o1777)
    for each in (shared / compiler.ROOM, *(shared / compiler.ROOM).rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    compiler.library.cache_clear()
    loaded = compiler.library()
    assert not (tmp_path / "harmed").exists()
    assert loaded is not None
    assert loaded._name == str(libraries(tmp_path / "home")[0])
    assert stat.S_IMODE((tmp_path / "home" / "qkv").stat().st_mode) == 0o700


@ROOT_ONLY
def test_where_no_place_is_safe_nothing_is_loaded(tmp_path: Path) -> None:
    for name in ("shared", "home/qkv"):
        (tmp_path / name).mkdir(parents=True)
        os.chown(tmp_path / name, NOBODY, NOBODY)
    assert compiler.library() is None
    (note,) = compiler.unreported()
    assert "other users can write there. Set QKV_CACHE to a folder of your own" in note


def test_a_shared_folder_that_keeps_entries_apart_will_do(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    assert compiler.library() is not None
    assert libraries(tmp_path / "shared")
    assert not (tmp_path / "home").exists()
