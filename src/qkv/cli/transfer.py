"""`qkv export`: a model for other programs to open.

`qkv import`: a model of another project into a folder of qkv.

`qkv verify`: proofs about a model that anyone can run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import qkv
from qkv.cli.options import AnyModel, Force
from qkv.cli.output import Json, document, notes, print_answer, program, show
from qkv.cli.progress import reading
from qkv.errors import RefusedError, installation_hint, is_installed
from qkv.tasks.report import TableSection

# whose twins elsewhere know no other pooling
POOLED = {"pooler": "[CLS] and BERT's pooler", "first": "[CLS]", "last": "the last token that is not padding"}

ALONE = "only qkv opens the copy to compare it"


def export(
    model: AnyModel,
    folder: str,
    *,
    to: Literal["huggingface"] = "huggingface",
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a model so that other programs open it. The copy is opened and compared before it gets its name.

    qkv export runs/book-modern --to huggingface book-hf

    Args:
        folder: The folder to write. It must not exist.
        to: huggingface: `transformers` opens it with its Auto classes and AutoTokenizer, offline; a translator as
            MarianMT. One that came with source.spm and target.spm leaves with such files: there, they need
            sentencepiece.
    """
    hint = f"transformers is not installed: {ALONE}; {installation_hint('transformers')}."
    noted = [] if is_installed("transformers") else [hint]
    notes(noted)
    opened = qkv.load(model)
    notes(opened.notes)
    compared = opened.export(folder, to, force=force)
    written, pooling = architecture(folder), getattr(opened.bundle.config, "pooling", None)
    if json:
        rows = [{**vars(each), "passed": each.passed} for each in compared]
        facts = {"architecture": written, **({"pooling": pooling} if pooling else {})}
        return document(
            {"model": model, "folder": folder, "to": to, **facts, "compared": rows, "notes": [*noted, *opened.notes]}
        )
    for each in compared:
        print_answer(each)
    how = f", which pools by {POOLED[pooling]}" if pooling in POOLED else ""
    print_answer(f"written: {folder}, for {written}{how}")
    return None


def architecture(folder: str) -> str:
    """The class that opens the copy, by its config.json."""
    import json as json_module

    return str(json_module.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["architectures"][0])


def import_model(source: str, *, to: str | None = None, force: Force = False, json: Json = False) -> None:
    """Bring a model in. It becomes a folder of qkv's own, with a checksum for every file (`qkv verify` checks them).

    qkv import SmolLM2-135M-Instruct.gguf
    qkv import hf:HuggingFaceTB/SmolLM2-135M --to models/smollm2
    qkv import bert-folder

    Every verb also opens such a folder or file as it is, without this.

    Args:
        source: A Hugging Face folder (GPT-2, Llama, SmolLM2, Qwen2, Qwen3, BERT, MiniLM, DistilBERT, MarianMT as
            Helsinki-NLP's opus-mt), a .gguf file, a .bin of llama2.c, or hf:org/name, which is fetched.
        to: The folder to write. Default: models/NAME.
    """
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
    rows = [(name, f"{value:,}" if isinstance(value, int) else value) for name, value in facts.items()]
    show(TableSection("", ("what", "value"), rows, words=("value",)))
    verb = "generate" if opened.writes else "translate" if opened.translates else "embed"
    print_answer(f'next: {program()} {verb} {target} "Once upon a time"')
    return None


def verify(model: AnyModel, *, json: Json = False) -> None:
    """Prove that a model is what was written and that every way of using it gives the same answers.

    Each line shows one proof and the largest difference that was found; the exit code is 5 when one fails.
    """
    from qkv.studies.verify import proofs_of

    proofs = list(proofs_of(qkv.load(model)).all())
    if json:
        document(
            {"model": model, "passed": all(p.passed is not False for p in proofs), "proofs": [vars(p) for p in proofs]}
        )
    else:
        columns = ("proof", "result", "difference", "what was compared")
        words = {True: "passed", False: "FAILED", None: "-"}
        rows = [(p.name, words[p.passed], "" if p.largest is None else f"{p.largest:.1e}", p.compared) for p in proofs]
        show(TableSection("", columns, rows, words=columns))
    failed = [p for p in proofs if p.passed is False]
    if failed:
        raise RefusedError(f"{model}: {', '.join(p.name for p in failed)} failed. {failed[0].compared}")
