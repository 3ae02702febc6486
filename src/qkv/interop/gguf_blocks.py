"""How GGUF keeps numbers: whole, or in blocks of a few bits with a factor each.

    Q8_0   32 numbers: d (f16), q (int8)               d · q
    Q4_0   32 numbers: d (f16), q (4 bits)             d · (q - 8)          the low halves of 16 bytes, then the high
    Q4_1   32 numbers: d, m (f16), q (4 bits)          d · q + m

These are read here, bit for bit as the `gguf` package does it; the others (K-quants and their kin) by that package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qkv.errors import RefusedError, require_package

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Layout:
    """A number format: so many numbers in so many bytes."""

    name: str
    numbers: int
    size: int


# by the number that stands in a file
LAYOUTS = {
    0: Layout("F32", 1, 4),
    1: Layout("F16", 1, 2),
    2: Layout("Q4_0", 32, 18),
    3: Layout("Q4_1", 32, 20),
    6: Layout("Q5_0", 32, 22),
    7: Layout("Q5_1", 32, 24),
    8: Layout("Q8_0", 32, 34),
    10: Layout("Q2_K", 256, 84),
    11: Layout("Q3_K", 256, 110),
    12: Layout("Q4_K", 256, 144),
    13: Layout("Q5_K", 256, 176),
    14: Layout("Q6_K", 256, 210),
    16: Layout("IQ2_XXS", 256, 66),
    17: Layout("IQ2_XS", 256, 74),
    18: Layout("IQ3_XXS", 256, 98),
    19: Layout("IQ1_S", 256, 50),
    20: Layout("IQ4_NL", 32, 18),
    21: Layout("IQ3_S", 256, 110),
    22: Layout("IQ2_S", 256, 82),
    23: Layout("IQ4_XS", 256, 136),
    29: Layout("IQ1_M", 256, 56),
    30: Layout("BF16", 1, 2),
    34: Layout("TQ1_0", 256, 54),
    35: Layout("TQ2_0", 256, 66),
    39: Layout("MXFP4", 32, 17),
}


def whole(blocks: Bytes) -> Numbers:
    return blocks.view("<f4")


def half(blocks: Bytes) -> Numbers:
    return blocks.view("<f2").astype(np.float32)


def brain(blocks: Bytes) -> Numbers:
    """BF16 is the upper half of an f32."""
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


def eight_bits(blocks: Bytes) -> Numbers:
    numbers = blocks[:, 2:].view(np.int8).astype(np.float32)
    numbers *= half(blocks[:, :2])
    return numbers


def four_bits(blocks: Bytes) -> Numbers:
    numbers = _nibbles(blocks[:, 2:])
    numbers -= 8
    numbers *= half(blocks[:, :2])
    return numbers


def four_bits_and_least(blocks: Bytes) -> Numbers:
    numbers = _nibbles(blocks[:, 4:])
    numbers *= half(blocks[:, :2])
    numbers += half(blocks[:, 2:4])
    return numbers


def _nibbles(data: Bytes) -> Numbers:
    """(blocks, 16) bytes -> (blocks, 32) numbers from 0 to 15."""
    return np.concatenate([data & 15, data >> 4], axis=1).astype(np.float32)


OWN: dict[str, Callable[[Bytes], Numbers]] = {
    "F32": whole,
    "F16": half,
    "BF16": brain,
    "Q8_0": eight_bits,
    "Q4_0": four_bits,
    "Q4_1": four_bits_and_least,
}


def reader(layout: Layout) -> Callable[[Bytes], Numbers]:
    """What turns blocks of bytes (blocks, size) into f32 numbers (blocks, numbers)."""
    if layout.name in OWN:
        return OWN[layout.name]
    require_package("gguf", f"reading {layout.name} weights")
    import gguf
    import gguf.quants

    kind: Any = getattr(gguf.GGMLQuantizationType, layout.name, None)
    if kind is None or gguf.GGML_QUANT_SIZES.get(kind) != (layout.numbers, layout.size):
        raise RefusedError(f"the installed gguf package does not know {layout.name} weights as here. Upgrade gguf.")

    def read(blocks: Bytes) -> Numbers:
        numbers: Numbers = gguf.quants.dequantize(blocks, kind)
        return numbers

    return read
