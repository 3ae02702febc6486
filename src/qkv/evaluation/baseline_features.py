"""Matrices of features for baselines without a network: words and bigrams, pixels, columns, tagged words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np

from qkv.data.encode import sentences_of, texts_of

WORD = re.compile(r"\w+|[^\w\s]")
HASHED_FEATURES = 2**18


@runtime_checkable
class Features(Protocol):
    """Turns examples into a matrix of features. As in scikit-learn, `fit_transform` is for the training set."""

    def fit_transform(self, examples: Any) -> Any: ...
    def transform(self, examples: Any) -> Any: ...


class WordCounts:
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


def word_features(words: Sequence[str]) -> Iterator[list[str]]:
    """The features of each word of a sentence; a letter or a hyphen in each marks its kind."""
    for position, word in enumerate(words):
        lower = word.lower()
        before = words[position - 1].lower() if position else "<s>"
        after = words[position + 1].lower() if position + 1 < len(words) else "</s>"
        shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
        short_shape = "".join(c for index, c in enumerate(shape) if index == 0 or c != shape[index - 1])
        affixes = [f"-{lower[-size:]}" for size in (1, 2, 3, 4)] + [f"{lower[:size]}-" for size in (2, 3)]
        context = [f"b{before}", f"n{after}", f"s{short_shape}", f"p{before} {lower}", f"q{lower} {after}"]
        yield [f"w{lower}", *context, *affixes, "1"]


class TaggedWordFeatures:
    """The features of words, hashed into columns."""

    def transform(self, examples: Any) -> Any:
        from sklearn.feature_extraction import FeatureHasher

        hasher = FeatureHasher(HASHED_FEATURES, input_type="string", dtype=np.float32)
        return hasher.transform(row for words in sentences_of(examples) for row in word_features(words))

    fit_transform = transform
