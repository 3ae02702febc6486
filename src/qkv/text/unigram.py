"""Sentencepiece's unigram vocabularies: of all ways to cut a text the one whose pieces are most likely together.

    x* = argmax over x_1 ... x_n = text of  sum_i log p(x_i)        Kudo 2018, arXiv 1804.10959

Marian's models (Helsinki-NLP's among them) have two, one for each language, under one numbering. So a tokenizer.json of
this kind lists the pieces of both: those that its own language lacks have the score `NEVER` and are no part of any cut;
those that have no number stand behind `BEYOND` and are read as unknown. What no piece fits is looked up as it stands,
since the other language may have a number for it, as Marian does it.

`Unigram` answers as the library's tokenizer would, so that `Tokenizer` need not ask which one it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import tokenizers
from tokenizers import AddedToken, models

from qkv.text.charsmap import Rewriting, rewriting
from qkv.text.pipelines import SPACE

NEVER = -1e9
BEYOND = "<|beyond|>"
# two code points that are no characters: one stands for what no piece fits, the other takes its place in texts
_NONE, _INSTEAD = "\uffff", "\ufffe"


class Cut(NamedTuple):
    ids: list[int]


class Unigram:
    """A tokenizer.json of this kind, which has been checked (checks.py)."""

    def __init__(self, text: str) -> None:
        self._values: dict[str, Any] = json.loads(text)
        model = self._values["model"]
        listed: list[tuple[str, float]] = [(piece, float(score)) for piece, score in model["vocab"]]
        added = {entry["content"]: entry for entry in self._values["added_tokens"]}
        self._size: int = added.pop(BEYOND)["id"] if BEYOND in added else len(listed)
        self._tokens = [piece for piece, _ in listed[: self._size]]
        self._ids = {piece: number for number, piece in enumerate(self._tokens)}
        self._added = {entry["id"]: AddedToken(name, special=entry["special"]) for name, entry in added.items()}
        self._unknown: int = model["unk_id"]
        self._plain = {piece: number for piece, number in self._ids.items() if number not in self._added}
        own = [each for each in listed if each[1] != NEVER and each[0] not in added and each[0] != BEYOND]
        self._numbers = [self._unknown, *(self._plain.get(piece, self._unknown) for piece, _ in own)]
        self._cutter = tokenizers.Tokenizer(models.Unigram([(_NONE, 0.0), *own], 0))
        self.table: str = charsmap(self._values["normalizer"])
        self._rewriting = rewriting(self.table)
        self.post_processor: Any = self._values["post_processor"]
        self.encode_special_tokens = True

    @property
    def normalizer(self) -> Rewriting:
        return self._rewriting

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[Cut]:
        normal = [self._normal(text) for text in texts]
        found = self._cutter.encode_batch_fast(normal, add_special_tokens=False)
        return [self._numbered(text, row.ids) for text, row in zip(normal, found, strict=True)]

    def encode(self, text: str, add_special_tokens: bool = True) -> Cut:
        (inside,) = self.encode_batch_fast([text])
        if not add_special_tokens or self.post_processor is None:
            return inside
        ids: list[int] = []
        for step in self.post_processor["single"]:
            ids += inside.ids if "Sequence" in step else [self._ids[step["SpecialToken"]["id"]]]
        return Cut(ids)

    def _normal(self, text: str) -> str:
        found = self._rewriting(text).replace(_NONE, _INSTEAD)
        return (SPACE + found.replace(" ", SPACE)).rstrip(SPACE) if found else ""

    def _numbered(self, text: str, places: list[int]) -> Cut:
        if 0 in places:
            return Cut([self._plain.get(piece, self._unknown) for piece in self._cutter.encode(text).tokens])
        return Cut([self._numbers[place] for place in places])

    def unknown(self, text: str) -> list[str]:
        """What in the text has no number, each once, in order."""
        pieces = dict.fromkeys(self._cutter.encode(self._normal(text)).tokens)
        return [piece.replace(SPACE, "") for piece in pieces if piece not in self._plain and piece != SPACE]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        special = self._added if skip_special_tokens else {}
        pieces = [self._tokens[number] for number in ids if 0 <= number < self._size and number not in special]
        return "".join(pieces).replace(SPACE, " ").strip()

    def id_to_token(self, number: int) -> str | None:
        return self._tokens[number] if 0 <= number < self._size else None

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        return dict(self._ids)

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        return self._size

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        return dict(self._added)

    def to_str(self, pretty: bool = False) -> str:
        return json.dumps(self._values, ensure_ascii=False, indent=2 if pretty else None)

    def scores(self) -> dict[str, float]:
        """The pieces that cuts are made of, also those without a number, and their log-probabilities."""
        listed = self._values["model"]["vocab"]
        apart = {BEYOND, *(str(token.content) for token in self._added.values())}
        return {piece: score for piece, score in listed if score != NEVER and piece not in apart}


def charsmap(normalizer: Any) -> Any:
    """The table of characters inside a normalizer, in base64; empty where it has none."""
    steps = normalizer["normalizers"] if normalizer and normalizer["type"] == "Sequence" else [normalizer or {}]
    return next((step["precompiled_charsmap"] for step in steps if "precompiled_charsmap" in step), "")
