"""The worked example: the decks' steps for one head and one word, with the numbers of your model.

    q·k  →  · scale (1/√d)  →  mask  →  softmax  →  Σ weight · value        decks 000-004; deck 002, steps 1 to 4

`ladder` follows the decks step by step: nothing learned, the learned U, queries with keys and values, scaled, masked,
several heads. `slide` computes deck 002's own numbers: the true softmax of 92, 124, 22, 8 over 8 and what it prints.
`decks` does all of it for a subject, with its words, its first layer and its sizes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from qkv.blocks import masks
from qkv.blocks.attention import MultiHeadAttention, attend, learned_space, parameter_free, scores, weights
from qkv.errors import InputError
from qkv.inspection.attention_pass import AttentionValues
from qkv.inspection.subject import Stack, Subject, chosen, stacks
from qkv.inspection.trace import trace

SHOWN = 8  # dimensions of vectors that are shown
DIGITS = 4
SLIDE_DOTS = (92.0, 124.0, 22.0, 8.0)
SLIDE_WEIGHTS = (0.08, 0.91, 0.01, 0.0)
SLIDE_WORDS = ("The", "brown", "dog", "ran")


@dataclass(frozen=True)
class AttentionExample:
    """The values of one head for one query: a number, or a row, for each key."""

    token: int
    scale: float
    query: Float[Tensor, "K"]
    keys: Float[Tensor, "S K"]
    values: Float[Tensor, "S V"]
    dots: Float[Tensor, "S"]
    scaled: Float[Tensor, "S"]
    allowed: Bool[Tensor, "S"]
    weights: Float[Tensor, "S"]
    mixed: Float[Tensor, "V"]

    def document(self) -> dict[str, Any]:
        """For JSON: dots, scores and weights of all tokens, vectors' first numbers."""
        cut = {name: getattr(self, name)[..., :SHOWN] for name in ("query", "keys", "values", "mixed")}
        numbers = {**cut, "dots": self.dots, "scaled": self.scaled, "weights": self.weights}
        rounded = {name: _rounded(values.tolist()) for name, values in numbers.items()}
        return {"token": self.token, **rounded, "allowed": self.allowed.tolist()}


def attention_example(layer: AttentionValues, head: int, token: int) -> AttentionExample:
    """The values of one head, by its number in the layer, for one query; negative tokens count from the end."""
    if head not in layer.heads:
        held = ", ".join(map(str, layer.heads))
        raise InputError(f"head {head} of layer {layer.layer} was not traced; expected one of {held}.")
    place, (token,) = layer.heads.index(head), chosen([token], layer.queries.size(1), "token")
    query, keys, values = layer.queries[place, token], layer.keys[place], layer.values[place]
    dots = keys @ query
    scaled, allowed = dots * layer.scale, layer.allowed[token]
    shares = weights(scaled.unsqueeze(0), allowed)[0]
    return AttentionExample(token, layer.scale, query, keys, values, dots, scaled, allowed, shares, shares @ values)


@dataclass(frozen=True)
class LadderStep:
    """One step of the ladder: its name, formula and deck, and the weights and the output of each word."""

    name: str
    formula: str
    deck: str
    weights: Float[Tensor, "H T S"]
    result: Float[Tensor, "T _"]


def ladder(x: Float[Tensor, "T D"], u: Float[Tensor, "D K"], layer: AttentionValues) -> list[LadderStep]:
    """From attention without parameters to a layer's heads, on the same words; `u` is any matrix to learn."""
    causal = masks.causal(torch.arange(len(x)), len(x))
    space, (q, k, v) = x @ u, (layer.queries[:1], layer.keys[:1], layer.values[:1])

    def one_head(name: str, formula: str, deck: str, scale: float, mask: Tensor | None = None) -> LadderStep:
        shares = weights(scores(q, k, scale), mask)
        return LadderStep(name, formula, deck, shares, attend(q[0], k[0], v[0], mask, scale))

    heads = layer.mixed.transpose(0, 1).flatten(1)  # (H, T, K) -> (T, H K)
    return [
        LadderStep("nothing learned", "softmax(X Xᵀ) X", "000, 003, 004", _shares(x @ x.T), parameter_free(x)),
        LadderStep("a learned space", "softmax(X U Uᵀ Xᵀ) X U", "003", _shares(space @ space.T), learned_space(x, u)),
        one_head("queries, keys, values", "softmax(Q Kᵀ) V", "001, 003, 004", 1.0),
        one_head("scaled", "softmax(Q Kᵀ/√d) V", "000, 001, 002", layer.scale),
        one_head("masked", "softmax(Q Kᵀ/√d + mask) V", "000, 002, 004", layer.scale, causal),
        LadderStep("several heads", "concat(head₁ … headₕ)", "000-004", layer.weights, heads),
    ]


def _shares(raw: Float[Tensor, "T S"]) -> Float[Tensor, "1 T S"]:
    return weights(raw).unsqueeze(0)


@dataclass(frozen=True)
class Slide:
    """Deck 002, step 3, for its word "brown": the printed values, and the true softmax of its numbers."""

    words: tuple[str, ...]
    dots: tuple[float, ...]
    scaled: tuple[float, ...]
    true: tuple[float, ...]
    printed: tuple[float, ...]
    note: str


def slide(divisor: float = 8.0) -> Slide:
    """The deck divides by √64 = 8."""
    scaled = torch.tensor(SLIDE_DOTS, dtype=torch.float64) / divisor
    true = tuple(weights(scaled.unsqueeze(0))[0].tolist())
    note = (
        "the slide's weights are illustrative: the softmax of 92, 124, 22, 8 over 8 is "
        + ", ".join(f"{weight:.3f}" for weight in true)
        + "; the order is the same"
    )
    return Slide(SLIDE_WORDS, SLIDE_DOTS, tuple(scaled.tolist()), true, SLIDE_WEIGHTS, note)


@dataclass(frozen=True)
class Variant:
    """One of the decks' variants of the attention layer: its cost, and the ratio to that of the usual one."""

    name: str
    deck: str
    parameters: int
    flops: int
    more_parameters: int
    more_flops: int


def variants(width: int, heads: int, length: int, context: int) -> list[Variant]:
    """Head size d/h or d, with W_O or without, norm before or after, positions; biases are left out of all.

    FLOPs are of one layer's attention over `length` tokens: 2 for each product and sum (deck 002, O(n² d)).
    """

    def cost(head_width: int, output: bool) -> tuple[int, int]:
        inner = heads * head_width
        numbers = 3 * width * inner + (inner * width if output else 0)
        return numbers, 2 * length * numbers + 4 * length * length * inner

    usual = cost(width // heads, True)
    rows: list[tuple[str, str, tuple[int, int]]] = [
        ("heads of d/h, with W_O (usual)", "003", usual),
        ("heads of d/h, no W_O", "001", cost(width // heads, False)),
        ("heads of d, with W_O", "000", cost(width, True)),
        ("norm before the sublayer", "none: GPT-2", usual),
        ("norm after the sublayer", "001-004", usual),
        ("learned positions", "001, 004", (usual[0] + context * width, usual[1] + length * width)),
        ("sinusoidal positions", "002", (usual[0], usual[1] + length * width)),
        ("no positions", "002, 003", usual),
    ]
    return [Variant(name, deck, *cost, cost[0] - usual[0], cost[1] - usual[1]) for name, deck, cost in rows]


def _rounded(values: Any) -> Any:
    """A list of numbers, or of such lists, to a few digits."""
    return [_rounded(value) for value in values] if isinstance(values, list) else round(values, DIGITS)


@dataclass(frozen=True)
class Decks:
    """`tokens` are the words that attend to each other, `token` is the query."""

    slide: Slide
    tokens: tuple[str, ...]
    token: int
    ladder: tuple[LadderStep, ...]
    variants: tuple[Variant, ...]

    def shares(self, step: LadderStep) -> list[float]:
        """The weights of the query on each word; the mean over several heads."""
        return step.weights[:, self.token].mean(0).tolist()

    def document(self) -> dict[str, Any]:
        steps = [
            {"name": step.name, "formula": step.formula, "deck": step.deck, "weights": self.shares(step)}
            for step in self.ladder
        ]
        known = {"slide": asdict(self.slide), "tokens": list(self.tokens), "token": self.token, "ladder": steps}
        return {**known, "variants": [asdict(variant) for variant in self.variants]}


def decks(subject: Subject, token: int = -1) -> Decks:
    """For one query, by its number; U of deck 003 is the first head's query matrix."""
    stack = _self_attention(subject)
    module: Any = stack.layers[0]
    seen = trace(subject, layers=[0])
    layer, words = seen.layer(0, stack.name), seen.residual(stack.name)[0]
    (token,) = chosen([token], len(words), "token")
    u = module.query.weight.detach().float()[: layer.queries.size(-1)].T  # (H K, D) -> (D, K)
    sizes = variants(words.size(1), module.heads, len(words), subject.context(len(words)))
    tokens = tuple(subject.pieces(subject.inputs.read))
    return Decks(slide(), tokens, token, tuple(ladder(words, u, layer)), tuple(sizes))


def _self_attention(subject: Subject) -> Stack:
    """The attention of a text to itself; of a translator, of its source."""
    by_name = stacks(subject.model)
    stack = by_name.get("self") or by_name.get("encoder")
    if stack is None or not isinstance(stack.layers[0], MultiHeadAttention):
        raise InputError(
            "this model has no self-attention. The decks' ladder needs one with self-attention: gpt, modern, "
            "bert, encoder, transformer."
        )
    return stack
