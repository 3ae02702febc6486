"""Streamed text is the decoded text, and no character is ever cut."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qkv.text.decoding import StreamDecoder
from text.kinds import KINDS, TEXT, tokenizer


def streamed(kind: str, ids: list[int]) -> list[str]:
    decoder = StreamDecoder(tokenizer(kind))
    return [*(decoder.push(number) for number in ids), decoder.finish()]


@settings(max_examples=300)
@given(st.sampled_from(KINDS), st.lists(st.integers(0, 10**6), max_size=60))
def test_any_ids(kind: str, numbers: list[int]) -> None:
    """Random ids, junk bytes and special tokens included."""
    ids = [number % tokenizer(kind).vocabulary for number in numbers]
    assert "".join(streamed(kind, ids)) == tokenizer(kind).decode(ids)


@settings(max_examples=300)
@given(st.lists(st.integers(1, 256), max_size=40))
def test_any_bytes(ids: list[int]) -> None:
    assert "".join(streamed("bpe", ids)) == tokenizer("bpe").decode(ids)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=80))
def test_no_character_is_cut(text: str) -> None:
    pieces = streamed("bpe", tokenizer("bpe").encode(text))
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_text(kind: str) -> None:
    ids = tokenizer(kind).encode(TEXT)
    assert "".join(streamed(kind, ids)) == tokenizer(kind).decode(ids)


@settings(max_examples=200)
@given(st.sampled_from(KINDS), st.text(st.sampled_from("abc .,'\n(é"), min_size=1, max_size=40), st.data())
def test_going_on_after_a_prompt(kind: str, text: str, data: st.DataObject) -> None:
    """Prompt and continuation are joined as if they had been written at once."""
    ids = tokenizer(kind).encode(text)
    known = [number for number in ids if not tokenizer(kind).is_special(number)]
    cut = data.draw(st.integers(0, len(known)))
    decoder = StreamDecoder(tokenizer(kind), known[cut - 1] if cut else None)
    rest = "".join([*(decoder.push(number) for number in known[cut:]), decoder.finish()])
    if kind != "bpe" or "\ufffd" not in tokenizer(kind).decode(known[:cut]):
        assert tokenizer(kind).decode(known[:cut]) + rest == tokenizer(kind).decode(known)


def test_a_broken_end_is_shown() -> None:
    bpe = tokenizer("bpe")
    ids = bpe.encode("ok 🎈")[:-1]
    assert streamed("bpe", ids)[-1] == "\ufffd"


def test_work_per_token_does_not_grow() -> None:
    decoder = StreamDecoder(tokenizer("words"))
    ids = tokenizer("words").encode(TEXT) * 10
    quarter = len(ids) // 4
    times = []
    for part in range(4):
        started = time.process_time()
        for number in ids[part * quarter : (part + 1) * quarter]:
            decoder.push(number)
        times.append(time.process_time() - started)
    assert times[3] < 3 * times[0]
