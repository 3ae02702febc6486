"""Schemes of tags that mark spans: which tag may follow which (Ramshaw and Marcus 1995; Ratinov and Roth 2009).

BIO      a span is B-X, I-X, ...           IOBES    it is B-X, I-X, ..., E-X, or S-X alone; BILOU with L and U
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor

Scheme = Literal["none", "BIO", "IOBES"]
LETTERS: dict[Scheme, str] = {"BIO": "BI", "IOBES": "BIES"}
TWINS = {"L": "E", "U": "S"}  # of BILOU
OUTSIDE = "O"


def scheme_of(labels: Sequence[str], pairs: Iterable[tuple[str | None, str | None]]) -> Scheme:
    """The scheme of these labels if all neighbouring tags are as it demands; None stands for the borders of a sentence.
    A corpus with mistakes has none: they would be learned, and never decoded."""
    letters = {_parts(label)[0] for label in labels if label != OUTSIDE}
    if not letters or any(label != OUTSIDE and not _parts(label)[1] for label in labels):
        return "none"
    scheme: Scheme = "BIO" if letters <= set("BI") else "IOBES" if letters <= set("BIES") else "none"
    return "none" if scheme == "none" or any(not follows(scheme, *pair) for pair in pairs) else scheme


def follows(scheme: Scheme, before: str | None, tag: str | None) -> bool:
    """Whether a tag may follow another one; None stands for the border of a sentence."""
    (letter, kind), (earlier, same) = _parts(tag or OUTSIDE), _parts(before or OUTSIDE)
    if letter in "IE":
        return earlier in "BI" and kind == same
    return scheme == "BIO" or earlier not in "BI"


def forbidden(
    labels: Sequence[str], scheme: Scheme
) -> tuple[Bool[Tensor, "L L"], Bool[Tensor, "L"], Bool[Tensor, "L"]]:
    """True where a tag (column) must not follow another (row), and where it must not begin, or end, a sentence."""
    pairs = [[not follows(scheme, before, tag) for tag in labels] for before in labels]
    starts = [not follows(scheme, None, tag) for tag in labels]
    return torch.tensor(pairs), torch.tensor(starts), torch.tensor([not follows(scheme, tag, None) for tag in labels])


def _parts(label: str) -> tuple[str, str]:
    letter, _, kind = label.partition("-")
    return TWINS.get(letter, letter), kind
