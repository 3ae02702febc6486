"""Baselines without a network: a constant prediction, naive Bayes, and TF-IDF with a linear model (scikit-learn).

    majority             the most frequent class, or the mean
    naive Bayes          p(class) Π p(word | class) of words and bigrams, present or not (Wang and Manning 2012)
    TF-IDF + logistic    (1 + log tf) · idf of words and bigrams, then logistic regression; for regression, ridge

For images, pixels take the place of words, and for tables, columns. The regularization of the linear model is chosen on
the validation set. For tagging:

    majority             the most frequent tag
    usual tag            the most frequent tag of a word; of an unknown word, that of words with the same ending
    logistic             logistic regression on the word, its neighbours, endings, beginnings and shape (hashed)
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qkv.data.encode import sentences_of, texts_of
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, TagExamples
from qkv.errors import is_installed
from qkv.evaluation.labelled_evaluation import score_examples
from qkv.objectives.classification import Problem

Array = NDArray[Any]
Predict = Callable[[Examples], Array]  # gives the probabilities of all labels, or numbers

WORD = re.compile(r"\w+|[^\w\s]")
C_VALUES = (16.0, 4.0, 1.0)  # scikit-learn's C: a larger one regularizes less
MAX_TUNED_EXAMPLES = 200_000  # with more examples, only C = 4 is tried
MAX_ITERATIONS = 300
TF_IDF = "TF-IDF + logistic"
RIDGE = "TF-IDF + ridge"


@dataclass(frozen=True)
class FittedBaseline:
    name: str
    predict: Predict
    parameters: int
    seconds: float  # of fitting


def fit_baselines(data: Labelled, problem: Problem) -> Iterator[FittedBaseline]:
    """Fit the baselines for these data, the simplest first; without scikit-learn, only those that do not need it."""
    regression = problem == "regression"
    bayes_features: Features
    linear_features: Features
    match data.train:
        case TagExamples():
            yield _timed("majority", lambda: _fit_majority(data, problem))
            yield _timed("usual tag", lambda: _fit_usual_tag(data))
            if is_installed("sklearn"):
                yield _timed("logistic", lambda: _fit_logistic_tagger(data))
            return
        case ImageExamples():
            bayes_features, linear_features = PixelFeatures(binary=True), PixelFeatures(binary=False)
            linear_name = "logistic on pixels"
        case NumberExamples():
            bayes_features, linear_features = ColumnFeatures(), ColumnFeatures()
            linear_name = "ridge" if regression else "logistic"
        case _:
            bayes_features, linear_features = WordFeatures(tf_idf=False), WordFeatures(tf_idf=True)
            linear_name = RIDGE if regression else TF_IDF
    yield _timed("mean" if regression else "majority", lambda: _fit_majority(data, problem))
    if is_installed("sklearn"):
        if not regression:
            yield _timed("naive Bayes", lambda: _fit_bayes(data, problem, bayes_features))
        yield _timed(linear_name, lambda: _fit_linear(data, problem, linear_features))


def _timed(name: str, fit: Callable[[], tuple[Predict, int]]) -> FittedBaseline:
    """Call `fit`, which gives the predictor and its number of parameters."""
    started_at = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that has not fully converged is still a baseline
        predict, parameters = fit()
    seconds = time.perf_counter() - started_at
    return FittedBaseline(name, lambda examples: predict(examples).astype(np.float32), parameters, seconds)


def _fit_majority(data: Labelled, problem: Problem) -> tuple[Predict, int]:
    targets = data.train.targets
    if problem == "single":
        prediction = np.bincount(targets, minlength=len(data.labels)) / len(targets)
    else:
        prediction = targets.astype(np.float64).mean(0, keepdims=True).reshape(-1)
    return lambda examples: np.tile(prediction, (len(examples.targets), 1)), 0


@runtime_checkable
class Features(Protocol):
    """Turns examples into a matrix of features. As in scikit-learn, `fit_transform` is for the training set."""

    def fit_transform(self, examples: Any) -> Any: ...
    def transform(self, examples: Any) -> Any: ...


class WordFeatures:
    """Words and bigrams as columns; the second text of a pair has its own columns."""

    def __init__(self, *, tf_idf: bool) -> None:
        self.tf_idf = tf_idf

    @staticmethod
    def grams(texts: tuple[str, str | None]) -> list[str]:
        grams = []
        for index, text in enumerate(texts):
            if text is not None:
                words = WORD.findall(text.lower())
                bigrams = map(" ".join, pairwise(words))
                grams += [f"{index}{gram}" for gram in (*words, *bigrams)]
        return grams or ["empty"]

    def fit_transform(self, examples: Any) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        if self.tf_idf:
            self.vectorizer = TfidfVectorizer(analyzer=self.grams, sublinear_tf=True, dtype=np.float32)
        else:
            self.vectorizer = CountVectorizer(analyzer=self.grams, binary=True, dtype=np.float32)
        return self.vectorizer.fit_transform(texts_of(examples))

    def transform(self, examples: Any) -> Any:
        return self.vectorizer.transform(texts_of(examples))


class PixelFeatures:
    def __init__(self, *, binary: bool) -> None:
        self.binary = binary

    def transform(self, examples: Any) -> Any:
        pixels = examples.values.reshape(len(examples), -1)
        return (pixels > 127).astype(np.float32) if self.binary else pixels.astype(np.float32) / 255

    fit_transform = transform


class ColumnFeatures:
    """Columns of numbers, standardized; missing values are replaced by the mean."""

    def fit_transform(self, examples: Any) -> Any:
        numbers = examples.values.astype(np.float64)
        has_values = ~np.isnan(numbers).all(0)
        self.mean, self.deviation = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        self.mean[has_values] = np.nanmean(numbers[:, has_values], 0)
        deviation = np.nanstd(numbers[:, has_values], 0)
        self.deviation[has_values] = np.where(deviation > 0, deviation, 1.0)
        return self.transform(examples)

    def transform(self, examples: Any) -> Any:
        return np.nan_to_num((examples.values - self.mean) / self.deviation)


def _fit_bayes(data: Labelled, problem: Problem, features: Features) -> tuple[Predict, int]:
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

    estimator = {PixelFeatures: BernoulliNB, ColumnFeatures: GaussianNB}.get(type(features), MultinomialNB)
    return _fit_classifier(estimator, features.fit_transform(data.train), features, data, problem)


def _fit_linear(data: Labelled, problem: Problem, features: Features) -> tuple[Predict, int]:
    """Logistic or ridge regression with the regularization that is best on the validation set."""
    from sklearn.linear_model import LogisticRegression, Ridge

    matrix = features.fit_transform(data.train)
    is_binary = problem == "multi" or len(data.labels) == 2
    solver = "liblinear" if is_binary and isinstance(features, WordFeatures) else "lbfgs"

    def fit(c: float) -> tuple[Predict, int]:
        if problem != "regression":
            estimator = partial(LogisticRegression, C=c, solver=solver, max_iter=MAX_ITERATIONS)
            return _fit_classifier(estimator, matrix, features, data, problem)
        ridge = Ridge(alpha=4 / c).fit(matrix, data.train.targets)
        return lambda examples: ridge.predict(features.transform(examples))[:, None], ridge.coef_.size + 1

    def validation_score(candidate: tuple[Predict, int]) -> float:
        return score_examples(candidate[0](data.valid).astype(np.float32), data.valid, problem).value

    return max(map(fit, C_VALUES if len(data.train) < MAX_TUNED_EXAMPLES else C_VALUES[1:2]), key=validation_score)


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
HASHED_FEATURES = 2**18
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


def word_features(words: Sequence[str]) -> Iterator[list[str]]:
    """The features of each word of a sentence, with a letter for the kind of each feature."""
    for position, word in enumerate(words):
        lower = word.lower()
        before = words[position - 1].lower() if position else "<s>"
        after = words[position + 1].lower() if position + 1 < len(words) else "</s>"
        shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
        short_shape = "".join(c for index, c in enumerate(shape) if index == 0 or c != shape[index - 1])
        affixes = [f"-{lower[-size:]}" for size in (1, 2, 3, 4)] + [f"{lower[:size]}-" for size in (2, 3)]
        context = [f"b{before}", f"n{after}", f"s{short_shape}", f"p{before} {lower}", f"q{lower} {after}"]
        yield [f"w{lower}", *context, *affixes, "1"]


class _TaggedWordFeatures:
    """The features of words, hashed into columns."""

    def transform(self, examples: Any) -> Any:
        from sklearn.feature_extraction import FeatureHasher

        hasher = FeatureHasher(HASHED_FEATURES, input_type="string", dtype=np.float32)
        return hasher.transform(row for words in sentences_of(examples) for row in word_features(words))

    fit_transform = transform


def _fit_logistic_tagger(data: Labelled) -> tuple[Predict, int]:
    from sklearn.linear_model import SGDClassifier

    estimator = partial(SGDClassifier, loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, random_state=SEED)
    features = _TaggedWordFeatures()
    return _fit_classifier(estimator, features.fit_transform(data.train), features, data, "single")
