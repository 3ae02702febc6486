"""What a corpus holds, counted: the answer of `qkv data describe`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qkv.config import plain
from qkv.data.corpus import CorpusConfig
from qkv.data.files import standard_input
from qkv.data.files.discover import expand
from qkv.data.files.unpack import Builtin
from qkv.data.findings import Findings
from qkv.data.formats.text import read
from qkv.data.progress import Progress
from qkv.data.survey import Parts, survey
from qkv.text.training import choose

SAMPLE = 400


@dataclass(frozen=True)
class Description:
    kind: str
    """The formats of the files, with their counts."""
    files: int
    documents: int
    distinct_documents: int
    lines: int
    characters: int
    words: int
    bytes: int
    distinct_characters: int
    distinct_words: int
    """In the first part of the text, where it is long."""
    longest_line: int
    tokenizer: dict[str, Any]
    """What `auto` would choose."""
    beginning: str
    notes: tuple[str, ...]
    validation_characters: int | None = None
    """Of the validation text, where it was given."""

    def values(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def describe(corpus: CorpusConfig, progress: Progress) -> Description:
    spool = standard_input.received(corpus)
    try:
        parts = Parts.of(corpus, spool, whole=True, progress=progress)
        found = survey(parts, progress)
        beginning, words = _beginning_and_words(parts)
        validation = expand(corpus.valid, corpus.filter, parts.findings, progress) if corpus.valid else None
    finally:
        if spool is not None:
            spool.unlink(missing_ok=True)
    statistics = found.statistics
    return Description(
        kind=_kinds(parts),
        files=len(parts.files),
        documents=found.census.documents,
        distinct_documents=found.census.distinct(),
        lines=statistics.lines,
        characters=statistics.characters,
        words=words,
        bytes=statistics.bytes,
        distinct_characters=statistics.distinct_characters,
        distinct_words=statistics.distinct_words,
        longest_line=statistics.longest_line,
        tokenizer=plain(choose(statistics)),
        beginning=beginning,
        notes=(*parts.findings.notes(), *found.findings.notes()),
        validation_characters=None
        if validation is None
        else sum(len(text) for text, _ in read(validation, corpus, Findings())),
    )


def _kinds(parts: Parts) -> str:
    counts: dict[str, int] = {}
    for source in parts.files:
        kind: str = "built in" if isinstance(source, Builtin) else source.format
        if not isinstance(source, Builtin) and source.packing != "plain":
            kind = f"{kind} in {source.packing}"
        counts[kind] = counts.get(kind, 0) + 1
    return ", ".join(kind if count == 1 else f"{count:,} of {kind}" for kind, count in counts.items())


def _beginning_and_words(parts: Parts) -> tuple[str, int]:
    beginning = ""
    words = 0
    inside = False  # the piece before ended inside a word
    for text, ends in read(parts.files, parts.corpus, Findings()):
        if len(beginning) < SAMPLE:
            beginning += text[: SAMPLE - len(beginning)]
        words += len(text.split())
        if text:
            words -= inside and not text[0].isspace()
            inside = not text[-1].isspace()
        inside = inside and not ends
    return beginning, words
