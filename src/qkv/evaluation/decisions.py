"""Predictions of classifiers and taggers for many texts, as probabilities and as decisions.

Texts are read sorted by length, in batches of a bounded number of tokens; predictions come in the order of the texts.

    one class: softmax of the scores      several labels: sigmoid of each      a number: the score itself
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
from qkv.evaluation.classification_metrics import LABEL_THRESHOLD
from qkv.evaluation.unpadded_bert import Precision
from qkv.models.classifier import Classifier, ClassifierConfig, EncoderPooling
from qkv.models.table import LinearTableConfig, MLPTableConfig
from qkv.models.tagger import Tagger, TaggerConfig
from qkv.objectives import objective
from qkv.objectives.classification import Problem, words_first, words_of
from qkv.objectives.objective import Source, TextInputs
from qkv.objectives.order import longest_first
from qkv.text.tokenizer import Tokenizer

BATCH_TOKENS = 8192  # padding included; for models that do not give a number of their own
BATCH_IMAGES = 256
BATCH_NUMBERS = 2**20  # of rows of a table

Autocast = Callable[[], AbstractContextManager[object]]
TableConfig = LinearTableConfig | MLPTableConfig


@dataclass(frozen=True)
class Predictions:
    """The probability of every label for each row, (N, L), or for each tagged word, (W, L); or the numbers, (N, 1).
    Where tags are chosen together, `chosen` has those of the best sequence, which are not always the likeliest of each
    word."""

    values: NDArray[np.float32]
    chosen: NDArray[np.int64] | None = None


def predict(
    model: nn.Module,
    rows: Source,
    problem: Problem,
    autocast: Autocast = nullcontext,
    precision: Precision = "f32",
    on_progress: Callable[[int], None] | None = None,
) -> Predictions:
    """The model's predictions for the rows; `on_progress` is called with the number of rows that are done."""
    if isinstance(rows, EncodedRows) and rows.word_starts is not None:
        return _tags(model, rows, _scores(model, rows, autocast, precision, on_progress))
    table = np.zeros((0, 0), dtype=np.float32)
    for indices, scores in _scores(model, rows, autocast, precision, on_progress):
        values = scores if problem == "regression" else scores.softmax(-1) if problem == "single" else scores.sigmoid()
        if not len(table):
            table = np.zeros((len(rows), values.size(-1)), dtype=np.float32)
        table[indices] = values.numpy()
    return Predictions(table)


@torch.inference_mode()
def _tags(model: nn.Module, rows: EncodedRows, scores: Iterator[tuple[NDArray[np.int64], Tensor]]) -> Predictions:
    """The predictions for tagged words: their probabilities, and the best sequence of tags."""
    assert rows.word_starts is not None
    chain: IndependentTags | LinearChainCRF = getattr(model, "chain", IndependentTags())
    table, chosen = np.zeros((0, 0), dtype=np.float32), np.zeros(len(rows.word_starts), dtype=np.int64)
    device = next(model.parameters()).device
    for indices, own in scores:
        if not len(table):
            table = np.zeros((len(rows.word_starts), own.size(-1)), dtype=np.float32)
        chosen_positions = torch.zeros(own.shape[:2], dtype=torch.bool)
        ranges = [words_of(rows, row) for row in indices.tolist()]
        for index, (_, _, positions) in enumerate(ranges):
            chosen_positions[index, positions] = True
        emissions, words = (part.to(device) for part in words_first(own, chosen_positions))
        if not emissions.size(1):
            continue
        values, best = chain.marginals(emissions, words).cpu().numpy(), chain.best_path(emissions, words).cpu().numpy()
        for index, (begin, end, _) in enumerate(ranges):
            table[begin:end], chosen[begin:end] = values[index, : end - begin], best[index, : end - begin]
    return Predictions(table, chosen if isinstance(chain, LinearChainCRF) else None)


def _scores(
    model: nn.Module, rows: Source, autocast: Autocast, precision: Precision, on_progress: Callable[[int], None] | None
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    device = str(next(model.parameters()).device)
    with evaluating(model):
        with torch.inference_mode(), autocast():
            fast = None if torch.is_autocast_enabled("cpu") else _unpadded(model, precision)
        if fast is None and precision == "bf16":
            autocast = partial(torch.autocast, device.partition(":")[0], torch.bfloat16)
        done = 0
        for indices in _batches(rows, getattr(getattr(model, "encoder", model), "together", BATCH_TOKENS)):
            batch = objective.inputs(rows, indices)
            with torch.inference_mode(), autocast():
                scores = fast(batch) if fast and isinstance(batch, TextInputs) else batch.to(device).read_by(model)
            yield indices, scores.float().cpu()
            done += len(indices)
            if on_progress:
                on_progress(done)


def _unpadded(model: nn.Module, precision: Precision) -> Callable[[TextInputs], Tensor] | None:
    """A function that computes the model without padding; None unless it is a classifier or tagger of plain BERT."""
    if not isinstance(model, Classifier | Tagger) or not unpadded_bert.fits(model.encoder) or not as_built(model):
        return None
    encoder = unpadded_bert.UnpaddedBert(model.encoder, precision)
    last = len(encoder.model.blocks)
    first = isinstance(model, Classifier) and isinstance(model.pooling, FirstPooling | EncoderPooling)

    def compute(inputs: TextInputs) -> Tensor:
        tokens, present, segments = inputs.tokens, inputs.present, inputs.segments
        if first:  # the pooling uses [CLS] alone
            x, present = encoder.first(tokens, present, segments).unsqueeze(1), present[:, :1]
        else:
            (x,) = encoder(tokens, present, [last], segments)
        return model.head(x) if isinstance(model, Tagger) else model.scale(model.head(model.pooling(x, present)))

    return compute


def _batches(rows: Source, tokens: int) -> Iterator[NDArray[np.int64]]:
    if isinstance(rows, EncodedRows):
        return longest_first(rows.lengths, tokens)
    size = BATCH_IMAGES if rows.dtype == np.uint8 else max(1, BATCH_NUMBERS // rows.shape[1])
    return (np.arange(start, min(start + size, len(rows))) for start in range(0, len(rows), size))


@dataclass(frozen=True)
class Decision:
    """The prediction for a text, an image or a row: a label, several labels, or a number; with the probabilities."""

    label: str | float | tuple[str, ...]
    probabilities: Mapping[str, float]  # empty if a number is predicted

    @property
    def confidence(self) -> float | None:
        """The probability of the predicted label; None for several labels, or a number."""
        return self.probabilities[self.label] if isinstance(self.label, str) else None

    def values(self) -> dict[str, object]:
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        return {"label": label, "probabilities": dict(self.probabilities)}


@dataclass(frozen=True)
class TaggedWord:
    word: str
    tag: str
    probability: float


REQUIREMENTS = {
    "classifier": "classifying texts needs a classifier. Train one on a table with a label for each text.",
    "tagger": "tagging words needs a tagger. Train one on words with tags (CoNLL).",
}


def require(config: object, kind: Literal["classifier", "tagger"]) -> None:
    """Refuse a model of another kind."""
    actual = getattr(config, "kind", None)
    if actual != kind:
        raise InputError(f"this model is of kind {actual}; {REQUIREMENTS[kind]}")


def classify(
    model: nn.Module, config: object, tokenizer: Tokenizer, texts: Sequence[TextOrPair], precision: Precision = "f32"
) -> tuple[list[Decision], list[str]]:
    """A decision for each text or pair, in their order, and notes on how the texts were changed."""
    require(config, "classifier")
    assert isinstance(config, ClassifierConfig)
    pairs = config.texts == 2 or any(second is not None for _, second in texts)
    single = next((first for first, second in texts if second is None), None) if pairs else None
    if single is not None:
        raise InputError(f"{single[:60]!r}: this model classifies pairs; expected two texts: classify([(one, other)]).")
    rows = encode_texts(tokenizer, texts, config.context, pairs=pairs)
    probabilities = predict(model, rows, config.problem, precision=precision).values
    return [decision_of(config, row) for row in probabilities], rows.notes("texts", config.context)


def classify_numbers(model: nn.Module, config: object, rows: Sequence[Sequence[float]]) -> list[Decision]:
    """A decision for each row of a table of numbers, in their order; NaN where a number is missing."""
    assert isinstance(config, TableConfig)
    numbers = np.array(rows, dtype=np.float32).reshape(-1, len(config.columns))
    return [decision_of(config, row) for row in predict(model, numbers, config.problem).values]


def classify_images(model: nn.Module, config: object, pixels: NDArray[np.uint8]) -> list[Decision]:
    """A decision for each image, in their order."""
    assert isinstance(config, ClassifierConfig)
    return [decision_of(config, row) for row in predict(model, pixels, config.problem).values] if len(pixels) else []


def decision_of(config: ClassifierConfig | TableConfig, row: NDArray[np.float32]) -> Decision:
    if config.problem == "regression":
        return Decision(float(row[0]), {})
    probabilities = {name: float(value) for name, value in zip(config.labels, row, strict=True)}
    if config.problem == "multi":
        return Decision(tuple(name for name, value in probabilities.items() if value > LABEL_THRESHOLD), probabilities)
    return Decision(config.labels[int(row.argmax())], probabilities)


def split_words(text: str) -> list[str]:
    """Words and single punctuation marks, as in most tagged corpora."""
    return WORDS.findall(text)


def tag(
    model: nn.Module, config: object, tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]
) -> tuple[list[list[TaggedWord]], list[str]]:
    """A tag for every word of every sentence, with its probability."""
    require(config, "tagger")
    assert isinstance(config, TaggerConfig)
    rows = encode_words(tokenizer, sentences, config.context)
    predictions = predict(model, rows, "single")
    numbers = iter((predictions.values.argmax(-1) if predictions.chosen is None else predictions.chosen).tolist())
    probabilities = iter(predictions.values)
    tagged = [
        [
            TaggedWord(word, config.labels[tag], float(row[tag]))
            for word, tag, row in zip(words, numbers, probabilities, strict=False)
        ]
        for words in sentences
    ]
    return tagged, rows.notes("sentences", config.context)
