"""Baselines without a network: one answer for all, naive Bayes, and TF-IDF with a linear model (scikit-learn).

    majority             the class that is most frequent, or the mean
    naive Bayes          p(class) Π p(word | class) of words and bigrams, present or not (Wang and Manning 2012)
    TF-IDF + logistic    (1 + log tf) · idf of words and bigrams, then logistic regression; of numbers ridge

Images have their pixels in place of words. The regularization of the linear model is chosen on the validation set. Of
taggers:

    majority             the tag that is most frequent
    usual tag            the tag that a word had most often; of a new word, that of words with its ending
    logistic             logistic regression on the word, its neighbours, endings, beginnings and its shape (hashed)
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
Answers = Callable[[Examples], Array]  # shares of the labels, or numbers

WORD = re.compile(r"\w+|[^\w\s]")
STRENGTHS = (16.0, 4.0, 1.0)  # C of scikit-learn: the larger, the weaker the regularization
MANY = 200_000  # examples, from which on one C is tried only: 4
ITERATIONS = 300
TF_IDF = "TF-IDF + logistic"
RIDGE = "TF-IDF + ridge"


@dataclass(frozen=True)
class Fitted:
    """A system that needs no network: its answers, and what it cost."""

    name: str
    answers: Answers
    parameters: int
    seconds: float


def fitted(data: Labelled, problem: Problem) -> Iterator[Fitted]:
    """One after the other, the simplest first; without scikit-learn only those that do not need it."""
    regression = problem == "regression"
    bayes: Features
    linear: Features
    match data.train:
        case TagExamples():
            yield _timed("majority", lambda: _majority(data, problem))
            yield _timed("usual tag", lambda: _most_frequent_tag(data))
            if is_installed("sklearn"):
                yield _timed("logistic", lambda: _logistic_tags(data))
            return
        case ImageExamples():
            bayes, linear, name = _Pixels(binary=True), _Pixels(binary=False), "logistic on pixels"
        case NumberExamples():
            bayes, linear, name = _Columns(), _Columns(), "ridge" if regression else "logistic"
        case _:
            bayes, linear, name = _Words(tf_idf=False), _Words(tf_idf=True), RIDGE if regression else TF_IDF
    yield _timed("mean" if regression else "majority", lambda: _majority(data, problem))
    if is_installed("sklearn"):
        if not regression:
            yield _timed("naive Bayes", lambda: _bayes(data, problem, bayes))
        yield _timed(name, lambda: _linear(data, problem, linear))


def _timed(name: str, fit: Callable[[], tuple[Answers, int]]) -> Fitted:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit that has not quite converged is a baseline all the same
        answers, parameters = fit()
    seconds = time.perf_counter() - began
    return Fitted(name, lambda examples: answers(examples).astype(np.float32), parameters, seconds)


def _majority(data: Labelled, problem: Problem) -> tuple[Answers, int]:
    targets = data.train.targets
    if problem == "single":
        share = np.bincount(targets, minlength=len(data.labels)) / len(targets)
    else:
        share = targets.astype(np.float64).mean(0, keepdims=True).reshape(-1)
    return lambda examples: np.tile(share, (len(examples.targets), 1)), 0


@runtime_checkable
class Features(Protocol):
    """Turns examples into a matrix; `learn` first sees the training set."""

    def learn(self, examples: Any) -> Any: ...
    def read(self, examples: Any) -> Any: ...


class _Words:
    """Words and bigrams as columns; those of a second text have columns of their own."""

    def __init__(self, *, tf_idf: bool) -> None:
        self.tf_idf = tf_idf

    @staticmethod
    def grams(texts: tuple[str, str | None]) -> list[str]:
        grams = []
        for number, text in enumerate(texts):
            if text is not None:
                words = WORD.findall(text.lower())
                bigrams = map(" ".join, pairwise(words))
                grams += [f"{number}{gram}" for gram in (*words, *bigrams)]
        return grams or ["empty"]

    def learn(self, examples: Any) -> Any:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        if self.tf_idf:
            self.columns = TfidfVectorizer(analyzer=self.grams, sublinear_tf=True, dtype=np.float32)
        else:
            self.columns = CountVectorizer(analyzer=self.grams, binary=True, dtype=np.float32)
        return self.columns.fit_transform(texts_of(examples))

    def read(self, examples: Any) -> Any:
        return self.columns.transform(texts_of(examples))


class _Pixels:
    def __init__(self, *, binary: bool) -> None:
        self.binary = binary

    def read(self, examples: Any) -> Any:
        flat = examples.values.reshape(len(examples), -1)
        return (flat > 127).astype(np.float32) if self.binary else flat.astype(np.float32) / 255

    learn = read


class _Columns:
    """Columns of numbers on one scale; what is missing is the mean."""

    def learn(self, examples: Any) -> Any:
        numbers = examples.values.astype(np.float64)
        known = ~np.isnan(numbers).all(0)
        self.center, self.spread = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        self.center[known], spread = np.nanmean(numbers[:, known], 0), np.nanstd(numbers[:, known], 0)
        self.spread[known] = np.where(spread > 0, spread, 1.0)
        return self.read(examples)

    def read(self, examples: Any) -> Any:
        return np.nan_to_num((examples.values - self.center) / self.spread)


def _bayes(data: Labelled, problem: Problem, features: Features) -> tuple[Answers, int]:
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

    kind = {_Pixels: BernoulliNB, _Columns: GaussianNB}.get(type(features), MultinomialNB)
    return _classifier(kind, features.learn(data.train), features, data, problem)


def _linear(data: Labelled, problem: Problem, features: Features) -> tuple[Answers, int]:
    """Logistic regression, or ridge, with the regularization that suits the validation set."""
    from sklearn.linear_model import LogisticRegression, Ridge

    table = features.learn(data.train)
    binary = problem == "multi" or len(data.labels) == 2
    solver = "liblinear" if binary and isinstance(features, _Words) else "lbfgs"

    def fit(strength: float) -> tuple[Answers, int]:
        if problem != "regression":
            kind = partial(LogisticRegression, C=strength, solver=solver, max_iter=ITERATIONS)
            return _classifier(kind, table, features, data, problem)
        ridge = Ridge(alpha=4 / strength).fit(table, data.train.targets)
        return lambda examples: ridge.predict(features.read(examples))[:, None], ridge.coef_.size + 1

    def validation_score(candidate: tuple[Answers, int]) -> float:
        return score_examples(candidate[0](data.valid).astype(np.float32), data.valid, problem).value

    return max(map(fit, STRENGTHS if len(data.train) < MANY else STRENGTHS[1:2]), key=validation_score)


def _classifier(
    kind: Callable[[], Any], table: Any, features: Features, data: Labelled, problem: Problem
) -> tuple[Answers, int]:
    """Fit one decision, or with several labels one for each."""
    targets = data.train.targets
    columns = [targets] if problem != "multi" else list(targets.T.astype(np.int64))
    decisions = [_SingleDecision(kind(), table, column) for column in columns]

    def answers(examples: Examples) -> Array:
        matrix = features.read(examples)
        if problem == "multi":
            return np.stack([decision.shares(matrix, 2)[:, 1] for decision in decisions], axis=1)
        return decisions[0].shares(matrix, len(data.labels))

    return answers, sum(decision.parameters for decision in decisions)


class _SingleDecision:
    """A model of scikit-learn, or the one class that all examples have."""

    def __init__(self, model: Any, table: Any, targets: Array) -> None:
        self.classes = np.unique(targets)
        self.model = model.fit(table, targets) if len(self.classes) > 1 else None

    def shares(self, table: Any, labels: int) -> Array:
        shares = np.zeros((table.shape[0], labels))
        shares[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(table)
        return shares

    @property
    def parameters(self) -> int:
        names = ("coef_", "feature_log_prob_", "theta_")  # of a normal distribution the means, and as many variances
        weights = next((getattr(self.model, name) for name in names if hasattr(self.model, name)), np.zeros(0))
        return int(weights.size) + len(weights)


ENDING = 3  # letters
HASHED = 2**18
EPOCHS = 8
SEED = 0


def _most_frequent_tag(data: Labelled) -> tuple[Answers, int]:
    prior = np.bincount(data.train.targets, minlength=len(data.labels)) / len(data.train.targets)
    by_word: dict[str, Counter[int]] = defaultdict(Counter)
    by_ending: dict[str, Counter[int]] = defaultdict(Counter)
    assert isinstance(data.train, TagExamples)
    words = (word for sentence in sentences_of(data.train) for word in sentence)
    for word, tag in zip(words, data.train.targets.tolist(), strict=True):
        by_word[word][tag] += 1
        by_ending[word[-ENDING:].lower()][tag] += 1

    def shares(word: str) -> Array:
        counts: dict[int, int] = by_word.get(word) or by_ending.get(word[-ENDING:].lower()) or {}
        seen = np.zeros(len(prior))
        for tag, count in counts.items():
            seen[tag] = count
        return (seen + prior) / (seen.sum() + 1)

    def answers(examples: Any) -> Array:
        return np.array([shares(word) for sentence in sentences_of(examples) for word in sentence])

    return answers, sum(len(tags) for table in (by_word, by_ending) for tags in table.values())


def word_features(words: Sequence[str]) -> Iterator[list[str]]:
    """The features of each word of a sentence."""
    for place, word in enumerate(words):
        low = word.lower()
        before = words[place - 1].lower() if place else "<s>"
        after = words[place + 1].lower() if place + 1 < len(words) else "</s>"
        shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
        squeezed = "".join(c for number, c in enumerate(shape) if number == 0 or c != shape[number - 1])
        parts = [f"-{low[-size:]}" for size in (1, 2, 3, 4)] + [f"{low[:size]}-" for size in (2, 3)]
        yield [f"w{low}", f"b{before}", f"n{after}", f"s{squeezed}", f"p{before} {low}", f"q{low} {after}", *parts, "1"]


class _TaggedWords:
    """The features of words, hashed into columns."""

    def read(self, examples: Any) -> Any:
        from sklearn.feature_extraction import FeatureHasher

        hasher = FeatureHasher(HASHED, input_type="string", dtype=np.float32)
        return hasher.transform(row for words in sentences_of(examples) for row in word_features(words))

    learn = read


def _logistic_tags(data: Labelled) -> tuple[Answers, int]:
    from sklearn.linear_model import SGDClassifier

    kind = partial(SGDClassifier, loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, random_state=SEED)
    features = _TaggedWords()
    return _classifier(kind, features.learn(data.train), features, data, "single")
