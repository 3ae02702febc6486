"""--class-weights: a rare class is found more often, and mistakes of the frequent one cost less."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli.commands import run


def test_a_rare_class_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = np.random.default_rng(0)
    path = tmp_path / "rare.csv"
    lines = ["x,y,class"]
    for number in range(600):
        rare = number % 12 == 0
        x, y = drawn.normal(size=2) + (1.2 if rare else 0.0)
        lines.append(f"{x:.4f},{y:.4f},{'rare' if rare else 'usual'}")
    path.write_text("\n".join(lines) + "\n")
    recall = {}
    for more in ([], ["--class-weights"]):
        words = ["train", str(path), "--model", "linear", "--steps", "120", "--run", str(tmp_path / f"run{len(more)}")]
        words += ["--set", "corpus.valid_fraction=0.4", "--set", "training.threads=1", "--set", "training.patience=0"]
        capsys.readouterr()
        assert run([*words, *more, "--json"], True) == 0
        recall[len(more)] = json.loads(capsys.readouterr().out)["validation"]["classes"]["rare"]["recall"]
    assert recall[1] > recall[0] + 0.2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b,c\n" + "".join(f"{n},{n % 7},{n / 3}\n" for n in range(60)), "this is regression"),
        ("one text\n" * 99, "labelled"),
    ],
)
def test_where_there_are_no_classes(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / ("a.csv" if "," in content else "a.txt")
    path.write_text(content)
    assert run(["train", str(path), "--class-weights", "--steps", "2", "--run", str(tmp_path / "run")], False) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
