"""`qkv embed`: vectors of texts and of their tokens, from any layer of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.options import named, standard_input
from qkv.cli.output import Json, counted, document, notes, table

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from qkv.evaluation.vectors import Layer, Tokens

ENDINGS = (".npy", ".parquet", ".jsonl")
SHOWN = 12  # texts whose cosines are shown on a terminal


def embed(
    model: str,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    layer: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1",
    pool: Literal["mean", "first", "last", "max"] = "mean",
    tokens: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    out: str | None = None,
    json: Json = False,
) -> None:
    """Turn texts into vectors. Texts that mean the same have vectors that point the same way.

    qkv embed MODEL "That is a happy person" "That is a very happy person" "Today is a sunny day"
    qkv embed MODEL --file sentences.txt --out sentences.npy

    Parameters
    ----------
    model
        A run folder or a model folder.
    texts
        The texts, one each. - reads them from standard input, one a line.
    file
        A file with one text a line.
    layer
        0 is what enters the first layer, 1 what leaves it ..., -1 the last. mean, sum or concat: the last four, joined.
    pool
        How a text's tokens become one vector: their mean, the first ([CLS] in BERT), the last, or the largest numbers.
    tokens
        A vector for each token instead of one a text.
    out
        Write the vectors to FILE.npy, FILE.parquet or FILE.jsonl. A .npy of tokens holds them all, text after text.
    """
    from pathlib import Path

    import qkv
    from qkv.errors import InputError

    given = read(named(texts, "embed"), file)
    path = Path(out) if out is not None else None
    if path is not None and path.suffix not in ENDINGS:
        raise InputError(f"--out {out}: expected a name that ends in {', '.join(ENDINGS)}.")
    if path is not None and not path.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {path.parent}. Make it, or choose another place.")
    chosen = which(layer)
    opened = qkv.load(model)
    found: Any = (
        opened.embed(given, layer=chosen, pool="none") if tokens else opened.embed(given, layer=chosen, pool=pool)
    )
    notes(opened.notes)
    about = {"model": model, "layer": chosen, "pool": "none" if tokens else pool}
    if path is not None:
        write(path, given, found)
        summary = {**about, "texts": len(given), "width": width(found), "file": str(path), "notes": opened.notes}
        return document(summary) if json else print(f"{counted(len(given), 'text')} -> {path}")
    if json:
        return document({**about, "texts": rows(given, found), "notes": opened.notes})
    return show_tokens(given, found) if tokens else show(given, found)


def read(words: list[str], file: str | None) -> list[str]:
    """The texts: as they were typed, or one a line."""
    from pathlib import Path

    from qkv.data.decoding import decode
    from qkv.data.findings import Findings
    from qkv.errors import InputError

    if file is not None and words:
        raise InputError(f"--file {file} and {counted(len(words), 'text')} were given; expected one of them.")
    if file is not None:
        try:
            content = Path(file).read_bytes()
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}. Check the name.") from None
        findings = Findings()
        text = "".join(decode(iter([content]), file, "utf-8", findings))
        notes(findings.notes())
    elif words == ["-"]:
        text = standard_input("utf-8")
    elif words:
        return words
    else:
        raise InputError(
            'no text was given. Expected texts, --file FILE, or - for standard input: qkv embed MODEL "a dog"'
        )
    lines = [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []
    if not lines:
        raise InputError(f"{file or 'standard input'}: empty; expected one text a line.")
    return lines


def which(layer: str) -> Layer:
    from qkv.errors import InputError

    if layer in ("mean", "sum", "concat"):
        return layer  # type: ignore[return-value]
    try:
        return int(layer)
    except ValueError:
        raise InputError(f"--layer {layer}: expected a number (-1: the last), mean, sum or concat.") from None


def width(found: Tensor | list[Tokens]) -> int:
    return int((found[0].vectors if isinstance(found, list) else found).shape[-1])


def rows(texts: list[str], found: Tensor | list[Tokens]) -> list[dict[str, Any]]:
    """One entry a text, as JSON has it."""
    if isinstance(found, list):
        return [
            {"text": text, "tokens": each.ids, "pieces": each.pieces, "vectors": each.vectors.tolist()}
            for text, each in zip(texts, found, strict=True)
        ]
    return [{"text": text, "vector": vector.tolist()} for text, vector in zip(texts, found, strict=True)]


def write(path: Path, texts: list[str], found: Tensor | list[Tokens]) -> None:
    """The whole file, or none of it."""
    import io
    import json as json_module

    import numpy as np
    import torch

    from qkv.errors import MissingExtraError
    from qkv.storage import write_file

    content = io.BytesIO()
    if path.suffix == ".npy":
        flat = torch.cat([each.vectors for each in found]) if isinstance(found, list) else found
        np.save(content, flat.numpy(), allow_pickle=False)
    elif path.suffix == ".jsonl":
        for row in rows(texts, found):
            content.write(json_module.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
    else:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError(f"writing {path.name}", "data") from None
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows(texts, found)), content)
    write_file(path, content.getvalue())


def shortened(text: str, longest: int = 40) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def show(texts: list[str], found: Tensor) -> None:
    """Each text's size; for two or more, how alike they are."""
    import torch.nn.functional as F

    cells: list[tuple[object, ...]] = []
    near = F.normalize(found[:SHOWN]) @ F.normalize(found[:SHOWN]).T
    for number, (text, vector) in enumerate(zip(texts[:SHOWN], found[:SHOWN], strict=True)):
        cosines = [f"{value:.3f}" for value in near[number].tolist()] if len(texts) > 1 else []
        cells.append((f"{number + 1} {shortened(text)}", len(vector), f"{vector.norm():.3f}", *cosines))
    columns = ["text", "width", "length", *(str(number + 1) for number in range(len(near) if len(texts) > 1 else 0))]
    table("cosines on the right" if len(texts) > 1 else "", columns, cells)
    if len(texts) > SHOWN:
        notes([f"{SHOWN} of {len(texts):,} texts are shown; --out FILE.npy or --json gives all."])


def show_tokens(texts: list[str], found: list[Tokens]) -> None:
    for text, each in list(zip(texts, found, strict=True))[:SHOWN]:
        lengths = each.vectors.norm(dim=-1).tolist()
        cells = [
            (repr(piece), token, f"{length:.3f}")
            for piece, token, length in zip(each.pieces, each.ids, lengths, strict=True)
        ]
        table(shortened(text, 100), ("piece", "id", "length"), cells)
    if len(texts) > SHOWN:
        notes([f"{SHOWN} of {len(texts):,} texts are shown; --out FILE.npy or --json gives all."])
