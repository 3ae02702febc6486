"""`qkv classify`: labels of texts, with probabilities.

`qkv tag`: a tag for every word of a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.lines import TOGETHER, bunches
from qkv.cli.options import Column, Second, Top, named
from qkv.cli.output import Growing, Json, notes, print_rows

if TYPE_CHECKING:
    from qkv.evaluation.decisions import Decision, TaggedWord


def classify(
    model: str,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    text: Column = None,
    text2: Second = None,
    top: Top = 1,
    precision: Literal["f32", "bf16"] = "f32",
    json: Json = False,
) -> None:
    """Judge texts: the label of each, with its probability.

    qkv classify runs/reviews-lstm "A film that nobody needs."
    qkv classify runs/reviews-lstm --file reviews.txt > labels.tsv
    qkv classify runs/iris-mlp --file rows.csv

    Prints label, probability and text, separated by tabs; control characters within them, tabs and line ends too, are
    shown as escapes (\\t, \\n, \\x1b), and --json has them as they are. Long
    files and slow pipes are answered as they are read, in their order.

    Parameters
    ----------
    model
        A run folder or a model folder, of a classifier.
    texts
        The texts, one each. - reads them from standard input, one a line. A pair is two texts with a tab between, a
        row of numbers has commas between them.
    file
        A file with one text, or one pair with a tab between, a line. Of a table (.csv, .jsonl, .parquet) the columns
        that the model learned from are read.
    top
        How many labels are shown for each text, the likeliest first.
    precision
        The number format of products. bf16 is faster where the processor has it; probabilities are right to about two
        digits.
    """
    import qkv
    from qkv.data.findings import Findings
    from qkv.tasks.classification.evaluate import rows_in

    opened = qkv.load(model)
    said: set[str] = set()
    grown = Growing({"model": model}, "texts")
    findings = Findings()
    tabled = None
    if file is not None and not texts:
        answers_of(opened.bundle.config)
        tabled = rows_in(opened.bundle, file, findings, text=text, text2=text2)
    pairs = opened.pairs
    if tabled is None:
        typed = bunches(named(texts, "classify"), file, "classify")
        given: Iterator[list[Any]] = ([pair(line, pairs) for line in bunch] for bunch in typed)
    else:
        given = parts(tabled)
    for part in given:
        found = opened.classify(part, precision=precision)
        for note in opened.notes:
            said.add(note) if json else notes([note])
        if json:
            grown.add(map(values, part, found))
        else:
            print_rows(map(partial(shown, top=top), part, found))
    said.update(findings.notes()) if json else notes(findings.notes())
    if json:
        grown.end({"notes": sorted(said)})


def answers_of(config: Any) -> None:
    """Refuse, before a file is read, a model that decides nothing."""
    from qkv.evaluation.decisions import require

    if not hasattr(config, "columns"):
        require(config, "classifier", "classify")


def values(row: Any, decision: Decision) -> dict[str, Any]:
    """A row and its answer for JSON."""
    return {"numbers" if isinstance(row, list) else "text": written(row), **decision.values()}


def written(row: Any) -> str:
    """A row as it is printed beside its answer."""
    if isinstance(row, list):
        return ", ".join("?" if number != number else f"{number:g}" for number in row)
    return row if isinstance(row, str) else "\t".join(row)


def parts(given: Iterable[Any]) -> Iterator[list[Any]]:
    from itertools import islice

    source = iter(given)
    while part := list(islice(source, TOGETHER)):
        yield part


def pair(text: str, wanted: bool) -> str | tuple[str, str]:
    """A line with a tab is a pair, where the model judges pairs."""
    from qkv.errors import InputError

    if not wanted:
        return text
    first, tab, second = text.partition("\t")
    if not tab:
        raise InputError(f"{text[:60]!r}: this model judges pairs; expected two texts with a tab between them.")
    return first, second


def shown(row: Any, decision: Decision, top: int) -> list[str]:
    """The cells of a line: label, probability, text or texts; of several labels those that hold."""
    texts = row if isinstance(row, tuple) else (written(row),)
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
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    words: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    probabilities: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Tag every word: its part of speech, or the name it belongs to, as the model was taught.

    qkv tag runs/ewt-lstm "Time flies like an arrow."

    Prints a word and its tag a line, and a blank line after each text, as CoNLL files are. Control characters, tabs and
    line ends within words and tags are shown as escapes (\\t, \\n, \\x1b).

    Parameters
    ----------
    model
        A run folder or a model folder, of a tagger.
    texts
        The texts, one each. - reads them from standard input, one a line.
    file
        A file with one text a line.
    words
        The texts are cut into words already, with spaces between them.
    probabilities
        How sure the model is of each tag, between the word and the tag.
    """
    import qkv

    opened = qkv.load(model)
    said: set[str] = set()
    grown = Growing({"model": model}, "texts")
    for part in bunches(named(texts, "tag"), file, "tag"):
        found = opened.tag([text.split() if words else text for text in part])
        for note in opened.notes:
            said.add(note) if json else notes([note])
        if json:
            grown.add(map(tagged_values, part, found))
            continue
        for tagged in found:
            print_rows([*(line(each, probabilities) for each in tagged), []])
    if json:
        grown.end({"notes": sorted(said)})


def tagged_values(text: str, tagged: list[TaggedWord]) -> dict[str, Any]:
    """A text and its tags for JSON."""
    return {"text": text, "words": [asdict(each) for each in tagged]}


def line(found: TaggedWord, probabilities: bool) -> list[str]:
    """The cells of a line: a word and its tag; CoNLL has the word first and the tag last, whatever stands between."""
    return [found.word, *([f"{found.probability:.4f}"] if probabilities else []), found.tag]
