"""The document behind a page: every view of a model on a text as plain JSON, "qkv-inspect/1".

`document` gives it; `write` puts it into the page (`filling.py`). It says of every view what is exact. For people,
layers and heads count from 1; layer 0 is what enters the first block.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from qkv.errors import InputError
from qkv.inspection import anatomy, filling, lens, maps, meaning, next_words, why
from qkv.inspection.roles import Head
from qkv.inspection.subject import Subject, stacks
from qkv.inspection.trace import trace
from qkv.inspection.worked import worked
from qkv.models.language_model import count
from qkv.storage import write_file

WORKED = 16  # asking tokens of the worked example, the last ones
Explain = Literal["", "quick", "whole"]
ROWS = 1024  # and the keys of all of them together
LENS_TOKENS = 64  # positions of the lens, the last ones
EXPLAIN = {
    "tokens": "Text becomes pieces with numbers: deck 001, word vectors; deck 002, WordPiece.",
    "embeddings": "Each piece is a row of a table: deck 001, building block 4, nn.Embedding.",
    "positions": "Order enters here; without it attention is a bag of words: deck 002, position encodings.",
    "attention": "Who looks at whom, head by head: deck 001, what do attention heads learn?",
    "worked": "q·k, over √d, softmax, weighted values: deck 002, self-attention, steps 1 to 4.",
    "residual": "What each block adds to the stream: deck 000, insurance; deck 004, residual connection.",
    "heads": "Previous word, next word, antecedent: deck 001, what do attention heads learn?",
    "lens": "What the model would say after each layer: deck 000, contextual embeddings layer by layer.",
    "next": "The table of next words, and what each knob does to it: deck 000, predict the next word.",
    "why": "Which words made this answer: deck 001, error analysis.",
    "meaning": "One word moves with its context: deck 000, bank; deck 004, station and it.",
    "anatomy": "Every part with its shapes and cost: deck 002, the whole figure and its table of costs.",
}


def document(
    subject: Subject, *, heads: Sequence[Head] = (), head: tuple[int, int] | None = None, explain: Explain = "quick"
) -> dict[str, Any]:
    """All views that this model has. `heads`: the finder's table; `head`: layer and head of the worked example;
    `explain`: whether to attribute the answer: not at all, by what takes no minutes, or by every method."""
    found: dict[str, Any] = {
        "format": filling.FORMAT,
        "model": described(subject),
        "text": subject.text,
        "views": [],
        "tokens": _tokens(subject, subject.inputs.tokens),
        "exact": {},
        "anatomy": [part.values() for part in anatomy.anatomy(subject)],
    }
    if subject.inputs.source is not None:
        found["source_tokens"] = _tokens(subject, subject.inputs.source)
    exact: dict[str, str] = found["exact"]
    exact["anatomy"] = "counted while this text passed"
    _values(subject, found, exact, head)
    if heads:
        found["heads"] = [each.values() for each in heads]
        exact["heads"] = "means over the texts that were looked at, with 95 % intervals of the bootstrap"
    for name, made in _answers(subject, explain).items():
        found[name], exact[name] = made
    found["views"] = [name for name in EXPLAIN if found.get(name)]
    found["explain"] = {name: EXPLAIN[name] for name in found["views"]}
    return found


def described(subject: Subject) -> dict[str, Any]:
    towers, inside = list(stacks(subject.model).values()), subject.inside
    return {
        "name": subject.name,
        "kind": subject.kind,
        "layers": max((len(each.layers) for each in towers), default=0),
        "heads": max((each.heads for each in towers), default=0),
        "width": int(getattr(inside, "width", 0) or getattr(getattr(inside, "embedding", None), "embedding_dim", 0)),
        "parameters": count(subject.model),
        "vocabulary": subject.tokenizer.vocabulary,
        "context": int(getattr(inside, "context", 0)),
    }


def _values(subject: Subject, found: dict[str, Any], exact: dict[str, str], head: tuple[int, int] | None) -> None:
    """What a trace gives: embeddings, positions, the residual stream, attention and the worked example."""
    towers = stacks(subject.model)
    seen = trace(subject, layers=[])
    for name, values in (("embeddings", seen.embeddings), ("positions", seen.positions)):
        if values is not None:
            found[name] = halves(values)
            exact[name] = "every number, rounded to 16 bits"
    streams = seen.residual("decoder" if "decoder" in towers else "self")
    if len(streams) > 1:  # a recurrence has none
        found["residual"] = {"norms": [[round(each, 4) for each in x.norm(dim=-1).tolist()] for x in streams]}
        exact["residual"] = "the length of every vector, to 4 digits"
    if not towers:
        return
    packed = maps.packed(subject)
    found["attention"] = [each.document() for each in packed]
    exact["attention"] = "; ".join(f"{each.name}: {each.exact}" for each in packed)
    name = "self" if "self" in towers else "cross"
    layer, number = head or next(each.sharpest for each in packed if each.name == name)
    one = trace(subject, layers=[layer], heads=[number], most=2**33).layer(layer % len(towers[name].layers), name)  # type: ignore[index, arg-type]
    length = one.queries.size(1)
    asking = max(1, min(length, WORKED, ROWS // one.keys.size(1)))
    items = [worked(one, one.heads[0], token) for token in range(length - asking, length)]
    found["worked"] = {
        "layer": one.layer + 1,
        "head": one.heads[0] + 1,
        "size": one.queries.size(-1),
        "items": [each.document() for each in items],
    }
    exact["worked"] = (
        f"to 4 digits; the first 8 numbers of vectors; the last {len(items)} of {length} tokens; dot products are whole"
    )


def _answers(subject: Subject, explain: Explain) -> dict[str, tuple[Any, str]]:
    """Lens, next words, attribution, meaning: what this model has of them."""
    found: dict[str, tuple[Any, str]] = {}
    length = len(subject.inputs.tokens)
    if lens.reads(subject):
        places = range(max(0, length - LENS_TOKENS), length)
        said = f"the {lens.TOP} likeliest pieces at the last {len(places)} of {length} tokens; the last layer is exact"
        rows = [_padded(asdict(each), places.start) for each in lens.lens(subject, places=list(places))]
        found["lens"] = rows, said
    if subject.answer == "next":
        steps = [asdict(each) for each in next_words.next_words(subject)]
        found["next"] = {"steps": steps}, f"the {next_words.TOP} likeliest pieces after each knob"
    methods = why.METHODS if explain == "whole" else why.affordable(subject) if explain else ()
    if explain and (made := _tried(lambda: why.why(subject, methods=methods))) is not None:
        values = {
            "methods": [{"name": each.name, "values": [round(v, 5) for v in each.values]} for each in made.methods],
            "target": made.target,
            "p": made.p,
            "faithful": made.said,
            "over": "tokens" if subject.inputs.source is None else "source_tokens",
        }
        said = f"gradients to 5 digits; the integral in {why.STEPS} steps"
        if len(methods) < len(why.METHODS):
            left = " and ".join(name for name in why.METHODS if name not in methods)
            said = f"to 5 digits; without {left}, which would take minutes here: --why makes all"
        found["why"] = values, said
    if meaning.draws(subject) and (moved := _tried(lambda: meaning.meaning(subject))) is not None:
        found["meaning"] = moved.values(), "the first two principal axes of all layers and texts together"
    return found


def _padded(layer: dict[str, Any], before: int) -> dict[str, Any]:
    """A list for every token; empty where nobody looked."""
    return {**layer, "top": [[] for _ in range(before)] + layer["top"]}


def _tried(make: Callable[[], Any]) -> Any:
    """A view, or None where the model or the text has none."""
    try:
        return make()
    except InputError:
        return None


def _tokens(subject: Subject, ids: Sequence[int]) -> list[dict[str, Any]]:
    return [{"id": number, "text": text} for number, text in zip(ids, subject.pieces(ids), strict=True)]


def halves(values: Tensor) -> dict[str, Any]:
    """A matrix as base64 of little-endian 16-bit floats; what is larger than they can hold becomes the largest."""
    data = values.float().clamp(-65504, 65504).half().cpu().numpy().astype("<f2").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode()}


def write(path: Path, found: dict[str, Any]) -> None:
    """One page that opens from disk; written whole or not at all."""
    try:
        template = filling.template()
    except FileNotFoundError:
        raise InputError("this copy of qkv has no page to fill. Build it with: make web, or use --json.") from None
    write_file(path, filling.fill(template, found))
