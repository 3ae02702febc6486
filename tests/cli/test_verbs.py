"""What all verbs promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.verbs import every_verb
from qkv.cli.app import VERBS, application


@pytest.mark.parametrize("words", every_verb(), ids=" ".join)
def test_every_verb_takes_json(words: list[str]) -> None:
    """`qkv --help` says so."""
    part = application()
    for word in words:
        part = part[word]
    assert "--json" in [name for each in part.assemble_argument_collection() for name in each.names]


@pytest.mark.parametrize("verb", VERBS)
def test_the_readme_describes_every_verb_in_the_words_of_its_help(verb: str) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    rows = [line.split(" | ", 1) for line in readme.splitlines() if line.startswith(f"| `qkv {verb}")]
    assert any(description.startswith(VERBS[verb][1]) for _, description in rows), (rows, VERBS[verb][1])
