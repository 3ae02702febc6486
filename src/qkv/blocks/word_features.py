"""Words as taggers know them: by form, prefixes, suffixes, shape and letter n-grams, each hashed to a row of a table.

    x_w = (Σ_f E[hash(f)] + Σ_g E[hash(g)] / sqrt(number of g)) / sqrt(1 + number of f),   g the letter n-grams of w, f
                                                                                           its other features

A feature is a string: `form=Walked`, `lower=walked`, `suffix=ed`, `short=Aa`, ... (Ratnaparkhi 1996; Huang et al.
2015).
An unknown word shares its endings and its shape with known ones. Which tokens are a word, and how it is written, the
model knows from its vocabulary: a token that begins with a blank begins a word (byte pairs), and special tokens are
words of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.embeddings import TokenMask, Tokens

LONGEST_TOKEN = 40  # bytes of a token that are kept
AFFIXES, LONG_AFFIX = (1, 2, 3), 4  # letters
NGRAM_SIZES = (3, 4)  # letters
GENERAL = 2 + 2 * len(AFFIXES)  # features that many words share come first
SHAPES = (0, 1)  # their places, first the long one
FORM = GENERAL + 1  # the place of the form in lower case
FIXED = GENERAL + 4  # and before the n-grams
FEATURES = 40  # of a word that are kept; of a long one the last n-grams are left out
REMEMBERED = 20_000  # words whose features are kept, to be looked up; about 12 MB


class BatchWords(NamedTuple):
    """The words of some rows of tokens. Row 0 of every table is for "no feature"."""

    features: Int[Tensor, "U F"]  # hashes of the features of each distinct word
    which: Int[Tensor, "B W"]  # the number of each word among the distinct ones
    present: Bool[Tensor, "B W"]  # False behind the last word of a row
    of_token: Int[Tensor, "B T"]  # the number of the word in its row that each token is part of

    @property
    def mask(self) -> TokenMask:
        """False behind the last word of a row; None where all rows have as many words, which is faster."""
        return None if bool(self.present.all()) else self.present


class Spelling(nn.Module):
    """From tokens to words: where they begin, and their features."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.spelling: Tensor
        self.register_buffer("spelling", torch.zeros(vocabulary, LONGEST_TOKEN, dtype=torch.uint8))
        self._tokens: list[bytes] = []
        self._features: dict[tuple[int, ...], npt.NDArray[np.int64]] = {}

    def spell(self, tokens: Sequence[bytes]) -> None:
        """Learn how the tokens are written, the first first; an empty one is special."""
        for number, token in enumerate(tokens):
            kept = token[:LONGEST_TOKEN]
            self.spelling[number, : len(kept)] = torch.tensor(list(kept), dtype=torch.uint8)
        self._forget()

    def _load_from_state_dict(self, *args: object, **named: object) -> None:
        super()._load_from_state_dict(*args, **named)
        self._forget()

    def forward(self, tokens: Tokens, present: TokenMask = None) -> BatchWords:
        known = self._tokens or self._read()
        numbers: dict[tuple[int, ...], int] = {}
        rows, of_token = list[list[int]](), np.zeros(tokens.shape, dtype=np.int64)
        lengths = [tokens.size(1)] * len(tokens) if present is None else present.sum(1).tolist()
        for row, (ids, length) in enumerate(zip(tokens.tolist(), lengths, strict=True)):
            begins = [
                place for place in range(length)
                if not place or known[ids[place]][:1] in (b"", b" ") or not known[ids[place - 1]]
            ]  # fmt: skip
            borders = [*begins, length]
            words = [tuple(ids[begin:end]) for begin, end in zip(begins, borders[1:], strict=True)]
            rows.append([numbers.setdefault(word, len(numbers)) for word in words])
            of_token[row, :length] = np.repeat(np.arange(len(words)), np.diff(borders))
            of_token[row, length:] = max(0, len(words) - 1)
        which = np.zeros((len(rows), max(1, *map(len, rows))), dtype=np.int64)
        for row, own in enumerate(rows):
            which[row, : len(own)] = own
        there = np.arange(which.shape[1]) < np.array([[max(1, len(own))] for own in rows])
        table = np.stack([self._look_up(word, known) for word in numbers] or [np.zeros(FEATURES, dtype=np.int64)])
        parts = (torch.from_numpy(part).to(tokens.device) for part in (table, which, there, of_token))
        return BatchWords(*parts)

    def _look_up(self, word: tuple[int, ...], known: list[bytes]) -> npt.NDArray[np.int64]:
        found = self._features.get(word)
        if found is None:
            if len(self._features) >= REMEMBERED:
                self._features.clear()
            written = b"".join(known[token] for token in word).decode("utf-8", "replace").strip()
            names = features(written) if written else [f"token={word}"]
            hashes = [1 + zlib.crc32(name.encode("utf-8", "replace")) if name else 0 for name in names[:FEATURES]]
            found = self._features[word] = np.array(hashes + [0] * (FEATURES - len(hashes)), dtype=np.int64)
        return found

    def _read(self) -> list[bytes]:
        table: list[list[int]] = self.spelling.tolist()
        self._tokens = [bytes(row).rstrip(b"\0") for row in table]
        return self._tokens

    def _forget(self) -> None:
        self._tokens, self._features = [], {}


def features(word: str) -> list[str]:
    """The features of a word: its shape, affixes and form in places of their own ("" where it is too short for one),
    then its letter n-grams."""
    lower, length = word.lower(), len(word)
    shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
    short = "".join(c for place, c in enumerate(shape) if not place or c != shape[place - 1])
    fixed = [f"shape={shape[:12]}", f"short={short[:12]}"]
    fixed += [f"prefix={lower[:size]}" if size <= length else "" for size in AFFIXES]
    fixed += [f"suffix={lower[-size:]}" if size <= length else "" for size in AFFIXES]
    fixed += [f"form={word}", f"lower={lower}"]
    fixed += [f"prefix={lower[:LONG_AFFIX]}", f"suffix={lower[-LONG_AFFIX:]}"] if length >= LONG_AFFIX else ["", ""]
    marked = f"<{lower}>"
    grams = [marked[start : start + size] for size in NGRAM_SIZES for start in range(len(marked) - size + 1)]
    return [*fixed, *(f"letters={gram}" for gram in dict.fromkeys(grams))]


class WordFeatures(nn.Module):
    """A vector for each word: the sum of those of its features. In training, a word loses with a probability all that
    tells which word it is, so that the model learns to tag by shape, short affixes and context, as it must for words
    that it never saw (Kiperwasser and Goldberg 2016)."""

    def __init__(self, vocabulary: int, width: int, rows: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = Spelling(vocabulary)
        self.table = nn.Embedding(rows, width, padding_idx=0)
        self.kept = Dropout(dropout)

    def forward(self, words: BatchWords) -> Float[Tensor, "B W D"]:
        rows = in_table(words.features, self.table.num_embeddings)
        there = (rows != 0).to(self.table.weight.dtype)
        fixed, grams = there[:, :FIXED], there[:, FIXED:]
        weights = torch.cat([fixed, grams / grams.sum(1, keepdim=True).clamp(min=1).sqrt()], 1)
        weights = weights / (1 + fixed.sum(1, keepdim=True)).sqrt()
        known = self.kept(torch.ones_like(weights[:, :1]))
        weights = torch.cat([weights[:, :GENERAL], known * weights[:, GENERAL:]], 1)
        vectors = F.embedding_bag(rows, self.table.weight, mode="sum", per_sample_weights=weights, padding_idx=0)
        return vectors[words.which]


def in_table(hashes: Int[Tensor, "*_"], rows: int) -> Int[Tensor, "*_"]:
    """The rows of a table for hashes; 0 stays 0."""
    return torch.where(hashes == 0, hashes, 1 + hashes % (rows - 1))


def at_tokens(vectors: Float[Tensor, "B W D"], words: BatchWords) -> Float[Tensor, "B T D"]:
    """The vector of its word for every token."""
    return vectors.gather(1, words.of_token.unsqueeze(2).expand(-1, -1, vectors.size(2)))
