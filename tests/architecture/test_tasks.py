"""Which task it is, is asked of the registry: names of tasks are compared in tasks/ alone, and where data are read."""

from __future__ import annotations

import re
from pathlib import Path

from qkv.tasks.registry import TASKS

# what compares names of tasks today; it may only shrink
ALLOWED = {
    "cli/data.py",  # kinds of labelled data
    "cli/options.py",  # --task translation is no key of the section [corpus]
    "cli/train.py",  # which section of a recipe --task belongs to
    "studies/compare_labelled.py",  # sentences or rows
    "studies/linear_probe.py",
    "studies/search_space.py",
}


def test_names_of_tasks_are_compared_in_tasks_alone(source: Path) -> None:
    names = "|".join(TASKS)
    after, before = rf"""([!=]=|\bin) *\(?["']({names})["']""", rf"""["']({names})["'] *[!=]="""
    compared = re.compile(rf"{after}|{before}|isinstance\([^)]*Task\b")
    found = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if compared.search(path.read_text(encoding="utf-8"))
    }
    assert not {name for name in found if not name.startswith(("tasks/", "data/"))} - ALLOWED
