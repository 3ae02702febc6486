"""`qkv tag`: a tag for every word of a text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.lines import bunches
from qkv.cli.options import named
from qkv.cli.output import Growing, Json, notes, print_rows

if TYPE_CHECKING:
    from qkv.evaluation.predictions import TaggedWord


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
            grown.add(map(values, part, found))
            continue
        for tagged in found:
            print_rows([*(line(each, probabilities) for each in tagged), []])
    if json:
        grown.end({"notes": sorted(said)})


def values(text: str, tagged: list[TaggedWord]) -> dict[str, Any]:
    """A text and its tags for JSON."""
    return {"text": text, "words": [asdict(each) for each in tagged]}


def line(found: TaggedWord, probabilities: bool) -> list[str]:
    """The cells of a line: a word and its tag; CoNLL has the word first and the tag last, whatever stands between."""
    return [found.word, *([f"{found.probability:.4f}"] if probabilities else []), found.tag]
