"""`qkv import`: a model of another project into a folder of qkv."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qkv.cli.output import Json, document, notes, print_answer, program, table


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
