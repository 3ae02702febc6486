"""Is a copy of a model the same model? Both read the same texts; the largest difference of their answers is kept.

A language model also writes: what the original writes greedily is given to the copy, which must choose every token of
it, or one that is as likely within the tolerance.

Is a copy of a translator the same translator? Both read the same sources and score the same targets.

The targets are real sentences, which a translator need not have written, and what the original translates greedily:
the copy must choose every token of it, the end too, or one that is as likely within the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from qkv.data.encode import end_of, room_for
from qkv.generation.beam import Search, translate
from qkv.generation.sampling import NEVER, Sampling
from qkv.generation.writing import write
from qkv.models.language_model import LanguageModel
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tags

TOLERANCE = 1e-4  # of the largest answer, at least of one
GREEDY = 200
SENTENCES = (
    "The animal didn't cross the street because it was too tired.",
    "They sat on the river bank and looked at the account of the bank.",
    "In 1905 he wrote: E = mc²; nobody could say what it would cost (or bring).",
    "for index, word in enumerate(words):\n    print(index, word)\n",
)

# ids (B, T), who is present (B, T), and of pairs which text each belongs to, to answers (B, T, _) or (B, _)
Reader = Callable[..., Tensor]


@dataclass(frozen=True)
class Comparison:
    """What two readers of one model answer."""

    reader: str  # whose answers were compared with the original's
    largest: float  # difference of any answer
    scale: float  # the largest answer itself
    tokens: int  # compared
    written: int  # tokens that the original wrote greedily ...
    agreed: int  # ... and that the copy would have written

    @property
    def passed(self) -> bool:
        return self.largest <= TOLERANCE * max(1.0, self.scale) and self.agreed == self.written

    def __str__(self) -> str:
        said = f"{self.reader}: largest difference {self.largest:.1e} of answers up to {self.scale:.3g}"
        said += f", {self.tokens:,} tokens"
        return said + (f"; greedy text equal in {self.agreed} of {self.written} tokens" if self.written else "")


def texts(tokenizer: Tokenizer, opening: Sequence[int], closing: Sequence[int], context: int) -> list[list[int]]:
    """Real sentences as ids, each within the context."""
    room = max(1, context - len(opening) - len(closing))
    return [[*opening, *ids[:room], *closing] for ids in tokenizer.encode_batch(SENTENCES) if ids]


def padded(rows: Sequence[Sequence[int]], fill: int) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as one table, and which of its places are real."""
    longest = max(len(row) for row in rows)
    tokens = torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(longest) < lengths.unsqueeze(1)


def greedy(model: LanguageModel, prompt: list[int], vocabulary: int) -> list[int]:
    """What the model writes after a prompt, at most as long as its context."""
    length = max(1, min(GREEDY, model.context - len(prompt)))
    steps = write(model, prompt, Sampling(temperature=0.0), length=length, vocabulary=vocabulary)
    return [step[0].token for step in steps if step[0]]


def reads(model: nn.Module) -> Reader:
    """A model of ours as a reader."""

    def read(tokens: Tensor, present: Tensor, segments: Tensor | None = None) -> Tensor:
        return model(tokens) if isinstance(model, LanguageModel) else model(tokens, present, segments)

    return read


def coupled(tokenizer: Tokenizer, context: int, fill: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each sentence with the next one behind it, as pairs are read: ids, who is present, and whose each is."""
    room = max(1, room_for(tokenizer, context, pairs=True) // 2)
    inside = [ids[:room] for ids in tokenizer.encode_batch(SENTENCES) if ids]
    firsts = [[*tokenizer.opening, *ids, *end_of(tokenizer)] for ids in inside]
    rows = [[*one, *other, *tokenizer.closing] for one, other in zip(firsts, [*inside[1:], inside[0]], strict=True)]
    tokens, present = padded(rows, fill)
    where = torch.tensor([len(each) for each in firsts]).unsqueeze(1)
    return tokens, present, ((torch.arange(tokens.size(1)) >= where) & present).long()


@torch.inference_mode()
def compare(
    model: nn.Module,
    others: dict[str, Reader],
    tokenizer: Tokenizer,
    opening: Sequence[int],
    context: int,
    *,
    pairs: bool = False,
) -> list[Comparison]:
    """The answers of each reader beside the model's own, on real sentences and on what the model writes.

    `pairs`: it judges two texts together, so that two are given.
    """
    model.eval()
    writes = isinstance(model, LanguageModel)
    closing = () if writes else tokenizer.closing
    rows = texts(tokenizer, opening if writes else tokenizer.opening, closing, context)
    fill = tokenizer.filler
    tables: list[tuple[Tensor, ...]] = [coupled(tokenizer, context, fill) if pairs else padded(rows, fill)]
    prompt = rows[0][: max(1, len(rows[0]) // 2)]
    written = greedy(model, prompt, tokenizer.vocabulary) if writes else []  # type: ignore[arg-type]
    if written:
        tables.append(padded([[*prompt, *written][:context]], fill))
    own = reads(model)
    expected = [own(*table) for table in tables]
    return [_one(name, reader, tables, expected, written, tokenizer.vocabulary) for name, reader in others.items()]


def _one(
    name: str, reader: Reader, tables: list[Any], expected: list[Tensor], written: list[int], vocabulary: int
) -> Comparison:
    largest = scale = 0.0
    count = agreed = 0
    for (tokens, present, *more), answer in zip(tables, expected, strict=True):
        found = reader(tokens, present, *more).float()
        assert found.shape == answer.shape, f"{tuple(found.shape)} answers instead of {tuple(answer.shape)}"
        kept = present if answer.dim() == 3 else torch.ones(len(tokens), dtype=torch.bool)
        gap = (found - answer)[kept].abs().max()
        largest = max(largest, float("inf") if gap.isnan() else float(gap))
        scale = max(scale, float(answer[kept].abs().max()))
        count += int(present.sum())
    if written:
        scores = found[0, -len(written) - 1 : -1, :vocabulary] if found.size(1) > len(written) else found[0, :0]
        taken = torch.tensor(written[: len(scores)]).unsqueeze(1)
        chosen = scores.gather(1, taken).squeeze(1) >= scores.amax(1) - TOLERANCE * max(1.0, scale)
        agreed = int(chosen.sum())
    return Comparison(name, largest, scale, count, len(written), agreed)


# sources (B, S), who is present (B, S), what is written (B, T), to scores (B, T, V)
Translates = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """Sources, targets as they are fed, which of these are real, and what comes next, where that is asked."""

    source: Tensor
    present: Tensor
    tokens: Tensor
    there: Tensor
    next: Tensor | None = None


def sources(bundle: Exportable, most: int) -> list[list[int]]:
    """Real sentences as a translator reads them, one language after the other where it knows several."""
    tokenizer, end, known = bundle.tokenizer, end_of(bundle.tokenizer), list(tags(bundle.tokenizer).values())
    inside = [ids for ids in tokenizer.encode_batch(SENTENCES) if ids]
    asked = [[tokenizer.named[known[number % len(known)]]] if known else [] for number in range(len(inside))]
    before = [[*tokenizer.opening, *tag] for tag in asked]
    rows = [[*opening, *ids] for opening, ids in zip(before, inside, strict=True)]
    return [[*row[: max(1, most - len(end))], *end] for row in rows]


def forced(bundle: Exportable, rows: list[list[int]], most: int) -> Case:
    """Each source with the next sentence as its translation."""
    start, end = bundle.marks
    inside = [row[:-1][: most - 1] for row in (*rows[1:], rows[0])]
    return Case(*padded(rows, end), *padded([[start, *ids] for ids in inside], end))


def greedy_translations(bundle: Exportable, rows: list[list[int]]) -> Case:
    """Each source with what the model makes of it."""
    start, end = bundle.marks
    search = Search(never=bundle.unwritten)
    made = [each[0] for each in translate(bundle.model, rows, search, start=start, end=end)]
    wanted = [[*each.tokens, *([end] if each.ended else [])] for each in made]
    tokens, there = padded([[start, *ids[:-1]] for ids in wanted], end)
    return Case(*padded(rows, end), tokens, there, padded(wanted, end)[0])


@torch.inference_mode()
def compare_translators(bundle: Exportable, others: Mapping[str, Translates]) -> list[Comparison]:
    """The scores of each reader beside the model's own."""
    model: Any = bundle.model.eval()
    most = bundle.config.context
    rows = sources(bundle, most)
    cases = [forced(bundle, rows, most), greedy_translations(bundle, rows)]
    expected = [model(case.source, case.present, case.tokens) for case in cases]
    return [_compared_translator(name, reader, cases, expected, bundle.unwritten) for name, reader in others.items()]


def _compared_translator(
    name: str, reader: Translates, cases: list[Case], expected: list[Tensor], unwritten: frozenset[int]
) -> Comparison:
    largest = scale = 0.0
    count = written = agreed = 0
    for case, answer in zip(cases, expected, strict=True):
        found = reader(case.source, case.present, case.tokens).float()
        assert found.shape == answer.shape, f"{tuple(found.shape)} answers instead of {tuple(answer.shape)}"
        gap = (found - answer)[case.there].abs().max()
        largest = max(largest, float("inf") if gap.isnan() else float(gap))
        scale = max(scale, float(answer[case.there].abs().max()))
        count += int(case.present.sum() + case.there.sum())
        if case.next is not None:
            scores = found.index_fill(2, torch.tensor(sorted(unwritten), dtype=torch.long), NEVER)
            taken = scores.gather(2, case.next.unsqueeze(2)).squeeze(2)
            chosen = taken >= scores.amax(2) - TOLERANCE * max(1.0, scale)
            written, agreed = int(case.there.sum()), int(chosen[case.there].sum())
    return Comparison(name, largest, scale, count, written, agreed)


@runtime_checkable
class Exportable(Protocol):
    """What is needed of a model to write it (recipe.bundle.Bundle has it)."""

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
    def marks(self) -> tuple[int, int]: ...
    @property
    def unwritten(self) -> frozenset[int]: ...
