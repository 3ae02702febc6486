"""Attribution: how much each word contributed to a prediction, by three methods, with a check of their faithfulness.

    gradient x input        Σ_d ∂log p/∂x_d · x_d                                Denil et al. 2014
    integrated gradients    Σ_d (x_d - b_d) · ∫₀¹ ∂log p/∂x_d (b + α(x - b)) dα    Sundararajan et al. 2017
    occlusion               log p(text) - log p(text without the word)          Zeiler and Fergus 2014

x is the embedding of a token, b the baseline: the embedding of padding, [MASK] or the separator. A baseline of zeros is
no text that the model knows, and where a norm follows, the path from zero has a jump. The value of a word is the sum of
its tokens'. Faithful: without the fifth of the words with the largest values, p falls more than without as many random
words (DeYoung et al. 2020, comprehensiveness). Long texts get fewer steps, and occlusion leaves out groups of words:
`affordable` decides how many, `Why.how` reports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.embeddings import SpelledEmbedding
from qkv.blocks.tap import hooked
from qkv.errors import InputError
from qkv.inspection import notebook
from qkv.inspection.answer_scores import answers, batched, blank, logs, name_of
from qkv.inspection.subject import Inputs, Subject, stacks
from qkv.models.language_model import count
from qkv.text.decoding import words_of
from qkv.visible import html_table

METHODS = ("occlusion", "integrated", "gradient")  # the most faithful first (docs/measurements.md)
EMBEDDINGS = (nn.Embedding, SpelledEmbedding)  # those that give each token one vector
STEPS = 16  # of the integral, midpoints
WORK = 1.5e12  # multiplications and additions that a page may spend on it: a quarter of a minute of one core
NEAR = 0.2  # largest relative error of the integral; beyond it the integral has not converged
SHARE = 0.2  # of the words, left out to test whether an attribution is faithful
DRAWS = 20
SEED = 7


@dataclass(frozen=True)
class Effort:
    """How much to compute: methods, steps of the integral, groups that occlusion leaves out (None: each word), random
    draws."""

    methods: tuple[str, ...] = METHODS
    steps: int = STEPS
    groups: int | None = None
    draws: int = DRAWS

    def passes(self, words: int) -> int:
        """Passes over the text; a gradient costs as much as two."""
        passes = {"gradient": 2, "integrated": 2 * self.steps + 1, "occlusion": min(words, self.groups or words)}
        return 1 + self.draws + sum(passes[name] + 1 for name in self.methods)


LEAST = Effort(("occlusion", "integrated"), steps=4, groups=12, draws=4)


@dataclass(frozen=True)
class Method:
    name: str
    values: list[float]  # one for each token that is read
    drop: float  # how far p falls without the fifth of the words with the largest values
    at_random: float  # and without as many random words, on average

    @property
    def faithful(self) -> bool:
        return self.drop > self.at_random


@dataclass(frozen=True)
class Why:
    """The answer, its probability, and the contribution of each token: above 0 for it, below 0 against it."""

    target: str
    p: float
    methods: list[Method]
    places: list[int]  # the number of the word of each token, or -1
    words: list[str]
    effort: Effort = Effort()
    reached: float = 1.0  # the sum of the integral, as a fraction of log p of the text minus log p of the baseline

    def of_words(self, method: Method) -> list[float]:
        """One value for each word: the sum of its tokens'."""
        return summed(method.values, self.places, len(self.words))

    def _repr_html_(self) -> str:
        """For notebooks: the words, coloured by the method that is most faithful here."""
        check = html_table([(self.target, f"{self.p:.3f}", self.verdict)], ("answer", "p", "check"))
        return check + "".join(
            html_table([(method.name,)]) + notebook.words(self.words, self.of_words(method))
            for method in self.methods[:1]
        )

    @property
    def verdict(self) -> str:
        """The result of the check, in a sentence."""
        number = left_out(len(self.words))
        if len(self.words) < 2:
            return "one word: without another to leave out, nothing can say whether a method is faithful"
        parts = [f"{method.name} {method.drop:+.3f}" for method in self.methods]
        drawn = self.methods[0].at_random if self.methods else 0.0
        right = sum(method.faithful for method in self.methods)
        ways = "the method is" if len(self.methods) == right == 1 else f"{right} of {len(self.methods)} methods are"
        return (
            f"without the {number} of {len(self.words)} words that count most p falls by: {', '.join(parts)}; without "
            f"{number} drawn at random by {drawn:+.3f} (mean of {self.effort.draws}): {ways} faithful here"
        )

    @property
    def how(self) -> str:
        """How exact each method is here."""
        groups, parts = min(len(self.words), self.effort.groups or len(self.words)), list[str]()
        names = [method.name for method in self.methods]
        if "occlusion" in names and groups < len(self.words):
            group_words = f"{len(self.words) / groups:.1f}".removesuffix(".0")
            parts.append(
                f"occlusion leaves out {groups} groups of {group_words} words, which share what is lost without them"
            )
        elif "occlusion" in names:
            parts.append("occlusion leaves out each word")
        if "integrated gradients" in names:
            reached = f"; its values sum to {self.reached:.0%} of what they explain"
            reached += ": it has not converged, trust occlusion" if abs(self.reached - 1) > NEAR else ""
            parts.append(f"the integral in {self.effort.steps} steps{reached}")
        return "to 5 digits; " + "; ".join(parts)


def why(subject: Subject, target: int | None = None, *, effort: Effort | None = None) -> Why:
    """The attribution of an answer, by default of the likeliest one, by every method, word by word."""
    spent = effort or Effort()
    with torch.no_grad():
        scores = answers(subject, [subject.inputs])[0].float()
    chosen = int(scores.argmax()) if target is None else target
    if not 0 <= chosen < len(scores):
        raise InputError(f"answer {chosen}: this model has {len(scores)}; expected 0 to {len(scores) - 1}.")
    p = float(scores.softmax(-1)[chosen])
    cut = words_of(subject.tokenizer, list(subject.inputs.read))
    if not cut.words:
        raise InputError(f"{subject.text!r:.40}: the text has no word that the answer could come from. Give it some.")
    attributions, reached = list[tuple[str, list[float]]](), 1.0
    for name in spent.methods:
        if name == "occlusion":
            attributions.append((name, occlusion(subject, chosen, cut.places, spent.groups)))
        elif not isinstance(table(subject), EMBEDDINGS):
            continue  # without an embedding there is no gradient
        elif name == "gradient":
            attributions.append(("gradient x input", gradient(subject, chosen)))
        else:
            attributions.append(("integrated gradients", integrated_gradients(subject, chosen, spent.steps)))
            expected = float(scores.log_softmax(-1)[chosen]) - blanks(subject, chosen)
            reached = sum(attributions[-1][1]) / expected if expected else 1.0
    gone = [first(values, cut.places, len(cut.words)) for _, values in attributions]
    left = without(subject, chosen, cut.places, gone)
    drawn = at_random(subject, chosen, p, cut.places, len(cut.words), spent.draws)
    methods = [Method(name, values, p - rest, drawn) for (name, values), rest in zip(attributions, left, strict=True)]
    methods.sort(key=lambda method: -method.drop)  # what is most faithful on this text comes first
    return Why(name_of(subject, chosen), p, methods, cut.places, cut.words, spent, reached)


def affordable(subject: Subject, max_work: float = WORK) -> Effort:
    """The effort that a page has time for. Never gradient x input alone: it is the least faithful."""
    read = subject.inputs.read
    words = len(words_of(subject.tokenizer, list(read)).words)
    attention = sum(2 * len(stack.layers) * len(read) * stack.heads * 64 for stack in stacks(subject.model).values())
    passes = int(max_work / (2.0 * max(1, len(read)) * (count(subject.model) + attention)))
    if passes >= Effort().passes(words):
        return Effort()
    least = Effort(METHODS, LEAST.steps, LEAST.groups, LEAST.draws)
    if (left := passes - least.passes(words)) <= 0:
        return LEAST
    steps, draws = min(STEPS, LEAST.steps + left // 6), min(DRAWS, LEAST.draws + left // 10)
    groups = (LEAST.groups or 0) + left - 2 * (steps - LEAST.steps) - (draws - LEAST.draws)
    return Effort(METHODS, steps, groups if groups < words else None, draws)


def table(subject: Subject) -> nn.Module | None:
    """The embedding of the input."""
    embedding = getattr(subject.inside, "embedding", None)
    return embedding[0] if isinstance(embedding, nn.ModuleList) else embedding


@contextmanager
def replace_embeddings(subject: Subject, shares: Sequence[float]) -> Iterator[list[Tensor]]:
    """Within it, the embeddings of the input are interpolated between the baseline (0) and themselves (1), each row of
    a batch by its fraction in `shares`; gives a list of them."""
    part, seen = table(subject), list[Tensor]()
    assert isinstance(part, EMBEDDINGS)
    device = next(part.parameters()).device
    base = part(torch.tensor([[blank(subject)]], device=device))[0, 0].detach()
    far = torch.tensor(shares, device=device, dtype=base.dtype)[:, None, None]

    def hook(module: nn.Module, given: Any, output: Tensor) -> Tensor | None:
        if seen:  # a translator embeds its source first; the target stays as it is
            return None
        seen.append(torch.lerp(base.expand_as(output), output.detach(), far).requires_grad_())
        return seen[0]

    with hooked([part.register_forward_hook(hook)]):
        yield seen


def slopes(
    subject: Subject, target: int, shares: Sequence[float]
) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T D"]]:
    """The embeddings interpolated by each share, and the gradient of log p there."""
    with torch.enable_grad(), replace_embeddings(subject, shares) as seen:
        output = answers(subject, [subject.inputs] * len(shares))
        (slope,) = torch.autograd.grad(output.float().log_softmax(-1)[:, target].sum(), seen[0])
    return seen[0].detach(), slope


def gradient(subject: Subject, target: int) -> list[float]:
    x, slope = slopes(subject, target, [1.0])
    return [float(value) for value in (x * slope)[0].sum(-1)]


def integrated_gradients(subject: Subject, target: int, steps: int = STEPS) -> list[float]:
    """From the baseline to the text; the values sum to log p of the text minus log p of the baseline, up to the step
    size."""
    total = torch.zeros(())
    for some in batched([(step + 0.5) / steps for step in range(steps)], len(subject.inputs.read)):
        total = total + slopes(subject, target, some)[1].sum(0) / steps
    return [float(value) for value in (way(subject) * total).sum(-1)]


@torch.no_grad()
def way(subject: Subject) -> Float[Tensor, "T D"]:
    """The embedding of each token minus that of the baseline."""
    part = table(subject)
    assert isinstance(part, EMBEDDINGS)
    ids = torch.tensor([[*subject.inputs.read, blank(subject)]], device=next(part.parameters()).device)
    rows = part(ids)[0]
    return rows[:-1] - rows[-1]


@torch.no_grad()
def blanks(subject: Subject, target: int) -> float:
    """log p of the answer where every token is the baseline."""
    with replace_embeddings(subject, [0.0]):
        return float(answers(subject, [subject.inputs])[0].float().log_softmax(-1)[target])


def occlusion(subject: Subject, target: int, places: Sequence[int], groups: int | None = None) -> list[float]:
    """The loss of log p without each word, or without each of `groups` groups of neighbours; it is divided among the
    words of a group and the tokens of a word."""
    words = max(places, default=-1) + 1
    parts = [part.tolist() for part in np.array_split(np.arange(words), min(words, groups or words) or 1) if len(part)]
    whole, *rest = logs(subject, target, [subject.inputs, *_left(subject, places, parts)])
    tokens = Counter(places)
    lost = {word: (whole - value) / len(part) for part, value in zip(parts, rest, strict=True) for word in part}
    return [lost[word] / tokens[word] if word >= 0 else 0.0 for word in places]


def _left(subject: Subject, places: Sequence[int], sets: Sequence[Sequence[int]]) -> list[Inputs]:
    """The text without each set of words."""
    gone = [set(words) for words in sets]
    return [subject.inputs.without([at for at, word in enumerate(places) if word in group]) for group in gone]


def without(subject: Subject, target: int, places: Sequence[int], sets: Sequence[Sequence[int]]) -> list[float]:
    """The probability of the answer where each set of words is left out; where nothing would be left, 0."""
    return [float(np.exp(value)) for value in logs(subject, target, _left(subject, places, sets))]


def left_out(words: int) -> int:
    """A fifth of the words, one at least."""
    return max(1, round(SHARE * words))


def first(values: Sequence[float], places: Sequence[int], words: int) -> list[int]:
    """The words that contributed most to the answer."""
    sums = np.array(summed(values, places, words))
    return np.argsort(-sums, kind="stable")[: left_out(words)].tolist()


def summed(values: Sequence[float], places: Sequence[int], words: int) -> list[float]:
    """The sums of the values of the tokens of each word."""
    sums = [0.0] * words
    for value, place in zip(values, places, strict=True):
        if place >= 0:
            sums[place] += value
    return sums


def at_random(subject: Subject, target: int, p: float, places: Sequence[int], words: int, draws: int = DRAWS) -> float:
    """How far p falls, on average, without as many random words."""
    drawn, number = np.random.default_rng(SEED), left_out(words)
    kinds = {tuple(sorted(drawn.choice(words, number, replace=False).tolist())) for _ in range(draws)}
    return float(np.mean([p - rest for rest in without(subject, target, places, sorted(kinds))]))
