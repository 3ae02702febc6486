"""Files that are aligned line by line: the languages in their names, and their lines in pairs.

Languages are found in names as train.en, corpus_de.txt, src-train.txt; columns are called en, pt-BR, German. Only \\n
ends a line. Other readers make \\n of a lone \\r; here that would shift one file against the other, so \\r, \\x0b,
\\x85 and \\u2028 stay inside of their line; one \\r before \\n is taken off, and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from qkv.data.files.decode import decode
from qkv.data.files.unpack import Source, read_bytes
from qkv.data.findings import Findings, OnRead
from qkv.data.formats.rows import report_reads, whole_lines
from qkv.errors import DataError

SOURCE, TARGET = "source", "target"
"""What the two languages are called where nothing names them."""

# ISO 639-1, then the codes of ISO 639-2 and 639-3 that corpora are named for
_TWO = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es
et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj
kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv
ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_THREE = """
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
"""
CODES, NAMES = frozenset((_TWO + _THREE).split()), frozenset(_NAMES.split())
_ROLES = {"src": SOURCE, "source": SOURCE, "tgt": TARGET, "trg": TARGET, "target": TARGET}

_PACKING = re.compile(r"(?i)\.(?:gz|zst|zip)$")
_TAIL = re.compile(r"(?i)\.(?:txt|text|tok|raw|lines)$")
_REGION = re.compile(r"(?P<stem>.+[._-])(?P<language>[a-z]{2,3}[-_](?:[A-Z]{2}|[A-Z][a-z]{3}))")
_LAST = re.compile(r"(?P<stem>.+[._-])(?P<language>[A-Za-z]{2,6})")
_FIRST = re.compile(r"(?P<language>src|source|tgt|trg|target)(?P<stem>[._-].+)")


class Named(NamedTuple):
    """A file's name, split: the file of its translations has the same rest and another language."""

    rest: str
    language: str


def named(name: str) -> Named | None:
    """The language in a file's name, or None where none is plain."""
    whole = _PACKING.sub("", name)
    bare = _TAIL.sub("", whole)
    for pattern in (_REGION, _LAST, _FIRST):
        if (match := pattern.fullmatch(bare)) is None:
            continue
        language = match["language"]
        if language.lower() in _ROLES:
            language = _ROLES[language.lower()]
        elif re.split("[-_]", language.lower())[0] not in CODES:
            continue
        return Named(f"{match['stem']}*{whole[len(bare) :]}", language)
    return None


def aligned(first: str, second: str) -> tuple[str, str] | None:
    """The languages of two files whose names differ in nothing else."""
    one, other = named(first), named(second)
    if one is None or other is None or one.rest != other.rest or one.language == other.language:
        return None
    return one.language, other.language


def is_language(column: str) -> bool:
    """Whether a column is called by a language: en, pt-BR, German."""
    name = column.strip().lower()
    return name in NAMES or re.split("[-_]", name)[0] in CODES


def lines(
    source: Source,
    encoding: str,
    findings: Findings,
    on_read: OnRead | None = None,
    chunks: Iterator[bytes] | None = None,
) -> Iterator[str]:
    """All lines; what follows the last \\n is one more, unless it is empty."""
    where = source.display_name
    texts = decode(report_reads(chunks or read_bytes(source), on_read), where, encoding, findings, keep_line_ends=True)
    number, last = 0, ""
    for number, line in enumerate(whole_lines(texts, where)):
        if number:
            yield _without_return(last, findings)
        last = line
    if not number and last.count("\r") > 1:
        remedy = f"Write its lines with \\n, for example: tr '\\r' '\\n' < {where} > NEW"
        raise DataError(f"{where}:1", "its lines end with \\r alone, and here only \\n ends a line", remedy)
    if last:
        yield _without_return(last, findings)


def _without_return(line: str, findings: Findings) -> str:
    if not line.endswith("\r"):
        return line
    findings.crlf += 1
    return line[:-1]


def aligned_lines(
    first: Source, second: Source, encoding: str, findings: Findings, on_read: OnRead
) -> Iterator[tuple[str, str]]:
    """Pairs of lines of two files; DataError, with both counts, where one file has more lines than the other."""
    one, other = lines(first, encoding, findings, on_read), lines(second, encoding, findings, on_read)
    for count, (left, right) in enumerate(zip_longest(one, other)):
        if left is None or right is None:
            counts = [count + (line is not None) + sum(1 for _ in rest) for line, rest in ((left, one), (right, other))]
            raise DataError(
                f"{first.display_name}:{count + 1}",
                f"{counts[0]:,} lines here, {counts[1]:,} in {second.display_name}; expected one translation a line",
                "Find the line that was lost or split; only \\n ends a line.",
            )
        yield left, right
