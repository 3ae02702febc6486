"""What is held against networks: one answer for all, naive Bayes, and TF-IDF with a linear model (scikit-learn).

    majority             the class that is most frequent, or the mean
    naive Bayes          p(class) Π p(word | class), words and pairs of neighbours, there or not (Wang and Manning 2012)
    TF-IDF + logistic    (1 + log tf) · idf of words and pairs of neighbours, then logistic regression; of numbers ridge

Pictures have their pixels in place of words. How strongly the linear model is held back is chosen on the rows that
everything is chosen on. Taggers: untaught_tags.py.

What is held against taggers that are networks.

majority        the tag that is most frequent
usual tag       the tag that a word had most often; of a new word, that of words with its ending
logistic        logistic regression on the word, its neighbours, endings, beginnings and its shape (hashed)
"""

from __future__ import annotations

import re
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.encode import sentences_of, texts_of
from qkv.data.examples import Examples, ImageExamples, Labelled, NumberExamples, TagExamples
from qkv.errors import installed
from qkv.evaluation.labelled_evaluation import LabelledScore, score_answers, score_tags
from qkv.objectives.classification import Problem

Array = NDArray[Any]
Answers = Callable[[Examples], Array]  # shares of the labels, or numbers

WORD = re.compile(r"\w+|[^\w\s]")
HELD_BACK = (16.0, 4.0, 1.0)  # C of scikit-learn: the larger, the freer
MANY = 200_000  # examples, from which on one C is tried only: 4
ITERATIONS = 300
TF_IDF = "TF-IDF + logistic"
RIDGE = "TF-IDF + ridge"


@dataclass(frozen=True)
class Fitted:
    """A system that needs no network: what it says, and what it cost."""

    name: str
    answers: Answers
    parameters: int
    seconds: float


def fitted(found: Labelled, problem: Problem) -> Iterator[Fitted]:
    """One after the other, the simplest first; without scikit-learn only those that do not need it."""

    if isinstance(found.train, TagExamples):
        yield from fitted_taggers(found)
        return
    yield _timed("majority" if problem != "regression" else "mean", lambda: _majority(found, problem))
    if not installed("sklearn"):
        return
    if isinstance(found.train, ImageExamples):
        yield _timed("naive Bayes", lambda: _bayes(found, problem, _Pixels(binary=True)))
        yield _timed("logistic on pixels", lambda: _linear(found, problem, _Pixels(binary=False)))
        return
    if isinstance(found.train, NumberExamples):
        if problem != "regression":
            yield _timed("naive Bayes", lambda: _bayes(found, problem, _Columns()))
        name = "ridge" if problem == "regression" else "logistic"
        yield _timed(name, lambda: _linear(found, problem, _Columns()))
        return
    if problem != "regression":
        yield _timed("naive Bayes", lambda: _bayes(found, problem, _Words(tf_idf=False)))
    name = RIDGE if problem == "regression" else TF_IDF
    yield _timed(name, lambda: _linear(found, problem, _Words(tf_idf=True)))


def _timed(name: str, fit: Callable[[], tuple[Answers, int]]) -> Fitted:
    mark = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that is not quite done is held against networks all the same
        answers, parameters = fit()
    return Fitted(name, answers, parameters, time.perf_counter() - mark)


def judge(answers: Array, examples: Examples, problem: Problem) -> LabelledScore:
    if isinstance(examples, TagExamples):
        return score_tags(answers.astype(np.float32), examples)
    return score_answers(answers.astype(np.float32), examples.targets, examples.labels.names, problem)


def _majority(found: Labelled, problem: Problem) -> tuple[Answers, int]:
    targets = found.train.targets
    if problem == "single":
        share = np.bincount(targets, minlength=len(found.labels)) / len(targets)
    else:
        share = targets.astype(np.float64).mean(0, keepdims=True).reshape(-1)
    return lambda examples: np.tile(share, (len(examples), 1)), 0


class _Words:
    """Words and pairs of neighbours as columns; those of a second text are columns of their own."""

    def __init__(self, *, tf_idf: bool) -> None:
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        if tf_idf:
            self.columns = TfidfVectorizer(analyzer=self.grams, sublinear_tf=True, dtype=np.float32)
        else:
            self.columns = CountVectorizer(analyzer=self.grams, binary=True, dtype=np.float32)

    @staticmethod
    def grams(texts: tuple[str, str | None]) -> list[str]:
        found = []
        for number, text in enumerate(texts):
            if text is not None:
                words = WORD.findall(text.lower())
                pairs = map(" ".join, pairwise(words))
                found += [f"{number}{each}" for each in (*words, *pairs)]
        return found or ["empty"]

    def learn(self, examples: Any) -> Any:
        return self.columns.fit_transform(texts_of(examples))

    def read(self, examples: Any) -> Any:
        return self.columns.transform(texts_of(examples))


class _Pixels:
    def __init__(self, *, binary: bool) -> None:
        self.binary = binary

    def read(self, examples: Any) -> Any:
        flat = examples.pixels.reshape(len(examples), -1)
        return (flat > 127).astype(np.float32) if self.binary else flat.astype(np.float32) / 255

    learn = read


class _Columns:
    """Columns of numbers on one scale; what is missing is the mean."""

    def learn(self, examples: Any) -> Any:
        numbers = examples.numbers.astype(np.float64)
        there = ~np.isnan(numbers).all(0)
        self.center, self.spread = np.zeros(numbers.shape[1]), np.ones(numbers.shape[1])
        self.center[there], spread = np.nanmean(numbers[:, there], 0), np.nanstd(numbers[:, there], 0)
        self.spread[there] = np.where(spread > 0, spread, 1.0)
        return self.read(examples)

    def read(self, examples: Any) -> Any:
        return np.nan_to_num((examples.numbers - self.center) / self.spread)


def _bayes(found: Labelled, problem: Problem, features: Any) -> tuple[Answers, int]:
    from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB

    kind = {_Pixels: BernoulliNB, _Columns: GaussianNB}.get(type(features), MultinomialNB)
    table = features.learn(found.train)
    return _answering([_Decision(kind(), table, y) for y in _columns(found, problem)], features, found, problem)


def _linear(found: Labelled, problem: Problem, features: Any) -> tuple[Answers, int]:
    from sklearn.linear_model import LogisticRegression, Ridge

    table, targets = features.learn(found.train), _columns(found, problem)
    binary = problem == "multi" or len(found.labels) == 2
    tried: list[tuple[float, Answers, int]] = []
    for strength in HELD_BACK if len(found.train) < MANY else HELD_BACK[1:2]:
        if problem == "regression":
            ridge = Ridge(alpha=4 / strength).fit(table, targets[0])
            answers: Answers = lambda each, ridge=ridge: ridge.predict(features.read(each))[:, None]  # type: ignore[misc]  # noqa: E731
            parameters = ridge.coef_.size + 1
        else:
            solver = "liblinear" if binary and isinstance(features, _Words) else "lbfgs"
            made = [
                _Decision(LogisticRegression(C=strength, solver=solver, max_iter=ITERATIONS), table, y) for y in targets
            ]
            answers, parameters = _answering(made, features, found, problem)
        tried.append((judge(answers(found.valid), found.valid, problem).value, answers, parameters))
    _, answers, parameters = max(tried, key=lambda each: each[0])
    return answers, parameters


def _columns(found: Labelled, problem: Problem) -> list[Array]:
    """What is to be learned, one decision after the other."""
    targets = found.train.targets
    return [targets] if problem != "multi" else list(targets.T.astype(np.int64))


class _Decision:
    """A model of scikit-learn, or the one class that there is."""

    def __init__(self, model: Any, table: Any, targets: Array) -> None:
        self.classes = np.unique(targets)
        self.model = model.fit(table, targets) if len(self.classes) > 1 else None

    def shares(self, table: Any, labels: int) -> Array:
        found = np.zeros((table.shape[0], labels))
        found[:, self.classes] = 1.0 if self.model is None else self.model.predict_proba(table)
        return found

    @property
    def parameters(self) -> int:
        names = (
            "coef_",
            "feature_log_prob_",
            "theta_",
        )  # of a normal distribution there are means, and as many spreads
        weights = next((getattr(self.model, name) for name in names if hasattr(self.model, name)), np.zeros(0))
        return int(weights.size) + len(weights)


def _answering(made: list[_Decision], features: Any, found: Labelled, problem: Problem) -> tuple[Answers, int]:
    def answers(examples: Examples) -> Array:
        table = features.read(examples)
        if problem == "multi":
            return np.stack([each.shares(table, 2)[:, 1] for each in made], axis=1)
        return made[0].shares(table, len(found.labels))

    return answers, sum(each.parameters for each in made)


ENDING = 3  # letters
HASHED = 2**18
EPOCHS = 8
SEED = 0


def fitted_taggers(found: Labelled) -> Iterator[Fitted]:
    yield _timed("majority", lambda: _majority_tags(found))
    yield _timed("usual tag", lambda: _usual(found))
    if installed("sklearn"):
        yield _timed("logistic", lambda: _logistic(found))


def _shares(found: Labelled) -> NDArray[np.float64]:
    counts = np.bincount(found.train.targets, minlength=len(found.labels))
    return counts / counts.sum()


def _majority_tags(found: Labelled) -> tuple[Answers, int]:
    share = _shares(found)
    return lambda examples: np.tile(share, (int(examples.lengths.sum()), 1)), 0


def _usual(found: Labelled) -> tuple[Answers, int]:
    prior, labels = _shares(found), len(found.labels)
    tables: tuple[dict[str, Counter[int]], ...] = (defaultdict(Counter), defaultdict(Counter))
    assert isinstance(found.train, TagExamples)
    words = (word for sentence in sentences_of(found.train) for word in sentence)
    for word, tag in zip(words, found.train.targets.tolist(), strict=True):
        tables[0][word][tag] += 1
        tables[1][word[-ENDING:].lower()][tag] += 1

    def shares(word: str) -> NDArray[np.float64]:
        counts: dict[int, int] = tables[0].get(word) or tables[1].get(word[-ENDING:].lower()) or {}
        seen = np.zeros(labels)
        for tag, often in counts.items():
            seen[tag] = often
        return (seen + prior) / (seen.sum() + 1)

    def answers(examples: Any) -> NDArray[np.float64]:
        return np.array([shares(word) for sentence in sentences_of(examples) for word in sentence])

    return answers, sum(len(each) for table in tables for each in table.values())


def features(words: Sequence[str]) -> Iterator[list[str]]:
    """Of each word of a sentence."""
    for place, word in enumerate(words):
        low = word.lower()
        before = words[place - 1].lower() if place else "<s>"
        after = words[place + 1].lower() if place + 1 < len(words) else "</s>"
        shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
        squeezed = "".join(c for number, c in enumerate(shape) if number == 0 or c != shape[number - 1])
        parts = [f"-{low[-size:]}" for size in (1, 2, 3, 4)] + [f"{low[:size]}-" for size in (2, 3)]
        yield [f"w{low}", f"b{before}", f"n{after}", f"s{squeezed}", f"p{before} {low}", f"q{low} {after}", *parts, "1"]


def _logistic(found: Labelled) -> tuple[Answers, int]:
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(HASHED, input_type="string", dtype=np.float32)

    def table(examples: Any) -> Any:
        return hasher.transform(each for words in sentences_of(examples) for each in features(words))

    model = SGDClassifier(loss="log_loss", alpha=1e-6, max_iter=EPOCHS, tol=None, random_state=SEED)
    model.fit(table(found.train), found.train.targets)

    def answers(examples: Any) -> NDArray[np.float64]:
        shares = np.zeros((int(examples.lengths.sum()), len(found.labels)))
        shares[:, model.classes_] = model.predict_proba(table(examples))
        return shares

    return answers, int(model.coef_.size + len(model.coef_))
