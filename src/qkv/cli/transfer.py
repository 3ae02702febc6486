"""`qkv import` and `qkv export` convert models from and to other formats; `qkv verify` checks a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import qkv
from qkv.cli.options import AnyModel, Force
from qkv.cli.output import Json, print_answer, print_json, print_notes, print_sections, program_name
from qkv.cli.progress import progress_in_bytes
from qkv.errors import RefusedError, installation_hint, is_installed
from qkv.tasks.report import TableSection

POOLING_TEXTS = {"pooler": "[CLS] and BERT's pooler", "first": "[CLS]", "last": "the last token that is not padding"}
"""Descriptions of the poolings that are built into classes of `transformers`."""


def export(
    model: AnyModel,
    folder: str,
    *,
    to: Literal["huggingface"] = "huggingface",
    force: Force = False,
    json: Json = False,
) -> None:
    """Export a model so that other programs can open it. The copy is opened and compared before it gets its name.

    qkv export runs/book-modern --to huggingface book-hf

    Args:
        folder: The folder to write. It must not exist, unless --force is given.
        to: huggingface: `transformers` opens the folder with its Auto classes and AutoTokenizer, offline; a translator
            becomes a MarianMT model. A translator imported with source.spm and target.spm is exported with such files,
            and `transformers` then needs sentencepiece to open it.
    """
    hint = f"transformers is not installed: only qkv opens the copy to compare it; {installation_hint('transformers')}."
    notes = [] if is_installed("transformers") else [hint]
    print_notes(*notes)
    opened = qkv.load(model)
    print_notes(*opened.notes)
    comparisons = opened.export(folder, to, force=force)
    architecture, pooling = architecture_of_copy(folder), getattr(opened.bundle.config, "pooling", None)
    if json:
        return print_json(
            {
                "model": model,
                "folder": folder,
                "to": to,
                "architecture": architecture,
                **({"pooling": pooling} if pooling else {}),
                "compared": [{**vars(comparison), "passed": comparison.passed} for comparison in comparisons],
                "notes": [*notes, *opened.notes],
            }
        )
    print_answer(*comparisons)
    pooling_text = f", which pools by {POOLING_TEXTS[pooling]}" if pooling in POOLING_TEXTS else ""
    print_answer(f"written: {folder}, for {architecture}{pooling_text}")
    return None


def architecture_of_copy(folder: str) -> str:
    """The class of `transformers` that config.json names."""
    import json as json_module

    return str(json_module.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))["architectures"][0])


def import_model(source: str, *, to: str | None = None, force: Force = False, json: Json = False) -> None:
    """Import a model of another project into a model folder, with a checksum of every file for `qkv verify`.

    qkv import SmolLM2-135M-Instruct.gguf
    qkv import hf:HuggingFaceTB/SmolLM2-135M --to models/smollm2
    qkv import bert-folder

    Every verb also opens such a folder or file directly, without an import.

    Args:
        source: A Hugging Face folder (GPT-2, Llama, SmolLM2, Qwen2, Qwen3, BERT, MiniLM, DistilBERT, or MarianMT such
            as Helsinki-NLP's opus-mt), a .gguf file, a .bin file of llama2.c, or hf:org/name, which is downloaded.
        to: The folder to write. Default: models/NAME.
    """
    from qkv.interop import hub
    from qkv.recipe import bundle

    path: str | Path = source
    if hub.is_address(source):
        with progress_in_bytes() as progress:
            path = hub.fetch(source, progress)
    opened = qkv.load(path)
    name = source.removeprefix("hf:").partition("@")[0] if hub.is_address(source) else Path(source).resolve().stem
    target = Path(to) if to else Path("models") / (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model")
    bundle.publish(target, opened.bundle, force=force)
    print_notes(*opened.bundle.notes)
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
        return print_json({"source": source, **facts, "notes": list(opened.bundle.notes)})
    rows = [(fact, f"{value:,}" if isinstance(value, int) else value) for fact, value in facts.items()]
    print_sections(TableSection("", ("what", "value"), rows, words=("value",)))
    verb = "generate" if opened.writes else "translate" if opened.translates else "embed"
    print_answer(f'next: {program_name()} {verb} {target} "Once upon a time"')
    return None


def verify(model: AnyModel, *, json: Json = False) -> None:
    """Prove that a model's files are unaltered and that every way of computing its answers gives the same result.

    Each line shows one proof and the largest difference found; the exit code is 5 when one fails.
    """
    from qkv.studies.verify import proofs_of

    proofs = list(proofs_of(qkv.load(model)).all())
    if json:
        print_json(
            {"model": model, "passed": all(p.passed is not False for p in proofs), "proofs": [vars(p) for p in proofs]}
        )
    else:
        columns = ("proof", "result", "difference", "what was compared")
        results = {True: "passed", False: "FAILED", None: "-"}
        rows = [
            (p.name, results[p.passed], "" if p.largest is None else f"{p.largest:.1e}", p.compared) for p in proofs
        ]
        print_sections(TableSection("", columns, rows, words=columns))
    failed = [p for p in proofs if p.passed is False]
    if failed:
        raise RefusedError(f"{model}: {', '.join(p.name for p in failed)} failed. {failed[0].compared}")
