"""The library trains whatever the data ask for, and every run ends with a card."""

from __future__ import annotations

from pathlib import Path

import pytest

import qkv
import small_tasks


@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_the_library_trains_on_examples(task: str, tmp_path: Path) -> None:
    data = small_tasks.write(tmp_path / "data", task)
    recipe = {"training": {"steps": 3, "threads": 1}, "tokenizer": {"kind": "wordpiece", "size": 300}}
    qkv.train(data, run=tmp_path / "run", recipe=recipe)
    assert "Doctor" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    model = qkv.load(tmp_path / "run")
    assert model.classify("The fine river") if task == "classification" else model.tag("The fine river")


def test_the_library_trains_to_fill_gaps(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\n".join(f"The {number}th river runs by. Nobody sees it!" for number in range(300)))
    sizes = {"kind": "bert", "layers": 1, "heads": 2, "width": 16, "context": 16}
    recipe = {"model": sizes, "training": {"steps": 3, "threads": 1}, "tokenizer": {"kind": "wordpiece", "size": 300}}
    qkv.train(text, run=tmp_path / "run", recipe=recipe)
    assert "predicts masked tokens" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    assert len(qkv.load(tmp_path / "run").fill("The [MASK] runs by.").gaps) == 1
