"""`qkv --install-completion`: a file that the shell takes, with every verb and without torch."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.commands import run
from qkv.cli.app import VERBS
from qkv.cli.help import SHELLS


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def installed(capsys: pytest.CaptureFixture[str], *words: str) -> Path:
    assert run(["--install-completion", *words], True) == 0
    return Path(capsys.readouterr().out.removeprefix("written: ").split(". A new ")[0])


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_is_completed(shell: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = installed(capsys, shell)
    assert path.is_relative_to(home)
    text = path.read_text(encoding="utf-8")
    assert all(verb in text for verb in VERBS)
    assert "recipe" in text


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash here")
def test_bash_completes_with_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    ask = 'source "$0"; COMP_WORDS=(qkv tok); COMP_CWORD=1; COMP_LINE="qkv tok"; COMP_POINT=7; '
    ask += 'f=$(complete -p qkv | sed "s/.*-F \\([^ ]*\\).*/\\1/"); "$f" qkv tok qkv; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", ask, str(installed(capsys))], capture_output=True, text=True)
    assert done.stdout.split() == ["tokenize"], done.stderr


@pytest.mark.parametrize("words", [["tcsh"], ["bash", "zsh"], []])
def test_another_shell_is_refused(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert run(["--install-completion", *words], False) == 2
    assert "expected one of bash, zsh, fish" in capsys.readouterr().err
