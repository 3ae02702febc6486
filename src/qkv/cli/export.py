"""`qkv export`: a model for other programs to open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qkv.cli.output import Json, document, notes, print_answer

# whose twins elsewhere know no other pooling
POOLED = {"pooler": "[CLS] and BERT's pooler", "first": "[CLS]", "last": "the last token that is not padding"}

ALONE = "only qkv opens the copy to compare it"


def export(
    model: str,
    folder: str,
    *,
    to: Literal["huggingface"] = "huggingface",
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Write a model so that other programs open it. The copy is opened and compared before it gets its name.

    qkv export runs/book-modern --to huggingface book-hf

    Parameters
    ----------
    model
        A run folder, a model folder, a Hugging Face folder, a .gguf file or a .bin of llama2.c.
    folder
        The folder to write. It must not exist.
    to
        huggingface: `transformers` opens it with its Auto classes and AutoTokenizer, offline; a translator as MarianMT.
        One that came with source.spm and target.spm leaves with such files: there, they need sentencepiece.
    force
        Replace a model folder of this name.
    """
    import qkv
    from qkv.extras import advice, installed

    said = [] if installed("transformers") else [f"transformers is not installed: {ALONE}; {advice('transformers')}."]
    notes(said)
    opened = qkv.load(model)
    notes(opened.notes)
    compared = opened.export(folder, to, force=force)
    written, pooling = architecture(folder), getattr(opened.bundle.config, "pooling", None)
    if json:
        rows = [{**vars(each), "passed": each.passed} for each in compared]
        facts = {"architecture": written, **({"pooling": pooling} if pooling else {})}
        return document(
            {"model": model, "folder": folder, "to": to, **facts, "compared": rows, "notes": [*said, *opened.notes]}
        )
    for each in compared:
        print_answer(each)
    how = f", which pools by {POOLED[pooling]}" if pooling in POOLED else ""
    print_answer(f"written: {folder}, for {written}{how}")
    return None


def architecture(folder: str) -> str:
    """The class that opens the copy, as its config.json says."""
    import json as json_module

    return str(json_module.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["architectures"][0])
