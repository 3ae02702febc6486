"""Where sentences begin in a stream of tokens: found once, from the ids alone, in a few bytes a sentence.

A sentence ends after a run of marks (. ! ?) and where its document ends. One that is longer than allowed is cut evenly,
and so is a document of a single sentence: every document here has two at least, so that one can follow another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy.typing import NDArray

Places = Int[np.ndarray, "_"]


@dataclass(frozen=True)
class Sentences:
    starts: Places  # of each sentence, in the stream
    document: Places  # of each sentence
    first: Places  # sentence of each document; one more at the end
    ends: Places  # of each document, in the stream

    def __len__(self) -> int:
        return len(self.starts)


def find(stream: NDArray[Any], separator: int, marks: Bool[np.ndarray, "V"], longest: int) -> Sentences:
    """The sentences of all documents with two tokens or more; `marks`: which pieces end a sentence."""
    border, marked = np.asarray(stream == separator), marks[stream]
    begins = ~border
    begins[1:] &= border[:-1] | (marked[:-1] & ~marked[1:])
    starts, borders = np.flatnonzero(begins), np.append(np.flatnonzero(border), len(stream))
    document = np.searchsorted(borders, starts)
    ends = np.minimum(np.append(starts[1:], len(stream)), borders[document])
    lengths = ends - starts
    alone = np.bincount(document, minlength=len(borders))[document] == 1
    parts = np.maximum(-(-lengths // longest), np.where(alone, 2, 1))
    parts[alone & (lengths < 2)] = 0
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    starts = np.repeat(starts, parts) + number * np.repeat(lengths, parts) // np.repeat(parts, parts)
    named, first, document = np.unique(np.repeat(document, parts), return_index=True, return_inverse=True)
    return Sentences(starts, document, np.append(first, len(starts)), borders[named])
