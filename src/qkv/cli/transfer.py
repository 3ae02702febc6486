"""`qkv export`: a model for other programs to open.

`qkv import`: a model of another project into a folder of qkv.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from qkv.cli.output import Json, document, notes, print_answer, program, table

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
    from qkv.errors import install_hint, installed

    said = (
        []
        if installed("transformers")
        else [f"transformers is not installed: {ALONE}; {install_hint('transformers')}."]
    )
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


def import_model(
    source: str,
    *,
    to: str | None = None,
    force: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Bring a model in. It becomes a folder of qkv's own, with a checksum for every file (`qkv verify` checks them).

    qkv import SmolLM2-135M-Instruct.gguf
    qkv import hf:HuggingFaceTB/SmolLM2-135M --to models/smollm2
    qkv import bert-folder

    Every verb also opens such a folder or file as it is, without this.

    Parameters
    ----------
    source
        A Hugging Face folder (GPT-2, Llama, SmolLM2, Qwen2, Qwen3, BERT, MiniLM, DistilBERT, MarianMT as Helsinki-NLP's
        opus-mt), a .gguf file, a .bin of llama2.c, or hf:org/name, which is fetched.
    to
        The folder to write. Default: models/NAME.
    force
        Replace a model folder of this name.
    """
    import qkv
    from qkv.cli.progress import reading
    from qkv.interop import hub
    from qkv.recipe import bundle

    place: str | Path = source
    if hub.is_address(source):
        with reading() as progress:
            place = hub.fetch(source, progress)
    opened = qkv.load(place)
    name = source.removeprefix("hf:").partition("@")[0] if hub.is_address(source) else Path(source).resolve().stem
    target = Path(to) if to else Path("models") / (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model")
    bundle.publish(target, opened.bundle, force=force)
    notes(opened.bundle.notes)
    facts = {
        "name": opened.bundle.source,
        "model": opened.bundle.config.kind,
        "parameters": opened.parameters,
        "vocabulary": opened.tokenizer.vocabulary,
        "tokenizer": opened.tokenizer.kind,
        "context": opened.bundle.config.context,
        "folder": str(target),
    }
    if json:
        return document({"source": source, **facts, "notes": list(opened.bundle.notes)})
    table(
        "",
        ("what", "value"),
        [(key, f"{v:,}" if isinstance(v, int) else v) for key, v in facts.items()],
        words=("value",),
    )
    verb = "generate" if opened.writes else "translate" if opened.translates else "embed"
    print_answer(f'next: {program()} {verb} {target} "Once upon a time"')
    return None
