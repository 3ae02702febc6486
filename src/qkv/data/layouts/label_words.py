"""Decides which names of files and folders may be labels; parts of works, dates and ordinary file names may not."""

from __future__ import annotations

import re
from collections.abc import Collection

from qkv.data.formats.aligned import is_language
from qkv.data.layouts.listing import words_of

MAX_LABELS = 100
_KNOWN = """
pos neg neu positive negative neutral mixed male female men women man woman boy boys girl girls ham spam nospam notspam
real fake true false yes no toxic nontoxic clean hate offensive normal abnormal happy sad joy sadness anger angry fear
love surprise disgust optimism pessimism sarcastic sarcasm ironic irony subjective objective human machine ai good bad
relevant irrelevant legitimate phishing benign malicious healthy sick
"""
_KNOWN_LABELS = frozenset(_KNOWN.split())
_SEQUENCE = """
chapter chap ch chp part pt section sec page pages pg p vol volume book bk scene act canto verse letter lesson lecture
unit week day month year episode ep season issue no nr number item file doc document text txt img image scan draft
version v rev copy new old final note notes entry post page batch shard chunk split fold data dataset corpus sample
kapitel teil seite band brief buch chapitre partie capitulo parte capitolo
"""
_SEQUENCE_WORDS = frozenset(_SEQUENCE.split())
"""Names of numbered parts of a work or of a collection."""
_TREE = """
src source lib libs bin docs doc documentation test tests testing example examples sample samples include includes data
dataset datasets assets images img static public scripts script tools util utils config configs build dist archive
archives backup backups misc other others tmp temp old new notes drafts inbox outbox sent home work private personal
projects project journal diary blog posts pages articles chapters appendix appendices figures media downloads raw
processed vocab vocabulary merges stopwords words wordlist dictionary index readme todo log logs output outputs
"""
_TREE_WORDS = frozenset(_TREE.split())
"""Ordinary names of folders and files."""
_DATE = re.compile(
    r"(?:1[5-9]|20)\d\d(?:\D?[01]?\d(?:\D?[0-3]?\d)?)?|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
)


def are_known_labels(names: Collection[str]) -> bool:
    """Whether all names are typical names of labels."""
    lowered = [name.lower() for name in names]
    known = all(set(words_of(name)) <= _KNOWN_LABELS for name in lowered)
    return len(lowered) > 1 and (known or all(len(name) > 3 and is_language(name) for name in lowered))


def may_be_labels(names: Collection[str]) -> bool:
    """Whether names may be labels: several words that number nothing and are not ordinary file or folder names."""
    lowered = {name.lower() for name in names}
    without_digits = {re.sub(r"\d+", "", name) for name in lowered}
    if not 1 < len(lowered) <= MAX_LABELS or len(without_digits) < len(lowered):
        return False
    return all(re.search(r"[^\W\d_]", name) and not is_part_of_work(name) for name in lowered) and not any(
        name in _TREE_WORDS or _DATE.fullmatch(name) for name in lowered if name not in _KNOWN_LABELS
    )


def is_part_of_work(name: str) -> bool:
    """Whether a name numbers the parts of a work or of a collection, such as chapter01, page_3 or 2024-05-01."""
    words = re.findall(r"[^\W\d_]+", name.lower())
    numbered = bool(re.search(r"\d", name)) or len(words) == 1
    spelled_out = bool(words) and words[0] in _SEQUENCE_WORDS  # "part one"
    return bool(_DATE.fullmatch(name.lower())) or spelled_out or (numbered and not _SEQUENCE_WORDS.isdisjoint(words))
