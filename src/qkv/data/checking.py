"""Everything that would go wrong in training, or would make a model worse than it could be: `qkv data check`.

A problem stops training; a warning is worth a look. Both say what to do.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Findings
from qkv.data.prepare import Prepared, prepare
from qkv.data.progress import Progress
from qkv.data.readers import read
from qkv.data.survey import Parts
from qkv.data.tokens import Cutter, require
from qkv.errors import QkvError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig

LONG_LINE = 10_000
MOST_LINES = 500_000
_ODD = {
    "control characters": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"),
    "line separators that do not end a line here (U+2028, U+2029, U+0085)": re.compile("[\u2028\u2029\x85]"),
    "replacement characters (U+FFFD), left by a wrong decoding": re.compile("\ufffd"),
    "byte order marks inside the text (U+FEFF)": re.compile("\ufeff"),
    "private-use characters": re.compile("[\ue000-\uf8ff]"),
}


@dataclass
class Report:
    problems: list[QkvError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prepared: Prepared | None = None


def check(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    context: int,
    *,
    given_tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
) -> Report:
    """Prepare the corpus as training would, then look at the text itself."""
    report = Report()
    try:
        prepared = prepare(corpus, tokenizer, given_tokenizer=given_tokenizer, progress=progress)
    except QkvError as error:
        report.problems.append(error)
        return report
    report.prepared = prepared
    for note in prepared.notes:
        is_warning = note.startswith("overlap") or "copies" in note or "UNK" in note or "rows left out" in note
        (report.warnings if is_warning else report.notes).append(note)
    for stream, needed, what in (
        (prepared.train, context + 1, f"training with a context of {context}"),
        (prepared.valid, 2, "validation"),
    ):
        try:
            require(stream, needed, what)
        except QkvError as error:
            report.problems.append(error)
    if not report.problems and len(prepared.valid.tokens) < context + 1:
        report.warnings.append(f"the validation text is shorter than one context of {context}: its loss will be noisy.")
    if not report.problems and len(prepared.train.tokens) < 20 * context:
        report.warnings.append("very little text for this context: the model will learn it by heart.")
    report.warnings.extend(_look(prepared.corpus))
    return report


def _look(corpus: CorpusConfig) -> list[str]:
    """One pass over the text for what is legal but odd."""
    if corpus.files == ("-",):
        from qkv.data import standard_input

        corpus, spool = standard_input.received(corpus)
        parts = Parts.of(corpus, spool)
    else:
        parts = Parts.of(corpus)
    findings = Findings()
    look = _Look()
    cutter = Cutter()
    for text, ends in read((*parts.files, *parts.valid), corpus, findings):
        for piece in cutter.push(text):
            look.add(piece)
        if ends:
            look.add(cutter.finish())
    warnings = look.warnings()
    if sum(count > 0 for count in (findings.crlf, findings.cr, findings.newlines)) > 1:
        warnings.append("line ends are mixed (\\n, \\r\\n, \\r); all are read as \\n.")
    return warnings


class _Look:
    def __init__(self) -> None:
        self.odd: Counter[str] = Counter()
        self.not_normal = self.long_lines = self.lines = 0
        self.distinct: set[bytes] = set()

    def add(self, text: str) -> None:
        if not unicodedata.is_normalized("NFC", text):
            self.not_normal += sum(not unicodedata.is_normalized("NFC", line) for line in text.split("\n"))
        for name, pattern in _ODD.items():
            if count := len(pattern.findall(text)):
                self.odd[name] += count
        for line in text.split("\n"):
            self.long_lines += len(line) > LONG_LINE
            if line.strip() and self.lines < MOST_LINES:
                self.lines += 1
                self.distinct.add(blake2b(line.strip().encode(), digest_size=8).digest())

    def warnings(self) -> list[str]:
        lines = [f"{count:,} {name}." for name, count in self.odd.items()]
        if self.not_normal:
            lines.append(
                f"{self.not_normal:,} lines are not in Unicode's composed form (NFC): é may be written in two ways."
            )
        if self.long_lines:
            lines.append(f"{self.long_lines:,} lines are longer than {LONG_LINE:,} characters.")
        copies = self.lines - len(self.distinct)
        if self.lines >= 10 and copies > 0.5 * self.lines:
            lines.append(f"{copies / self.lines:.0%} of the lines repeat others: there is less to learn than it seems.")
        return lines
