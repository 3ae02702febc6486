"""Line-aligned files: finds the languages in their names, and reads their lines in pairs.

The language of a file is part of its name: train.en, corpus_de.txt, src-train.txt. Only \\n ends a line. Other readers
turn a lone \\r into \\n; here that would shift one file against the other, so \\r, \\x0b, \\x85 and \\u2028 stay inside
their line. The \\r of a \\r\\n is removed and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from statistics import correlation
from typing import NamedTuple

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.rows import report_reads, split_lines
from qkv.errors import DataError

SOURCE, TARGET = "source", "target"
"""The names of the two languages where neither files nor columns name them."""

# ISO 639-1, then the codes of ISO 639-2 and 639-3 that names of corpora use
_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es
et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj
kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv
ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
afr amh ara arb aze bel ben bos bul cat ces cze cmn cym wel dan deu ger ell gre eng epo est eus fas per fin fra fre gle
glg guj hau heb hin hrv hun hye ibo ind isl ita jpn kan kat kaz khm kir kor lao lat lav lit mal mar mkd mon msa mya nep
nld dut nob nno nor pan pol por ron rum rus sin slk slo slv som spa sqi srp swa swe swh tam tel tgk tgl tha tuk tur ukr
urd uzb vie xho yor zho chi zsm zul hsb dsb
"""
_NAMES = """
arabic bulgarian catalan chinese croatian czech danish dutch english esperanto estonian finnish french german greek
hebrew hindi hungarian icelandic indonesian irish italian japanese korean latin latvian lithuanian norwegian persian
polish portuguese romanian russian serbian slovak slovene slovenian spanish swahili swedish thai turkish ukrainian urdu
vietnamese welsh
deutsch français español italiano português nederlands polski русский українська čeština svenska dansk norsk suomi
magyar română türkçe ελληνικά العربية हिन्दी 中文 日本語 한국어
"""
_LANGUAGE_CODES, _LANGUAGE_NAMES = frozenset(_CODES.split()), frozenset(_NAMES.split())
_ROLES = {"src": SOURCE, "source": SOURCE, "tgt": TARGET, "trg": TARGET, "target": TARGET}

_MIN_COMPARED_LINES = 15
_MIN_SHARED, _MIN_CORRELATION = 0.1, 0.6
"""Lines belong together if they share this fraction of words, or if their lengths have this correlation."""
_COMPRESSION_SUFFIX = re.compile(r"(?i)\.(?:gz|zst|zip)$")
_TEXT_SUFFIX = re.compile(r"(?i)\.(?:txt|text|tok|raw|lines)$")
_LANGUAGE_WITH_REGION = re.compile(r"(?P<stem>.+[._-])(?P<language>[a-z]{2,3}[-_](?:[A-Z]{2}|[A-Z][a-z]{3}))")
_LANGUAGE_AT_END = re.compile(r"(?P<stem>.+[._-])(?P<language>[A-Za-z]{2,6})")
_ROLE_AT_START = re.compile(r"(?P<language>src|source|tgt|trg|target)(?P<stem>[._-].+)")


class ParsedFileName(NamedTuple):
    """The language in a file's name, and the name with * in place of the language.

    Files that are translations of each other have the same pattern.
    """

    pattern: str
    language: str


def parse_file_name(name: str) -> ParsedFileName | None:
    """Find the language in a file's name; None if it has none."""
    uncompressed = _COMPRESSION_SUFFIX.sub("", name)
    bare = _TEXT_SUFFIX.sub("", uncompressed)
    for pattern in (_LANGUAGE_WITH_REGION, _LANGUAGE_AT_END, _ROLE_AT_START):
        if (match := pattern.fullmatch(bare)) is None:
            continue
        language = match["language"]
        if language.lower() in _ROLES:
            language = _ROLES[language.lower()]
        elif re.split("[-_]", language.lower())[0] not in _LANGUAGE_CODES:
            continue
        return ParsedFileName(f"{match['stem']}*{uncompressed[len(bare) :]}", language)
    return None


def file_pair_languages(first: str, second: str) -> tuple[str, str] | None:
    """The languages of two files whose names differ only in the language; None for all other names."""
    one, other = parse_file_name(first), parse_file_name(second)
    if one is None or other is None or one.pattern != other.pattern or one.language == other.language:
        return None
    return one.language, other.language


def lines_correspond(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the lines of two files belong together: by their words, unlike shifted lines, or by their lengths."""
    pairs = [(one, other) for one, other in zip(first, second, strict=False) if one.strip() and other.strip()]
    if len(pairs) < _MIN_COMPARED_LINES:
        return False
    words = [tuple(set(re.findall(r"[^\W_]+", text.lower())) for text in pair) for pair in pairs]

    def shared(shift: int) -> float:
        shifted = words[shift:] + words[:shift]
        return sum(len(one & other) / max(1, len(other)) for (one, _), (_, other) in zip(words, shifted, strict=True))

    aligned = shared(0)
    if aligned > _MIN_SHARED * len(pairs) and aligned > 2 * max(shared(1), shared(len(pairs) // 2)):
        return True
    lengths = [[len(text) for text in column] for column in zip(*pairs, strict=True)]
    varied = all(len(set(column)) > 1 for column in lengths)
    return len(pairs) >= 2 * _MIN_COMPARED_LINES and varied and correlation(*lengths) > _MIN_CORRELATION


def is_language(column: str) -> bool:
    """Whether a column's name is a language: en, pt-BR, German, English (US)."""
    name = re.sub(r" \([^)]*\)$", "", column.strip().lower())
    return name in _LANGUAGE_NAMES or re.split("[-_]", name)[0] in _LANGUAGE_CODES


def read_aligned_lines(
    source: Source,
    encoding: str | None,
    findings: Findings,
    on_read: OnRead | None = None,
    chunks: Iterator[bytes] | None = None,
) -> Iterator[str]:
    """All lines of a file; text after the last \\n is a line too. `chunks`: the bytes of the file, if it is open."""
    where = source.display_name
    texts = decode(report_reads(chunks or read_bytes(source), on_read), where, encoding, findings, keep_line_ends=True)
    count, previous = 0, ""
    for count, line in enumerate(split_lines(texts, where)):
        if count:
            yield _without_return(previous, findings)
        previous = line
    if not count and previous.count("\r") > 1:
        remedy = f"Write its lines with \\n, for example: tr '\\r' '\\n' < {where} > NEW"
        raise DataError(f"{where}:1", "its lines end with \\r alone, and here only \\n ends a line", remedy)
    if previous:
        yield _without_return(previous, findings)


def _without_return(line: str, findings: Findings) -> str:
    """The line without the \\r of a \\r\\n."""
    if not line.endswith("\r"):
        return line
    findings.crlf += 1
    return line[:-1]


def read_line_pairs(
    first: Source,
    second: Source,
    encoding: str | None,
    findings: Findings,
    on_read: OnRead,
    expected: str = "one translation per line",
) -> Iterator[tuple[str, str]]:
    """The lines of two files in pairs; DataError, with both counts, if the files have different numbers of lines."""
    first_lines = read_aligned_lines(first, encoding, findings, on_read)
    second_lines = read_aligned_lines(second, encoding, findings, on_read)
    for pairs, (left, right) in enumerate(zip_longest(first_lines, second_lines)):
        if left is None or right is None:
            counts = [
                pairs + (line is not None) + sum(1 for _ in others)
                for line, others in ((left, first_lines), (right, second_lines))
            ]
            raise DataError(
                f"{first.display_name}:{pairs + 1}",
                f"{counts[0]:,} lines here, {counts[1]:,} in {second.display_name}; expected {expected}",
                "Find the line that was lost or split; only \\n ends a line.",
            )
        yield left, right
