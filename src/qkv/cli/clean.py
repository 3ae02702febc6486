"""`qkv data clean`: filter crawled documents into a corpus."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.options import DEFAULT_CORPUS, CorpusOptions, Data, Flag, data_config
from qkv.cli.output import Json, print_answer, print_json, print_notes, print_sections
from qkv.cli.progress import progress_in_bytes
from qkv.data.clean.filters import Limits, Skippable
from qkv.errors import InputError
from qkv.storage import write_file
from qkv.tasks.report import TableSection
from qkv.visible import counted, percent

if TYPE_CHECKING:
    from qkv.data.clean.pipeline import CleaningReport

DEFAULTS = Limits()


def clean(
    *data: Data,
    out: str | None = None,
    reading: CorpusOptions = DEFAULT_CORPUS,
    dry_run: Flag = False,
    keep_dropped: Annotated[str | None, Parameter(negative="")] = None,
    report: str | None = None,
    force: Flag = False,
    skip: Annotated[list[Skippable] | None, Parameter(negative="")] = None,
    limits: Annotated[Limits, Parameter(name="*", group="Filters and their limits")] = DEFAULTS,
    json: Json = False,
) -> None:
    """Drop documents that are duplicates or not worth learning from; write the others to a file.

    qkv data clean crawl/ --out corpus.jsonl
    qkv data clean crawl.jsonl.gz --out corpus.jsonl.gz --keep-dropped dropped.jsonl
    qkv data clean book.txt --documents paragraphs --dry-run
    qkv data clean pages/ --out corpus.jsonl --min-words 50 --skip bullets

    A .jsonl can hold any document. In a .txt, each line or paragraph is a document, as --documents says; give the same
    --documents to the verb that reads it.

    Args:
        out: The file to write: .txt, .jsonl, or one of them with .gz.
        dry_run: Count what would be dropped; write nothing.
        keep_dropped: Write the dropped documents, with the reasons, to this .jsonl.
        report: Write the counts to this .json.
        force: Replace existing files.
        skip: A filter to leave out. May be repeated.
    """
    from qkv.data.clean.pipeline import clean as run
    from qkv.data.corpus import CorpusConfig

    corpus = data_config(CorpusConfig, data, "data clean", reading, "qkv data clean reads plain text", example="crawl/")
    if out is None and not dry_run:
        raise InputError("no file to write. Give --out corpus.jsonl, or only count with --dry-run.")
    kept_file, dropped_file, report_file = _new_files(out, keep_dropped, report, force)
    with progress_in_bytes() as progress:
        result = run(corpus, limits, skip or (), None if dry_run else kept_file, dropped_file, progress)
    values = _json_values(result, list(data), None if dry_run else out)
    if report_file is not None:
        write_file(report_file, json_module.dumps(values, indent=2, ensure_ascii=False) + "\n")
    if json:
        print_json(values)
    else:
        _print(result, values["out"])
    if not result.kept_documents:
        raise InputError(_nothing_left_message(result))


def _new_files(out: str | None, dropped: str | None, report: str | None, force: bool) -> list[Path | None]:
    """The paths of the files to write, None for those not requested; names that cannot be written are refused."""
    from qkv.data.document_files import ENDINGS, require_new

    all_endings = (ENDINGS, (".jsonl", ".jsonl.gz"), (".json",))
    paths = [None if name is None else Path(name) for name in (out, dropped, report)]
    for path, endings in zip(paths, all_endings, strict=True):
        if path is not None:
            require_new(path, endings, force)
            if sum(other is not None and other.absolute() == path.absolute() for other in paths) > 1:
                raise InputError(f"{path}: is named twice. Give each file its own name.")
    return paths


def _json_values(report: CleaningReport, data: list[str], out: str | None) -> dict[str, Any]:
    filters = []
    for count in report.filters:
        values = vars(count) | {"share": _share(count.dropped_documents, count.documents)}
        filters.append(values | {"bytes_share": _share(count.dropped_bytes, count.bytes)})
    return {
        "data": data,
        "out": out if report.kept_documents else None,
        "read_with_documents": report.read_back,
        "documents": report.documents,
        "bytes": report.bytes,
        "kept_documents": report.kept_documents,
        "kept_bytes": report.kept_bytes,
        "filters": filters,
        "notes": list(report.notes),
    }


def _share(part: int, total: int) -> float:
    return part / total if total else 0.0


def _print(report: CleaningReport, out: str | None) -> None:
    print_notes(*report.notes)
    if report.documents == 1:
        print_notes("the text is one document, kept or dropped in full; --documents paragraphs (or lines) splits it.")
    rows = []
    for count in report.filters:
        limit = "" if count.limit is None else f"{count.limit:,}"
        share = percent(_share(count.dropped_documents, count.documents), 2)
        bytes_share = percent(_share(count.dropped_bytes, count.bytes), 2)
        dropped = (f"{count.dropped_documents:,}", share, f"{count.dropped_bytes:,}", bytes_share)
        rows.append((count.name, limit, f"{count.documents:,}", *dropped))
    print_sections(TableSection("", ("filter", "limit", "seen", "dropped", "share", "bytes", "share"), rows))
    for count in report.filters:
        for example in count.examples:
            print_answer(f"{count.name}: {example}")
    kept_documents = f"kept {report.kept_documents:,} of {counted(report.documents, 'document')}"
    kept_share = _share(report.kept_bytes, report.bytes)
    print_answer(f"{kept_documents}, {report.kept_bytes:,} of {report.bytes:,} bytes ({kept_share:.1%}).")
    if out is not None:
        advice = f"; read it with --documents {report.read_back}" if report.read_back not in (None, "files") else ""
        print_answer(f"wrote {out}{advice}.")


def _nothing_left_message(report: CleaningReport) -> str:
    strictest = max(report.filters, key=lambda count: count.dropped_documents)
    dropped = f"{strictest.name} dropped {strictest.dropped_documents:,}"
    problem = f"nothing is left of {counted(report.documents, 'document')}: {dropped}"
    if report.documents == 1:
        return f"{problem}. Split it with --documents paragraphs (or lines), or --skip {strictest.name}."
    return f"{problem}. Loosen its limit (`qkv data clean --help`), or leave the filter out: --skip {strictest.name}."
