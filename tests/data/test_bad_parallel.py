"""D1 for parallel data: refused with a place and a remedy, or read with a note; nothing but QkvError, and quickly."""

from __future__ import annotations

import gzip
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.bad_examples import Case, build
from data.bad_parallel import OBJECTS, SOURCE, TARGET, every, jsonl
from qkv.data.corpus import ParallelConfig
from qkv.data.detect_pairs import is_parallel
from qkv.data.findings import display_name
from qkv.data.formats.kinds import FilePreviews
from qkv.data.read_pairs import read_parallel
from qkv.errors import ConfigError, DataError, QkvError

CASES = list(every())
WITHOUT_FILE = {"stdin", "no-files", "unknown-encoding", "no-translations", "same-column.tsv"}
"""Those that are wrong before a file is met."""


def test_there_are_many() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    assert sum(case.refused for case in CASES) >= 60


def config_of(case: Case, folder: Path) -> ParallelConfig:
    options = build(case, folder)
    named = options.pop("catalog", None)
    return ParallelConfig(**{**options, **({"files": (named,)} if named else {})})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_parallel(case: Case, tmp_path: Path) -> None:
    config = config_of(case, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    is_parallel(config.files, FilePreviews(config.encoding))  # detection raises nothing
    if not case.refused:
        assert case.mention in "\n".join(read_parallel(config).notes)
        return
    with pytest.raises((DataError, ConfigError)) as refused:
        read_parallel(config)
    said = str(refused.value)
    assert refused.value.exit_code == 2
    assert case.mention in said
    assert "\n" not in said
    assert re.search(r"[.?] [A-Z][^.]+|; (?:expected|did you mean) ", said), "no remedy"
    assert case.name in WITHOUT_FILE or "languages names" in said or display_name(tmp_path) in said
    assert sorted(tmp_path.rglob("*")) == before


def attempt(*paths: Path) -> None:
    began = time.process_time()
    refused: QkvError | None = None
    files = tuple(map(str, paths))
    is_parallel(files, FilePreviews("utf-8"))
    try:
        found = read_parallel(ParallelConfig(files=files))
        assert len(list(found.train)) == len(found.train) > 0
    except QkvError as error:
        refused = error
    assert refused is None or (refused.exit_code == 2 and "\n" not in str(refused))
    assert time.process_time() - began < 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "train.en").write_bytes(SOURCE)
    (folder / "train.en.gz").write_bytes(gzip.compress(SOURCE))
    return folder


SEEDS = {
    "train.de": TARGET,
    "train.de.gz": gzip.compress(TARGET),
    "a.tsv": b"source\ttarget\n" + b"".join(b"a dog %d\tein Hund %d\n" % (n, n) for n in range(20)),
    "a.csv": b"".join(b'"a dog, %d","ein Hund %d"\n' % (n, n) for n in range(20)),
    "a.jsonl": jsonl(OBJECTS[:20]),
    "b.jsonl": jsonl([{"translation": {"en": f"dog {n}", "de": f"Hund {n}"}} for n in range(20)]),
}
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(place: Path, name: str, content: bytes) -> list[Path]:
    (place / name).write_bytes(content)
    return [place / name.replace(".de", ".en"), place / name] if ".de" in name else [place / name]


@pytest.mark.parametrize("name", SEEDS)
@quick
@given(data=st.data())
def test_damaged_files(place: Path, name: str, data: st.DataObject) -> None:
    content = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = min(len(content), begin + data.draw(st.integers(0, 30)))
        content[begin:end] = data.draw(st.binary(max_size=30))
    attempt(*written(place, name, bytes(content)))


@pytest.mark.parametrize("name", SEEDS)
@quick
@given(content=st.binary(max_size=300))
def test_any_bytes(place: Path, name: str, content: bytes) -> None:
    attempt(*written(place, name, content))


nasty = st.sampled_from(
    ["", " ", '"', '""', "a,b", "x y", "1", "-1", "source", "target", "en", "de", "é", "[", "\r", "\u2028", "\x0b"]
)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.jsonl"])
@quick
@given(rows=st.lists(st.lists(nasty, min_size=1, max_size=4), max_size=12), mark=st.sampled_from(",\t;|"))
def test_nasty_cells(place: Path, name: str, rows: list[list[str]], mark: str) -> None:
    attempt(*written(place, name, "\n".join(mark.join(row) for row in rows).encode()))
