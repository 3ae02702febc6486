"""What each layer of a model knows, by linear probes: a linear classifier on its vectors; the model is not trained.

Deck 002 draws that later layers are better. Whether they are is measured here on examples of your own: a text is the
mean of its tokens, a word with a tag the vector of its first piece (Devlin et al. 2019, section 5.3).
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

MOST = 2000  # texts or sentences of each side
ITERATIONS = 200
NEED = "a probe of layers"

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Probed:
    """The score of one layer."""

    layer: int
    score: LabelledScore

    def values(self) -> dict[str, Any]:
        figure = self.score.figure
        return {"layer": self.layer, "metric": self.score.name, **figure.values("value")}


def probe(model: nn.Module, tokenizer: Tokenizer, data: Labelled, most: int = MOST, seed: int = 0) -> list[Probed]:
    """A score for each layer from 0 on: learned on the training set, reported on the validation set."""
    require_package("sklearn", NEED)
    if PROBLEM_BY_TASK[data.task] != "single" or not isinstance(data.train, TextExamples | TagExamples) or data.pairs:
        raise InputError(f"a probe learns one class a text, or a tag a word; these examples are for {data.task}.")
    train, valid = (_some(side, most, seed) for side in (data.train, data.valid))
    layers = zip(layers_of(model, tokenizer, train), layers_of(model, tokenizer, valid), strict=True)
    answers = (_linear(known, train.targets, asked, len(data.labels)) for known, asked in layers)
    return [Probed(number, score_examples(scores, valid, "single")) for number, scores in enumerate(answers)]


def last_compared_with(layers: list[Probed], other: int) -> Difference | None:
    """The last layer compared with another one, answer by answer; of spans there is no comparison."""
    scores: list[Any] = [layer.score.score for layer in (layers[-1], layers[other])]
    if not all(hasattr(score, "correct") for score in scores):
        return None
    first, second = (np.asarray(score.correct, dtype=np.float64)[:, None] for score in scores)
    return paired(first, second)


def _some(side: Any, most: int, seed: int) -> Any:
    if len(side) <= most:
        return side
    chosen = np.sort(np.random.default_rng(seed).permutation(len(side))[:most])
    return replace(side, rows=side.rows[chosen])


def layers_of(model: nn.Module, tokenizer: Tokenizer, side: TextExamples | TagExamples) -> list[Array]:
    """For each layer a row a text, or a row a word."""
    context = int(getattr(model, "context", 0)) or int(model.encoder.context)  # type: ignore[union-attr,arg-type]
    if isinstance(side, TagExamples):
        rows = encode_words(tokenizer, sentences_of(side), context)
    else:
        rows = encode_texts(tokenizer, texts_of(side), context, pairs=False)
    given = [rows.row(number).tolist() for number in range(len(rows))]
    wanted = range(vectors.last(model) + 1)
    found: list[Any] = [None] * len(rows)
    for where, layers, present in vectors.batches(model, given, wanted):
        for place, taken in zip(where, _taken(layers, present, rows, where), strict=True):
            found[place] = taken
    return [torch.cat([row[layer] for row in found]).numpy() for layer in wanted]


def _taken(layers: list[Any], present: Any, rows: EncodedRows, where: list[int]) -> Iterator[list[Any]]:
    """Of each row its vectors at each layer: one of the text, or one of each word."""
    for number, row in enumerate(where):
        if rows.places is None or rows.words is None:
            kept = present[number]
            yield [x[number, kept].mean(0, keepdim=True).float().cpu() for x in layers]
        else:
            places = torch.as_tensor(rows.places[rows.words[row] : rows.words[row + 1]])
            yield [x[number, places].float().cpu() for x in layers]


def _linear(known: Array, targets: NDArray[Any], asked: Array, labels: int) -> Array:
    """Logistic regression on numbers of equal spread; the shares of all labels for every row that is asked."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    model = LogisticRegression(C=0.1, max_iter=ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.fit_transform(known), targets)
    shares = np.zeros((len(asked), labels), dtype=np.float32)
    shares[:, model.classes_] = model.predict_proba(scaler.transform(asked))
    return shares
