"""Tests whether a copy of a model is the same model: both read the same texts, and their outputs are compared.

The copy of a language model also reads a text that the original has generated greedily: each token of it must be the
copy's choice as well, or as likely within the tolerance. The copy of a translator reads real sentences as targets, and
greedy translations with their end token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from qkv.data.encode import encode_texts, end_of
from qkv.generation.beam import Search, Translator, translate
from qkv.generation.sampling import NEVER, Sampling
from qkv.generation.writing import write
from qkv.models.language_model import LanguageModel
from qkv.objectives.objective import padded
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tags

TOLERANCE = 1e-4  # relative to the largest output, or to 1 if that is smaller
GREEDY = 200
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "They sat on the river bank and looked at the account of the bank.",
    "In 1905 he wrote: E = mc²; nobody could say what it would cost (or bring).",
    "for index, word in enumerate(words):\n    print(index, word)\n",
)

# (token ids (B, T), attention mask (B, T)[, segment ids (B, T)]) -> outputs (B, T, _) or (B, _); of translators
# (source ids (B, S), attention mask (B, S), target ids (B, T)) -> logits (B, T, V)
Reader = Callable[..., Tensor]


@runtime_checkable
class Exportable(Protocol):
    """The attributes of a model that an export needs; `recipe.bundle.Bundle` has them."""

    @property
    def model(self) -> Any: ...
    @property
    def config(self) -> Any: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def target_tokenizer(self) -> Tokenizer: ...
    @property
    def opening(self) -> tuple[int, ...]: ...
    @property
    def start_and_end(self) -> tuple[int, int]: ...
    @property
    def forbidden_ids(self) -> frozenset[int]: ...


@dataclass(frozen=True)
class Parity:
    """The difference between the outputs of a copy and those of the original."""

    reader: str  # a name for the copy and the program that ran it
    largest: float  # the largest difference of two outputs
    scale: float  # the largest output
    tokens: int  # number of tokens with compared outputs
    written: int  # number of tokens that the original generated greedily ...
    agreed: int  # ... and that the copy would have generated as well

    @property
    def passed(self) -> bool:
        return self.largest <= TOLERANCE * max(1.0, self.scale) and self.agreed == self.written

    def __str__(self) -> str:
        answers = f"largest difference {self.largest:.1e} of outputs up to {self.scale:.3g}, {self.tokens:,} tokens"
        greedy = f"; greedy text equal in {self.agreed} of {self.written} tokens" if self.written else ""
        return f"{self.reader}: {answers}{greedy}"


def texts(tokenizer: Tokenizer, opening: Sequence[int], closing: Sequence[int], context: int) -> list[list[int]]:
    """The ids of real sentences, each cut off at the context."""
    room = max(1, context - len(opening) - len(closing))
    return [[*opening, *ids[:room], *closing] for ids in tokenizer.encode_batch(SENTENCES) if ids]


def greedy(model: LanguageModel, prompt: list[int], vocabulary: int) -> list[int]:
    """Generate greedily after a prompt: at most GREEDY tokens, within the model's context."""
    length = max(1, min(GREEDY, model.context - len(prompt)))
    steps = write(model, prompt, Sampling(temperature=0.0), length=length, vocabulary=vocabulary)
    return [step[0].token for step in steps if step[0]]


def reader_of(model: nn.Module) -> Reader:
    """A function that runs a model of qkv."""

    def read(tokens: Tensor, present: Tensor, *more: Tensor) -> Tensor:
        return model(tokens) if isinstance(model, LanguageModel) else model(tokens, present, *more)

    return read


def encode_pairs(tokenizer: Tokenizer, context: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each sentence and the next one as a pair: ids, attention mask, segment ids."""
    rows = encode_texts(tokenizer, zip(SENTENCES, (*SENTENCES[1:], SENTENCES[0]), strict=True), context, pairs=True)
    tokens, present = padded([rows.row(number) for number in range(len(rows))], tokenizer.filler)
    assert rows.second_starts is not None
    seconds = torch.from_numpy(rows.second_starts).unsqueeze(1)
    return tokens, present, ((torch.arange(tokens.size(1)) >= seconds) & present).long()


@dataclass(frozen=True)
class Case:
    """The inputs of a model, the positions whose outputs are compared, and the tokens that the original generated."""

    inputs: tuple[Tensor, ...]
    compared: Tensor  # (B, T), True where outputs are compared
    tokens: int
    chosen: Tensor | None = None  # (B, T), the token generated after each position; -1 if none was


@torch.inference_mode()
def compare(bundle: Exportable, others: Mapping[str, Reader]) -> list[Parity]:
    """Compare the outputs of each reader with the model's, on real sentences and on texts that the model generates."""
    original = reader_of(bundle.model.eval())
    cases = translation_cases(bundle) if isinstance(bundle.model, Translator) else reading_cases(bundle)
    expected = [original(*case.inputs) for case in cases]
    return [_compared(name, reader, cases, expected, bundle) for name, reader in others.items()]


def _compared(name: str, reader: Reader, cases: list[Case], expected: list[Tensor], bundle: Exportable) -> Parity:
    largest = scale = 0.0
    written = agreed = 0
    for case, original in zip(cases, expected, strict=True):
        answers = reader(*case.inputs).float()
        assert answers.shape == original.shape, f"{tuple(answers.shape)} answers instead of {tuple(original.shape)}"
        compared = case.compared if original.dim() == 3 else torch.ones(len(original), dtype=torch.bool)
        gap = (answers - original)[compared].abs().max()
        largest = max(largest, float("inf") if gap.isnan() else float(gap))
        scale = max(scale, float(original[compared].abs().max()))
        if case.chosen is not None:
            beyond = range(bundle.tokenizer.vocabulary, answers.size(2))
            never = sorted(bundle.forbidden_ids) if isinstance(bundle.model, Translator) else beyond
            scores = answers.index_fill(2, torch.tensor(never, dtype=torch.long), NEVER)
            chosen_scores = scores.gather(2, case.chosen.clamp(min=0).unsqueeze(2)).squeeze(2)
            generated = case.chosen >= 0
            written = int(generated.sum())
            agreed = int((generated & (chosen_scores >= scores.amax(2) - TOLERANCE * max(1.0, scale))).sum())
    return Parity(name, largest, scale, sum(case.tokens for case in cases), written, agreed)


def reading_cases(bundle: Exportable) -> list[Case]:
    """Real sentences or pairs of them; for a language model also a text generated after the first half of a
    sentence."""
    model, tokenizer, context = bundle.model, bundle.tokenizer, bundle.config.context
    writes = isinstance(model, LanguageModel)
    around = (bundle.opening, ()) if writes else (tokenizer.opening, tokenizer.closing)
    rows = texts(tokenizer, *around, context)
    inputs = encode_pairs(tokenizer, context) if classifies_pairs(bundle) else padded(rows, tokenizer.filler)
    cases = [Case(inputs, inputs[1], int(inputs[1].sum()))]
    if writes:
        prompt = rows[0][: max(1, len(rows[0]) // 2)]
        row = [*prompt, *greedy(model, prompt, tokenizer.vocabulary)][:context]
        chosen = [*[-1] * (len(prompt) - 1), *row[len(prompt) :], -1]
        inputs = padded([row], tokenizer.filler)
        cases.append(Case(inputs, inputs[1], len(row), torch.tensor([chosen])))
    return cases


def classifies_pairs(bundle: Exportable) -> bool:
    return getattr(bundle.config, "texts", 1) == 2


def translation_cases(bundle: Exportable) -> list[Case]:
    """Real sentences, first with the next sentence as the target, then with the model's own translation."""
    start, end = bundle.start_and_end
    rows = sources(bundle, bundle.config.context)
    next_rows = [row[:-1][: bundle.config.context - 1] for row in (*rows[1:], rows[0])]
    translations = translate(bundle.model, rows, Search(never=bundle.forbidden_ids), start=start, end=end)
    written = [[*best.tokens, *([end] if best.ended else [])] for best, *_ in translations]
    source, present = padded(rows, end)
    cases = []
    for targets, chosen in ((next_rows, None), ([ids[:-1] for ids in written], padded(written, end))):
        tokens, inside = padded([[start, *ids] for ids in targets], end)
        count = int(present.sum() + inside.sum())
        generated = None if chosen is None else chosen[0].masked_fill(~inside, -1)
        cases.append(Case((source, present, tokens), inside, count, generated))
    return cases


def sources(bundle: Exportable, max_sources: int) -> list[list[int]]:
    """The ids of real sentences as a translator's sources, with the tag of each of its languages if it has several."""
    tokenizer, end, known = bundle.tokenizer, end_of(bundle.tokenizer), list(tags(bundle.tokenizer).values())
    inside = [ids for ids in tokenizer.encode_batch(SENTENCES) if ids]
    asked = [[tokenizer.named[known[number % len(known)]]] if known else [] for number in range(len(inside))]
    before = [[*tokenizer.opening, *tag] for tag in asked]
    rows = [[*opening, *ids] for opening, ids in zip(before, inside, strict=True)]
    return [[*row[: max(1, max_sources - len(end))], *end] for row in rows]
