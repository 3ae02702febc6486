"""Baselines without a network: a constant prediction, naive Bayes, and TF-IDF with a linear model (scikit-learn).

    majority             the most frequent class, the labels with the best micro-F1, or the mean
    naive Bayes          p(class) Π p(word | class) of words and bigrams, present or not (Wang and Manning 2012)
    TF-IDF + logistic    (1 + log tf) · idf of words and bigrams, then logistic regression; for regression, ridge

For images, pixels take the place of words, and for tables, columns. The regularization of the linear model is chosen on
the validation set. For tagging:

    majority             the most frequent tag
    usual tag            the most frequent tag of a word; of an unknown word, that of words with the same ending
    logistic             logistic regression on the word, its neighbours, endings, beginnings and shape (hashed)
"""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.encode import sentences_of
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, TagExamples
from qkv.errors import is_installed
from qkv.evaluation.baseline_features import ColumnFeatures, Features, PixelFeatures, TaggedWordFeatures, WordCounts
from qkv.evaluation.class_metrics import f1
from qkv.evaluation.classification_metrics import LABEL_THRESHOLD
from qkv.evaluation.labelled_evaluation import score_examples
from qkv.objectives.classification import Problem

Array = NDArray[Any]
Predict = Callable[[Examples], Array]  # gives the probabilities of all labels, or numbers

DEFAULT_C = 4.0
C_VALUES = (16.0, DEFAULT_C, 1.0)  # scikit-learn's C: a larger one regularizes less
MAX_TUNED_EXAMPLES = 200_000  # with more examples, only the default C is tried
MAX_ITERATIONS = 300
TF_IDF = "TF-IDF + logistic"
RIDGE = "TF-IDF + ridge"


@dataclass(frozen=True)
class FittedBaseline:
    name: str
    predict: Predict
    parameters: int
    seconds: float  # of fitting
    rows: int  # training examples that it was fitted on


@dataclass(frozen=True)
class Baseline:
    """A baseline before it is fitted. `quick` ones are fitted in every training run, all of them in comparisons."""

    name: str
    learn: Callable[[Labelled], tuple[Predict, int]]  # gives the predictor and its number of parameters
    quick: bool = True
    needs_sklearn: bool = True

    @property
    def available(self) -> bool:
        return not self.needs_sklearn or is_installed("sklearn")

    def fit(self, data: Labelled) -> FittedBaseline:
        started_at = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that has not fully converged is still a baseline
            predict, parameters = self.learn(data)
        seconds = time.perf_counter() - started_at
        return FittedBaseline(
            self.name, lambda examples: predict(examples).astype(np.float32), parameters, seconds, len(data.train)
        )


def fit_baselines(data: Labelled, problem: Problem) -> Iterator[FittedBaseline]:
    """Fit the baselines for these data, the simplest first; without scikit-learn, only those that do not need it."""
    for baseline in baselines_for(data, problem):
        if baseline.available:
            yield baseline.fit(data)


def baselines_for(data: Labelled, problem: Problem, c_values: Sequence[float] = C_VALUES) -> list[Baseline]:
    """The baselines for these data, the simplest first. With several `c_values`, the regularization of the linear model
    is chosen on the validation set."""
    regression = problem == "regression"
    majority = Baseline(
        "mean" if regression else "majority", lambda data: _fit_majority(data, problem), needs_sklearn=False
    )
    bayes_features: Features
    linear_features: Features
    match data.train:
        case TagExamples():
            usual_tag = Baseline("usual tag", _fit_usual_tag, needs_sklearn=False)
            return [majority, usual_tag, Baseline("logistic", _fit_logistic_tagger, quick=False)]
        case ImageExamples():
            bayes_features, linear_features = PixelFeatures(binary=True), PixelFeatures(binary=False)
            linear_name = "logistic on pixels"
        case NumberExamples():
            bayes_features, linear_features = ColumnFeatures(), ColumnFeatures()
            linear_name = "ridge" if regression else "logistic"
        case _:
            bayes_features, linear_features = WordCounts(tf_idf=False), WordCounts(tf_idf=True)
            linear_name = RIDGE if regression else TF_IDF
    bayes = Baseline("naive Bayes", lambda data: _fit_bayes(data, problem, bayes_features), quick=False)
    linear = Baseline(linear_name, lambda data: _fit_linear(data, problem, linear_features, c_values))
    return [majority, *([] if regression else [bayes]), linear]


def _fit_majority(data: Labelled, problem: Problem) -> tuple[Predict, int]:
    targets = data.train.targets
    if problem == "single":
        prediction = np.bincount(targets, minlength=len(data.labels)) / len(targets)
    elif problem == "regression":
        prediction = targets.astype(np.float64).mean(keepdims=True)
    else:
        prediction = np.minimum(targets.mean(axis=0), LABEL_THRESHOLD)
        chosen = best_constant_labels(targets)
        prediction[chosen] = np.maximum(targets[:, chosen].mean(axis=0), LABEL_THRESHOLD + 0.01)
    return lambda examples: np.tile(prediction, (len(examples.targets), 1)), 0


def best_constant_labels(targets: Array) -> list[int]:
    """The set of labels that has the best micro-F1 when it is given to every example."""
    counts = targets.sum(axis=0)
    order = np.argsort(-counts, kind="stable")
    correct, labels = np.cumsum(counts[order]), np.arange(1, len(order) + 1)
    best = int(np.argmax(f1(correct, labels * len(targets), np.array(counts.sum()))))
    return [int(label) for label in order[: best + 1]]


def constant_in_words(data: Labelled, problem: Problem) -> str:
    """The constant prediction of the majority baseline, in words."""
    targets, names = data.train.targets, data.train.labels.names
    if problem == "regression":
        return f"{float(targets.mean()):.3f}"
    labels = best_constant_labels(targets) if problem == "multi" else [int(np.bincount(targets).argmax())]
    return " and ".join(repr(names[label]) for label in labels[:3]) + (" ..." if len(labels) > 3 else "")


def _fit_bayes(data: Labelled, problem: Problem, features: Features) -> tuple[Predict, int]:
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

    estimator = {PixelFeatures: BernoulliNB, ColumnFeatures: GaussianNB}.get(type(features), MultinomialNB)
    return _fit_classifier(estimator, features.fit_transform(data.train), features, data, problem)


def _fit_linear(data: Labelled, problem: Problem, features: Features, c_values: Sequence[float]) -> tuple[Predict, int]:
    """Logistic or ridge regression with the regularization that is best on the validation set."""
    from sklearn.linear_model import LogisticRegression, Ridge

    matrix = features.fit_transform(data.train)
    is_binary = problem == "multi" or len(data.labels) == 2
    solver = "liblinear" if is_binary and isinstance(features, WordCounts) else "lbfgs"

    def fit(c: float) -> tuple[Predict, int]:
        if problem != "regression":
            estimator = partial(LogisticRegression, C=c, solver=solver, max_iter=MAX_ITERATIONS)
            return _fit_classifier(estimator, matrix, features, data, problem)
        ridge = Ridge(alpha=4 / c).fit(matrix, data.train.targets)
        return lambda examples: ridge.predict(features.transform(examples))[:, None], ridge.coef_.size + 1

    def validation_score(candidate: tuple[Predict, int]) -> float:
        return score_examples(candidate[0](data.valid).astype(np.float32), data.valid, problem).value

    if len(c_values) == 1 or len(data.train) >= MAX_TUNED_EXAMPLES:
        return fit(DEFAULT_C)
    return max(map(fit, c_values), key=validation_score)


def _fit_classifier(
    estimator: Callable[[], Any], matrix: Any, features: Features, data: Labelled, problem: Problem
) -> tuple[Predict, int]:
    """Fit one classifier or, if an example may have several labels, one for each label."""
    targets = data.train.targets
    columns = [targets] if problem != "multi" else list(targets.T.astype(np.int64))
    classifiers = [_Classifier(estimator(), matrix, column) for column in columns]

    def predict(examples: Examples) -> Array:
        rows = features.transform(examples)
        if problem == "multi":
            return np.stack([classifier.probabilities(rows, 2)[:, 1] for classifier in classifiers], axis=1)
        return classifiers[0].probabilities(rows, len(data.labels))

    return predict, sum(classifier.parameters for classifier in classifiers)


class _Classifier:
    """A classifier of scikit-learn, or a constant where all examples have one class, which scikit-learn refuses."""

    def __init__(self, estimator: Any, matrix: Any, targets: Array) -> None:
        self.classes = np.unique(targets)
        self.model = estimator.fit(matrix, targets) if len(self.classes) > 1 else None

    def probabilities(self, matrix: Any, labels: int) -> Array:
        probabilities = np.zeros((matrix.shape[0], labels))
        probabilities[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(matrix)
        return probabilities

    @property
    def parameters(self) -> int:
        names = ("coef_", "feature_log_prob_", "theta_")  # weights, log-probabilities, or means
        weights = next((getattr(self.model, name) for name in names if hasattr(self.model, name)), np.zeros(0))
        return int(weights.size) + len(weights)


ENDING_LETTERS = 3
EPOCHS = 8
SEED = 0


def _fit_usual_tag(data: Labelled) -> tuple[Predict, int]:
    prior = np.bincount(data.train.targets, minlength=len(data.labels)) / len(data.train.targets)
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    by_ending: dict[str, Counter[int]] = defaultdict(Counter)
    assert isinstance(data.train, TagExamples)
    words = (word for sentence in sentences_of(data.train) for word in sentence)
    for word, tag in zip(words, data.train.targets.tolist(), strict=True):
        by_word[word][tag] += 1
        by_ending[word[-ENDING_LETTERS:].lower()][tag] += 1

    def probabilities(word: str) -> Array:
        tags: dict[int, int] = by_word.get(word) or by_ending.get(word[-ENDING_LETTERS:].lower()) or {}
        counts = np.zeros(len(prior))
        for tag, count in tags.items():
            counts[tag] = count
        return (counts + prior) / (counts.sum() + 1)

    def predict(examples: Any) -> Array:
        return np.array([probabilities(word) for sentence in sentences_of(examples) for word in sentence])

    return predict, sum(len(tags) for table in (by_word, by_ending) for tags in table.values())


def _fit_logistic_tagger(data: Labelled) -> tuple[Predict, int]:
    from sklearn.linear_model import SGDClassifier

    estimator = partial(SGDClassifier, loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, random_state=SEED)
    features = TaggedWordFeatures()
    return _fit_classifier(estimator, features.fit_transform(data.train), features, data, "single")
