"""From ids to vectors: a learned table (deck 001, "word vector layer"), the one-hot code (deck 003), n-grams, spelling.

    NgramEmbedding     E[token] + N[hash(the last n tokens)], both learned
    NgramSum           E[token] + Σₙ N[hash(the last n tokens)], where all n lie within the text      Joulin et al. 2016
    TokenShift         x_t + m ⊙ x_{t-1}, m learned                            RWKV, Peng et al. 2023
    SpelledEmbedding   E[token] + mean of L[hash(n)] over the letter n-grams n of "<token>"      Bojanowski et al. 2017

Attention must first learn to attend to the position before it can use the token there; these need not. Different
n-grams may share a row of a table (Weinberger et al. 2009).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.bounded_state import PastState
from qkv.blocks.state import KeyValueState

Embedding = nn.Embedding

# what every encoder of texts is called with
Tokens = Int[Tensor, "B T"]
TokenMask = Bool[Tensor, "B T"] | None  # True for real tokens; None: all are real
Segments = Int[Tensor, "B T"] | None  # sentence A, sentence B, ...; None: all alike


class OneHot(nn.Module):
    """The id as a vector of zeros with a single one: nothing is learned."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        return F.one_hot(tokens, self.vocabulary).float()


STIR = 2_654_435_761  # 2³² divided by the golden ratio (Knuth): neighbours fall far apart


def hashed(tokens: Int[Tensor, "B S"], order: int, vocabulary: int, table: int, start: int = 0) -> Int[Tensor, "B T"]:
    """The row of the table for each n-gram, T = S - order + 1 of them; another start gives other rows."""
    length = tokens.size(1) - order + 1
    rows = torch.full_like(tokens[:, :length], start)
    for part in tokens.unfold(1, length, 1).unbind(1):  # (B, T), each one position later
        rows = (rows * vocabulary + part) % (2**31 - 1)
    return rows * STIR % (2**31 - 1) % table


class NgramEmbedding(nn.Module):
    def __init__(self, vocabulary: int, width: int, *, order: int, table: int) -> None:
        super().__init__()
        self.order = order
        self.tokens = nn.Embedding(vocabulary, width)
        self.ngrams = nn.Embedding(table, width)

    def forward(self, tokens: Int[Tensor, "B T"], *, state: PastState | None = None) -> Float[Tensor, "B T D"]:
        return self.tokens(tokens) + self.ngrams(self.rows(tokens, state))

    def rows(self, tokens: Int[Tensor, "B T"], state: PastState | None = None) -> Int[Tensor, "B T"]:
        """The row of the table for each position; before the start of a text there is token 0."""
        before = self.order - 1
        padded = F.pad(tokens, (before, 0)) if state is None else state.take(tokens.unsqueeze(-1)).squeeze(-1)
        return hashed(padded, self.order, self.tokens.num_embeddings, self.ngrams.num_embeddings)


class NgramSum(nn.Module):
    """A token and the n-grams that end with it, up to the longest; one table for all of them, as in fastText."""

    def __init__(self, vocabulary: int, width: int, *, longest: int, table: int) -> None:
        super().__init__()
        self.longest, self.table = longest, table
        self.tokens = nn.Embedding(vocabulary, width)
        self.ngrams = nn.Embedding(table, width) if longest > 1 else nn.Identity()

    def forward(self, tokens: Int[Tensor, "B T"], present: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
        """An n-gram that would reach over the start of the text, or over padding, is none."""
        x = self.tokens(tokens)
        for order in range(2, min(self.longest, tokens.size(1)) + 1):
            vectors = self.ngrams(hashed(tokens, order, self.tokens.num_embeddings, self.table, start=order))
            if present is not None:
                vectors = vectors * present.unfold(1, order, 1).all(-1).unsqueeze(-1)
            x = x + F.pad(vectors, (0, 0, order - 1, 0))
        return x


class TokenShift(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "B T D"], *, state: PastState | None = None) -> Float[Tensor, "B T D"]:
        joined = F.pad(x, (0, 0, 1, 0)) if state is None else state.take(x)
        return x + self.mix * joined[:, :-1]


class ShiftedState(KeyValueState):
    """Keys and values, and the last vector that was shifted."""

    def __init__(self, rows: int, capacity: int) -> None:
        super().__init__(rows, capacity)
        self.past = PastState(rows, 1)

    def rows(self, index: Sequence[int]) -> ShiftedState:
        chosen = ShiftedState(len(index), self.capacity)
        self.copy_rows(chosen, index)
        chosen.past = self.past.rows(index)
        return chosen

    def truncate(self, length: int) -> None:
        self.past.truncate(length)
        super().truncate(length)

    def reset(self, row: int) -> None:
        super().reset(row)
        self.past.reset(row)


class Shifted(nn.Module):
    """An attention whose input was shifted first."""

    def __init__(self, shift: TokenShift, attention: nn.Module) -> None:
        super().__init__()
        self.shift, self.attention = shift, attention

    def forward(
        self, x: Float[Tensor, "B T D"], *, state: ShiftedState | None = None, **named: object
    ) -> Float[Tensor, "B T D"]:
        return self.attention(self.shift(x, state=state.past if state else None), state=state, **named)


SHORTEST, LONGEST = 2, 5  # letters
MAX_GRAMS = 40  # n-grams of a piece that are kept


class SpelledEmbedding(nn.Module):
    """Row 0 of the letters' table stays zero: it is where pieces have no more n-grams."""

    def __init__(self, vocabulary: int, width: int, rows: int) -> None:
        super().__init__()
        self.pieces = nn.Embedding(vocabulary, width)
        self.letters = nn.Embedding(rows, width, padding_idx=0)
        self.spelling: Tensor
        self.register_buffer("spelling", torch.zeros(vocabulary, MAX_GRAMS, dtype=torch.int32))

    def spell(self, pieces: Sequence[str]) -> None:
        """Learn how the pieces are written, the first first; an empty one is not spelled."""
        rows = self.letters.num_embeddings
        for number, piece in enumerate(pieces):
            grams = ngrams(piece)[:MAX_GRAMS]
            self.spelling[number, : len(grams)] = torch.tensor(
                [1 + zlib.crc32(gram.encode()) % (rows - 1) for gram in grams]
            )

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        distinct, inverse = torch.unique(tokens, return_inverse=True)
        letters = self.spelling[distinct]  # (U, N)
        count = (letters != 0).sum(1, keepdim=True).clamp(min=1)
        vectors = self.pieces(distinct) + self.letters(letters).sum(1) / count
        return vectors[inverse]


def ngrams(piece: str) -> list[str]:
    """The distinct letter n-grams of a piece with its borders, the endings first, which tell most."""
    if not piece:
        return []
    word = f"<{piece}>"
    grams = [
        word[start : start + size] for size in range(LONGEST, SHORTEST - 1, -1) for start in range(len(word) - size + 1)
    ]
    return list(dict.fromkeys([*(gram for gram in grams if gram.endswith(">")), *grams]))
