"""Compressors as language models: the bits they need for a text, alone and after another text was seen.

    bits after = 8 (C(other + text) - C(other)) / bytes of text

gzip (LZ77, Ziv and Lempel 1977, with Huffman codes) looks back 32 kB and no further; xz (LZMA) looks back to the start.
"""

from __future__ import annotations

import lzma
import zlib

WINDOW = 2**15  # bytes that gzip looks back


def gzip_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte. What gzip sees of the other text is its end; given as a dictionary, it costs nothing."""
    known = after[-WINDOW:]
    maker = (
        zlib.compressobj(9, wbits=-15, memLevel=9, zdict=known) if known else zlib.compressobj(9, wbits=-15, memLevel=9)
    )
    return 8 * len(maker.compress(text) + maker.flush()) / max(1, len(text))


def xz_bits(text: bytes, after: bytes = b"") -> float:
    """Bits per byte. There is no half-way: both are compressed, then the other one alone."""
    size = max(2**12, len(after) + len(text))
    known = _xz(after, size) if after else 0
    return 8 * (_xz(after + text, size) - known) / max(1, len(text))


def _xz(text: bytes, dictionary: int) -> int:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": dictionary}]
    return len(lzma.compress(text, format=lzma.FORMAT_RAW, filters=filters))
