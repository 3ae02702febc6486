"""What `qkv embed` shows beside vectors: the nearest texts, one word in many texts, what each layer knows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.lines import lines
from qkv.cli.output import document, notes, print_answer, table
from qkv.visible import shortened

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.evaluation.vectors import Layer, Pool
    from qkv.studies.probe import Probed

TOGETHER = 1024  # texts of a file that are looked at at once
PAIRS = 6  # pairs of texts that are shown for every layer


def show_near(opened: Any, texts: list[str], file: str, top: int, layer: Layer, pool: Pool, json: bool) -> None:
    """The texts of a file that are nearest to each of those given."""
    from qkv.evaluation.vectors import nearest_texts

    said: set[str] = set()

    def parts() -> Iterator[tuple[list[str], Tensor]]:
        source = (line for line in lines([], file, "embed") if line.strip())
        while part := list(islice(source, TOGETHER)):
            yield part, opened.embed(part, layer=layer, pool=pool)
            said.update(opened.notes)

    asked = opened.embed(texts, layer=layer, pool=pool)
    said.update(opened.notes)
    found = nearest_texts(asked, parts(), top)
    if json:
        rows = [
            {"text": text, "near": [{"text": other, "cosine": cosine} for other, cosine in near]}
            for text, near in zip(texts, found, strict=True)
        ]
        return document({"layer": layer, "pool": pool, "among": file, "texts": rows, "notes": sorted(said)})
    notes(sorted(said))
    for text, near in zip(texts, found, strict=True):
        cells = [(f"{cosine:.3f}", shortened(each, 100)) for each, cosine in near]
        print_answer(f"Nearest to {shortened(text, 100)!r}:")
        table("", ("cosine", "text"), cells, words=("text",))
    return None


def show_word(model: str, word: str, texts: list[str] | None, json: bool) -> None:
    """The cosines of one word's vectors in every two texts, layer by layer."""
    import qkv
    from qkv.errors import InputError
    from qkv.evaluation.vectors import CONTEXTS

    given = texts or list(CONTEXTS.get(word, ()))
    if len(given) < 2:
        own = ", ".join(CONTEXTS)
        raise InputError(f"--word {word}: expected two texts at least that hold it ({own} have texts of their own).")
    found = qkv.load(model).contexts(word, given)
    if json:
        return document({"word": word, "texts": given, "layers": [each.tolist() for each in found]})
    pairs = list(combinations(range(len(given)), 2))
    cells = [(layer, *(f"{near[one, other]:.3f}" for one, other in pairs[:PAIRS])) for layer, near in enumerate(found)]
    for number, text in enumerate(given, 1):
        print_answer(f"{number}  {text}")
    print_answer("", f"How alike {word!r} is in two texts, by cosine:")
    columns = [f"{one + 1} and {other + 1}" for one, other in pairs[:PAIRS]]
    table("", ("layer", *columns), cells)
    if len(pairs) > PAIRS:
        notes([f"{PAIRS} of {len(pairs):,} pairs of texts are shown; --json gives all."])
    return None


def show_probe(model: str, files: list[str], label: str | None, picture: Path | None, json: bool) -> None:
    """A figure for each layer, and what may be said about them."""
    import qkv
    from qkv.cli.options import examples
    from qkv.data.read_examples import read_examples
    from qkv.errors import require_package
    from qkv.evaluation.labelled_evaluation import NAMES
    from qkv.studies import picture as drawing
    from qkv.studies.probe import NEED, probe

    require_package("sklearn", NEED)
    if picture is not None:
        drawing.check(picture)
    opened = qkv.load(model)
    labelled = read_examples(examples(tuple(files), "embed", label=label))
    notes(labelled.notes)
    found = probe(opened.bundle.model.eval(), opened.tokenizer, labelled)
    metric = found[0].judgement.name
    called = NAMES[metric]
    if picture is not None:
        figures = [(float(layer), each.judgement.figure) for layer, each in enumerate(found)]
        drawing.draw_curves(picture, {opened.bundle.config.kind: figures}, f"{called} by layer", "layer")
    if json:
        return document({"metric": metric, "layers": [each.values() for each in found], "said": said_of(found)})
    cells = []
    for each in found:
        figure = each.judgement.figure
        between = "" if figure.low is None or figure.high is None else f"{figure.low:.4f} to {figure.high:.4f}"
        cells.append((each.layer, "-" if figure.value is None else f"{figure.value:.4f}", between))
    table("", ("layer", called, "95 %"), cells)
    print_answer("", said_of(found))
    return None


def said_of(found: list[Probed]) -> str:
    """Are later layers better?"""
    from qkv.studies.probe import last_beside

    best = max(found, key=lambda each: each.judgement.value)
    where = "the last layer" if best is found[-1] else f"layer {best.layer}"
    difference = last_beside(found, 0)
    if difference is None:
        more = found[-1].judgement.value - found[0].judgement.value
        return f"Best: {where}. The last layer has {more:+.4f} beside layer 0, which sees no context."
    doubt = "; that may be noise" if difference.noise else ""
    rise = f"{difference.difference:+.4f}"
    return f"Best: {where}. The last layer has {rise} beside layer 0, which sees no context{doubt}."
