"""Recognises lines with a label before or after the text or in a heading above, and tables without a suffix.

    spam free tickets now      LOC:city Where is it?      world: Talks go on      The profit rose@positive
    # sports / [sports] / sports: / == sports ==, each above its examples, one per line

Prose, poems, plays and logs repeat words at these positions, too. So there must be few labels, nearly every line must
have one, few may occur once, and if only a blank or a colon separates them, they must rarely occur elsewhere and not
look like names of speakers. If only the last test fails, the file is ambiguous: text, unless an option asks for labels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import quantiles
from typing import Literal

from qkv.data.formats.column_names import is_known
from qkv.data.formats.delimited import Dialect, is_number, sniff_dialect
from qkv.data.formats.rows import BadRows

LABEL_FIRST, LABEL_LAST = ["label", "text"], ["text", "label"]
MAX_LABEL_CHARACTERS, MAX_LABEL_WORDS = 40, 4
MAX_HEADING_CHARACTERS = 100
SNIFFED, SNIFFED_WITH_HEADINGS = 2**16, 2**21
"""How much of a file decides; with headings more, because all examples of a label come before the next label."""
_SEPARATORS = ("\t", " ||| ", "::", "=>", "@", "|", ";", ",", " ", ":", " - ")
_NAMES = {"\t": "a tab", " ": "a blank", ",": "a comma", ";": "a semicolon", ":": "a colon", "|": "a vertical bar"}
_WEAK = frozenset((" ", ":", " - ", ", "))
"""Separators that are common in prose, plays and transcripts."""
_MIN_LINES, _MIN_HEADED, _MIN_PER_HEADING = 10, 20, 8
_MAX_DISTINCT_SHARE, _MAX_SINGLE_SHARE, _MAX_BAD_SHARE = 0.1, 0.03, 0.01
_MIN_EXCLUSIVE = 0.7
"""The smallest share of the occurrences of the labels as words that are labels."""
_MIN_VARIATION = 0.2
"""The smallest interquartile range of line lengths over the median: verse and wrapped prose vary less."""
_TABLE_SHARE = 0.95
_WELL_KNOWN_WORDS = """
pos neg neu positive negative neutral ham spam -1 0 1 2 true false toxic fake real hate offensive joy anger sadness fear
love surprise disgust optimism
"""
_OTHER_WORDS = """
trace debug info notice warn warning error err critical fatal user assistant system human bot ai agent customer client
speaker interviewer interviewee moderator doctor patient teacher student q a question answer me you i he she it we they
the an and or but if of in on at to from for with by as is are was were be this that these those my your his her our
their not no yes what who where when why how which there here do does did have has had will would can could should may
so then all
"""
_STRUCTURE_WORDS = """
verse chorus bridge intro outro hook refrain chapter scene act part section stanza page introduction conclusion contents
references appendix ingredients method instructions directions
"""
_WELL_KNOWN = frozenset(_WELL_KNOWN_WORDS.split())
_NO_LABELS = frozenset(_OTHER_WORDS.split())
"""Log levels, speakers of conversations, and words that begin sentences."""
_NO_HEADINGS = frozenset(_STRUCTURE_WORDS.split()) | _NO_LABELS
"""Words that begin the headings of parts of a text."""
_HEADINGS = {
    "#": re.compile(r"#{1,6}\s*(?P<label>.*\w.*?)\s*#*"),
    "[]": re.compile(r"\[(?P<label>[^\]]*\w[^\]]*)\]"),
    ":": re.compile(r"(?P<label>[^:]*\w[^:]*?)\s*:"),
    "==": re.compile(r"([=*-]{2,})\s*(?P<label>\w.*?)\s*\1"),
}


@dataclass(frozen=True)
class LabelledLines:
    """Where the label of each line is."""

    place: Literal["first", "last", "above"]
    mark: str
    """The separator between label and text, or the form of the headings."""
    certain: bool = True
    example: str = ""
    """One of the labels."""

    @property
    def description(self) -> str:
        if self.place == "above":
            return f"a line for each example, labels such as {self.example!r} in headings above"
        where = "before" if self.place == "first" else "after"
        return f"labels such as {self.example!r} {where} the text, {_NAMES.get(self.mark, repr(self.mark))} between"

    @property
    def columns(self) -> list[str]:
        return list(LABEL_LAST if self.place == "last" else LABEL_FIRST)

    def rows(self, lines: Iterable[str], bad_rows: BadRows) -> Iterator[tuple[int, list[str]]]:
        """The line number and the cells of each example."""
        label: str | None = None
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if self.place == "above":
                if (heading := _heading(line, self.mark)) is not None:
                    label = heading
                    continue
                cells = None if label is None else (label, line.strip())
            else:
                cells = _split(line, self.mark, self.place)
            bad_rows.row_count += 1
            if cells is None:
                bad_rows.reject(number, f"no label here (expected {self.description})")
            else:
                yield number, list(cells if self.columns == LABEL_FIRST else cells[::-1])


def begins_with_heading(lines: Iterable[str]) -> bool:
    return _heading_form(lines) is not None


def _heading_form(lines: Iterable[str]) -> str | None:
    """The form of heading of the first line; None if it is not a heading."""
    first = next((line for line in lines if line.strip()), "")
    return next((mark for mark in _HEADINGS if _heading(first, mark) is not None), None)


def _heading(line: str, mark: str) -> str | None:
    """The label in a line, if it is a heading of this form."""
    line = line.strip()
    # the patterns take quadratic time on a long line without their mark, and a book may be one line
    found = _HEADINGS[mark].fullmatch(line) if len(line) <= MAX_HEADING_CHARACTERS else None
    label = found["label"].strip() if found else ""
    return label if 0 < len(label) <= MAX_LABEL_CHARACTERS and len(label.split()) <= MAX_LABEL_WORDS else None


def sniff_lines(lines: Sequence[str]) -> Dialect | LabelledLines | None:
    """The cells or labels in the first lines of a file of unknown format; None if they are only text."""
    tabs = sniff_dialect(lines, "\t")
    if tabs.width > 1 and tabs.width_share > _TABLE_SHARE:
        return tabs
    dialect = sniff_dialect(lines, ",;|")
    if dialect.width > 1 and dialect.width_share > _TABLE_SHARE and _is_table(lines, dialect):
        return dialect
    found = [layout for mark in _SEPARATORS for place in ("first", "last") if (layout := _layout(lines, mark, place))]
    return next((layout for layout in found if layout.certain), None) or _headed(lines) or next(iter(found), None)


def _is_table(lines: Sequence[str], dialect: Dialect) -> bool:
    """Whether lines with equally many commas are a table: a header of known names, or numbers and a few words."""
    rows = [[cell.strip(' "') for cell in line.split(dialect.delimiter)] for line in lines if line.strip()]
    if sum(map(is_known, rows[0])) > 1 and len(rows) > 1:
        return True
    rows = [row for row in rows if len(row) == dialect.width]
    columns = list(zip(*rows, strict=True))
    numbers = [column for column in columns if all(map(is_number, column))]
    words = [column for column in columns if not any(map(is_number, column)) and len(set(column)) <= len(column) / 5]
    return len(numbers) > 1 and bool(words) and len(numbers) + len(words) == dialect.width and len(rows) >= _MIN_LINES


def _split(line: str, mark: str, place: str) -> tuple[str, str] | None:
    """The label and the text of a line; None if it has no label at this position."""
    line = line.strip()
    if mark == " ":
        parts = line.split(None, 1) if place == "first" else line.rsplit(None, 1)
    else:
        parts = line.split(mark, 1) if place == "first" else line.rsplit(mark, 1)
    if len(parts) != 2:
        return None
    label, text = parts if place == "first" else parts[::-1]
    label = label.strip()
    label = label[1:-1].strip() if label[:1] + label[-1:] in ("[]", "()", '""') else label
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] == '"' and mark != " ":
        text = text[1:-1].replace('""', '"')
    is_label = len(label) <= MAX_LABEL_CHARACTERS and len(label.split()) <= MAX_LABEL_WORDS
    return (label, text) if is_label and text and any(map(str.isalnum, label)) else None


def _layout(lines: Sequence[str], mark: str, place: Literal["first", "last"]) -> LabelledLines | None:
    """The layout with labels at this position, if they look like labels."""
    filled = [line for line in lines if line.strip()]
    cells = [found for line in filled if (found := _split(line, mark, place)) is not None]
    if len(filled) < _MIN_LINES or len(cells) < (1 - _MAX_BAD_SHARE) * len(filled):
        return None
    labels, texts = [label for label, _ in cells], [text for _, text in cells]
    counts = Counter(labels)
    single = sum(count for count in counts.values() if count == 1)
    few = 2 <= len(counts) <= max(2, _MAX_DISTINCT_SHARE * len(cells)) and single <= _MAX_SINGLE_SHARE * len(cells)
    if not few or not all(map(_may_be_label, counts)) or not _are_texts(texts):
        return None
    if mark == " " and not _are_exclusive(counts, filled):
        return None
    if mark in (",", ":") and place == "first":  # "yes, we can" is a sentence, "yes,we can" is not
        mark_and_blank = sum(line.partition(mark)[2].startswith(" ") for line in filled) > len(filled) / 2
        mark = f"{mark} " if mark_and_blank and mark == "," else mark
    certain = mark not in _WEAK or {label.casefold() for label in counts} <= _WELL_KNOWN
    if not certain and (mark, place) != (" ", "last"):
        certain = not _look_like_names(counts) and not _take_turns(labels)
    return LabelledLines(place, "," if mark == ", " else mark, certain, counts.most_common(1)[0][0])


def _may_be_label(label: str) -> bool:
    """Whether a word may be a label: not a date, a time, a word with a sign, or a common word of texts and logs."""
    if not any(map(str.isalpha, label)):
        return is_number(label) and abs(float(label)) < 1000
    return label.casefold() not in _NO_LABELS and label[-1].isalnum() and label[0].isalnum()


def _are_texts(texts: Sequence[str]) -> bool:
    """Whether nearly all contain words, most are distinct, and they do not begin with the same sign."""
    with_words = sum(bool(re.search(r"[^\W\d_]{2}", text)) for text in texts)
    first_mark, count = Counter(text[0] for text in texts).most_common(1)[0]
    several = sum(" " in text for text in texts)
    same_mark = not first_mark.isalnum() and count > len(texts) / 2
    enough = with_words > 0.9 * len(texts) and several > len(texts) / 2
    return enough and not same_mark and len(set(texts)) > len(texts) / 2


def _are_exclusive(counts: Counter[str], lines: Sequence[str]) -> bool:
    """Whether the labels rarely occur as words elsewhere, unlike words that begin or end sentences."""
    words = Counter(word.strip(".,;:!?\"'()").casefold() for line in lines for word in line.split())
    anywhere = sum(max(words[label.casefold()], count) for label, count in counts.items())
    return counts.total() >= _MIN_EXCLUSIVE * anywhere


def _look_like_names(counts: Counter[str]) -> bool:
    """Whether most are written as names of speakers are: Romeo, FIRST CITIZEN, A; not LOC:city or b_2."""
    named = sum(count for label, count in counts.items() if label[0].isupper() and re.fullmatch(r"[\w '’.-]+", label))
    return named > counts.total() / 2


def _take_turns(labels: Sequence[str]) -> bool:
    """Whether equal labels follow each other far less often than by chance, as speakers or fields of records do, or
    whether they are numbers that count up."""
    counts, pairs = Counter(labels), len(labels) - 1
    expected = pairs * sum((count / len(labels)) ** 2 for count in counts.values())
    equal = sum(first == second for first, second in pairwise(labels))
    if all(map(is_number, counts)) and sum(float(b) - float(a) == 1 for a, b in pairwise(labels)) > pairs / 2:
        return True
    return expected >= 3 and equal < expected / 2


def _headed(lines: Sequence[str]) -> LabelledLines | None:
    """The layout of examples below headings, if there are enough, and they are not verses, paragraphs or settings."""
    if (mark := _heading_form(lines)) is None:
        return None
    examples: list[tuple[str, str]] = []
    headings: list[str] = []
    inner_blanks, was_blank = 0, False
    for line in lines:
        if (heading := _heading(line, mark)) is not None:
            headings.append(heading)
            was_blank = False
        elif line.strip():
            starts_block = not examples or examples[-1][0] != headings[-1]
            inner_blanks += was_blank and not starts_block
            examples.append((headings[-1], line))
            was_blank = False
        else:
            was_blank = True
    counts, texts = Counter(label for label, _ in examples), [text for _, text in examples]
    enough = len(counts) > 1 and len(examples) >= max(_MIN_HEADED, _MIN_PER_HEADING * len(headings))
    if not enough or len(headings) > 2 * len(counts) or inner_blanks > _MAX_BAD_SHARE * len(examples):
        return None
    if any(label.split()[0].strip(".:").casefold() in _NO_HEADINGS for label in counts):
        return None
    cut = sum(text.rstrip().endswith((",", ";", ":", "—", "–", "-")) for text in texts)
    indented = sum(text[0].isspace() or text.startswith(("- ", "* ", "+ ")) for text in texts)
    settings = sum(bool(re.match(r"[\w.-]+\s*=", text)) for text in texts)
    quarter, median, three_quarters = quantiles(map(len, texts), n=4)
    varied = three_quarters - quarter >= _MIN_VARIATION * median
    if not varied or max(cut, indented, settings) > 0.1 * len(texts) or not _are_texts(texts):
        return None
    return LabelledLines("above", mark, True, headings[0])
