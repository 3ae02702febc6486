"""A model of qkv as the last part of a scikit-learn pipeline, with cross-validation and a search over its parameters.

    pip install 'qkv[compare]'
    python examples/sklearn_pipeline.py SMSSpamCollection

The file has a label, a TAB and a text on each line.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import qkv


def without_digits(texts: list[str]) -> list[str]:
    return ["".join("0" if letter.isdigit() else letter for letter in text) for text in texts]


def main(path: str, steps: int = 200) -> tuple[float, dict[str, object]]:
    """The mean F1 in cross-validation, and the parameters that a search prefers."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    classifier = qkv.QkvClassifier("bag", steps=steps, class_weights=True, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(without_digits), classifier)
    score = float(cross_val_score(pipeline, texts, labels, cv=3, scoring="f1_macro").mean())
    search = GridSearchCV(pipeline, {"qkvclassifier__model": ["bag", "linear"]}, cv=2).fit(texts, labels)
    return score, dict(search.best_params_)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/sklearn_pipeline.py FILE")
    score, best = main(sys.argv[1])
    print(f"macro F1 {score:.3f} in cross-validation; the search prefers {best}")
