"""What is held against taggers that are networks.

majority        the tag that is most frequent
usual tag       the tag that a word had most often; of a new word, that of words with its ending
logistic        logistic regression on the word, its neighbours, endings, beginnings and its shape (hashed)
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.data.labelled.encoding import sentences_of
from qkv.data.labelled.examples import Labelled, TagExamples
from qkv.extras import installed
from qkv.studies.untaught import Answers, Fitted, _timed

ENDING = 3  # letters
HASHED = 2**18
EPOCHS = 8
SEED = 0


def fitted(found: Labelled) -> Iterator[Fitted]:
    yield _timed("majority", lambda: _majority(found))
    yield _timed("usual tag", lambda: _usual(found))
    if installed("sklearn"):
        yield _timed("logistic", lambda: _logistic(found))


def _shares(found: Labelled) -> NDArray[np.float64]:
    counts = np.bincount(found.train.targets, minlength=len(found.labels))
    return counts / counts.sum()


def _majority(found: Labelled) -> tuple[Answers, int]:
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
