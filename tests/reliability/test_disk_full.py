"""T4: a disk that is really full, or read-only: exit 4, one line, the last good state whole, and on from there."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.nursery import Nursery
from reliability.report import record
from reliability.runs import command, fingerprint, left_over, resume, whole

pytestmark = pytest.mark.root
STEPS = 20


def size_of(folder: Path) -> int:
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


def said(err: str) -> str:
    """The one line that says why the command ended."""
    lines = [line for line in err.splitlines() if line.startswith("qkv: ")]
    assert len(lines) == 1, err
    assert "Traceback" not in err
    assert "bug in qkv" not in err
    return lines[0]


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param([0.2, 1.5, 1.9], id="some"),
        pytest.param([n / 10 for n in range(31)], id="many", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk(
    nursery: Nursery, tmp_path: Path, text: Path, disk: Callable[..., Path], shares: list[float]
) -> None:
    """Disks from one that holds nothing to one that holds almost all, checkpoints and best model both in the way."""
    words = {"steps": STEPS, "training__checkpoint_every": 5, "training__evaluate_every": 5}
    wanted = whole(nursery, command(text, tmp_path / "whole", "gpt", **words), tmp_path / "whole")
    checkpoint = size_of(tmp_path / "whole" / "checkpoints" / f"{STEPS:06d}")
    best = size_of((tmp_path / "whole" / "best").resolve())
    failures, stopped, sentences = [], 0, []
    for share in shares:
        place = disk(int(best + share * checkpoint) // 4096 * 4096)
        run = place / "run"
        try:
            done = nursery.qkv(*command(text, run, "gpt", **words))
            if done.code != 0:
                stopped += 1
                assert done.code == 4, f"exit {done.code}: {done.err}"
                sentence = said(done.err)
                sentences.append(sentence)
                assert str(run) in sentence
                assert re.search(r"[\d,]+ bytes are needed, [\d,]+ bytes are free", sentence), sentence
                assert nursery.call("examine", folder=str(run)).code == 0, "what was saved is not whole"
                assert left_over(run) == [], "a part was left behind"
            subprocess.run(["mount", "-o", f"remount,size={64 * 2**20}", str(place)], check=True)
            on = resume(run) if (run / "recipe.toml").exists() else command(text, run, "gpt", **words)
            done = nursery.qkv(*on)
            assert done.code == 0, done.err
            assert fingerprint(run) == wanted, "other bits after room was made"
        except AssertionError as error:
            failures.append(f"{share}: {error}")
    record(
        f"T4 full disk (tmpfs), {len(shares)} sizes",
        len(shares),
        len(failures),
        stopped_with_4=stopped,
        messages=sentences,
    )
    assert not failures, "\n".join(failures)
    assert stopped > len(shares) / 2


def test_a_folder_that_cannot_be_written(
    nursery: Nursery, tmp_path: Path, text: Path, disk: Callable[..., Path]
) -> None:
    place = disk(2**24)
    run = place / "run"
    wanted = whole(nursery, command(text, run, "gpt", steps=STEPS), run)
    subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
    sentences = []
    for words in (resume(run), command(text, place / "another", "gpt", steps=STEPS)):
        done = nursery.qkv(*words)
        assert done.code == 4, f"exit {done.code}: {done.err}"
        sentences.append(said(done.err))
        assert str(place) in sentences[-1]
        assert "Read-only" in sentences[-1]
    assert fingerprint(run) == wanted
    record("T4 read-only folder", len(sentences), 0, messages=sentences)
