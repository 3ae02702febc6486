"""What would go wrong in training a language model on plain text, or would make it worse: `qkv data check`.

A problem stops training; a warning does not. Both state what to do.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b

from qkv.data.corpus import CorpusConfig
from qkv.data.documents.extract import DocumentTexts
from qkv.data.files import standard_input
from qkv.data.files.unpack import Builtin, Source
from qkv.data.findings import Caution, Findings, Progress, byte_counter, no_progress
from qkv.data.formats.text import read_source_documents
from qkv.data.prepare import Prepared, prepare
from qkv.data.text_files import catalog_validation_files, find_text_files
from qkv.data.tokens import Cutter, require
from qkv.errors import ConfigError, QkvError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig

LONG_LINE = 10_000
MAX_LINES = 500_000
MAX_PROBLEMS = 20
_ODD = {
    "control characters": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"),
    "line separators that do not end a line here (U+2028, U+2029, U+0085)": re.compile("[\u2028\u2029\x85]"),
    "replacement characters (U+FFFD), left by a wrong decoding": re.compile("\ufffd"),
    "byte order marks inside the text (U+FEFF)": re.compile("\ufeff"),
    "private-use characters": re.compile("[\ue000-\uf8ff]"),
}


@dataclass
class DataReport:
    problems: list[QkvError] = field(default_factory=list)
    more_problems: int = 0
    """The number of problems beyond the first MAX_PROBLEMS."""
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prepared: Prepared | None = None
    context: int | None = None

    def add(self, problem: QkvError) -> None:
        if str(problem) in map(str, self.problems):
            return
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more_problems += 1


def check(
    corpus: CorpusConfig,
    tokenizer: TokenizerConfig,
    context: Callable[[int], int],
    given_tokenizer: Tokenizer | None = None,
    progress: Progress = no_progress,
) -> DataReport:
    """Prepare the corpus as training would, then examine its text; `context` maps the number of tokens to a length."""
    report = DataReport()
    try:
        report.prepared = prepare(corpus, tokenizer, given_tokenizer=given_tokenizer, progress=progress)
        corpus = report.prepared.corpus
        report.context = context(len(report.prepared.train.tokens))
        _require_enough(report, report.prepared, report.context)
    except ConfigError as error:  # an error in the options, not in the text
        report.add(error)
        return report
    except QkvError as error:
        report.add(error)
    _inspect(corpus, report, progress)
    return report


def _require_enough(report: DataReport, prepared: Prepared, context: int) -> None:
    """Report whether there is enough text, and the notes of the preparation."""
    for note in prepared.notes:
        (report.warnings if isinstance(note, Caution) else report.notes).append(note)
    training = f"training with a context of {context}"
    for stream, needed, what, remedy in (
        (prepared.train, context + 1, training, "Give more text, or a smaller --context."),
        (prepared.valid, 2, "validation", "Give more text."),
    ):
        try:
            require(stream, needed, what, remedy)
        except QkvError as error:
            report.add(error)
    if report.problems:
        return
    if len(prepared.valid.tokens) < context + 1:
        report.warnings.append(f"the validation text is shorter than one context of {context}: its loss will be noisy.")
    if len(prepared.train.tokens) < 20 * context:
        report.warnings.append("very little text for this context: the model will memorise it.")


def _inspect(corpus: CorpusConfig, report: DataReport, progress: Progress) -> None:
    """Search the text for odd characters and lines; a file that cannot be read is reported, and the others are read."""
    findings, odd, extracted = Findings(), _OddText(), DocumentTexts()
    on_read = byte_counter(progress, "checking")
    for source in _sources(corpus, report):
        cutter = Cutter()
        try:
            for text, ends in read_source_documents(source, corpus, findings, on_read, extracted):
                for part, _ in cutter.parts(text, ends):
                    odd.add(part)
        except QkvError as error:
            report.add(error)
    report.warnings.extend(odd.warnings())
    if sum(count > 0 for count in (findings.crlf, findings.cr, findings.newlines)) > 1:
        report.warnings.append("line ends are mixed (\\n, \\r\\n, \\r); all are read as \\n.")


def _sources(corpus: CorpusConfig, report: DataReport) -> list[Source | Builtin]:
    """Every source that exists; the others are problems."""
    if standard_input.STDIN_NAME in corpus.files:
        copy = standard_input.find_copy(corpus)
        return [] if copy is None else [Source(copy, name="standard input")]
    sources: list[Source | Builtin] = []
    for name in (*corpus.files, *corpus.valid):
        try:
            sources.extend(find_text_files([name], corpus.filter, Findings()))
        except QkvError as error:
            report.add(error)
    if report.prepared is not None:
        sources.extend(catalog_validation_files(corpus, Findings()))
    return sources


class _OddText:
    def __init__(self) -> None:
        self.odd: Counter[str] = Counter()
        self.not_nfc = self.long_lines = self.lines = 0
        self.distinct: set[bytes] = set()

    def add(self, text: str) -> None:
        if not unicodedata.is_normalized("NFC", text):
            self.not_nfc += sum(not unicodedata.is_normalized("NFC", line) for line in text.split("\n"))
        for name, pattern in _ODD.items():
            if count := len(pattern.findall(text)):
                self.odd[name] += count
        for line in text.split("\n"):
            self.long_lines += len(line) > LONG_LINE
            if line.strip() and self.lines < MAX_LINES:
                self.lines += 1
                self.distinct.add(blake2b(line.strip().encode(), digest_size=8).digest())

    def warnings(self) -> list[str]:
        lines = [f"{count:,} {name}." for name, count in self.odd.items()]
        if self.not_nfc:
            lines.append(
                f"{self.not_nfc:,} lines are not in Unicode's composed form (NFC): é may be written in two ways."
            )
        if self.long_lines:
            lines.append(f"{self.long_lines:,} lines are longer than {LONG_LINE:,} characters.")
        copies = self.lines - len(self.distinct)
        if self.lines >= 10 and copies > 0.5 * self.lines:
            lines.append(f"{copies / self.lines:.0%} of the lines repeat others: there is less to learn than it seems.")
        return lines
