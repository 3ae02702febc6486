"""`import qkv` and every `--help` answer at once: nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from qkv.cli.app import VERBS

HEAVY = {"torch", "numpy", "tokenizers", "pydantic"}
HELP = """
import contextlib, io, json, sys
from qkv.cli.app import main
text = io.StringIO()
try:
    with contextlib.redirect_stdout(text):
        main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
print(json.dumps({"code": code, "text": text.getvalue(), "modules": sorted(sys.modules)}))
"""


def python(code: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_qkv_is_cheap() -> None:
    modules = json.loads(python("import json, sys, qkv; print(json.dumps(sorted(sys.modules)))"))
    assert not HEAVY & set(modules)


def test_help_imports_nothing_heavy() -> None:
    answer = json.loads(python(HELP, "--help"))
    assert answer["code"] == 0
    assert not HEAVY & set(answer["modules"])
    for verb in VERBS:
        assert f"\n  {verb} " in answer["text"]


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_knows_no_torch(verb: str) -> None:
    answer = json.loads(python(HELP, verb, "--help"))
    assert answer["code"] == 0
    assert answer["text"].strip()
    assert "torch" not in answer["modules"]


def test_help_is_fast() -> None:
    command = Path(sysconfig.get_path("scripts")) / ("qkv.exe" if os.name == "nt" else "qkv")
    seconds = []
    for _ in range(5):  # of the processor: a busy machine makes people wait, but does not make qkv slower
        before = os.times()
        subprocess.run([command, "--help"], capture_output=True, check=True, timeout=1800)
        after = os.times()
        seconds.append(sum(after[2:4]) - sum(before[2:4]))
    assert min(seconds) < 0.25
