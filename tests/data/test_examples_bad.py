"""D1 for labelled data: refused with a place and a remedy, or read with a note; nothing but QkvError, and quickly."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data.bad_examples import DIGITS, GOOD, OBJECTS, PIXELS, Case, build, conll, every, idx, jsonl, npz, universal
from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import display_name
from qkv.data.read_examples import read_examples
from qkv.errors import InputError, QkvError

CASES = list(every())


def test_there_are_many() -> None:
    assert len({case.name for case in CASES}) >= 120
    assert sum(case.refused for case in CASES) >= 90


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_examples(case: Case, tmp_path: Path) -> None:
    config = ExamplesConfig(**build(case, tmp_path))
    before = sorted(tmp_path.rglob("*"))
    if not case.refused:
        assert case.mention in "\n".join(read_examples(config).notes)
        return
    with pytest.raises(InputError) as refused:
        read_examples(config)
    said = str(refused.value)
    assert refused.value.exit_code == 2
    assert case.mention in said
    assert "\n" not in said
    assert case.options.keys() & {"task", "stdin", "encoding"} or display_name(tmp_path) in said
    assert sorted(tmp_path.rglob("*")) == before


SEEDS = {
    "a.csv": GOOD,
    "a.tsv": GOOD.replace(b",", b"\t"),
    "a.jsonl": jsonl(OBJECTS[:40]),
    "a.json": b'[{"text": "one film", "label": 1}, {"text": "two films", "label": 0}]',
    "a.conll": conll(),
    "a.conllu": universal(),
    "a.txt": b"__label__a one\n__label__b two\n",
    "a-images-idx3-ubyte": idx((20, 4, 4), PIXELS.tobytes()),
    "a.npz": npz(images=PIXELS, labels=DIGITS),
    "a.parquet": b"PAR1" + bytes(50) + b"PAR1",
}


def attempt(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    began = time.process_time()
    refused: QkvError | None = None
    try:
        found = read_examples(ExamplesConfig(files=(str(path),)))
        assert len(list(found.train)) == len(found.train) > 0
    except QkvError as error:
        refused = error
    assert refused is None or (refused.exit_code == 2 and "\n" not in str(refused))
    assert time.process_time() - began < 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "a-labels-idx1-ubyte").write_bytes(idx((20,), DIGITS.tobytes()))
    return folder


quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("name", SEEDS)
@quick
@given(data=st.data())
def test_damaged_files(place: Path, name: str, data: st.DataObject) -> None:
    content = bytearray(SEEDS[name])
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(content)))
        end = min(len(content), begin + data.draw(st.integers(0, 30)))
        content[begin:end] = data.draw(st.binary(max_size=30))
    attempt(place / name, bytes(content))


@pytest.mark.parametrize("name", SEEDS)
@quick
@given(content=st.binary(max_size=300))
def test_any_bytes(place: Path, name: str, content: bytes) -> None:
    attempt(place / name, content)


nasty = st.sampled_from(
    ["", " ", '"', '""', "a,b", "x\ty", "1", "-1", "0.5", "nan", "O", "B-x", "label", "text", "é", "[", "|", ";"]
)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.conll", "a.txt", "a.jsonl"])
@quick
@given(rows=st.lists(st.lists(nasty, min_size=1, max_size=4), max_size=12), mark=st.sampled_from(",\t;| "))
def test_nasty_cells(place: Path, name: str, rows: list[list[str]], mark: str) -> None:
    attempt(place / name, "\n".join(mark.join(row) for row in rows).encode())
