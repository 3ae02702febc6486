"""All characters of a text, however long it is: a `characters` tokenizer must know the one that occurs once, too."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import numpy as np


def alphabet(texts: Iterable[str]) -> str:
    """Each character of the texts once, in order; one look into a table for each, and no more memory than the table."""
    seen = np.zeros(sys.maxunicode + 1, dtype=bool)
    for text in texts:
        if text.isascii():
            seen[np.frombuffer(text.encode(), dtype=np.uint8)] = True
        else:  # a half of a surrogate pair is refused elsewhere, with a message
            seen[np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")] = True
    return "".join(map(chr, np.flatnonzero(seen)))
