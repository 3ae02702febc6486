"""`qkv embed`: vectors of texts and of their tokens, from any layer of a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.lines import bunches, require
from qkv.cli.options import Top, named
from qkv.cli.output import Growing, Json, document, notes, print_answer, table
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.evaluation.vectors import Layer, Tokens

ENDINGS = (".npy", ".parquet", ".jsonl")
TOGETHER = 256  # texts that are answered together
SHOWN = 12  # texts whose cosines are shown on a terminal


def embed(
    model: str,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    layer: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1",
    pool: Literal["mean", "first", "last", "max"] = "mean",
    tokens: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    precision: Literal["f32", "bf16"] = "f32",
    out: str | None = None,
    among: str | None = None,
    top: Top = 5,
    word: str | None = None,
    probe: list[str] | None = None,
    label: str | None = None,
    picture: Path | None = None,
    json: Json = False,
) -> None:
    """Turn texts into vectors. Texts that mean the same have vectors that point the same way.

    qkv embed MODEL "That is a happy person" "That is a very happy person" "Today is a sunny day"
    qkv embed MODEL --file sentences.txt --out sentences.npy
    qkv embed MODEL "a good film" --among reviews.txt
    qkv embed MODEL --word bank "the river bank" "a bank account"
    qkv embed MODEL --probe wnut17/ --picture layers.svg

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
    precision
        The number format of products. bf16 is about twice as fast where the processor has it, and right to two or
        three digits.
    out
        Write the vectors to FILE.npy, FILE.parquet or FILE.jsonl. A .npy of tokens holds them all, text after text.
    among
        A file with one text a line: those nearest to each text are shown.
    top
        How many of them.
    word
        One word in several texts: how alike its vectors are, layer by layer. Of bank, station and it the lectures' own
        texts are taken when none are given.
    probe
        Labelled examples (a table, CoNLL): how well a linear classifier tells the labels from the vectors of each
        layer. Repeat it for more files.
    label
        The column to learn, for --probe.
    picture
        Draw what --probe found into this .svg or .png file.
    """
    import qkv
    from qkv.cli import meaning
    from qkv.errors import InputError, require_package

    asked = {"--among": among, "--word": word, "--probe": probe, "--out": out}
    said = [name for name, value in asked.items() if value is not None]
    if len(said) > 1:
        raise InputError(f"{said[0]} and {said[1]}: expected one of them.")
    if (label is not None or picture is not None) and probe is None:
        raise InputError(f"{'--label' if label is not None else '--picture'}: is for --probe DATA.")
    if probe is not None:
        return meaning.show_probe(model, probe, label, picture, json)
    if word is not None:
        return meaning.show_word(model, word, list(texts) or None, json)
    require(list(texts), file, "embed")
    path = Path(out) if out is not None else None
    if path is not None and path.suffix not in ENDINGS:
        raise InputError(f"--out {out}: expected a name that ends in {', '.join(ENDINGS)}.")
    if path is not None and not path.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {path.parent}. Make it, or choose another place.")
    if path is not None and path.suffix == ".parquet":
        require_package("pyarrow", f"--out {out}")
    chosen = which(layer)
    pooling: Any = "none" if tokens else pool
    about = {"model": model, "layer": chosen, "pool": pooling, "precision": precision}
    listed = bunches(named(texts, "embed"), file, "embed", TOGETHER)
    if json and path is None and among is None:
        return stream(qkv.load(model), listed, about)
    given = [text for part in listed for text in part]
    opened = qkv.load(model)
    if among is not None:
        return meaning.show_near(opened, given, among, top, chosen, pool, json)
    found: Any = opened.embed(given, layer=chosen, pool=pooling, precision=precision)
    notes(opened.notes)
    if path is not None:
        write(path, given, found)
        summary = {**about, "texts": len(given), "width": width(found), "file": str(path), "notes": opened.notes}
        return document(summary) if json else print_answer(f"{counted(len(given), 'text')} -> {path}")
    return show_tokens(given, found) if tokens else show(given, found)


def stream(opened: Any, texts: Iterator[list[str]], about: dict[str, Any]) -> None:
    """The vectors as one JSON document, text by text; none are held."""
    said, grown = set[str](), Growing(about, "texts")
    for part in texts:
        found = opened.embed(part, layer=about["layer"], pool=about["pool"], precision=about["precision"])
        said.update(opened.notes)
        grown.add(rows(part, found))
    grown.end({"notes": sorted(said)})


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


def rows(texts: list[str], found: Tensor | list[Tokens]) -> Iterator[dict[str, Any]]:
    """One entry a text, as JSON has it."""
    for text, each in zip(texts, found, strict=True):
        if isinstance(found, list):
            yield {"text": text, "tokens": each.ids, "pieces": each.pieces, "vectors": each.vectors.tolist()}
        else:
            yield {"text": text, "vector": each.tolist()}


def write(path: Path, texts: list[str], found: Tensor | list[Tokens]) -> None:
    """The whole file, or none of it."""
    import io
    import json as json_module

    import numpy as np
    import torch

    from qkv.storage import write_file

    content = io.BytesIO()
    if path.suffix == ".npy":
        flat = torch.cat([each.vectors for each in found]) if isinstance(found, list) else found
        np.save(content, flat.numpy(), allow_pickle=False)
    elif path.suffix == ".jsonl":
        for row in rows(texts, found):
            content.write(json_module.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows(texts, found))), content)
    write_file(path, content.getvalue())


def show(texts: list[str], found: Tensor) -> None:
    """Each text's size; for two or more, how alike they are."""
    import torch.nn.functional as F

    cells: list[tuple[object, ...]] = []
    near = F.normalize(found[:SHOWN]) @ F.normalize(found[:SHOWN]).T
    for number, (text, vector) in enumerate(zip(texts[:SHOWN], found[:SHOWN], strict=True)):
        cosines = [f"{value:.3f}" for value in near[number].tolist()] if len(texts) > 1 else []
        cells.append((f"{number + 1} {shortened(text, 40)}", len(vector), f"{vector.norm():.3f}", *cosines))
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
