"""`qkv fill`: what may stand in the gaps of a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.lines import lines, require
from qkv.cli.options import Top, named
from qkv.cli.output import Growing, Json, print_answer, table

if TYPE_CHECKING:
    from qkv.generation.writing import Filled


def fill(
    model: str,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    top: Top = 5,
    json: Json = False,
) -> None:
    """Fill the gaps of texts: the likeliest pieces for each, with their probabilities.

    qkv fill MODEL "Paris is the capital of [MASK]." "the ___ of the ___"

    Parameters
    ----------
    model
        A run folder or a model folder, of a model that fills gaps, as BERT.
    texts
        The texts, one each, with [MASK] or ___ for what is missing. - reads them from standard input, one a line.
    file
        A file with one text a line.
    top
        How many pieces are shown for each gap.
    """
    import qkv

    require(list(texts), file, "fill")
    opened = qkv.load(model)
    grown = Growing({"model": model}, "texts")
    for text in lines(named(texts, "fill"), file, "fill"):
        found = opened.fill(text, top)
        grown.add([values(text, found)]) if json else show(found)
    if json:
        grown.end({})


def values(text: str, found: Filled) -> dict[str, Any]:
    gaps = [[asdict(piece) for piece in gap] for gap in found.gaps]
    return {"text": text, "filled": found.text, "gaps": gaps}


def show(found: Filled) -> None:
    """The filled text, and a column of pieces for each gap."""
    columns = [name for number in range(len(found.gaps)) for name in (f"gap {number + 1}", "probability")]
    rows = [
        tuple(cell for each in line for cell in (each.piece, f"{each.probability:.4f}"))
        for line in zip(*found.gaps, strict=True)
    ]
    print_answer(found.text)
    table("", columns, rows)
