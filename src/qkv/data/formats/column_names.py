"""The names that people give to columns, the likeliest first: the one list of them.

They are compared in lower case, with _ for blanks and hyphens.
"""

from __future__ import annotations

import re

_TEXT = """
text sentence review content message body comment tweet document question utterance headline query sms article passage
abstract description input string sequence protein title text1 sentence1 premise question1 post email paragraph snippet
reviewtext review_text raw
"""
_LABEL = """
label labels sentiment class category categories target score gold_label gold rating stars polarity intent topic emotion
quality similarity relatedness is_duplicate spam type y answer output toxic airline_sentiment genre genres tag tags
relatedness_score star_rating stance language lang
"""
_ID = "id idx index guid uid uuid pairid pair_id example_id row no number key unnamed:_0"
_DOCUMENT = "text content body document story article passage sentence review message raw"
TEXT, LABEL, ID = _TEXT.split(), _LABEL.split(), _ID.split()
DOCUMENT = _DOCUMENT.split()
"""Columns of text for a language model."""
PAIRS = [
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text", "text2"),
    ("text", "text_pair"),
    ("sentence", "sentence2"),
    ("question", "sentence"),
    ("query", "passage"),
    ("query", "document"),
    ("question", "passage"),
    ("question", "answer"),
]
"""Two texts that are judged together."""
TRANSLATION = [
    ("source", "target"),
    ("src", "tgt"),
    ("src", "trg"),
    ("source_text", "target_text"),
    ("source_sentence", "target_sentence"),
    ("source_text", "translation"),
    ("source", "translation"),
    ("original", "translation"),
    ("text", "translation"),
    ("source", "reference"),
]
"""A text and its translation."""
PROMPT = [("input", "output"), ("question", "answer"), ("text", "target")]
"""A text and another that may be its translation, where the columns are asked for as such."""
NESTED = "translation"
"""The column that holds {"en": ..., "de": ...}, as on data hubs."""


def plain(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def known(name: str) -> bool:
    spoken = plain(name)
    pairs = {each for pair in PAIRS for each in pair}
    return spoken in {*TEXT, *LABEL, *ID, *pairs} or twin(name) is not None


def twin(name: str) -> tuple[str, str] | None:
    """Of a name of two that differ by a number or letter, as text_a or "#1 String": the common part and the mark."""
    spoken = plain(name)
    match = re.fullmatch(r"(\D*)([12])(\D*)", spoken) or re.fullmatch(r"(.+_)([ab])()", spoken)
    if match is None or not re.search(r"[a-z]", match[1] + match[3]):
        return None
    return f"{match[1]}?{match[3]}", {"a": "1", "b": "2"}.get(match[2], match[2])
