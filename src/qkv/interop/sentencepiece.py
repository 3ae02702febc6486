"""A sentencepiece model file (.spm, .model): pieces with their scores and a table of characters, read and written.

    ModelProto      1 pieces (1 piece, 2 score, 3 type)    2 trainer_spec (3 model_type, 24 white space behind)
                    3 normalizer_spec (2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
                      5 escape_whitespaces)                5 denormalizer_spec

It is a protocol buffer, of which few fields matter here, so that the sentencepiece package is not needed. A file is
somebody else's: every length is compared with what is left of it, and what has no twin here is refused with its field.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qkv.interop.gguf_file import Refuse

LARGEST = 2**26
MOST_PIECES = 2**20
LONGEST_PIECE = 2**12  # bytes
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
UNIGRAM, MODELS = 1, {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5  # how a field is stored

Value = int | bytes


@dataclass(frozen=True)
class SentencePieces:
    """Of one language: log-probabilities of pieces, and the table of characters as it is packed."""

    scores: dict[str, float]
    table: bytes


def read(path: Path) -> SentencePieces:
    """A unigram vocabulary; anything else is refused."""
    refuse = Refuse(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise refuse("file", f"cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise refuse("file", f"more than {LARGEST:,} bytes; no vocabulary is so large")
    scores: dict[str, float] = {}
    unknown, table, trained = 0, b"", False
    for field, value in _fields(data, refuse, "model"):
        match field:
            case 1:
                piece, score, kind = _piece(_inside(value, refuse, "pieces"), refuse, len(scores))
                unknown += kind == UNKNOWN
                if kind == NORMAL:
                    if piece in scores or len(scores) >= MOST_PIECES:
                        raise refuse("pieces", f"{piece!a} is there twice, or more than {MOST_PIECES:,} pieces")
                    scores[piece] = score
            case 2:
                trained = True
                _trainer(_inside(value, refuse, "trainer_spec"), refuse)
            case 3:
                table = _normalizer(_inside(value, refuse, "normalizer_spec"), refuse)
            case 5:
                if any(number == 2 and text for number, text in _fields(_inside(value, refuse, "5"), refuse, "5")):
                    raise refuse("denormalizer_spec", "texts are rewritten behind it, which has no twin here")
    if not scores or unknown != 1 or not trained:
        found = f"{len(scores):,} pieces, {unknown} of them for the unknown"
        raise refuse("model", f"{found}; expected a whole sentencepiece model, with one")
    return SentencePieces(scores, table)


def _piece(data: bytes, refuse: Refuse, number: int) -> tuple[str, float, int]:
    where, piece, score, kind = f"pieces[{number}]", b"", 0.0, NORMAL
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
        named = {USER_DEFINED: "user-defined pieces", BYTE: "pieces that are bytes"}.get(kind, f"type {kind}")
        raise refuse(where, f"{named} have no twin here; expected normal, unknown, control or unused pieces")
    if not 0 < len(piece) <= LONGEST_PIECE or not math.isfinite(score) or abs(score) > 1e6:
        raise refuse(where, f"{len(piece):,} bytes with the score {score}; expected a piece and its logarithm")
    try:
        return piece.decode("utf-8"), score, kind
    except UnicodeDecodeError as error:
        raise refuse(where, f"not UTF-8 at byte {error.start}") from None


def _trainer(data: bytes, refuse: Refuse) -> None:
    said = {number: value for number, value in _fields(data, refuse, "trainer_spec") if number in (3, 24)}
    if (kind := said.get(3, UNIGRAM)) != UNIGRAM:
        shown = MODELS.get(kind, str(kind)[:20]) if isinstance(kind, int) else "bytes"
        raise refuse("trainer_spec.model_type", f"{shown} has no twin here; expected unigram")
    if said.get(24, 0) != 0:
        raise refuse("trainer_spec.treat_whitespace_as_suffix", "true has no twin here; expected false")


def _normalizer(data: bytes, refuse: Refuse) -> bytes:
    said = dict(_fields(data, refuse, "normalizer_spec"))
    usual = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
    for number, name in usual.items():
        if said.get(number, 1) != 1:
            raise refuse(f"normalizer_spec.{name}", "false has no twin here; expected true")
    return _inside(said.get(2, b""), refuse, "normalizer_spec.precompiled_charsmap")


def _inside(value: Value, refuse: Refuse, field: str) -> bytes:
    if not isinstance(value, bytes):
        raise refuse(field, "a number; expected bytes")
    return value


def _fields(data: bytes, refuse: Refuse, where: str) -> Iterator[tuple[int, Value]]:
    """Numbers and values of a message; what is not a number comes as its bytes."""
    place = 0
    while place < len(data):
        head, place = _varint(data, place, refuse, where)
        number, stored = head >> 3, head & 7
        if stored == VARINT:
            value, place = _varint(data, place, refuse, where)
            yield number, value
            continue
        if stored not in (EIGHT, BYTES, FOUR) or not number:
            raise refuse(where, f"field {number} at byte {place:,} is stored in way {stored}; this is no such file")
        size = {EIGHT: 8, FOUR: 4}.get(stored, 0)
        if stored == BYTES:
            size, place = _varint(data, place, refuse, where)
        if size > len(data) - place:
            raise refuse(where, f"field {number} has {size:,} bytes at byte {place:,}, but there are {len(data):,}")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int, refuse: Refuse, where: str) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; the last byte has no eighth."""
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


def written(scores: Mapping[str, float], table: bytes, unknown: str) -> bytes:
    """Such a file, which sentencepiece opens: the unknown first, then the pieces."""
    made = [_message(1, _message(1, unknown.encode()) + _number(3, UNKNOWN))]
    for piece, score in scores.items():
        made.append(_message(1, _message(1, piece.encode()) + bytes([2 << 3 | FOUR]) + struct.pack("<f", score)))
    normalizer = _message(1, b"nmt_nfkc" if table else b"identity") + (_message(2, table) if table else b"")
    for number in (3, 4, 5):
        normalizer += _number(number, 1)
    ids = b"".join(_number(number, _MINUS_ONE) for number in (41, 42, 43))  # no piece begins, ends or fills a text
    trainer = _number(3, UNIGRAM) + _number(4, len(scores) + 1) + _number(40, 0) + ids
    return b"".join([*made, _message(2, trainer), _message(3, normalizer)])


_MINUS_ONE = 2**64 - 1


def _message(number: int, data: bytes) -> bytes:
    return _bits(number << 3 | BYTES) + _bits(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _bits(number << 3 | VARINT) + _bits(value)


def _bits(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])
