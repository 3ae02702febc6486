"""The document behind a page: every view of a model on a text as plain JSON, "qkv-inspect/1".

`document` returns it, and states how exact each view is. Layers and heads count from 1; layer 0 is the input of the
first block. `write` puts it into the page.

The template (`page.html`, built from `web/`) has one script, one style and two placeholders. The data become a script
element of type application/json, which no browser runs; `<`, `>` and `&` are escaped, so that no text ends the element.
The policy allows only the script and the style, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

from torch import Tensor

from qkv.blocks.block import PostNorm, PreNorm
from qkv.errors import InputError
from qkv.inspection import anatomy, attribution, logit_lens, maps, word_in_contexts
from qkv.inspection.head_roles import Head
from qkv.inspection.subject import Subject, stacks
from qkv.inspection.trace import trace
from qkv.inspection.worked_example import attention_example
from qkv.models.language_model import count
from qkv.storage import write_file
from qkv.text.decoding import words_of

WORKED = 16  # queries of the worked example, the last ones
Explain = Literal["", "quick", "whole"]
ROWS = 1024  # and the keys of all of them together
LENS_TOKENS = 64  # positions of the lens, the last ones
EXPLAIN = {
    "tokens": "Text becomes tokens with numbers: deck 003, Tokenization; deck 001, Byte Pair Encoding; deck 002, "
    "WordPiece.",
    "embeddings": "Each token is a row of a table: deck 001, (7) Word Vector Layer, nn.Embedding().",
    "positions": "Order enters here; without it attention sees a bag of words: deck 002, Position Encodings.",
    "block": "Attention, then a network for each word alone: deck 001, Transformer internals; deck 004, pseudo code.",
    "attention": "Which word attends to which, head by head: deck 001, What do attention heads learn?",
    "worked": "q·k, over √d, softmax, weighted values: deck 002, Steps 1 to 4.",
    "residual": "What each block adds to the stream: deck 000, skip connections; deck 004, Residual Connection.",
    "heads": "Previous word, next word, antecedent: deck 001, What do attention heads learn?",
    "lens": "The prediction after each layer: deck 002, Later layers have the best contextualized embeddings.",
    "next": "The next word as a choice among all words (deck 004, Multi-class classification), after each setting.",
    "why": "Which words made this answer: for deck 001, Announcements, Analyze errors.",
    "meaning": "One word moves with its context: deck 000, bank; deck 004, Context matters.",
    "anatomy": "Every part with its shapes and cost: deck 002, Figure 1 and Complexity per Layer.",
}
TRANSLATING = {"attention": "Words of the target attend to words of the source: deck 002, Transformer Decoder, NOTE."}
RECURRENT = {
    "attention": "Each word of the translation attends to the words of the source: deck 001, (8) Attention Layer.",
    "worked": "h·x, softmax, weighted sum: deck 001, (8) Attention Layer; deck 002, Attention in seq2seq models.",
}


def document(
    subject: Subject, *, heads: Sequence[Head] = (), head: tuple[int, int] | None = None, explain: Explain = "quick"
) -> dict[str, Any]:
    """All views that this model has. `heads`: the finder's table; `head`: layer and head of the worked example;
    `explain`: whether to attribute the answer: not at all, by the fast methods, or by every method."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "model": model_summary(subject),
        "text": subject.text,
        "answer": subject.answer,
        "focus": focus(subject),
        "views": [],
        "tokens": _tokens(subject, subject.inputs.tokens),
        "exact": {},
        "anatomy": [part.values() for part in anatomy.anatomy(subject)],
    }
    if subject.inputs.source is not None:
        content["source_tokens"] = _tokens(subject, subject.inputs.source)
    exact: dict[str, str] = content["exact"]
    exact["anatomy"] = "counted in a forward pass of this text"
    _values(subject, content, exact, head)
    if heads:
        content["heads"] = [head.values() for head in heads]
        exact["heads"] = "means over the texts that were read, with 95 % bootstrap intervals"
    for name, view in _answers(subject, explain).items():
        content[name], exact[name] = view
    content["views"] = [name for name in EXPLAIN if content.get(name)]
    lines = EXPLAIN
    if subject.inputs.source is not None:
        lines = EXPLAIN | (TRANSLATING if len(stacks(subject.model)) > 1 else RECURRENT)
    content["explain"] = {name: lines[name] for name in content["views"]}
    return content


def focus(subject: Subject) -> int:
    """The token to show first: the one that the answer is about, or the last that is part of a word."""
    tokens = subject.inputs.tokens
    if subject.answer == "mask" and subject.tokenizer.mask in tokens:
        return tokens.index(subject.tokenizer.mask)
    if subject.answer == "next":
        return len(tokens) - 1
    cut = words_of(subject.tokenizer, list(tokens))
    whole = [at for at, word in enumerate(cut.places) if word >= 0 and cut.words[word].isalnum()]
    return whole[-1] if whole else len(tokens) - 1


class ModelSummary(TypedDict):
    """The model of a page: its name, kind and sizes."""

    name: str
    kind: str
    layers: int
    heads: int
    width: int
    parameters: int
    vocabulary: int
    context: int


def model_summary(subject: Subject) -> ModelSummary:
    all_stacks, inside = list(stacks(subject.model).values()), subject.inside
    return {
        "name": subject.name,
        "kind": subject.kind,
        "layers": max((len(stack.layers) for stack in all_stacks), default=0),
        "heads": max((stack.heads for stack in all_stacks), default=0),
        "width": int(getattr(inside, "width", 0) or getattr(getattr(inside, "embedding", None), "embedding_dim", 0)),
        "parameters": count(subject.model),
        "vocabulary": subject.tokenizer.vocabulary,
        "context": subject.context(0),
    }


def _values(subject: Subject, content: dict[str, object], exact: dict[str, str], head: tuple[int, int] | None) -> None:
    """The values of a trace: embeddings, positions, the residual stream, attention and the worked example."""
    by_name = stacks(subject.model)
    seen = trace(subject, layers=[])
    for name, values in (("embeddings", seen.embeddings), ("positions", seen.positions)):
        if values is not None:
            content[name] = halves(values)
            exact[name] = "every number, rounded to 16 bits"
    streams = seen.residual("decoder" if "decoder" in by_name else "self")
    if len(streams) > 1:  # a recurrence has none
        content["residual"] = {"norms": [[round(norm, 4) for norm in x.norm(dim=-1).tolist()] for x in streams]}
        exact["residual"] = "the length of every vector, to 4 digits"
    if not by_name:
        return
    if norms := [type(part) for part in subject.model.modules() if isinstance(part, PreNorm | PostNorm)]:
        content["block"] = {"norm": "before" if norms[0] is PreNorm else "after", "cross": "cross" in by_name}
        exact["block"] = "as it is built"
    packed = maps.pack_maps(subject)
    content["attention"] = [stack.document() for stack in packed]
    exact["attention"] = "; ".join(f"{stack.name}: {stack.exact}" for stack in packed)
    name = "self" if "self" in by_name else "cross"
    layer, number = head or next(stack.sharpest for stack in packed if stack.name == name)
    one = trace(subject, layers=[layer], heads=[number], max_bytes=2**33).layer(layer % len(by_name[name].layers), name)  # type: ignore[index, arg-type]
    length = one.queries.size(1)
    queries = max(1, min(length, WORKED, ROWS // one.keys.size(1)))
    items = [attention_example(one, one.heads[0], token) for token in range(length - queries, length)]
    content["worked"] = {
        "stack": one.stack,
        "layer": one.layer + 1,
        "head": one.heads[0] + 1,
        "size": one.queries.size(-1),
        "items": [item.document() for item in items],
    }
    shown = f"the first 8 numbers of vectors; the last {len(items)} of {length} tokens"
    exact["worked"] = f"to 4 digits; {shown}; dot products are whole"


def _answers(subject: Subject, explain: Explain) -> dict[str, tuple[object, str]]:
    """Lens, next words, attribution and word meanings, as far as this model has them."""
    views: dict[str, tuple[object, str]] = {}
    length = len(subject.inputs.tokens)
    if logit_lens.reads(subject):
        places = range(max(0, length - LENS_TOKENS), length)
        shown = f"the {logit_lens.TOP} likeliest tokens at the last {len(places)} of {length} tokens"
        rows = [_padded(asdict(layer), places.start) for layer in logit_lens.lens(subject, positions=list(places))]
        views["lens"] = rows, f"{shown}; the last layer is exact"
    if subject.answer == "next":
        steps = [asdict(step) for step in logit_lens.next_words(subject)]
        views["next"] = {"steps": steps}, f"the {logit_lens.NEXT_WORDS} likeliest tokens after each sampling setting"
    effort = attribution.Effort() if explain == "whole" else attribution.affordable(subject) if explain else None
    if effort is not None and (attributions := _tried(lambda: attribution.why(subject, effort=effort))) is not None:
        values = {
            "methods": [{"name": m.name, "values": [round(v, 5) for v in m.values]} for m in attributions.methods],
            "target": attributions.target,
            "p": attributions.p,
            "faithful": attributions.verdict,
            "over": "tokens" if subject.inputs.source is None else "source_tokens",
            "places": attributions.places,
            "words": attributions.words,
        }
        more = "" if effort == attribution.Effort() else "; --why takes the time for all of it"
        views["why"] = values, attributions.how + more
    if (
        word_in_contexts.has_word_vectors(subject)
        and (moved := _tried(lambda: word_in_contexts.meaning(subject))) is not None
    ):
        how = "the first two principal axes of all layers together, each layer's mean taken off"
        views["meaning"] = moved.values(), how
    return views


def _padded(layer: dict[str, Any], before: int) -> dict[str, Any]:
    """A list for every token; empty for tokens that were left out."""
    return {**layer, "top": [[] for _ in range(before)] + layer["top"]}


def _tried(make: Callable[[], View]) -> View | None:
    """A view, or None where the model or the text has none."""
    try:
        return make()
    except InputError:
        return None


def _tokens(subject: Subject, ids: Sequence[int]) -> list[dict[str, object]]:
    return [{"id": number, "text": text} for number, text in zip(ids, subject.pieces(ids), strict=True)]


def halves(values: Tensor) -> dict[str, object]:
    """A matrix as base64 of little-endian 16-bit floats; larger values become the largest."""
    data = values.float().clamp(-65504, 65504).half().cpu().numpy().astype("<f2").tobytes()
    return {"shape": list(values.shape), "data": base64.b64encode(data).decode()}


def write(path: Path, content: Mapping[str, object]) -> None:
    """One page that opens from disk; written whole or not at all."""
    try:
        page = template()
    except FileNotFoundError:
        raise InputError("this copy of qkv has no page to fill. Build it with: make web, or use --json.") from None
    write_file(path, fill(page, content))


View = TypeVar("View")
FORMAT = "qkv-inspect/1"
POLICY_MARK = "<!--qkv:policy-->"
DATA_MARK = "<!--qkv:data-->"
# what could end the element, what JavaScript once took for ends of lines, and halves of characters that UTF-8 has not
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def template() -> str:
    """The page without data, as the package contains it."""
    return resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")


def fill(template: str, document: Mapping[str, object]) -> str:
    """The page with `document` (format qkv-inspect/1) in it; numbers that are not finite become null."""
    format_ = document.get("format")
    if format_ != FORMAT:
        raise ValueError(f"The page draws {FORMAT}, not {format_!r}.")
    start, policy, rest = template.partition(POLICY_MARK)
    middle, data, end = rest.partition(DATA_MARK)
    if not (policy and data):
        raise ValueError(f"The template lacks {DATA_MARK if policy else POLICY_MARK}: build it again with `make web`.")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{content_security_policy(template)}">'
    element = f'<script type="application/json" id="qkv-data">{script_json(document)}</script>'
    return f"{start}{meta}{middle}{element}{end}"


def content_security_policy(template: str) -> str:
    """Only the script and the style of `template` may be loaded or run, by their hashes."""
    scripts, styles = (_hashes(template, element) for element in ("script", "style"))
    return (
        f"default-src 'none'; script-src {scripts}; style-src {styles}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def script_json(value: object) -> str:
    """JSON that is safe in a script element, whatever its texts are."""
    text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _finite(value: object) -> object:
    """`value` with None for infinity and nan, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _hashes(template: str, element: str) -> str:
    texts = re.findall(rf"<{element}\b[^>]*>(.*?)</{element}>", template, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
