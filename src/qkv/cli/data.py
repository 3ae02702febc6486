"""`qkv data`: named data sets, what a file holds, what would go wrong in training, a corpus out of a crawl."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App

from qkv import ranges
from qkv.cli.clean import clean
from qkv.cli.options import MODEL, NO_SPLIT, Data, SplitOptions, TokenizerName, refuse, within
from qkv.cli.options import corpus as corpus_of
from qkv.cli.output import Json, document, notes, print_answer, table
from qkv.visible import counted

app = App(
    name="data",
    help="Named data sets; what a file holds; what would go wrong in training; a corpus out of a crawl.",
    version_flags=[],
    help_format="plaintext",
)
app.command(clean)


@app.command(name="list")
def list_sets(*, json: Json = False) -> None:
    """The named data sets: source, size, checksum, terms, task, and whether they are at hand.

    Sets are looked for in the folders of QKV_DATA, then in the cache; `qkv data get NAME` fetches one.
    """
    from dataclasses import asdict

    from qkv.data import catalog

    sets = [(entry, _at_hand(entry)) for entry in catalog.every()]
    if json:
        return document({"sets": [{**asdict(entry), "bytes": entry.bytes, "at_hand": here} for entry, here in sets]})
    for entry, here in sets:
        print_answer(f"{entry.name:<20}{_size(entry.bytes):>9}  {here:<7}  {entry.task}: {entry.what}")
        sums = ", ".join(f"{file.sha256[:12]}..." for file in (*entry.train, *entry.valid))
        print_answer(f"{'':<20}{'':>9}  {'':<7}  {entry.terms}; {entry.source}" + (f"; sha256 {sums}" if sums else ""))
    return None


def _at_hand(entry: Any) -> str:
    from qkv.errors import QkvError

    try:
        return "yes" if entry.at_hand() else "no"
    except QkvError:
        return "damaged"


def _size(count: int | None) -> str:
    if count is None:
        return "built in"
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.0f} kB"


@app.command
def get(name: str, *, json: Json = False) -> None:
    """Make a named data set available and say where it is.

    Parameters
    ----------
    name
        A name from `qkv data list`.
    """
    import difflib

    from qkv.cli.progress import reading
    from qkv.data import catalog
    from qkv.errors import InputError

    entry = catalog.find(name)
    if entry is None:
        near = difflib.get_close_matches(name, catalog.names(), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "`qkv data list` names them all."
        raise InputError(f"there is no data set named {name!r}. {hint}")
    with reading() as watch:
        paths = [str(file.obtain(watch)) for file in (*entry.train, *entry.valid)]
    if json:
        return document({"name": name, "files": paths, "built_in": entry.builtin, "terms": entry.terms})
    notes([f"terms: {entry.terms}."])
    print_answer(*(paths or [f"{name} is built in: qkv train {name}"]))
    return None


@app.command
def describe(
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    json: Json = False,
) -> None:
    """Describe what files hold: of text the counts, the beginning and the tokenizer that `auto` would choose; of
    tables, tagged words and images the task, the columns, the labels with their counts, lengths and copies; of
    parallel text the languages, the pairs, their lengths and copies."""
    from qkv.cli import progress as shown
    from qkv.cli.describe import describe_examples, describe_pairs, detected_in
    from qkv.data.descriptions import describe as look

    given = reading.given()
    columns = {name: given.get(name) for name in ("text2", "label", "id", "task")}
    detected = detected_in(data, columns, reading.documents, reading.filter, reading.encoding)
    of_pairs, verb = ("source", "target", "languages"), "qkv data describe"
    if detected.content == "pairs":
        refuse(reading, ("text", "valid", "test", "filter"), verb, "these files as parallel text")
        pairs = {name: given.get(name) for name in (*of_pairs, "encoding")}
        return describe_pairs(data, pairs, detected, json)
    if detected.content == "examples":
        refuse(reading, of_pairs, verb, "these files as labelled examples")
        return describe_examples(data, given, detected, json)
    refuse(reading, (*of_pairs, "test"), verb, "these files as plain text")
    corpus = corpus_of(data, "data describe", **given)
    with shown.reading() as watch:
        found = look(corpus, watch)
    if json:
        return document({"data": list(data), **found.values()})
    notes(found.notes)
    values = found.values()
    counted = [(name.replace("_", " "), f"{value:,}") for name, value in values.items() if isinstance(value, int)]
    rows: list[tuple[str, str]] = [("kind", found.kind), *counted]
    size = f", {found.tokenizer['size']:,} tokens" if "size" in found.tokenizer else ""
    rows.append(("tokenizer (auto)", f"{found.tokenizer['kind']}{size}"))
    table(", ".join(data), ("what", "value"), rows)
    print_answer("", "begins:", *found.beginning.split("\n"))
    return None


@app.command
def check(
    *data: Data,
    reading: SplitOptions = NO_SPLIT,
    context: Annotated[
        int | None,
        within(ranges.CONTEXT, group=MODEL, help="The context, in tokens. Default: that of a run with --steps."),
    ] = None,
    tokenizer: TokenizerName = None,
    json: Json = False,
) -> None:
    """Report everything that would go wrong in training, before it does. Exit code 2 when training would refuse."""
    from qkv.cli import progress as shown
    from qkv.cli.options import which
    from qkv.data.check import check as look
    from qkv.recipe.resolve import context_for

    others = ("task", "text2", "label", "id", "source", "target", "languages", "test")
    refuse(reading, others, "qkv data check", "plain text")
    corpus = corpus_of(data, "data check", **reading.given())
    config, given = which(tokenizer or "auto")
    with shown.reading() as watch:
        report = look(corpus, config, lambda tokens: context or context_for(tokens), given, watch)
    if json:
        found = {"problems": [str(error) for error in report.problems], "more_problems": report.more_problems}
        said = {"warnings": report.warnings, "notes": report.notes, "context": report.context}
        document({"data": list(data), **found, **said, **_streams(report.prepared)})
    else:
        notes(report.notes)
        for warning in report.warnings:
            print_answer(f"warning: {warning}")
        if report.prepared is not None:
            table("", ("part", "tokens", "characters", "documents", "UNK"), _rows(report.prepared))
    for error in report.problems[1:]:
        notes([f"problem: {error}"])
    if report.more_problems:
        notes([f"and {report.more_problems:,} problems more."])
    if report.problems:
        raise report.problems[0]
    if not json:
        print_answer(f"ready to train with a context of {report.context}; {counted(len(report.warnings), 'warning')}.")


def _rows(prepared: Any) -> list[tuple[object, ...]]:
    parts = (("training", prepared.train), ("validation", prepared.valid))
    return [(n, f"{len(s.tokens):,}", f"{s.characters:,}", f"{s.documents:,}", f"{s.unknown:,}") for n, s in parts]


def _streams(prepared: Any) -> dict[str, Any]:
    if prepared is None:
        return {}
    facts = {}
    for name in ("train", "valid"):
        stream = getattr(prepared, name)
        names = ("bytes", "characters", "documents", "unknown")
        facts[name] = {"tokens": len(stream.tokens), **{key: getattr(stream, key) for key in names}}
    tokenizer = {"kind": prepared.tokenizer.kind, "vocabulary": prepared.tokenizer.vocabulary}
    return {**facts, "tokenizer": tokenizer, "fingerprint": prepared.corpus.fingerprint}
