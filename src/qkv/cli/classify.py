"""Verbs that label texts: `qkv classify` (a label each, with probabilities), `qkv tag` (a tag for every word) and
`qkv fill` (the tokens that may stand in the gaps)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import qkv
from qkv.cli.lines import TOGETHER, answer, batches
from qkv.cli.options import Column, Flag, SecondColumn, TextFile, Texts, Top, refuse, within
from qkv.cli.output import Json, print_rows, show
from qkv.data.findings import Findings
from qkv.errors import InputError
from qkv.ranges import COUNT
from qkv.tasks.report import ReportSection, TableSection, lines

if TYPE_CHECKING:
    from qkv.evaluation.decisions import Decision, TaggedWord
    from qkv.generation.writing import Filled

Row = Any  # a text, a pair of texts, or a list of numbers


def classify(
    model: str,
    *texts: Texts,
    file: str | None = None,
    text: Column = None,
    text2: SecondColumn = None,
    top: Annotated[int | None, within(COUNT)] = None,
    precision: Literal["f32", "bf16"] | None = None,
    json: Json = False,
) -> None:
    """Classify texts: the label of each, with its probability.

    qkv classify runs/reviews-lstm "A film that nobody needs."
    qkv classify runs/reviews-lstm --file reviews.txt > labels.tsv
    qkv classify runs/iris-mlp --file rows.csv

    Prints label, probability and text, separated by tabs. White space within the text becomes one blank, other control
    characters are shown as escapes (\\x1b); --json has them as they are. Long files and slow pipes are answered while
    they are read, in their order.

    Args:
        model: A run folder or a model folder, of a classifier.
        texts: The texts, one each. - reads them from standard input, one a line. A pair is two texts with a tab
            between, a row of numbers has commas between them.
        file: A file with one text, or one pair with a tab between, a line. Of a table (.csv, .jsonl, .parquet) the
            columns that the model learned from are read.
        top: How many labels are shown for each text, the likeliest first. Default: 1.
        precision: The number format of products. bf16 is faster where the processor has it; probabilities are right to
            about two digits. Default: f32.
    """
    from qkv.evaluation.decisions import require
    from qkv.tasks.classification.evaluate import table_rows

    opened, findings = qkv.load(model), Findings()
    config = opened.bundle.config
    if getattr(config, "problem", "single") != "single":
        refuse({"top": top}, "this model gives all labels that hold, or a number")
    if hasattr(config, "columns"):
        refuse({"precision": precision}, "this model reads rows of numbers, in f32")
    table = None
    if file is not None and not texts:
        if not hasattr(config, "columns"):  # other models are refused before a file is read
            require(config, "classifier", "classify")
        table = table_rows(opened.bundle, file, findings, text=text, text2=text2)
    if table is None:
        refuse({"text": text, "text2": text2}, "only a table that --file names has columns")
        typed = batches(texts, file, "classify")
        rows: Iterator[list[Row]] = ([pair(line) if opened.pairs else line for line in batch] for batch in typed)
    else:
        rows = in_batches(table)
    answer(
        opened,
        rows,
        lambda batch: opened.classify(batch, precision=precision or "f32"),
        lambda row, decision: {"numbers" if isinstance(row, list) else "text": row_text(row), **decision.values()},
        lambda batch, decisions: print_rows(
            cells(row, one, top or 1) for row, one in zip(batch, decisions, strict=True)
        ),
        {"model": model} if json else None,
        findings,
    )


def in_batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    source = iter(rows)
    while batch := list(islice(source, TOGETHER)):
        yield batch


def row_text(row: Row) -> str:
    """A row as it is printed with its answer."""
    if isinstance(row, list):
        return ", ".join("?" if number != number else f"{number:g}" for number in row)
    return row if isinstance(row, str) else "\t".join(row)


def pair(text: str) -> tuple[str, str]:
    """The two texts of a line with a tab, for a model that classifies pairs."""
    first, tab, second = text.partition("\t")
    if not tab:
        raise InputError(f"{text[:60]!r}: this model classifies pairs; expected two texts with a tab between them.")
    return first, second


def cells(row: Row, decision: Decision, top: int) -> list[str]:
    """The cells of a line: label, probability, text or texts; of several labels those that hold."""
    texts = row if isinstance(row, tuple) else (row_text(row),)
    plain = [" ".join(text.split()) for text in texts]
    if isinstance(decision.label, float):
        return [f"{decision.label:.4f}", *plain]
    if isinstance(decision.label, tuple):
        shares = ", ".join(f"{decision.probabilities[name]:.4f}" for name in decision.label)
        return [", ".join(decision.label) or "-", shares or "-", *plain]
    best = sorted(decision.probabilities.items(), key=lambda item: -item[1])[:top]
    return [*(cell for name, share in best for cell in (name, f"{share:.4f}")), *plain]


def tag(
    model: str,
    *texts: Texts,
    file: TextFile = None,
    words: Flag = False,
    probabilities: Flag = False,
    json: Json = False,
) -> None:
    """Tag every word: its part of speech, or the name it belongs to, as the model has learned.

    qkv tag runs/ewt-lstm "Time flies like an arrow."

    Prints a word and its tag a line, and a blank line after each text, as CoNLL files are. Control characters, tabs and
    line ends within words and tags are shown as escapes (\\t, \\n, \\x1b).

    Args:
        model: A run folder or a model folder, of a tagger.
        words: The texts are cut into words already, with spaces between them.
        probabilities: The probability of each tag, between the word and the tag.
    """

    def cells(word: TaggedWord) -> list[str]:  # CoNLL has the word first and the tag last, whatever is between
        return [word.word, *([f"{word.probability:.4f}"] if probabilities else []), word.tag]

    opened = qkv.load(model)
    answer(
        opened,
        batches(texts, file, "tag"),
        lambda batch: opened.tag([text.split() if words else text for text in batch]),
        lambda text, tagged: {"text": text, "words": [asdict(word) for word in tagged]},
        lambda batch, answers: print_rows(row for tagged in answers for row in (*map(cells, tagged), [])),
        {"model": model} if json else None,
    )


def fill(model: str, *texts: Texts, file: TextFile = None, top: Top = 5, json: Json = False) -> None:
    """Fill the gaps of texts: the likeliest tokens for each, with their probabilities.

    qkv fill MODEL "Paris is the capital of [MASK]." "the ___ of the ___"

    Args:
        model: A run folder or a model folder, of a masked language model, as BERT.
        texts: The texts, one each, with [MASK] or ___ for what is missing. - reads them from standard input, one a
            line.
        top: How many tokens are shown for each gap.
    """
    given = batches(texts, file, "fill", 1, piped=False)
    opened = qkv.load(model)
    answer(
        opened,
        given,
        lambda batch: [opened.fill(text, top) for text in batch],
        lambda text, filled: {
            "text": text,
            "filled": filled.text,
            "gaps": [list(map(asdict, gap)) for gap in filled.gaps],
        },
        lambda batch, answers: show(*(section for filled in answers for section in filled_sections(filled))),
        {"model": model} if json else None,
    )


def filled_sections(filled: Filled) -> list[ReportSection]:
    """The filled text, and a column of tokens for each gap."""
    columns = [name for number in range(len(filled.gaps)) for name in (f"gap {number + 1}", "probability")]
    rows = [
        [cell for token in line for cell in (token.piece, f"{token.probability:.4f}")]
        for line in zip(*filled.gaps, strict=True)
    ]
    return [lines(filled.text), TableSection("", columns, rows)]
