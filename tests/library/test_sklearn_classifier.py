"""`QkvClassifier` behaves as scikit-learn asks of a classifier, on numbers and on real texts."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import qkv
from data_at_hand import real
from qkv.data.cache import root
from qkv.errors import InputError

pytest.importorskip("sklearn", reason="pip install 'qkv[compare]'")
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

CHECKS = """
import json
from sklearn.utils.estimator_checks import check_estimator
import qkv
results = check_estimator(qkv.QkvClassifier(steps=60), legacy=LEGACY, on_fail=None, on_skip=None)
print(json.dumps([(found["check_name"], found["status"], repr(found["exception"])) for found in results]))
"""
TEXTS = [f"the {'warm and bright' if number % 3 else 'cold and dull'} song {number}" for number in range(60)]
KINDS = np.array([number % 3 > 0 for number in range(60)])


SMALL = {"model.buckets": 4096, "training.learning_rate": 0.01}


def bag(**options: object) -> qkv.QkvClassifier:
    return qkv.QkvClassifier("bag").set_params(**{"steps": 30, "random_state": 0, "settings": SMALL, **options})


@pytest.mark.parametrize("legacy", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_checks_of_scikit_learn(legacy: bool) -> None:
    """Without exceptions; in a process of its own, where annotations are not checked when a class is built: one of the
    checks gives every parameter values of wrong types, which scikit-learn wants to be refused in `fit`."""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKS.replace("LEGACY", str(legacy))], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert len(results) > (50 if legacy else 10)
    assert not [result for result in results if result[1] != "passed"]


@pytest.fixture(scope="module")
def messages() -> tuple[list[str], np.ndarray]:
    lines = real("sms-spam/SMSSpamCollection").read_text(encoding="utf-8").splitlines()[:900]
    labels, texts = zip(*(line.split("\t", 1) for line in lines), strict=True)
    return list(texts), np.array(labels)


def shortened(texts: list[str]) -> list[str]:
    return [text[:80].lower() for text in texts]


@pytest.mark.slow
def test_a_pipeline_a_search_and_a_score_on_real_texts(messages: tuple[list[str], np.ndarray]) -> None:
    texts, labels = messages
    pipeline = make_pipeline(FunctionTransformer(shortened), bag(steps=60))
    scores = cross_val_score(pipeline, texts, labels, cv=3)
    assert scores.mean() > 0.93 > np.mean(labels == "ham")
    search = GridSearchCV(pipeline, {"qkvclassifier__steps": [1, 40]}, cv=2, scoring="f1_macro").fit(texts, labels)
    assert search.best_params_ == {"qkvclassifier__steps": 40}
    assert set(search.predict(["free prize, call now", "see you at home"])) <= {"ham", "spam"}


def test_numbers() -> None:
    numbers, labels = load_iris(return_X_y=True, as_frame=False)
    classifier = make_pipeline(StandardScaler(), qkv.QkvClassifier(steps=150, random_state=0)).fit(numbers, labels)
    assert classifier.score(numbers, labels) > 0.9


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes"],
        np.array([False, True]),
        np.array([-1, 7], dtype=np.int16),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array(["nan", " "], dtype=object),  # no labels, in a file
        ["1", "1.0"],
    ],
    ids=str,
)
def test_labels_of_any_type(labels: object) -> None:
    choices = np.asarray(labels)
    y = choices[KINDS.astype(int)]
    classifier = bag().fit(TEXTS, y)
    assert list(classifier.classes_) == sorted(choices)
    predicted = classifier.predict(TEXTS)
    assert predicted.dtype == y.dtype
    assert (predicted == y).mean() > 0.9


def test_texts_of_any_form() -> None:
    pandas = pytest.importorskip("pandas")
    first = bag().fit(TEXTS, KINDS).predict_proba(TEXTS)
    column = np.array(TEXTS)[:, None]
    for form in (tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, dtype=object), pandas.Series(TEXTS)[::1], column):
        assert (bag().fit(form, KINDS).predict_proba(form) == first).all()


def test_the_same_as_the_model() -> None:
    classifier = bag().fit(TEXTS, np.where(KINDS, "good", "bad"))
    answers = classifier.model_.classify(TEXTS[:5])
    assert [answer.label for answer in answers] == list(classifier.predict(TEXTS[:5]))
    shares = np.array([[answer.probabilities[name] for name in ("bad", "good")] for answer in answers])
    assert np.allclose(classifier.predict_proba(TEXTS[:5]), shares)


def test_a_seed_decides() -> None:
    first, second, other = (bag(random_state=seed).fit(TEXTS, KINDS).predict_proba(TEXTS) for seed in (3, 3, 4))
    assert (first == second).all()
    assert not (first == other).all()
    drawn = np.random.RandomState(0)
    assert bag(random_state=drawn).fit(TEXTS, KINDS).score(TEXTS, KINDS) > 0.9


def test_copies_answer_the_same_and_nothing_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    stored = set(root().glob("objects/*"))
    classifier = bag().fit(TEXTS, KINDS)
    expected = classifier.predict_proba(TEXTS)
    for twin in (copy.deepcopy(classifier), pickle.loads(pickle.dumps(classifier))):
        assert (twin.predict_proba(TEXTS) == expected).all()
    assert not list(tmp_path.iterdir())
    assert set(root().glob("objects/*")) == stored
    assert not hasattr(clone(classifier), "model_")
    assert classifier.get_params()["steps"] == 30


def test_a_run_that_is_kept(tmp_path: Path) -> None:
    classifier = bag(run=tmp_path / "run").fit(TEXTS, KINDS)
    assert (tmp_path / "run" / "card.md").is_file()
    assert (qkv.load(tmp_path / "run").classify(TEXTS[0])[0].label == "True") == bool(classifier.predict(TEXTS[:1])[0])
    with pytest.raises(InputError, match="this run exists"):
        clone(classifier).fit(TEXTS, KINDS)


def test_a_model_to_start_from(tmp_path: Path) -> None:
    sizes = {"model.layers": 1, "model.heads": 2, "model.width": 16, "model.context": 32}
    qkv.train(TEXTS * 4, model="gpt", steps=5, run=tmp_path / "base", settings=sizes)
    classifier = bag(model=None, start=tmp_path / "base", steps=60, settings=None).fit(TEXTS, KINDS)
    assert classifier.model_.bundle.config.encoder.kind == "gpt"
    assert classifier.score(TEXTS, KINDS) > 0.6


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="list of texts, not one text"):
        bag().fit("a text", [1])
    with pytest.raises(ValueError, match="sample 3 is of type float; expected a text"):
        bag().fit([*TEXTS[:3], float("nan"), *TEXTS[4:]], KINDS)
    with pytest.raises(ValueError, match="5 samples; expected at least 10"):
        bag().fit(TEXTS[:5], KINDS[:5])
    with pytest.raises(ValueError, match="only one class"):
        bag().fit(TEXTS, np.ones(60))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        bag().fit(TEXTS, KINDS[1:])
    with pytest.raises(ValueError, match="X: expected texts"):
        bag().fit(TEXTS, KINDS).predict([[1.0, 2.0]])


def test_scikit_learn_is_imported_when_it_is_used() -> None:
    code = (
        "import sys, qkv\nassert 'sklearn' not in sys.modules and 'QkvClassifier' in dir(qkv)\n"
        "sys.modules['sklearn'] = None\nfrom qkv import *\n"
        "try:\n    qkv.QkvClassifier\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'qkv[compare]'" in done.stdout, done.stderr
