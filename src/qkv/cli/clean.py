"""`qkv data clean`: a crawl in, a corpus out."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.options import DEFAULT_CORPUS, CorpusOptions, Data, Flag, read_config
from qkv.cli.output import Json, document, notes, print_answer, show
from qkv.cli.progress import reading as bar
from qkv.data.clean.filters import Limits, Skippable
from qkv.errors import InputError
from qkv.storage import write_file
from qkv.tasks.report import TableSection
from qkv.visible import counted

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
    """Drop what is no text worth learning from, and copies; write the rest, in its order, to a new file.

    qkv data clean crawl/ --out corpus.jsonl
    qkv data clean crawl.jsonl.gz --out corpus.jsonl.gz --keep-dropped dropped.jsonl
    qkv data clean book.txt --documents paragraphs --dry-run
    qkv data clean pages/ --out corpus.jsonl --min-words 50 --skip bullets

    A .jsonl keeps any document. In a .txt a line or a paragraph is one, as --documents says: read it back so.

    Args:
        out: The file to write: .txt, .jsonl, or one of them with .gz.
        dry_run: Count what would be dropped; write nothing.
        keep_dropped: Write the dropped documents, and why, to this .jsonl.
        report: Write the counts to this .json.
        force: Replace files that exist.
        skip: A filter to leave out; may be repeated.
    """
    from qkv.data.clean.pipeline import clean as run
    from qkv.data.corpus import CorpusConfig

    corpus = read_config(CorpusConfig, data, "data clean", reading, "qkv data clean reads plain text", example="crawl/")
    if dry_run and (keep_dropped or report):
        raise InputError("--dry-run writes nothing. Leave it out, or leave out --keep-dropped and --report.")
    if out is None and not dry_run:
        raise InputError("no file to write. Give --out corpus.jsonl, or only count with --dry-run.")
    kept, dropped, counts = _new_files(out, keep_dropped, report, force)
    with bar() as watch:
        result = run(corpus, limits, skip or (), None if dry_run else kept, dropped, watch)
    facts = _facts(result, list(data), None if dry_run else out)
    if counts is not None:
        write_file(counts, json_module.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if json:
        document(facts)
    else:
        _print(result, facts["out"])
    if not result.kept_documents:
        raise InputError(_nothing_left(result))


def _new_files(out: str | None, dropped: str | None, report: str | None, force: bool) -> list[Path | None]:
    from qkv.data.document_files import ENDINGS, require_new

    wanted = ((out, ENDINGS), (dropped, (".jsonl", ".jsonl.gz")), (report, (".json",)))
    paths = [None if name is None else Path(name) for name, _ in wanted]
    for path, (_, endings) in zip(paths, wanted, strict=True):
        if path is not None:
            require_new(path, endings, force)
            if sum(other is not None and other.absolute() == path.absolute() for other in paths) > 1:
                raise InputError(f"{path}: is named twice. Give each file a name of its own.")
    return paths


def _facts(report: CleaningReport, data: list[str], out: str | None) -> dict[str, Any]:
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


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _print(report: CleaningReport, out: str | None) -> None:
    notes(report.notes)
    if report.documents == 1:
        notes(["the text is one document, filtered as a whole; --documents paragraphs (or lines) filters its parts."])
    rows = []
    for count in report.filters:
        shares = (_share(count.dropped_documents, count.documents), _share(count.dropped_bytes, count.bytes))
        limit = "" if count.limit is None else f"{count.limit:,}"
        dropped = (f"{count.dropped_documents:,}", f"{shares[0]:.2%}", f"{count.dropped_bytes:,}", f"{shares[1]:.2%}")
        rows.append((count.name, limit, f"{count.documents:,}", *dropped))
    show(TableSection("", ("filter", "limit", "seen", "dropped", "share", "bytes", "share"), rows))
    for count in report.filters:
        for example in count.examples:
            print_answer(f"{count.name}: {example}")
    documents = f"kept {report.kept_documents:,} of {counted(report.documents, 'document')}"
    share = _share(report.kept_bytes, report.bytes)
    print_answer(f"{documents}, {report.kept_bytes:,} of {report.bytes:,} bytes ({share:.1%}).")
    if out is not None:
        read = f"; read it with --documents {report.read_back}" if report.read_back not in (None, "files") else ""
        print_answer(f"wrote {out}{read}.")


def _nothing_left(report: CleaningReport) -> str:
    worst = max(report.filters, key=lambda count: count.dropped_documents)
    lead = (
        f"nothing is left of {counted(report.documents, 'document')}: {worst.name} dropped {worst.dropped_documents:,}"
    )
    if report.documents == 1:
        return f"{lead}. Filter its parts with --documents paragraphs (or lines), or --skip {worst.name}."
    return f"{lead}. Loosen its limit (`qkv data clean --help`), or leave the filter out: --skip {worst.name}."
