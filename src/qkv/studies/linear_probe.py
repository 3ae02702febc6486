"""Linear probes: how well a linear classifier predicts labels from the vectors of each layer; the model is frozen.

Deck 002 claims that later layers are better; a probe measures it on your own examples. The vector of a text is the mean
over its tokens, the vector of a tagged word is that of its first token (Devlin et al. 2019, section 5.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from qkv.data.encode import EncodedRows, encode_texts, encode_words, sentences_of, texts_of
from qkv.data.examples import Labelled, TagExamples, TextExamples
from qkv.errors import InputError, require_package
from qkv.evaluation import vectors
from qkv.evaluation.intervals import Difference, paired
from qkv.evaluation.labelled_evaluation import LabelledScore, score_examples
from qkv.tasks.classification.systems import PROBLEM_BY_TASK
from qkv.text.tokenizer import Tokenizer

MAX_EXAMPLES = 2000  # texts or sentences of each split
MAX_ITERATIONS = 200
NEED = "a probe of layers"  # in messages: what needs scikit-learn

Array = NDArray[np.float32]


@dataclass(frozen=True)
class LayerScore:
    """The score of the probe of one layer."""

    layer: int
    score: LabelledScore

    def values(self) -> dict[str, Any]:
        return {"layer": self.layer, "metric": self.score.name, **self.score.main_score.values("value")}


def probe(
    model: nn.Module, tokenizer: Tokenizer, data: Labelled, max_examples: int = MAX_EXAMPLES, seed: int = 0
) -> list[LayerScore]:
    """Fit a probe for each layer, from 0, on the training set, and score it on the validation set."""
    require_package("sklearn", NEED)
    if PROBLEM_BY_TASK[data.task] != "single" or not isinstance(data.train, TextExamples | TagExamples) or data.pairs:
        raise InputError(
            f"a probe learns one class for each text, or one tag for each word; these examples are for {data.task}."
        )
    train, valid = (_sample(split, max_examples, seed) for split in (data.train, data.valid))
    layers = zip(layer_vectors(model, tokenizer, train), layer_vectors(model, tokenizer, valid), strict=True)
    predictions = (
        _fit_and_predict(train_vectors, train.targets, valid_vectors, len(data.labels))
        for train_vectors, valid_vectors in layers
    )
    return [LayerScore(layer, score_examples(rows, valid, "single")) for layer, rows in enumerate(predictions)]


def last_compared_with(layers: list[LayerScore], other: int) -> Difference | None:
    """The last layer compared with another one by a paired test; None for scores of spans."""
    scores: list[Any] = [layer.score.score for layer in (layers[-1], layers[other])]
    if not all(hasattr(score, "correct") for score in scores):
        return None
    first, second = (np.asarray(score.correct, dtype=np.float64)[:, None] for score in scores)
    return paired(first, second)


def summarize(layers: list[LayerScore]) -> str:
    """A sentence on the best layer, and on the gain from layer 0 to the last layer."""
    best = max(layers, key=lambda layer: layer.score.value)
    best_name = "the last layer" if best is layers[-1] else f"layer {best.layer}"
    difference = last_compared_with(layers, 0)
    gain = layers[-1].score.value - layers[0].score.value if difference is None else difference.difference
    doubt = "; that may be noise" if difference is not None and difference.includes_zero else ""
    return f"Best: {best_name}. The last layer has {gain:+.4f} compared with layer 0, which sees no context{doubt}."


def _sample(split: Any, max_examples: int, seed: int) -> Any:
    if len(split) <= max_examples:
        return split
    chosen = np.sort(np.random.default_rng(seed).permutation(len(split))[:max_examples])
    return replace(split, rows=split.rows[chosen])


def layer_vectors(model: nn.Module, tokenizer: Tokenizer, split: TextExamples | TagExamples) -> list[Array]:
    """A matrix for each layer, with a row for each text or each tagged word."""
    context = int(getattr(model, "context", 0)) or int(model.encoder.context)  # type: ignore[union-attr,arg-type]
    if isinstance(split, TagExamples):
        rows = encode_words(tokenizer, sentences_of(split), context)
    else:
        rows = encode_texts(tokenizer, texts_of(split), context, pairs=False)
    ids = [rows.row(index).tolist() for index in range(len(rows))]
    layers = range(vectors.last_layer(model) + 1)
    vectors_of_rows: list[Any] = [None] * len(rows)
    for batch_rows, outputs, present in vectors.batches(model, ids, layers):
        for row, by_layer in zip(batch_rows, _row_vectors(outputs, present, rows, batch_rows), strict=True):
            vectors_of_rows[row] = by_layer
    return [torch.cat([by_layer[layer] for by_layer in vectors_of_rows]).numpy() for layer in layers]


def _row_vectors(outputs: list[Any], present: Any, rows: EncodedRows, batch_rows: list[int]) -> Iterator[list[Any]]:
    """For each row of a batch, its vectors at each layer: one of the text, or one for each word."""
    for index, row in enumerate(batch_rows):
        if rows.word_starts is None or rows.words is None:
            kept = present[index]
            yield [output[index, kept].mean(0, keepdim=True).float().cpu() for output in outputs]
        else:
            positions = torch.as_tensor(rows.word_starts[rows.words[row] : rows.words[row + 1]])
            yield [output[index, positions].float().cpu() for output in outputs]


def _fit_and_predict(train: Array, targets: NDArray[Any], valid: Array, labels: int) -> Array:
    """Fit logistic regression on standardized vectors; return the probabilities of all labels for `valid`."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    model = LogisticRegression(C=0.1, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.fit_transform(train), targets)
    probabilities = np.zeros((len(valid), labels), dtype=np.float32)
    probabilities[:, model.classes_] = model.predict_proba(scaler.transform(valid))
    return probabilities
