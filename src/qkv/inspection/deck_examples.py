"""The decks' own sums beside a model's: deck 002's slide, the way from nothing learned to several heads, the variants.

`worked_example.py` has the sums; here they are put before a subject, with its words, its first layer and its sizes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qkv.blocks.attention import MultiHeadAttention
from qkv.errors import InputError
from qkv.inspection.subject import Stack, Subject, chosen, stacks
from qkv.inspection.trace import trace
from qkv.inspection.worked_example import Slide, Step, Variant, ladder, slide, variants


@dataclass(frozen=True)
class Decks:
    """`pieces` are the words that look at each other, `token` the one that asks."""

    slide: Slide
    pieces: tuple[str, ...]
    token: int
    ladder: tuple[Step, ...]
    variants: tuple[Variant, ...]

    def shares(self, step: Step) -> list[float]:
        """What the asking word gives to each word; of several heads, their mean."""
        found: list[float] = step.weights[:, self.token].mean(0).tolist()
        return found

    def document(self) -> dict[str, Any]:
        steps = [
            {"name": each.name, "formula": each.formula, "deck": each.deck, "weights": self.shares(each)}
            for each in self.ladder
        ]
        return {
            "slide": asdict(self.slide),
            "pieces": list(self.pieces),
            "token": self.token,
            "ladder": steps,
            "variants": [asdict(each) for each in self.variants],
        }


def decks(subject: Subject, token: int = -1) -> Decks:
    """For one asking token, by its number; U of deck 003 is the first head's matrix of queries."""
    tower = _tower(subject)
    module: Any = tower.layers[0]
    seen = trace(subject, layers=[0])
    layer, words = seen.layer(0, tower.name), seen.residual(tower.name)[0]
    (token,) = chosen([token], len(words), "token")
    u = module.query.weight.detach().float()[: layer.queries.size(-1)].T  # (H K, D) -> (D, K)
    sizes = variants(words.size(1), module.heads, len(words), int(getattr(subject.inside, "context", len(words))))
    return Decks(
        slide(), tuple(subject.pieces(subject.inputs.read)), token, tuple(ladder(words, u, layer)), tuple(sizes)
    )


def _tower(subject: Subject) -> Stack:
    """The attention of a text to itself; of a translator, of its source."""
    found = stacks(subject.model)
    tower = found.get("self") or found.get("encoder")
    if tower is None or not isinstance(tower.layers[0], MultiHeadAttention):
        raise InputError(
            "in this model no text looks at itself. The decks' ladder needs one with self-attention: gpt, modern, "
            "bert, encoder, transformer."
        )
    return tower
