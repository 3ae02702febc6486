"""Real text in every shape that people bring: each is read as it is, with no option, as a person would read it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from data.zoo import zoo_inputs, zoo_labels, zoo_tables
from data.zoo.shapes import SHAPES, Found
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.descriptions import Description
from qkv.data.examples import ArrayExample, TagExample, TextExample
from qkv.data.findings import Findings
from qkv.data.formats.delimited import is_number
from qkv.data.formats.text import read_documents
from qkv.data.prepare import prepare
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.data.text_files import find_text_files
from qkv.errors import QkvError
from qkv.tasks import detected_as
from qkv.tasks.described import describe
from qkv.text.tokenizer import TokenizerConfig

MODULES = (zoo_inputs, zoo_labels, zoo_tables)
NOT_YET: set[str] = set()
"""Shapes that are not understood; a test fails if one of them is."""
MAX_GROWTH = 200 * 2**20
"""How many bytes the process may grow while it reads a shape; most of it is the code of optional packages."""


@contextmanager
def bounded_memory() -> Iterator[None]:
    """Fail if the process grows by more than MAX_GROWTH at its peak; Linux alone tells."""
    status, peak = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not peak.exists():
        yield
        return
    peak.write_text("5", encoding="ascii")  # forget the peak so far
    before = _kilobytes(status)
    yield
    grown = 1024 * (_kilobytes(status) - before)
    assert grown < MAX_GROWTH, f"{grown / 2**20:.0f} MB more at the peak"


def _kilobytes(status: Path) -> int:
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text(encoding="ascii"))
    return int(found[1]) if found else 0


def read(files: tuple[str, ...]) -> Found:
    """What qkv finds in files, with no option."""
    detected = detected_as({"files": files})
    if detected.content == "text":
        documents = _documents(CorpusConfig(files=files))
        return Found("language-modelling", documents=documents)
    if detected.content == "pairs":
        pairs = read_parallel(ParallelConfig(files=files), purpose="describe", previews=detected.previews)
        splits = {name: [(pair.source, pair.target) for pair in split] for name, split in pairs.splits if len(split)}
        return Found("translation", splits)
    examples = read_examples(ExamplesConfig(files=files), purpose="describe", previews=detected.previews)
    splits = {name: [_row(example) for example in split] for name, split in examples.splits if len(split)}
    first = examples.train[0]
    return Found(examples.task, splits, shape=first.values.shape if isinstance(first, ArrayExample) else ())


def _documents(corpus: CorpusConfig) -> list[str]:
    documents = [""]
    for piece in read_documents(find_text_files(corpus.files, None, Findings()), corpus, Findings()):
        documents[-1] += piece.text
        if piece.is_last:
            documents.append("")
    return documents[:-1]


def _row(example: object) -> tuple[str, str]:
    match example:
        case TextExample(text=text, label=tuple(labels)):
            return text, " ".join(labels)
        case TextExample(text=text, label=label):
            return text, f"{label:g}" if isinstance(label, float) else label
        case TagExample(words=words, tags=tags):
            return " ".join(words), " ".join(tags)
        case ArrayExample(label=label):
            return "", str(label)
    raise TypeError(type(example))


def difference(expected: Found, found: Found) -> str | None:
    """What is otherwise than a person finds it; None if all is the same."""
    if found.task != expected.task:
        return f"the task is {found.task}, expected {expected.task}"
    if found.task == "language-modelling":
        return _document_difference(expected, found.documents)
    for get in (_counts, lambda each: sorted(each.labels)[:20], lambda each: each.shape):
        if get(found) != get(expected):
            return f"found {get(found)}, expected {get(expected)}"
    for name, rows in expected.splits.items():
        comparable = [Counter(map(_comparable, each)) for each in (found.splits[name], rows)]
        if other := comparable[0] - comparable[1]:
            return f"{other.total()} examples of {name} are not in the files, such as {next(iter(other))}"
    return None


def _counts(found: Found) -> dict[str, int]:
    return {name: len(rows) for name, rows in found.splits.items()}


def _comparable(row: tuple[str, str]) -> tuple[str, str]:
    text, label = (" ".join(cell.split()) for cell in row)
    return text, f"{float(label):g}" if is_number(label) else label


def _document_difference(expected: Found, documents: Sequence[str]) -> str | None:
    if len(documents) != len(expected.documents):
        return f"{len(documents)} documents, expected {len(expected.documents)}"
    found = ["".join(document.split()) for document in documents]
    if marks := [mark for mark in expected.unlike for document in documents if mark in document]:
        return f"the text holds {marks[:5]}"
    for document in expected.documents:
        text = "".join(document.split())
        if not any(text[:60] in each and text[-40:] in each for each in found):
            return f"no document has {text[:60]!r} to {text[-40:]!r}; the first is {found[0][:80]!r}"
    return None


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_a_shape_is_read_as_a_person_reads_it(name: str, tmp_path: Path) -> None:
    expected = SHAPES[name](tmp_path)
    for package in expected.packages:
        pytest.importorskip(package)
    try:
        with bounded_memory():
            found = read(tuple(str(tmp_path / given) for given in expected.given) or (str(tmp_path),))
        problem = difference(expected, found)
    except QkvError as error:
        problem = f"refused: {error}"
    if name in NOT_YET:
        assert problem, f"{name} is understood: take it from NOT_YET"
    else:
        assert problem is None, f"{name}: {problem}"


def test_the_zoo_is_large_and_its_exceptions_are_shapes_of_it() -> None:
    assert len(SHAPES) >= 60
    assert set(SHAPES) >= NOT_YET


TEXTS = (
    "book",
    "electronic_book",
    "folder_of_markdown",
    "notebooks",
    "pdf",
    "source_code",
    "web_page",
    "word_document",
)


@pytest.mark.parametrize("name", TEXTS)
def test_describe_and_train_read_the_same_documents(name: str, tmp_path: Path) -> None:
    expected = SHAPES[name](tmp_path)
    for package in expected.packages:
        pytest.importorskip(package)
    files = tuple(str(tmp_path / given) for given in expected.given) or (str(tmp_path),)
    described = describe({"files": files})
    assert isinstance(described, Description)
    assert not described.refusal
    prepared = prepare(CorpusConfig(files=files), TokenizerConfig())
    split = prepared.train, prepared.valid
    assert described.characters == sum(part.characters for part in split)
    assert described.documents == len(expected.documents)
    assert sum(part.documents for part in split) == max(2, described.documents)  # the end of one alone is held out
    assert [note for note in prepared.notes if "left out" in note] == [
        note for note in described.notes if "left out" in note
    ]


def test_every_shape_of_text_is_compared(tmp_path: Path) -> None:
    writers = {name: write(_new(tmp_path / name)) for name, write in SHAPES.items() if name not in TEXTS}
    assert not [name for name, expected in writers.items() if expected.task == "language-modelling"]


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
