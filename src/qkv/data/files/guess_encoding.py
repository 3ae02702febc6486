"""Guesses the encoding of a text that is not UTF-8, from a sample of its bytes.

charset-normalizer distinguishes the scripts and the East Asian encodings. It confuses the code pages for Latin letters;
among these, the letters of the languages decide: French read as cp1250 has letters that no language combines.
"""

from __future__ import annotations

import codecs
import re

SAMPLE_SIZE = 2**16
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MAX_CONTROL_SHARE = 0.01
_MAX_ACCENTED_SHARE = 0.3
"""Text in Latin letters has a smaller share of characters beyond ASCII."""
_FIRST_PAGE_BONUS = 0.1
_OTHER_PAGES = (
    *("cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "iso8859_7", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
_LATIN_PAGES = ("cp1252", "iso8859_15", "cp1250", "iso8859_2", "cp1254", "cp1257", "mac_roman", "cp850", "cp437")
"""The likeliest first: if two fit a text equally well, the first is chosen."""
MULTIBYTE = frozenset({"cp932", "euc_jp", "gb18030", "big5", "cp949"})
_NAMED_ENCODING = re.compile(r"iso8859-\d+|cp\d+|koi8-[rut]|mac-\w+|gb\w+|big5\w*|euc_\w+|shift_jis\w*|tis-620")
_USUAL_NAMES = {
    "iso8859-1": "cp1252",
    **dict.fromkeys(("gb2312", "gbk"), "gb18030"),
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}
"""The encodings that browsers use for these names."""
_ALPHABETS = tuple(
    frozenset(letters)
    for letters in (
        "àâæçéèêëîïôœùûüÿ",  # French
        "äöüßé",  # German
        "áéíñóúüç",  # Spanish, Catalan
        "ãáâàçéêíõóôú",  # Portuguese
        "àèéìíîòóùú",  # Italian
        "åäöæøéü",  # Danish, Norwegian, Swedish, Finnish
        "áæéðíóöþúý",  # Icelandic
        "áéëèïóöüíúê",  # Dutch
        "ąćęłńóśźż",  # Polish
        "áčďéěíňóřšťúůýž",  # Czech
        "áäčďéíĺľňóôŕšťúýž",  # Slovak
        "áéíóöőúüű",  # Hungarian
        "ăâîșşțţ",  # Romanian
        "čćđšž",  # Croatian, Slovene
        "çğıİöşüâî",  # Turkish
        "āčēģīķļņšūžąęėįųõäöü",  # Latvian, Lithuanian, Estonian
    )
)
_USUAL_MARKS = frozenset("“”„‘’‚«»–—…·•°§©®™€£¥¡¿´×½¼²³ªº\xa0\xad")


def guess_encoding(sample: bytes) -> str | None:
    """The encoding that fits the bytes, by the name that Python has for it; None if they do not look like text."""
    sample = sample[:SAMPLE_SIZE]
    if len(_CONTROL.findall(sample)) > _MAX_CONTROL_SHARE * len(sample):
        return None
    from charset_normalizer import from_bytes

    fits = {page: _latin_fit(sample, page) for page in _LATIN_PAGES}
    latin = max(_LATIN_PAGES, key=lambda page: fits[page] + _FIRST_PAGE_BONUS * (page == _LATIN_PAGES[0]))
    if fits[latin] == 1:
        return latin
    best = from_bytes(sample, cp_isolation=list(_OTHER_PAGES), enable_fallback=False).best()
    if best is not None and fits[latin] < 0.9:
        return best.encoding
    accented = sum(byte > 0x7F for byte in sample)
    return latin if fits[latin] > 0.5 and accented < _MAX_ACCENTED_SHARE * len(sample) else None


def _latin_fit(sample: bytes, page: str) -> float:
    """The share of non-ASCII characters that are letters of the likeliest language of their line, or common signs."""
    try:
        text = sample.decode(page)
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 4:
            return 0.0
        text = sample[: error.start].decode(page)
    fitting = total = 0
    for line in text.split("\n"):  # the lines may be in several languages
        letters = [character.lower() for character in line if character > "\x7f"]
        total += len(letters)
        marks = sum(letter in _USUAL_MARKS for letter in letters)
        fitting += marks + max(sum(letter in alphabet for letter in letters) for alphabet in _ALPHABETS)
    return fitting / max(1, total)


def fitting_encoding(name: str | None, sample: bytes) -> str | None:
    """The encoding of this name, if it is one of text that is not Unicode and can decode the sample."""
    try:
        known = codecs.lookup(name or "").name
        if not _NAMED_ENCODING.fullmatch(known):
            return None
        known = _USUAL_NAMES.get(known, known)
        sample.decode(known)
    except (LookupError, UnicodeError, ValueError):
        return None
    return known
