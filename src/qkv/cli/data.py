"""`qkv data`: list and fetch named data sets; describe, check and clean files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App

from qkv import ranges
from qkv.cli.clean import clean
from qkv.cli.describe import CONTENTS, describe, plan_lines
from qkv.cli.options import (
    DEFAULT_SPLIT,
    MODEL_GROUP,
    Data,
    SplitOptions,
    TokenizerName,
    data_config,
    data_files,
    in_range,
    refuse,
)
from qkv.cli.output import Json, print_answer, print_json, print_notes, print_sections
from qkv.cli.progress import progress_in_bytes
from qkv.config import toml_values
from qkv.data.findings import Caution, TaskNote
from qkv.errors import InputError, QkvError
from qkv.tasks.report import TableSection, lines
from qkv.visible import counted

if TYPE_CHECKING:
    from qkv.data.catalog import CatalogSet
    from qkv.data.corpus import CorpusConfig
    from qkv.data.descriptions import TrainingPlan
    from qkv.data.prepare import Prepared
    from qkv.recipe.draft import Values
    from qkv.recipe.recipe import CorpusSection
    from qkv.text.tokenizer import Tokenizer

app = App(
    name="data",
    help="List and fetch named data sets; describe, check and clean your files.",
    version_flags=[],
    help_format="plaintext",
)
app.command(describe)
app.command(clean)


@app.command(name="list")
def list_sets(*, json: Json = False) -> None:
    """List the named data sets: source, size, checksum, terms, task, and whether they are on this machine.

    Sets are searched in the folders of QKV_DATA, then in the cache; `qkv data get NAME` downloads one.
    """
    from qkv.data import catalog

    sets = [(entry, _at_hand(entry)) for entry in catalog.sets().values()]
    if json:
        values = [{**asdict(entry), "bytes": entry.bytes, "at_hand": at_hand} for entry, at_hand in sets]
        return print_json({"sets": values})
    rows: list[tuple[str, ...]] = []
    for entry, at_hand in sets:
        checksums = ", ".join(f"{file.sha256[:12]}..." for file in (*entry.train, *entry.valid))
        rows.append((entry.name, _size_text(entry.bytes), at_hand, f"{entry.task}: {entry.what}"))
        rows.append(("", "", "", f"{entry.terms}; {entry.source}" + (f"; sha256 {checksums}" if checksums else "")))
    return print_sections(
        TableSection("", ("name", "size", "at hand", "task and terms"), rows, words=("at hand", "task and terms"))
    )


def _at_hand(entry: CatalogSet) -> str:
    try:
        return "yes" if entry.at_hand() else "no"
    except QkvError:
        return "damaged"


def _size_text(size: int | None) -> str:
    if size is None:
        return "built in"
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.0f} kB"


@app.command
def get(name: str, *, json: Json = False) -> None:
    """Download a named data set if it is not on this machine, and show where it is.

    Args:
        name: A name from `qkv data list`.
    """
    from qkv.data import catalog

    entry = catalog.find(name)
    if entry is None:
        similar = difflib.get_close_matches(name, catalog.sets(), 1)
        hint = f"Did you mean {similar[0]!r}?" if similar else "`qkv data list` shows them all."
        raise InputError(f"there is no data set named {name!r}. {hint}")
    with progress_in_bytes() as progress:
        paths = [str(file.obtain(progress)) for file in (*entry.train, *entry.valid)]
    if json:
        return print_json({"name": name, "files": paths, "built_in": entry.builtin, "terms": entry.terms})
    print_notes(f"terms: {entry.terms}.")
    print_answer(*(paths or [f"{name} is built in: qkv train {name}"]))
    return None


@app.command
def check(
    *data: Data,
    reading: SplitOptions = DEFAULT_SPLIT,
    context: Annotated[int | None, in_range(ranges.CONTEXT, group=MODEL_GROUP)] = None,
    tokenizer: TokenizerName = None,
    json: Json = False,
) -> None:
    """Check data before a model is trained on them: what would go wrong, what would make scores misleading, and what
    training would do. Exit code 2 if training would refuse it. Plain text is also checked for odd characters and lines.

    Args:
        context: The context of a language model, in tokens. Default: by the size of the text.
    """
    from qkv.data import own_reader
    from qkv.data.corpus import CorpusConfig
    from qkv.data.detect import CONFIGS, report_deciding_options
    from qkv.library.new_run import tokenizer_by_name
    from qkv.tasks import detected_as, named_task
    from qkv.tasks.described import planned

    config, existing_tokenizer = tokenizer_by_name(tokenizer or "auto")
    values = own_reader.through({"files": data_files(data, "data check", "book.txt"), **reading.given()})
    section, task = named_task(values)
    detected = detected_as(values)
    reason = f"qkv data check reads these files as {CONTENTS[detected.content]}"
    corpus: CorpusSection = data_config(CONFIGS[detected.content], data, "data check", reading, reason)
    draft: Values = {"corpus": section, "task": task, "tokenizer": toml_values(config)}
    if isinstance(corpus, CorpusConfig):
        return _check_text(data, corpus, draft, existing_tokenizer, context, json)
    refuse({"context": context}, reason)
    with progress_in_bytes() as progress, report_deciding_options(values):
        opened, plan, refusal = planned(draft, progress, detected)
        if refusal is not None:
            raise refusal
    assert opened is not None
    assert plan is not None
    return _print_checked(data, opened.notes, plan, json)


def _check_text(
    data: tuple[str, ...],
    corpus: CorpusConfig,
    draft: Values,
    tokenizer: Tokenizer | None,
    context: int | None,
    json: bool,
) -> None:
    from qkv.data.check import check as check_corpus
    from qkv.data.files import standard_input
    from qkv.recipe.draft import Draft
    from qkv.recipe.resolve import context_for
    from qkv.tasks.described import planned

    config, plan = Draft.parse(draft, "the options").tokenizer, None
    with progress_in_bytes() as progress:
        report = check_corpus(corpus, config, lambda tokens: context or context_for(tokens), tokenizer, progress)
        if not report.problems and report.prepared is not None:
            draft["corpus"] = toml_values(report.prepared.corpus)
            if copy := standard_input.find_copy(report.prepared.corpus):
                draft["corpus"]["files"] = [str(copy)]
            _, plan, _ = planned({**draft, "model": {"context": report.context}}, progress)
    if json:
        problems = {"problems": [str(error) for error in report.problems], "more_problems": report.more_problems}
        remarks = {"warnings": report.warnings, "notes": report.notes, "context": report.context}
        planned_values = {"plan": None if plan is None else plan.values()}
        print_json({"data": list(data), **problems, **remarks, **_prepared_values(report.prepared), **planned_values})
    else:
        print_notes(*report.notes)
        for warning in report.warnings:
            print_answer(f"warning: {warning}")
        if report.prepared is not None:
            print_sections(_prepared_table(report.prepared))
        if plan is not None:
            print_sections(*plan_lines(plan), lines(""))
    for error in report.problems[1:]:
        print_notes(f"problem: {error}")
    if report.more_problems:
        print_notes(f"and {report.more_problems:,} more problems.")
    if report.problems:
        raise report.problems[0]
    if not json:
        print_answer(f"ready to train with a context of {report.context}; {counted(len(report.warnings), 'warning')}.")


def _print_checked(data: tuple[str, ...], notes: Sequence[str], plan: TrainingPlan, json: bool) -> None:
    """The report on labelled examples or parallel text that training accepts."""
    warnings = [note for note in notes if isinstance(note, Caution)]
    others = [note for note in notes if not isinstance(note, Caution | TaskNote)]
    if json:
        return print_json({"data": list(data), "warnings": warnings, "notes": others, "plan": plan.values()})
    print_notes(*others)
    for warning in warnings:
        print_answer(f"warning: {warning}")
    print_sections(*plan_lines(plan))
    return print_answer("", f"ready to train; {counted(len(warnings), 'warning')}.")


def _prepared_table(prepared: Prepared) -> TableSection:
    rows = []
    for split, stream in (("training", prepared.train), ("validation", prepared.valid)):
        counts = (len(stream.tokens), stream.characters, stream.documents, stream.unknown)
        rows.append((split, *(f"{count:,}" for count in counts)))
    return TableSection("", ("part", "tokens", "characters", "documents", "UNK"), rows)


def _prepared_values(prepared: Prepared | None) -> dict[str, Any]:
    """The facts about the prepared corpus for JSON; none if it could not be prepared."""
    if prepared is None:
        return {}
    values: dict[str, Any] = {}
    for split, stream in (("train", prepared.train), ("valid", prepared.valid)):
        names = ("bytes", "characters", "documents", "unknown")
        values[split] = {"tokens": len(stream.tokens), **{name: getattr(stream, name) for name in names}}
    tokenizer = {"kind": prepared.tokenizer.kind, "vocabulary": prepared.tokenizer.vocabulary}
    return {**values, "tokenizer": tokenizer, "fingerprint": prepared.corpus.fingerprint}
