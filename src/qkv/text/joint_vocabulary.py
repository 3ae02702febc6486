"""Two vocabularies of byte pairs with one numbering, so that one table of embeddings serves both.

    pieces of both = pieces of the first, then those of the second that the first has not

Each cuts text by its own merges (Sennrich et al. 2016, section 3.2, without joining); what either wrote, both can read.
"""

from __future__ import annotations

import json
from typing import Any

from qkv.text.tokenizer import Tokenizer


def united(first: Tokenizer, second: Tokenizer) -> tuple[Tokenizer, Tokenizer]:
    """Both with the pieces of both; their special tokens, which come first, are the same."""
    assert first.kind == second.kind == "bpe"
    assert first.named == second.named
    own, other = (json.loads(each.json()) for each in (first, second))
    pieces: dict[str, int] = dict(own["model"]["vocab"])
    for piece in sorted(other["model"]["vocab"], key=other["model"]["vocab"].__getitem__):
        pieces.setdefault(piece, len(pieces))
    return _with(own, pieces), _with(other, pieces)


def _with(values: dict[str, Any], pieces: dict[str, int]) -> Tokenizer:
    values["model"]["vocab"] = pieces
    return Tokenizer.parse(json.dumps(values, ensure_ascii=False), "tokenizer.json of two languages")
