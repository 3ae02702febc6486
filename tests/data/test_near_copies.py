"""Documents that stand in one another are in one part of the split; documents that share a phrase may be parted."""

from __future__ import annotations

import numpy as np
import pytest

from data_at_hand import real
from qkv.data import near_copies
from qkv.data.corpus import CorpusConfig
from qkv.data.near_copies import NearCopies
from qkv.data.prepare import prepare
from qkv.recipe.recipe import migrate
from qkv.text.tokenizer import TokenizerConfig


def chapters() -> list[str]:
    """Pieces of Tiny Shakespeare, of about 2,000 characters."""
    text = real("tinyshakespeare/input.txt").read_text(encoding="utf-8")
    return [text[start : start + 2000] for start in range(0, 60_000, 2000)]


def groups(documents: list[str], size: int = 300) -> list[int]:
    """For each document the first one of its group."""
    found = NearCopies()
    for document in documents:
        for start in range(0, len(document), size):
            found.add(document[start : start + size], start + size >= len(document))
    keys = found.group_keys(np.arange(len(documents), dtype=np.uint64)).tolist()
    return [keys.index(key) for key in keys]


def test_a_chapter_is_with_the_book_it_stands_in() -> None:
    first, second, third, *others = chapters()
    found = groups([first, second, f"{third}\n{first}", *others])
    assert found == [0, 1, 0, *range(3, len(found))]


def test_two_versions_of_a_page_are_one_group() -> None:
    page, *others = chapters()
    lines = page.split("\n")
    changed = "\n".join(line if number % 4 else "Nothing of it is as it was." for number, line in enumerate(lines))
    assert groups([page, changed, *others]) == [0, 0, *range(2, len(others) + 2)]


def test_a_shared_phrase_makes_no_group() -> None:
    licence = "Licensed under the terms that are in the file of this name.\n"
    pages = [licence + page for page in chapters()[:20]]
    assert groups(pages) == list(range(20))


def test_no_group_has_more_than_half_of_the_text() -> None:
    page = chapters()[0]
    counts = np.bincount(groups([page] * 10))
    assert counts.max() == 5


def test_a_sample_of_the_units_gives_the_same_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = chapters()
    documents = [*pages, f"{pages[3]}\n{pages[4]}"]
    wanted = groups(documents)
    assert wanted[4] == wanted[-1] == 3
    monkeypatch.setattr(near_copies, "MAX_UNITS", 800)
    assert groups(documents) == wanted


def test_little_of_the_validation_text_of_python_docs_stands_in_the_training_text() -> None:
    def overlap(config: CorpusConfig) -> float:
        notes = prepare(config, TokenizerConfig(kind="characters")).notes
        found = [note for note in notes if note.startswith("overlap")]
        return float(found[0].removeprefix("overlap: ").removeprefix("less than ").split("%")[0]) if found else 0.0

    apart, together = (
        overlap(CorpusConfig(files=("python-docs",), near_copies=kind)) for kind in ("apart", "together")
    )
    assert together < apart
    assert together < 5


@pytest.mark.parametrize(("kind", "split"), [("language-modelling", "apart"), ("classification", None)])
def test_runs_of_older_versions_keep_their_split(kind: str, split: str | None) -> None:
    values = {"format": 3, "corpus": {"fingerprint": "x"}, "task": {"kind": kind}}
    assert migrate(values, "the test")["corpus"].get("near_copies") == split
