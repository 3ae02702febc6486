"""Small unigram vocabularies and tables of characters, made by hand: nothing here needs the sentencepiece package."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from qkv.text.foreign import unigram
from qkv.text.tokenizer import Tokenizer

TABLE = {
    "ﬁ": "fi",
    "\t": " ",
    "é": "é",
    "e\u0301": "é",
    "e\u0301\u0323": "ẹ́",
    "\u00a0": " ",
    "\x01": "",
    "¨": " \u0308",
}
SCORES = {"▁": -2.0, "▁the": -3.0, "▁th": -6.0, "e": -4.0, "t": -5.0, "h": -5.5, "fi": -4.5, "▁fish": -7.0, "sh": -5.0}
SCORES |= {"f": -8.0, "i": -7.5, "s": -6.0, "é": -9.0, "▁rare": -6.5}
NAMES = ("</s>", "<unk>", ">>fra<<", ">>deu<<")


def packed(table: Mapping[str, str]) -> bytes:
    """A table as sentencepiece packs it, a block of the double array for each node."""
    nodes: dict[bytes, int] = {b"": 0}
    for key in (key.encode() for key in table):
        for size in range(1, len(key) + 1):
            nodes.setdefault(key[:size], 256 * len(nodes))
    units, texts = [0] * (256 * len(nodes)), b""
    units[0] = 0
    for key, base in nodes.items():
        if key:
            place = nodes[key[:-1]] ^ key[-1]
            units[place] |= (place ^ base) << 10 | key[-1]
    for word, text in table.items():
        key = word.encode()
        units[nodes[key[:-1]] ^ key[-1]] |= 1 << 8
        units[nodes[key]] |= 1 << 31 | len(texts)
        texts += text.encode() + b"\0"
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


def vocabulary(names: tuple[str, ...] = NAMES) -> dict[str, int]:
    """Numbers for all pieces but one, and for some that only the other language has."""
    pieces = [*names, *(piece for piece in SCORES if piece != "▁rare"), "▁Hund", "中", "<pad>"]
    return {piece: number for number, piece in enumerate(pieces)}


def tokenizer(names: tuple[str, ...] = NAMES, table: bytes | None = None) -> Tokenizer:
    ids = vocabulary(names)
    return unigram(ids, SCORES, packed(TABLE) if table is None else table, {*names, "<pad>"}, "<unk>", "by hand")
