"""A signal at any moment of the command: one line, exit code 128 + signal, no traceback, and it is never lost.

A `sitecustomize` sends the signal at a chosen event, so nothing depends on time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# what is raised here is swallowed, as the code of extension modules does
SHIM = """
import os, signal, sys

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # whoever started the tests may ignore them
    signal.signal(number, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("AT_IMPORT"):
            try:
                os.kill(os.getpid(), int(os.environ["SIGNAL"]))
                list(range(10))
            except BaseException:
                pass

def opened(event, given):
    if event == "open" and given[0] == os.environ.get("AT_OPEN"):
        os.kill(os.getpid(), int(os.environ["SIGNAL"]))

sys.meta_path.insert(0, Finder())
sys.addaudithook(opened)
"""


def message(number: int) -> str:
    what = "interrupted" if number == signal.SIGINT else f"stopped by {signal.Signals(number).name}"
    return f"qkv: {what}; nothing was left half-written.\n"


def run(words: list[str], folder: Path, number: int, **at: str) -> subprocess.CompletedProcess[str]:
    (folder / "sitecustomize.py").write_text(SHIM)
    path = f"{folder}{os.pathsep}{SOURCE}"
    environment = {**os.environ, "PYTHONPATH": path, "SIGNAL": str(int(number)), **at}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, timeout=600)


MODULES = ("qkv.cli.app", "cyclopts", "qkv.cli.generate", "numpy", "torch", "torch._C", "torch.nn")
MOMENTS = [*((each, signal.SIGINT) for each in MODULES), *(("torch", each) for each in SIGNALS[1:])]


@pytest.mark.parametrize(("module", "number"), MOMENTS)
def test_a_signal_while_modules_are_imported(module: str, number: int, tmp_path: Path) -> None:
    done = run(["-m", "qkv", "generate", "no-such-model"], tmp_path, number, AT_IMPORT=module)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", message(number))


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_inside_a_verb(number: int, tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("One line.\n" * 100)
    done = run(["-m", "qkv", "data", "describe", str(book)], tmp_path, number, AT_OPEN=str(book))
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", message(number))


KILL = "os.kill(os.getpid(), signal.SIGINT)"
DROPPED = f"""
class Dropped:
    def __del__(self):
        {KILL}
        list(range(10))

with interrupts.signals_raise():
    Dropped()
"""
TWICE = f"""
with interrupts.signals_raise():
    try:
        {KILL}
    finally:
        {KILL}
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param(DROPPED, (130, "", message(signal.SIGINT)), id="where exceptions are dropped"),
        pytest.param(TWICE, (130, "", message(signal.SIGINT)), id="a second one while the first is handled"),
        pytest.param(f"interrupts.command_finished(3)\n{KILL}", (3, "", ""), id="after the end"),
    ],
)
def test_a_signal_is_not_lost(code: str, expected: tuple[int, str, str], tmp_path: Path) -> None:
    start = "import os, signal\nfrom qkv.cli import interrupts\ninterrupts.install()\n"
    done = run(["-c", f"{start}{code}\nprint('went on')"], tmp_path, signal.SIGINT)
    assert (done.returncode, done.stdout, done.stderr) == expected


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal here")
def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup: neither the command nor a training hears it."""
    code = (
        "import os, signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from qkv.cli import interrupts\nfrom qkv.training.run import stop_signals\ninterrupts.install()\n"
        "os.kill(os.getpid(), signal.SIGHUP)\n"
        "with stop_signals('') as stop:\n    os.kill(os.getpid(), signal.SIGHUP)\n    print(stop.signal)"
    )
    done = run(["-c", code], tmp_path, signal.SIGHUP)
    assert (done.returncode, done.stdout, done.stderr) == (0, "None\n", "")
