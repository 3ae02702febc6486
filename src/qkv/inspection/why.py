"""Why this answer: a prediction attributed to the words of the text, three ways, and a check that they are faithful.

    gradient x input        Σ_d ∂log p/∂x_d · x_d                                Denil et al. 2014
    integrated gradients    Σ_d (x_d - b_d) · ∫₀¹ ∂log p/∂x_d (b + α(x - b)) dα    Sundararajan et al. 2017
    occlusion               log p(text) - log p(text without the word)          Zeiler and Fergus 2014

x is the embedding of a piece, b that of a blank: padding, [MASK] or the separator. Zeros would be no text at all, and
where a norm follows at once, the way from them is a jump. A word has the sum of its pieces. Faithful: without its first
fifth of words, p falls more than without as many words drawn at random (DeYoung et al. 2020, comprehensiveness).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.spelling import SpelledEmbedding
from qkv.errors import InputError
from qkv.inspection import notebook
from qkv.inspection.subject import Subject, forward, hooked, stacks
from qkv.models.language_model import count
from qkv.text.words import words_of

METHODS = ("occlusion", "integrated", "gradient")  # the most faithful first (docs/measurements.md)
EMBEDDINGS = (nn.Embedding, SpelledEmbedding)  # those that give each piece one vector
STEPS = 16  # of the integral, midpoints
WORK = 1.5e12  # multiplications and additions that a page may spend on it: half a minute or so
SHARE = 0.2  # of the words that are left out to see whether an attribution is faithful
DRAWS = 20
SEED = 7


@dataclass(frozen=True)
class Method:
    name: str
    values: list[float]  # one for each piece that is read
    drop: float  # how far p falls without the first fifth of the words
    at_random: float  # and without as many drawn ones, on average

    @property
    def faithful(self) -> bool:
        return self.drop > self.at_random


@dataclass(frozen=True)
class Why:
    """Which answer, how likely, and what each piece did for it (above 0) or against it."""

    target: str
    p: float
    methods: list[Method]
    places: list[int]  # of each piece the number of its word, or -1
    words: list[str]

    def of_words(self, method: Method) -> list[float]:
        """One value a word: the sum of its pieces'."""
        found = [0.0] * len(self.words)
        for value, place in zip(method.values, self.places, strict=True):
            if place >= 0:
                found[place] += value
        return found

    def _repr_html_(self) -> str:
        """For notebooks: the words on grounds, by the method that is most faithful here."""
        found = notebook.table([(self.target, f"{self.p:.3f}", self.said)], ("answer", "p", "check"))
        return found + "".join(
            notebook.table([(each.name,)]) + notebook.words(self.words, self.of_words(each))
            for each in self.methods[:1]
        )

    @property
    def said(self) -> str:
        """What the check found, in a sentence."""
        number = left_out(len(self.words))
        parts = [f"{each.name} {each.drop:+.3f}" for each in self.methods]
        drawn = self.methods[0].at_random if self.methods else 0.0
        right = sum(each.faithful for each in self.methods)
        ways = "the method is" if len(self.methods) == right == 1 else f"{right} of {len(self.methods)} methods are"
        return (
            f"without the {number} of {len(self.words)} words that count most p falls by: {', '.join(parts)}; without "
            f"{number} drawn at random by {drawn:+.3f} (mean of {DRAWS}): {ways} faithful here"
        )


def why(subject: Subject, target: int | None = None, *, methods: Sequence[str] = METHODS) -> Why:
    """The attribution of an answer; None: of the likeliest one."""
    with torch.no_grad():
        logits = answer(subject, forward(subject.model, subject.inputs))
    chosen = int(logits.argmax()) if target is None else target
    if not 0 <= chosen < len(logits):
        raise InputError(f"answer {chosen}: this model has {len(logits)}; expected 0 to {len(logits) - 1}.")
    p = float(logits.float().softmax(-1)[chosen])
    cut = words_of(subject.tokenizer, list(subject.inputs.read))
    known = {"gradient": ("gradient x input", gradient), "integrated": ("integrated gradients", integrated)}
    drawn = at_random(subject, chosen, p, cut.places, len(cut.words))
    found = []
    for name in methods:
        if name == "occlusion":
            title, values = "occlusion", occlusion(subject, chosen, cut.places)
        else:
            if not isinstance(table(subject), EMBEDDINGS):
                continue  # what has no embedding has no gradient to it
            title, of = known[name]
            values = of(subject, chosen)
        drop = p - without(subject, chosen, cut.places, first(values, cut.places, len(cut.words)))
        found.append(Method(title, values, drop, drawn))
    found.sort(key=lambda each: -each.drop)  # what is most faithful on this text comes first
    return Why(name_of(subject, chosen), p, found, cut.places, cut.words)


def affordable(subject: Subject, most: float = WORK) -> tuple[str, ...]:
    """The methods that a page has time for: occlusion takes a pass a word, the integral three a step."""
    read = subject.inputs.read
    words = len(words_of(subject.tokenizer, list(read)).words)
    passes = {"gradient": 4, "integrated": 3 * (STEPS + 2) + 1, "occlusion": words + 1}
    looked = sum(2 * len(tower.layers) * len(read) * tower.heads * 64 for tower in stacks(subject.model).values())
    left = most / (2.0 * max(1, len(read)) * (count(subject.model) + looked)) - DRAWS
    found = []
    for name in METHODS if isinstance(table(subject), EMBEDDINGS) else METHODS[:1]:
        if passes[name] <= left:
            left -= passes[name]
            found.append(name)
    return tuple(found) or METHODS[-1 if isinstance(table(subject), EMBEDDINGS) else 0 :][:1]


def answer(subject: Subject, output: Float[Tensor, "1 ..."]) -> Float[Tensor, "V"]:
    """The scores that are asked about: of labels, of the next piece, or of the piece under the first mask."""
    match subject.answer:
        case "label":
            return output[0]
        case "next":
            return output[0, -1]
        case "mask":
            mask = subject.tokenizer.mask
            if mask not in subject.inputs.tokens:
                raise InputError("the text has no [MASK]: write one where a piece is to be explained.")
            return output[0, subject.inputs.tokens.index(mask)]
    raise InputError(f"a {subject.kind} model decides nothing about a whole text: there is no answer to explain.")


def name_of(subject: Subject, target: int) -> str:
    return subject.labels[target] if subject.answer == "label" else subject.pieces([target])[0]


def table(subject: Subject) -> nn.Module | None:
    """The embedding of what is read."""
    found = getattr(subject.inside, "embedding", None)
    return found[0] if isinstance(found, nn.ModuleList) else found


def blank(subject: Subject) -> int:
    """The piece that says nothing."""
    own = subject.tokenizer
    return next(each for each in (own.padding, own.mask, own.separator) if each is not None)


@contextmanager
def replaced(subject: Subject, share: float) -> Iterator[list[Tensor]]:
    """Within it, embeddings of what is read are on the way from blanks (0) to themselves (1); each is kept."""
    part, seen = table(subject), list[Tensor]()
    assert isinstance(part, EMBEDDINGS)
    base = part(torch.tensor([[blank(subject)]], device=next(part.parameters()).device))[0, 0].detach()

    def hook(module: nn.Module, given: Any, made: Tensor) -> Tensor | None:
        if seen:  # a translator embeds its source first; what it has written stays as it is
            return None
        seen.append(torch.lerp(base.expand_as(made), made.detach(), share).requires_grad_())
        return seen[0]

    with hooked([part.register_forward_hook(hook)]):
        yield seen


def slope(subject: Subject, target: int, share: float) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
    """Embeddings so far on their way, and the gradient of log p there."""
    with torch.enable_grad(), replaced(subject, share) as seen:
        output = answer(subject, forward(subject.model, subject.inputs))
        (found,) = torch.autograd.grad(output.float().log_softmax(-1)[target], seen[0])
    return seen[0].detach()[0], found[0]


def gradient(subject: Subject, target: int) -> list[float]:
    x, found = slope(subject, target, 1.0)
    return [float(each) for each in (x * found).sum(-1)]


def integrated(subject: Subject, target: int, steps: int = STEPS) -> list[float]:
    """From blanks to the text; the values sum to log p of the text less log p of blanks, within the steps."""
    (x, _), (base, _) = slope(subject, target, 1.0), slope(subject, target, 0.0)
    total = sum((slope(subject, target, (step + 0.5) / steps)[1] / steps for step in range(steps)), torch.zeros(()))
    return [float(each) for each in ((x - base) * total).sum(-1)]


def occlusion(subject: Subject, target: int, places: Sequence[int]) -> list[float]:
    """What is lost without each word; its first piece has the value, the others none."""
    whole = _log(subject, target, ())
    found = [0.0] * len(places)
    for word in range(max(places, default=-1) + 1):
        own = [place for place, number in enumerate(places) if number == word]
        if own:
            found[own[0]] = whole - _log(subject, target, own)
    return found


@torch.no_grad()
def _log(subject: Subject, target: int, left: Sequence[int]) -> float:
    inputs = subject.inputs.without(left)
    if not inputs.read:
        return float("-inf")
    rest = subject.reading(inputs)
    if subject.answer == "mask" and subject.tokenizer.mask not in inputs.tokens:
        return float("-inf")
    return float(answer(rest, forward(rest.model, inputs)).float().log_softmax(-1)[target])


def without(subject: Subject, target: int, places: Sequence[int], words: Sequence[int]) -> float:
    """The probability of the answer where these words are left out; where nothing would be left, 0."""
    gone = set(words)
    return float(np.exp(_log(subject, target, [at for at, word in enumerate(places) if word in gone])))


def left_out(words: int) -> int:
    """A fifth of the words, one at least."""
    return max(1, round(SHARE * words))


def first(values: Sequence[float], places: Sequence[int], words: int) -> list[int]:
    """The words that did the most for the answer."""
    sums = np.zeros(words)
    for value, place in zip(values, places, strict=True):
        if place >= 0:
            sums[place] += value
    found: list[int] = np.argsort(-sums, kind="stable")[: left_out(words)].tolist()
    return found


def at_random(subject: Subject, target: int, p: float, places: Sequence[int], words: int) -> float:
    """How far p falls, on average, without as many words drawn at random."""
    drawn, number = np.random.default_rng(SEED), left_out(words)
    if not words:
        return 0.0
    kinds = {tuple(sorted(drawn.choice(words, min(number, words), replace=False).tolist())) for _ in range(DRAWS)}
    return float(np.mean([p - without(subject, target, places, kind) for kind in sorted(kinds)]))
