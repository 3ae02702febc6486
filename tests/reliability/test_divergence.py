"""T7: a run that diverges ends with 3 and keeps no bad number. T8: the same command gives the same bits anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reliability.nursery import Nursery
from reliability.report import record
from reliability.runs import FAMILIES, command, fingerprint

HUGE = {
    "rate 1e9": {"training__learning_rate": 1e9, "training__matrix_learning_rate": 1e9},
    "rate 1e6, no clipping": {
        "training__learning_rate": 1e6,
        "training__matrix_learning_rate": 1e6,
        "training__clip": 0,
    },
    "an update overflows": {
        "training__learning_rate": 1e9,
        "training__matrix_learning_rate": 1e9,
        "training__weight_decay": 1e9,
    },
    "a forward pass overflows": {
        "training__learning_rate": 1e6,
        "training__matrix_learning_rate": 1e6,
        "training__weight_decay": 1e3,
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_divergence(nursery: Nursery, tmp_path: Path, text: Path, family: str) -> None:
    failures, codes = [], {}
    for name, settings in HUGE.items():
        run = tmp_path / name.replace(" ", "-")
        every = {"training__checkpoint_every": 1, "training__evaluate_every": 1, "training__warmup": 0}
        done = nursery.qkv(*command(text, run, family, steps=25, **every, **settings))
        codes[name] = done.code
        try:
            assert done.code in (0, 3), f"exit {done.code}: {done.err}"
            assert nursery.call("all_finite", folder=str(run)).code == 0, "a checkpoint holds what is not a number"
            if done.code == 3:
                last = [line for line in done.err.splitlines() if line.startswith("qkv: ")]
                assert len(last) == 1, done.err
                assert "diverged at step" in last[0]
                assert "lower learning rate" in last[0]
                lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
                assert lines[-1]["loss"] is None, lines[-1]
        except AssertionError as error:
            failures.append(f"{name}: {error}")
    record(f"T7 divergence, {family}", len(HUGE), len(failures), exit_codes=codes)
    assert not failures, "\n".join(failures)
    assert codes["an update overflows"] == codes["a forward pass overflows"] == 3


def test_the_same_command_from_two_places(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    found = []
    for name in ("one", "two"):
        where = tmp_path / name
        where.mkdir()
        done = nursery.qkv(*command(text, Path("run"), "modern", steps=20), cwd=where)
        assert done.code == 0, done.err
        found.append(fingerprint(where / "run"))
    record("T8 the same command twice, two folders", 2, int(found[0] != found[1]))
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_same_command_gives_the_same_bits(nursery: Nursery, tmp_path: Path, text: Path) -> None:
    """Another folder, another working directory, another hash seed, another time zone and language."""
    failures, trials = [], 0
    for family in FAMILIES:
        found = []
        for number, environment in enumerate(
            (
                {},
                {"PYTHONHASHSEED": "7"},
                {"PYTHONHASHSEED": "8", "LC_ALL": "C", "TZ": "Asia/Tokyo", "HOSTNAME": "other"},
            )
        ):
            where = tmp_path / f"{family}-{number}"
            where.mkdir()
            words = command(text, Path("run") if number else where / "run", family, steps=20)
            # PYTHONHASHSEED is read when a process starts, so a new one is started
            done = nursery.call("fresh", words=words, cwd=where, environment=environment)
            assert done.code == 0, done.err
            found.append(fingerprint(where / "run"))
            trials += 1
        failures += [family for each in found[1:] if each != found[0]]
    record("T8 the same command, new processes, slow", trials, len(failures), families=list(FAMILIES))
    assert not failures
