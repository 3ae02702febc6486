"""Notes: their order by importance, and how many of them are shown before a run."""

from __future__ import annotations

from pathlib import Path

from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Assumption, Caution, Findings, Leak, TaskNote, first_notes, ranked
from qkv.data.prepare import prepare
from qkv.text.tokenizer import TokenizerConfig

NOTES = (
    "3 empty documents were left out.",
    TaskNote("task: classification."),
    Assumption("text: column 'a'; --text says otherwise."),
    Caution("2 of 9 rows left out."),
    "10 line ends were read.",
    Leak("leak: 4 of 9."),
    Caution("2 of 9 rows left out."),
)


def test_what_misleads_comes_before_assumptions_and_information_each_once() -> None:
    assert [type(note) for note in ranked(NOTES)] == [Leak, Caution, Assumption, str, str, TaskNote]


def test_three_notes_are_shown_and_the_others_counted() -> None:
    assert first_notes(NOTES, "card.md") == (*ranked(NOTES)[:3], "2 more notes in card.md.")
    assert first_notes(NOTES[:4], "card.md") == (NOTES[3], NOTES[2], NOTES[0])
    assert first_notes([*NOTES[:4], "one more."], "card.md")[-1] == "1 more note in card.md."


def test_notes_keep_their_kind_in_the_cache(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Café olé, the same line.\n".encode("cp1252") * 200)
    (tmp_path / "b.txt").write_text("Another text of a few words.\n" * 200, encoding="utf-8")
    first, again = (
        prepare(CorpusConfig(files=(str(tmp_path),)), TokenizerConfig(kind="characters")).notes for _ in range(2)
    )
    assert {type(note) for note in first} >= {Assumption, str}
    assert [(type(note), note) for note in first] == [(type(note), note) for note in again]


def test_one_empty_document() -> None:
    assert Findings(empty=1, first_empty="b.txt").notes() == ("1 empty document was left out: b.txt.",)
