"""Token streams: pieces give the ids of the whole, the layout, the counts."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.data.prepare import stream_text
from qkv.data.tokens import Cutter, TokenStream, TokenWriter, require, token_type
from qkv.errors import DataError
from text.kinds import KINDS, TEXT, tokenizer

words = st.text(st.sampled_from("ab'’s 3.\n\t\x85\u00a0\u2003\x1c世🎈́"), min_size=1, max_size=20)


def cut(text: str, length: int, piece: int = 3) -> list[str]:
    cutter = Cutter(length)
    found = []
    for start in range(0, len(text), piece):
        found += cutter.push(text[start : start + piece])
    return [part for part in [*found, cutter.finish()] if part]


@settings(max_examples=500)
@given(st.lists(words, max_size=12), st.integers(12, 30))
def test_pieces_give_the_ids_of_the_whole(parts: list[str], length: int) -> None:
    text = " ".join(parts)
    pieces = cut(text, length)
    assert "".join(pieces) == text
    borders = [sum(map(len, pieces[: number + 1])) for number in range(len(pieces) - 1)]
    if not all(text[place] in " \n" and not text[place - 1].isspace() for place in borders):
        return  # a text without such a place is cut anywhere
    for kind in KINDS:
        ours = tokenizer(kind)
        assert list(chain(*ours.encode_batch(pieces))) == ours.encode(text), kind


@given(st.text(st.sampled_from("ab \n"), max_size=200), st.integers(1, 50), st.integers(1, 50))
def test_cuts_depend_on_the_text_only(text: str, first: int, second: int) -> None:
    assert cut(text, 20, first) == cut(text, 20, second)
    assert all(len(piece) <= 20 for piece in cut(text, 20))


def test_real_text_is_cut_between_words() -> None:
    for kind in KINDS:
        ours = tokenizer(kind)
        pieces = cut(TEXT, 100, 77)
        assert len(pieces) > 50
        assert list(chain(*ours.encode_batch(pieces))) == ours.encode(TEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_layout_and_counts(kind: str, tmp_path: Path) -> None:
    ours = tokenizer(kind)
    writer = TokenWriter(tmp_path / "a.bin", ours)
    documents = ["The river\n", "stone ✈ ☂", "keeps"]
    for document in documents:
        writer.add(document[:4], False)
        writer.add(document[4:], True)
    facts = writer.close()
    ids = np.fromfile(tmp_path / "a.bin", dtype="<u2").tolist()
    expected = [ours.separator]
    for document in documents:
        expected += [*ours.encode(document), ours.separator]
    assert ids == expected
    assert facts["tokens"] == len(ids)
    assert facts["documents"] == 3
    assert facts["characters"] == sum(map(len, documents))
    assert facts["bytes"] == sum(len(document.encode()) for document in documents)
    assert facts["unknown"] == (0 if kind == "bpe" else 2)


def test_a_text_in_memory() -> None:
    found = stream_text(tokenizer("characters"), "The ✈")
    assert found.tokens.dtype == np.uint16
    assert (found.bytes, found.characters, found.documents, found.unknown) == (7, 5, 1, 1)
    assert found.tokens[0] == found.tokens[-1] == tokenizer("characters").separator


def test_too_short() -> None:
    stream = TokenStream(np.zeros(5, dtype=np.uint16), 3, 3, 1, 0)
    require(stream, 5, "training")
    with pytest.raises(DataError, match="training needs at least 6 tokens, has 5"):
        require(stream, 6, "training")


def test_wide_vocabularies_take_wide_ids() -> None:
    assert token_type(2**16) is np.uint16
    assert token_type(2**16 + 1) is np.uint32


def test_one_long_document_is_encoded_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qkv.data.tokens.BATCH", 500)
    ours = tokenizer("bpe")
    sizes: list[int] = []
    monkeypatch.setattr(
        ours, "encode_array", lambda texts: sizes.append(sum(map(len, texts))) or type(ours).encode_array(ours, texts)
    )
    writer = TokenWriter(tmp_path / "a.bin", ours)
    writer.cutter = Cutter(100)
    writer.add(TEXT, ends=True)
    facts = writer.close()
    assert max(sizes) <= 600
    assert facts["characters"] == len(TEXT)
    assert np.fromfile(tmp_path / "a.bin", "<u2").tolist() == [ours.separator, *ours.encode(TEXT), ours.separator]
