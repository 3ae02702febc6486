"""What a classifier or a tagger answers to many texts, as numbers and in words.

They are read sorted by length, a bounded number of tokens at a time; the answers come in the order of the texts.

    one class: softmax of the scores      several: sigmoid of each      a number: the score itself
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.blocks.crf import IndependentTags, LinearChainCRF
from qkv.blocks.fast_paths import as_built, evaluating
from qkv.blocks.heads import FirstPooling
from qkv.data.encode import EncodedRows, TextOrPair, encode_texts, encode_words
from qkv.data.formats.character_spans import WORDS
from qkv.errors import InputError
from qkv.evaluation import unpadded_bert
from qkv.evaluation.unpadded_bert import Precision
from qkv.models.classifier import Classifier, ClassifierConfig, EncoderPooling
from qkv.models.table import LinearTableConfig, MLPTableConfig
from qkv.models.tagger import Tagger, TaggerConfig
from qkv.objectives import objective
from qkv.objectives.classification import Problem, words_first, words_of
from qkv.objectives.objective import Source, TextInputs
from qkv.objectives.order import longest_first
from qkv.text.tokenizer import Tokenizer

TOGETHER = 8192  # tokens, padding included, of a model that says nothing else
PICTURES = 256
NUMBERS = 2**20  # of rows of a table

Autocast = Callable[[], AbstractContextManager[object]]
TableConfig = LinearTableConfig | MLPTableConfig


@dataclass(frozen=True)
class Answers:
    """A share for every label of each row, (N, L), or of each tagged word, (W, L); or the numbers, (N, 1). Of tags that
    are chosen together, `chosen` has those of the best sequence, which need not be the likeliest of single words."""

    shares: NDArray[np.float32]
    chosen: NDArray[np.int64] | None = None


def answers(
    model: nn.Module,
    rows: Source,
    problem: Problem,
    autocast: Autocast = nullcontext,
    precision: Precision = "f32",
    watch: Callable[[int], None] | None = None,
) -> Answers:
    """What the model answers to each row. `watch` is called with the number of rows that are done."""
    if isinstance(rows, EncodedRows) and rows.word_starts is not None:
        return _tags(model, rows, _scores(model, rows, autocast, precision, watch))
    table = np.zeros((0, 0), dtype=np.float32)
    for which, scores in _scores(model, rows, autocast, precision, watch):
        shares = scores if problem == "regression" else scores.softmax(-1) if problem == "single" else scores.sigmoid()
        if not len(table):
            table = np.zeros((len(rows), shares.size(-1)), dtype=np.float32)
        table[which] = shares.numpy()
    return Answers(table)


@torch.inference_mode()
def _tags(model: nn.Module, rows: EncodedRows, scores: Iterator[tuple[NDArray[np.int64], Tensor]]) -> Answers:
    """The answers for tagged words: their probabilities, and the best sequence of tags."""
    assert rows.word_starts is not None
    chain: IndependentTags | LinearChainCRF = getattr(model, "chain", IndependentTags())
    table, chosen = np.zeros((0, 0), dtype=np.float32), np.zeros(len(rows.word_starts), dtype=np.int64)
    device = next(model.parameters()).device
    for which, own in scores:
        if not len(table):
            table = np.zeros((len(rows.word_starts), own.size(-1)), dtype=np.float32)
        chosen_places = torch.zeros(own.shape[:2], dtype=torch.bool)
        ranges = [words_of(rows, row) for row in which.tolist()]
        for place, (_, _, places) in enumerate(ranges):
            chosen_places[place, places] = True
        emissions, words = (part.to(device) for part in words_first(own, chosen_places))
        if not emissions.size(1):
            continue
        shares, best = chain.marginals(emissions, words).cpu().numpy(), chain.best_path(emissions, words).cpu().numpy()
        for place, (begin, end, _) in enumerate(ranges):
            table[begin:end], chosen[begin:end] = shares[place, : end - begin], best[place, : end - begin]
    return Answers(table, chosen if isinstance(chain, LinearChainCRF) else None)


def _scores(
    model: nn.Module, rows: Source, autocast: Autocast, precision: Precision, watch: Callable[[int], None] | None
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    device = str(next(model.parameters()).device)
    with evaluating(model):
        with torch.inference_mode(), autocast():
            ask = None if torch.is_autocast_enabled("cpu") else _reader(model, precision)
        if ask is None and precision == "bf16":
            autocast = partial(torch.autocast, device.partition(":")[0], torch.bfloat16)
        done = 0
        for which in _batches(rows, getattr(getattr(model, "encoder", model), "together", TOGETHER)):
            read = objective.inputs(rows, which)
            with torch.inference_mode(), autocast():
                scores = ask(read) if ask and isinstance(read, TextInputs) else read.to(device).read_by(model)
            yield which, scores.float().cpu()
            done += len(which)
            if watch:
                watch(done)


def _reader(model: nn.Module, precision: Precision) -> Callable[[TextInputs], Tensor] | None:
    """The model without padding, where it is a classifier or a tagger around BERT without hooks."""
    if not isinstance(model, Classifier | Tagger) or not unpadded_bert.fits(model.encoder) or not as_built(model):
        return None
    inside = unpadded_bert.UnpaddedBert(model.encoder, precision)
    last = len(inside.model.blocks)
    first = isinstance(model, Classifier) and isinstance(model.pooling, FirstPooling | EncoderPooling)

    def ask(read: TextInputs) -> Tensor:
        if first:  # of [CLS] alone: no other is looked at
            x, present = inside.first(read.tokens, read.present, read.segments).unsqueeze(1), read.present[:, :1]
        else:
            (x,), present = inside(read.tokens, read.present, [last], read.segments), read.present
        return model.head(x) if isinstance(model, Tagger) else model.scale(model.head(model.pooling(x, present)))

    return ask


def _batches(rows: Source, tokens: int) -> Iterator[NDArray[np.int64]]:
    if isinstance(rows, EncodedRows):
        return longest_first(rows.lengths, tokens)
    size = PICTURES if rows.dtype == np.uint8 else max(1, NUMBERS // rows.shape[1])
    return (np.arange(start, min(start + size, len(rows))) for start in range(0, len(rows), size))


SURE = 0.5  # above which one of several labels is given


@dataclass(frozen=True)
class Decision:
    """What was decided about a text, and how sure: a label, several, or a number."""

    label: str | float | tuple[str, ...]
    probabilities: Mapping[str, float]  # none where a number is predicted

    @property
    def sure(self) -> float | None:
        """The probability of the label, where there is one."""
        return self.probabilities[self.label] if isinstance(self.label, str) else None

    def values(self) -> dict[str, object]:
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        return {"label": label, "probabilities": dict(self.probabilities)}


@dataclass(frozen=True)
class TaggedWord:
    word: str
    tag: str
    probability: float


NEEDED = {
    "classifier": "classifying texts needs a classifier. Train one on a table with a label for each text.",
    "tagger": "tagging words needs a tagger. Train one on words with tags (CoNLL).",
}


def require(config: object, kind: Literal["classifier", "tagger"]) -> None:
    """Refuse a model that gives no such answers."""
    own = getattr(config, "kind", None)
    if own != kind:
        raise InputError(f"this model is of kind {own}; {NEEDED[kind]}")


def classify(
    model: nn.Module, config: object, tokenizer: Tokenizer, texts: Sequence[TextOrPair], precision: Precision = "f32"
) -> tuple[list[Decision], list[str]]:
    """A decision for each text or pair, in their order, and what was done to the texts, in words."""
    require(config, "classifier")
    assert isinstance(config, ClassifierConfig)
    pairs = config.texts == 2 or any(second is not None for _, second in texts)
    alone = next((first for first, second in texts if second is None), None) if pairs else None
    if alone is not None:
        raise InputError(f"{alone[:60]!r}: pairs are classified here; expected two texts: classify([(one, other)]).")
    rows = encode_texts(tokenizer, texts, config.context, pairs=pairs)
    shares = answers(model, rows, config.problem, precision=precision).shares
    return [decided(config, row) for row in shares], rows.notes("texts", config.context)


def classify_numbers(model: nn.Module, config: object, rows: Sequence[Sequence[float]]) -> list[Decision]:
    """A decision for each row of a table of numbers, in their order; NaN where a number is missing."""
    assert isinstance(config, TableConfig)
    numbers = np.array(rows, dtype=np.float32).reshape(-1, len(config.columns))
    return [decided(config, row) for row in answers(model, numbers, config.problem).shares]


def classify_images(model: nn.Module, config: object, pixels: NDArray[np.uint8]) -> list[Decision]:
    """A decision for each image, in their order."""
    assert isinstance(config, ClassifierConfig)
    return [decided(config, row) for row in answers(model, pixels, config.problem).shares] if len(pixels) else []


def decided(config: ClassifierConfig | TableConfig, row: NDArray[np.float32]) -> Decision:
    if config.problem == "regression":
        return Decision(float(row[0]), {})
    shares = {name: float(share) for name, share in zip(config.labels, row, strict=True)}
    if config.problem == "multi":
        return Decision(tuple(name for name, share in shares.items() if share > SURE), shares)
    return Decision(config.labels[int(row.argmax())], shares)


def cut_words(text: str) -> list[str]:
    """Words and single marks, as tagged corpora mostly have them."""
    return WORDS.findall(text)


def tag(
    model: nn.Module, config: object, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]
) -> tuple[list[list[TaggedWord]], list[str]]:
    """A tag for every word of every sentence, with its probability."""
    require(config, "tagger")
    assert isinstance(config, TaggerConfig)
    rows = encode_words(tokenizer, sentences, config.context)
    found = answers(model, rows, "single")
    numbers = iter(found.shares.argmax(-1).tolist() if found.chosen is None else found.chosen.tolist())
    shares = iter(found.shares)
    tagged = [
        [
            TaggedWord(word, config.labels[tag], float(row[tag]))
            for word, tag, row in zip(words, numbers, shares, strict=False)
        ]
        for words in sentences
    ]
    return tagged, rows.notes("sentences", config.context)
