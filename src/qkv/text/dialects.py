"""How other projects cut text before the vocabulary is asked, as their tokenizer.json spells it. No other cut is taken.

    gpt-2      GPT-2's own: words with their leading space, numbers, marks (Radford et al. 2019)
    smollm     the same, every digit by itself
    qwen2      after GPT-4's: every digit by itself, line ends apart; text is put into Unicode's form C first
    llama-bpe  Llama 3: digits in groups of up to three

The names are those of GGUF's `tokenizer.ggml.pre`. Regular expressions are compared, never taken from a file.
"""

from __future__ import annotations

from typing import Any

from qkv.errors import RefusedError

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = _WORDS + r"\p{N}" + _MARKS
LLAMA3 = _WORDS + r"\p{N}{1,3}" + _MARKS

SPACE = "▁"  # what sentencepiece writes for a space


def _byte_level(regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def _in_a_row(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


CUTS: dict[str, dict[str, Any]] = {
    "gpt-2": _byte_level(True),
    "smollm": _in_a_row({"type": "Digits", "individual_digits": True}, _byte_level(True)),
    "qwen2": _in_a_row(_split(QWEN2), _byte_level(False)),
    "llama-bpe": _in_a_row(_split(LLAMA3), _byte_level(False)),
}
FORM_C = {"type": "NFC"}
BYTES = _byte_level(True)

# sentencepiece: a space is a letter, and every text begins with one
_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
SPACES_AS_LETTERS = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, _REPLACED]}
METASPACE = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
LETTERS_AS_SPACES = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}

# the same with a table of characters (charsmap.py) and likely pieces (unigram.py), as Marian's models have it
_SINGLE_SPACES = (
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
)
_TABLE = {"type": "Precompiled"}
WORDS_BEGIN = METASPACE | {"prepend_scheme": "always"}
_OLDER = {"type": "Metaspace", "replacement": SPACE}
UNIGRAM: dict[str, list[Any]] = {
    "normalizer": [None, _TABLE, {"type": "Sequence", "normalizers": [_TABLE, *_SINGLE_SPACES]}],
    "pre_tokenizer": [
        way
        for begin in (WORDS_BEGIN, WORDS_BEGIN | {"split": True}, _OLDER)
        for way in (begin, _in_a_row({"type": "WhitespaceSplit"}, begin))
    ],
    "decoder": [WORDS_BEGIN, WORDS_BEGIN | {"split": True}, _OLDER],
}


def rewritten(table: str) -> dict[str, Any]:
    """Characters by a table of sentencepiece's, in base64; white space single, and none around a text."""
    return {"type": "Sequence", "normalizers": [_TABLE | {"precompiled_charsmap": table}, *_SINGLE_SPACES]}


def cut(name: str, where: str) -> dict[str, Any]:
    """The cut that a file asks for by name."""
    found = CUTS.get({"default": "gpt-2", "gpt2": "gpt-2", "smollm2": "smollm"}.get(name, name))
    if found is None:
        raise RefusedError(f"{where}: texts are cut as {name!r}; known here: {', '.join(CUTS)}. Use another model.")
    return found
