"""D1: every bad input is refused with a place and a remedy, or accepted with a count; nothing is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.bad_inputs import Case, build, state
from qkv.data.check import check
from qkv.data.corpus import CorpusConfig
from qkv.data.findings import display_name
from qkv.text.tokenizer import TokenizerConfig


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    return {case.name: case for case in build(tmp_path_factory.mktemp("bad"))}


def names() -> list[str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return [case.name for case in build(Path(folder))]


NAMES = names()


def test_there_are_many(cases: dict[str, Case]) -> None:
    assert len(cases) >= 80
    assert sum(case.expected == "refused" for case in cases.values()) >= 50


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_bad_input(cases: dict[str, Case], name: str) -> None:
    case = cases[name]
    report = check(CorpusConfig(files=(str(case.path),)), TokenizerConfig(), lambda tokens: 64)
    if case.expected == "refused":
        assert report.problems, f"accepted: {report.warnings}"
        error = report.problems[0]
        assert error.exit_code == 2
        assert case.must_mention in str(error), str(error)
        assert "\n" not in str(error)
        if "needs at least" not in str(error):
            assert display_name(case.path) in str(error)
    else:
        assert not report.problems, str(report.problems[0])
        assert case.must_mention in "\n".join([*report.notes, *report.warnings])


def test_nothing_is_written_beside_the_data(tmp_path: Path) -> None:
    cases = build(tmp_path)
    before = state(tmp_path)
    for case in cases[::9]:
        check(CorpusConfig(files=(str(case.path),)), TokenizerConfig(), lambda tokens: 64)
    assert state(tmp_path) == before


def test_deleted_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one two three four\n" * 500)

    def vanish(stage: str, done: int, total: int | None) -> None:
        path.unlink(missing_ok=True)

    report = check(CorpusConfig(files=(str(path),)), TokenizerConfig(), lambda tokens: 16, progress=vanish)
    assert "vanished" in str(report.problems[0])


def test_changed_while_reading(tmp_path: Path) -> None:
    path = tmp_path / "book.txt"
    path.write_text("one two three four\n" * 50_000)

    def grow(stage: str, done: int, total: int | None) -> None:
        with path.open("a") as file:
            file.write("more\n")

    report = check(CorpusConfig(files=(str(path),)), TokenizerConfig(), lambda tokens: 16, progress=grow)
    assert "changed while" in str(report.problems[0])
