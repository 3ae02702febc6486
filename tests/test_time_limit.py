"""Reading that would eat the time budget is refused with the time that passed and what to do."""

from __future__ import annotations

import pytest

from qkv.errors import InputError
from qkv.text.tokenizer import TokenizerConfig
from qkv.text.vocabulary import train_tokenizer
from qkv.time_limit import ReadingLimit, check, reading_within


def limit(passed: float, on_processor: float) -> ReadingLimit:
    return ReadingLimit(0.0, 1.0, now=lambda: passed, on_processor=lambda: on_processor)


def test_reading_may_take_most_of_the_time() -> None:
    with reading_within(limit(41.0, 41.0)):
        check()


@pytest.mark.parametrize(("on_processor", "busy"), [(40.0, False), (6.0, True)])
def test_longer_reading_is_refused(on_processor: float, busy: bool) -> None:
    with reading_within(limit(50.0, on_processor)), pytest.raises(InputError, match="50 s passed") as refusal:
        check()
    assert "--minutes 4" in str(refusal.value)
    assert ("12% of a processor" in str(refusal.value)) is busy


def test_texts_are_not_encoded_after_the_time_for_reading() -> None:
    tokenizer = train_tokenizer(TokenizerConfig(kind="bpe", size=300), ["the dog sat on the mat"] * 20)
    with reading_within(limit(50.0, 50.0)), pytest.raises(InputError, match="too short"):
        tokenizer.encode_batch(["the dog"])
    assert tokenizer.encode_batch(["the dog"])
