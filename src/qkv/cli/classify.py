"""`qkv classify` gives each text a label, `qkv tag` each word a tag, `qkv fill` predicts the tokens of gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import qkv
from qkv.cli.batches import BATCH_TEXTS, answer_batches, column_batches, text_batches
from qkv.cli.options import Flag, SecondTextColumn, TableFile, TextColumn, TextFile, Texts, Top, in_range, refuse
from qkv.cli.output import Json, print_notes, print_rows, print_sections
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.kinds import kind_by_name
from qkv.errors import InputError
from qkv.models.registry import input_of
from qkv.ranges import COUNT
from qkv.tasks.report import ReportSection, TableSection, lines

if TYPE_CHECKING:
    from qkv.evaluation.decisions import Decision, TaggedWord
    from qkv.generation.writing import Filled

Row = Any  # a text, a pair of texts, the name of an image, or a list of numbers
BATCH_IMAGES = 256
MAX_NAME_LENGTH = 4096  # of a file's name


def classify(
    model: str,
    *texts: Texts,
    file: str | None = None,
    text: TextColumn = None,
    text2: SecondTextColumn = None,
    top: Annotated[int | None, in_range(COUNT)] = None,
    precision: Literal["f32", "bf16"] | None = None,
    json: Json = False,
) -> None:
    """Classify texts, images or rows of numbers: the label of each, with its probability.

    qkv classify runs/reviews-lstm "A film that nobody needs."
    qkv classify runs/reviews-lstm --file reviews.txt > labels.tsv
    qkv classify runs/iris-mlp --file rows.csv
    qkv classify runs/digits-cnn seven.png more/

    Prints label, probability and text, separated by tabs. White space within a text becomes one space; other control
    characters are shown as escapes (\\x1b), but --json has them unchanged. Files and pipes are answered in their
    order, while they are read.

    Args:
        model: The run folder or model folder of a classifier.
        texts: One text per argument. - reads texts from standard input, one per line. A tab separates the two texts of
            a pair, commas separate the numbers of a row. For a model of images: image files, or folders of images.
        file: A file with one text per line, or one pair separated by a tab. From a table (.csv, .jsonl, .parquet), the
            columns that the model was trained on are read.
        top: How many labels to show for each text, the most likely first. Default: 1.
        precision: The number format of matrix products. bf16 is faster if the processor supports it; probabilities are
            then right to about two digits. Default: f32.
    """
    from qkv.evaluation.decisions import require
    from qkv.tasks.classification.evaluate import table_rows

    opened, findings = qkv.load(model), Findings()
    config = opened.bundle.config
    reads_images = input_of(config) == "images"
    if reads_images:
        refuse({"text": text, "text2": text2, "precision": precision}, "this model reads images")
    if getattr(config, "problem", "single") != "single":
        refuse({"top": top}, "this model gives all labels that apply, or a number")
    if hasattr(config, "columns"):
        refuse({"precision": precision}, "this model reads rows of numbers, in f32")
    file_rows = None
    if file is not None and not texts and not reads_images:
        if not hasattr(config, "columns"):  # a model that does not classify is refused before the file is read
            require(config, "classifier")
        file_rows = table_rows(opened.bundle, file, findings, text=text, text2=text2)
    batches: Iterator[list[Row]]
    if reads_images:
        batches = image_batches(texts, file)
    elif file_rows is None:
        refuse({"text": text, "text2": text2}, "only a table that --file names has columns")
        lines_in_batches = text_batches(texts, file, "classify")
        warn_of_file_names(texts)
        batches = ([pair(line) if opened.pairs else line for line in batch] for batch in lines_in_batches)
    else:
        batches = in_batches(file_rows)
    answer_batches(
        opened,
        batches,
        lambda batch: opened.classify(batch, precision=precision or "f32"),
        lambda row, decision: {row_name(row, reads_images): row_text(row), **decision.values()},
        lambda batch, decisions: print_rows(
            cells(row, decision, top or 1) for row, decision in zip(batch, decisions, strict=True)
        ),
        {"model": model} if json else None,
        findings,
    )


def row_name(row: Row, reads_images: bool) -> str:
    return "numbers" if isinstance(row, list) else "image" if reads_images else "text"


def image_batches(names: Sequence[str], file: str | None) -> Iterator[list[str]]:
    """The image files on the command line, or those that a file lists; for a folder, all images in it."""
    if file is not None and (Path(file).is_dir() or is_image_name(file)):
        raise InputError(f"--file {file}: expected a file with the name of an image on each line. Leave --file out.")
    for lines_read in text_batches(names, file, "classify", BATCH_IMAGES):
        named = [image for line in lines_read if line.strip() for image in images_named(line.strip())]
        yield from (named[first : first + BATCH_IMAGES] for first in range(0, len(named), BATCH_IMAGES))


def images_named(name: str) -> list[str]:
    """The image file of this name, or all images in the folder of this name."""
    path = Path(name)
    if not path.is_dir():
        if not path.is_file():
            raise InputError(f"{name}: no such file; this model classifies images. Name image files or folders.")
        return [name]
    images = sorted(str(inner) for inner in path.rglob("*") if inner.is_file() and is_image_name(inner))
    if not images:
        raise InputError(f"{name}: no images in this folder. Expected files such as .png or .jpg.")
    return images


def is_image_name(name: str | Path) -> bool:
    return kind_by_name(Source(Path(name))) == "image"


def warn_of_file_names(texts: Sequence[str]) -> None:
    """Refuse the name of an image among the texts; note the name of any other file, which is classified as a text."""
    for name in texts:
        if len(name) < MAX_NAME_LENGTH and "\n" not in name and Path(name).is_file():
            if is_image_name(name):
                raise InputError(f"{name}: is an image, and this model does not read images. Give texts.")
            print_notes(f"{name}: the name itself is classified; --file {name} reads the file.")


def in_batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH_TEXTS)):
        yield batch


def row_text(row: Row) -> str:
    """The row as text, for the output."""
    if isinstance(row, list):
        return ", ".join("?" if number != number else f"{number:g}" for number in row)
    return row if isinstance(row, str) else "\t".join(row)


def pair(text: str) -> tuple[str, str]:
    """Split a line at its tab into the two texts of a pair."""
    first, tab, second = text.partition("\t")
    if not tab:
        raise InputError(f"{text[:60]!r}: this model classifies pairs; expected two texts with a tab between them.")
    return first, second


def cells(row: Row, decision: Decision, top: int) -> list[str]:
    """The cells of an output line: a number, all labels that apply, or the `top` labels, with probabilities; then the
    texts of the row."""
    texts = [" ".join(text.split()) for text in (row if isinstance(row, tuple) else (row_text(row),))]
    if isinstance(decision.label, float):
        return [f"{decision.label:.4f}", *texts]
    if isinstance(decision.label, tuple):
        probabilities = ", ".join(f"{decision.probabilities[label]:.4f}" for label in decision.label)
        return [", ".join(decision.label) or "-", probabilities or "-", *texts]
    best = sorted(decision.probabilities.items(), key=lambda item: -item[1])[:top]
    return [*(cell for label, probability in best for cell in (label, f"{probability:.4f}")), *texts]


def tag(
    model: str,
    *texts: Texts,
    file: TableFile = None,
    text: TextColumn = None,
    words: Flag = False,
    probabilities: Flag = False,
    json: Json = False,
) -> None:
    """Tag every word with its part of speech or its kind of name, depending on what the model was trained on.

    qkv tag runs/ewt-lstm "Time flies like an arrow."

    Prints each word with its tag on a line, and an empty line after each text, like a CoNLL file. Control characters,
    tabs and line ends within words and tags are shown as escapes (\\t, \\n, \\x1b).

    Args:
        model: The run folder or model folder of a tagger.
        words: The texts are already split into words, with spaces between them.
        probabilities: Print the probability of each tag, between the word and the tag.
    """

    from qkv.tasks.classification.evaluate import training_text

    def cells(word: TaggedWord) -> list[str]:  # in CoNLL the word comes first and the tag last
        return [word.word, *([f"{word.probability:.4f}"] if probabilities else []), word.tag]

    opened, findings = qkv.load(model), Findings()
    answer_batches(
        opened,
        column_batches(texts, file, "tag", findings, {"text": text}, lambda: training_text(opened.bundle)),
        lambda batch: opened.tag([text.split() if words else text for text in batch]),
        lambda text, tagged: {"text": text, "words": [asdict(word) for word in tagged]},
        lambda batch, answers: print_rows(row for tagged in answers for row in (*map(cells, tagged), [])),
        {"model": model} if json else None,
        findings,
    )


def fill(model: str, *texts: Texts, file: TextFile = None, top: Top = 5, json: Json = False) -> None:
    """Fill the gaps of texts: show the most likely tokens for each gap, with their probabilities.

    qkv fill MODEL "Paris is the capital of [MASK]." "the ___ of the ___"

    Args:
        model: The run folder or model folder of a masked language model, such as BERT.
        texts: One text per argument, with [MASK] or ___ for each gap. - reads texts from standard input, one per line.
        top: How many tokens to show for each gap.
    """
    batches = text_batches(texts, file, "fill", 1, piped=False)
    opened = qkv.load(model)
    answer_batches(
        opened,
        batches,
        lambda batch: [opened.fill(text, top) for text in batch],
        lambda text, filled: {
            "text": text,
            "filled": filled.text,
            "gaps": [list(map(asdict, gap)) for gap in filled.gaps],
        },
        lambda batch, answers: print_sections(*(section for filled in answers for section in filled_sections(filled))),
        {"model": model} if json else None,
    )


def filled_sections(filled: Filled) -> list[ReportSection]:
    """The filled text, and a table with the tokens of each gap and their probabilities."""
    columns = [name for gap in range(len(filled.gaps)) for name in (f"gap {gap + 1}", "probability")]
    rows = [
        [cell for token in tokens for cell in (token.piece, f"{token.probability:.4f}")]
        for tokens in zip(*filled.gaps, strict=True)
    ]
    return [lines(filled.text), TableSection("", columns, rows)]
