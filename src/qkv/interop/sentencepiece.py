"""Reads and writes a sentencepiece model file (.spm, .model): pieces with their scores, and a table of characters.

    ModelProto      1 pieces (1 piece, 2 score, 3 type)    2 trainer_spec (3 model_type, 24 white space behind)
                    3 normalizer_spec (2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
                      5 escape_whitespaces)                5 denormalizer_spec

The file is a protocol buffer of which qkv needs few fields, so it does without the sentencepiece package. A file may be
malicious: every length is compared with the bytes that are left, and an error names the field that is not supported.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qkv.safe_json import Refusals

LARGEST = 2**26
MAX_PIECES = 2**20
LONGEST_PIECE = 2**12  # bytes
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
UNIGRAM, MODELS = 1, {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
VARINT, I64, LEN, I32 = 0, 1, 2, 5  # wire types of protocol buffers: how a field is stored

Value = int | bytes


@dataclass(frozen=True)
class SentencePieces:
    """The vocabulary of one language: log-probabilities of pieces, and the packed table of characters."""

    scores: dict[str, float]
    table: bytes


def read(path: Path) -> SentencePieces:
    """Read a unigram vocabulary; other types are refused."""
    refuse = Refusals(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise refuse("file", f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise refuse("file", f"more than {LARGEST:,} bytes; no vocabulary is so large")
    scores: dict[str, float] = {}
    number, unknown, table, trained = 0, 0, b"", False
    for field, value in _fields(data, refuse, "model"):
        match field:
            case 1:
                piece, score, kind = _piece(_bytes(value, refuse, "pieces"), refuse, f"pieces[{number}]")
                number, unknown = number + 1, unknown + (kind == UNKNOWN)
                if kind == NORMAL:
                    if piece in scores or len(scores) >= MAX_PIECES:
                        raise refuse("pieces", f"{piece!a} is there twice, or more than {MAX_PIECES:,} pieces")
                    scores[piece] = score
            case 2:
                trained = True
                _trainer(_bytes(value, refuse, "trainer_spec"), refuse)
            case 3:
                table = _normalizer(_bytes(value, refuse, "normalizer_spec"), refuse)
            case 5:
                if any(number == 2 and text for number, text in _fields(_bytes(value, refuse, "5"), refuse, "5")):
                    raise refuse("denormalizer_spec", "rewriting texts after decoding is not supported; expected none")
    if not scores or unknown != 1 or not trained:
        counts = f"{len(scores):,} pieces, {unknown} for unknown text"
        raise refuse("model", f"{counts}; expected a whole sentencepiece model, with one for unknown text")
    return SentencePieces(scores, table)


def _piece(data: bytes, refuse: Refusals, where: str) -> tuple[str, float, int]:
    """The text, the score and the type of a piece."""
    piece, score, kind = b"", 0.0, NORMAL
    for field, value in _fields(data, refuse, where):
        if field == 1 and isinstance(value, bytes):
            piece = value
        elif field == 2 and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif field == 3 and isinstance(value, int):
            kind = value
        elif field in (1, 2, 3):
            raise refuse(where, f"field {field} is of the wrong kind")
    if kind not in (NORMAL, UNKNOWN, CONTROL, UNUSED):
        name = {USER_DEFINED: "user-defined pieces", BYTE: "byte pieces"}.get(kind, f"pieces of type {kind}")
        raise refuse(where, f"{name} are not supported; expected normal, unknown, control or unused pieces")
    if not 0 < len(piece) <= LONGEST_PIECE or not math.isfinite(score) or abs(score) > 1e6:
        raise refuse(where, f"{len(piece):,} bytes with the score {score}; expected a piece and its log-probability")
    try:
        return piece.decode("utf-8"), score, kind
    except UnicodeDecodeError as error:
        raise refuse(where, f"not UTF-8 at byte {error.start}") from None


def _trainer(data: bytes, refuse: Refusals) -> None:
    fields = dict(_fields(data, refuse, "trainer_spec"))
    if (kind := fields.get(3, UNIGRAM)) != UNIGRAM:
        name = MODELS.get(kind, str(kind)[:20]) if isinstance(kind, int) else "bytes"
        raise refuse("trainer_spec.model_type", f"{name} is not supported; expected unigram")
    if fields.get(24, 0) != 0:
        raise refuse("trainer_spec.treat_whitespace_as_suffix", "true is not supported; expected false")


def _normalizer(data: bytes, refuse: Refusals) -> bytes:
    """The table of characters of a normalizer_spec."""
    fields = dict(_fields(data, refuse, "normalizer_spec"))
    for number, name in {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}.items():
        if fields.get(number, 1) != 1:
            raise refuse(f"normalizer_spec.{name}", "false is not supported; expected true")
    return _bytes(fields.get(2, b""), refuse, "normalizer_spec.precompiled_charsmap")


def _bytes(value: Value, refuse: Refusals, field: str) -> bytes:
    if not isinstance(value, bytes):
        raise refuse(field, "a number; expected bytes")
    return value


def _fields(data: bytes, refuse: Refusals, where: str) -> Iterator[tuple[int, Value]]:
    """The field numbers and values of a message; a value that is not a number is given as bytes."""
    place = 0
    while place < len(data):
        head, place = _varint(data, place, refuse, where)
        number, wire = head >> 3, head & 7
        if wire not in (VARINT, I64, LEN, I32) or not number:
            raise refuse(where, f"field {number} at byte {place:,} has wire type {wire}; not a sentencepiece file")
        size = {I64: 8, I32: 4}.get(wire, 0)
        if wire in (VARINT, LEN):
            size, place = _varint(data, place, refuse, where)
        if wire == VARINT:
            yield number, size
            continue
        if size > len(data) - place:
            raise refuse(where, f"field {number} has {size:,} bytes at byte {place:,}, but there are {len(data):,}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int, refuse: Refusals, where: str) -> tuple[int, int]:
    """Read a number of seven bits for each byte, the lowest first; the eighth bit is 0 in the last byte."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise refuse(where, f"it ends at byte {place:,}, inside a number")
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
    raise refuse(where, f"a number of more than ten bytes before byte {place:,}")


def pack(scores: Mapping[str, float], table: bytes, unknown: str) -> bytes:
    """The content of a sentencepiece file: the piece for unknown text first, then the others."""
    pieces = [_message(1, _message(1, unknown.encode()) + _number(3, UNKNOWN))]
    for piece, score in scores.items():
        pieces.append(_message(1, _message(1, piece.encode()) + bytes([2 << 3 | I32]) + struct.pack("<f", score)))
    normalizer = _message(1, b"nmt_nfkc" if table else b"identity") + (_message(2, table) if table else b"")
    for number in (3, 4, 5):
        normalizer += _number(number, 1)
    minus_one = 2**64 - 1
    ids = b"".join(_number(number, minus_one) for number in (41, 42, 43))  # no bos, eos and pad pieces
    trainer = _number(3, UNIGRAM) + _number(4, len(scores) + 1) + _number(40, 0) + ids
    return b"".join([*pieces, _message(2, trainer), _message(3, normalizer)])


def _message(number: int, data: bytes) -> bytes:
    return _bits(number << 3 | LEN) + _bits(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _bits(number << 3 | VARINT) + _bits(value)


def _bits(value: int) -> bytes:
    """The inverse of `_varint`."""
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])
