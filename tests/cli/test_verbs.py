"""What all verbs promise."""

from __future__ import annotations

import pytest

from cli.verbs import every_verb
from qkv.cli.app import application


@pytest.mark.parametrize("words", every_verb(), ids=" ".join)
def test_every_verb_takes_json(words: list[str]) -> None:
    """`qkv --help` says so."""
    part = application()
    for word in words:
        part = part[word]
    assert "--json" in [name for each in part.assemble_argument_collection() for name in each.names]
