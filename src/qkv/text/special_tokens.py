"""Which tokens have a part to play: where a text begins and ends, what fills gaps, what stands for the unknown.

Special tokens that ask a translator for a language: <2de> in models of qkv's, >>deu<< in Marian's.

Two vocabularies of byte pairs with one numbering, so that one table of embeddings serves both.

    pieces of both = pieces of the first, then those of the second that the first has not

Each cuts text by its own merges (Sennrich et al. 2016, section 3.2, without joining); what either wrote, both can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qkv.text.pipelines import PADDING, SEPARATORS, START, UNKNOWN


@dataclass(frozen=True)
class Roles:
    """Ids by their part. A file of qkv needs none: its special tokens have known names."""

    start: int | None
    ends: tuple[int, ...]  # a text is over at any of these; the first divides documents where nothing better is known
    unknown: int | None = None
    padding: int | None = None
    opening: tuple[int, ...] = ()  # put before every text
    closing: tuple[int, ...] = ()  # put after every text that is read as a whole

    def values(self) -> dict[str, Any]:
        """As config.json holds them."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @classmethod
    def parse(cls, values: Any, vocabulary: int) -> Roles | None:
        """From config.json; None where they do not fit."""
        if not isinstance(values, dict) or values.keys() != set(cls.__dataclass_fields__):
            return None
        single = [values[name] for name in ("start", "unknown", "padding") if values[name] is not None]
        several = [values[name] for name in ("ends", "opening", "closing")]
        if not values["ends"] or not all(isinstance(each, list) and len(each) < 100 for each in several):
            return None
        if any(
            type(n) is not int or not 0 <= n < vocabulary for n in [*single, *(n for each in several for n in each)]
        ):
            return None
        parts: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**parts)


def by_name(named: Mapping[str, int], around: tuple[tuple[int, ...], tuple[int, ...]]) -> Roles:
    """The parts that special tokens play by their names; `around` is what the file itself puts before and after."""

    def first(*names: str) -> int | None:
        return next((named[name] for name in names if name in named), None)

    separator = first(*SEPARATORS)
    assert separator is not None, "a tokenizer without a document separator"
    start = first(START, "[CLS]", "<s>", "<|begin_of_text|>")
    return Roles(
        start=separator if start is None else start,
        ends=(separator,),
        unknown=first(UNKNOWN, "[UNK]", "<unk>"),
        padding=first(PADDING, "[PAD]", "<pad>"),
        opening=around[0],
        closing=around[1],
    )
