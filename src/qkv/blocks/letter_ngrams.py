"""Vectors of pieces that know how they are spelled: walk, walks and walked share what they have in common.

    E[piece] + mean of L[hash(n)] over the letter n-grams n of "<piece>"      Bojanowski et al. 2017 (fastText)

Which n-grams a piece has is found once from the vocabulary and kept with the weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

SHORTEST, LONGEST = 2, 5  # letters
MOST = 40  # n-grams of a piece that are kept


class SpelledEmbedding(nn.Module):
    """Row 0 of the letters' table stays zero: it is where pieces have no more n-grams."""

    def __init__(self, vocabulary: int, width: int, rows: int) -> None:
        super().__init__()
        self.pieces = nn.Embedding(vocabulary, width)
        self.letters = nn.Embedding(rows, width, padding_idx=0)
        self.spelling: Tensor
        self.register_buffer("spelling", torch.zeros(vocabulary, MOST, dtype=torch.int32))

    def spell(self, pieces: Sequence[str]) -> None:
        """Learn how the pieces are written, the first first; an empty one is not spelled."""
        rows = self.letters.num_embeddings
        for number, piece in enumerate(pieces):
            found = ngrams(piece)[:MOST]
            self.spelling[number, : len(found)] = torch.tensor(
                [1 + zlib.crc32(each.encode()) % (rows - 1) for each in found]
            )

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        kinds, places = torch.unique(tokens, return_inverse=True)
        letters = self.spelling[kinds]  # (U, N)
        count = (letters != 0).sum(1, keepdim=True).clamp(min=1)
        vectors = self.pieces(kinds) + self.letters(letters).sum(1) / count
        return vectors[places]


def ngrams(piece: str) -> list[str]:
    """The distinct letter n-grams of a piece with its borders, the endings first, which tell most."""
    if not piece:
        return []
    word = f"<{piece}>"
    found = [
        word[start : start + size] for size in range(LONGEST, SHORTEST - 1, -1) for start in range(len(word) - size + 1)
    ]
    return list(dict.fromkeys([*(each for each in found if each.endswith(">")), *found]))
