"""Usual names of columns, the likeliest first, for guessing the role of a column from its name.

Names are compared in the form that `normalize` returns: lower case, with _ for blanks and hyphens.
"""

from __future__ import annotations

import re
from typing import Literal

Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = ("train", "valid", "test")
SPLIT_WORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("dev", "valid", "validation", "validate", "val", "development", "testa"), "valid"),
    **dict.fromkeys(("test", "testing", "testb"), "test"),
}
SPLIT_COLUMNS = ("split", "set", "subset", "partition")
"""A column with such a name that contains only names of splits assigns each row to a split."""
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
_WRAPPERS = """
data dataset examples rows items records instances samples documents sentences utterances texts entries results intents
questions paragraphs articles reviews list values content messages common_examples
"""
TEXT, LABEL, ID, DOCUMENT = _TEXT.split(), _LABEL.split(), _ID.split(), _DOCUMENT.split()
"""`DOCUMENT` are the columns of text for a language model; the others are those of labelled examples."""
TEXT_PAIRS = [
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
"""Two texts that are classified together."""
TRANSLATION_PAIRS = [
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
PROMPT_PAIRS = [
    ("input", "output"),
    ("question", "answer"),
    ("text", "target"),
    ("prompt", "completion"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("query", "response"),
    ("dialogue", "summary"),
    ("document", "summary"),
    ("article", "summary"),
    ("article", "highlights"),
]
"""A text and its answer. They are read as source and target if no other column is a label."""
NESTED_TRANSLATION = "translation"
"""The column whose cells are objects such as {"en": ..., "de": ...}, as in data sets of the Hugging Face hub."""
WRAPPERS = frozenset(_WRAPPERS.split())
"""Keys of a JSON object that hold its rows and say nothing about them."""
SEVERAL_TEXTS = ("patterns", "examples", "utterances", "texts", "sentences", "phrases", "queries", "samples")
"""Keys of a list of texts that share the other values of their object."""


def normalize(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def split_of(name: str) -> Split | None:
    """The split in a name such as wnut17train.conll, emerging.dev.conll or oos_val."""
    if name.lower().startswith("t10k"):  # the test images of MNIST
        return "test"
    return next((SPLIT_WORDS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in SPLIT_WORDS), None)


def is_known(name: str) -> bool:
    """Whether a name is a usual name of a text, a label or an id."""
    normalized = normalize(name)
    pair_names = {column for pair in TEXT_PAIRS for column in pair}
    return normalized in {*TEXT, *LABEL, *ID, *pair_names} or split_numbered_name(name) is not None


def split_numbered_name(name: str) -> tuple[str, str] | None:
    """Split a name such as text_a or "#1 String" into the name with ? for its number or letter, and "1" or "2".

    None for a name that has no such number or letter.
    """
    normalized = normalize(name)
    match = re.fullmatch(r"(\D*)([12])(\D*)", normalized) or re.fullmatch(r"(.+_)([ab])()", normalized)
    if match is None or not re.search(r"[a-z]", match[1] + match[3]):
        return None
    return f"{match[1]}?{match[3]}", {"a": "1", "b": "2"}.get(match[2], match[2])
