"""`QkvClassifier`: a classifier of texts, or of rows of numbers, for scikit-learn's pipelines, searches and scores.

    classifier = qkv.QkvClassifier(model="bag", random_state=0)
    cross_val_score(classifier, texts, labels)

The number of steps is fixed by default, so that a fit depends on data, parameters and `random_state` alone.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.api import Model, load
from qkv.blocks.fast_paths import evaluating
from qkv.data.hold_out import MIN_SCORED_EXAMPLES, MIN_TRAIN_EXAMPLES
from qkv.data.labels import integer_spelling, label_text, parse_number
from qkv.errors import MissingExtraError
from qkv.library.arguments import RunOptions
from qkv.library.runs import finetune, train
from qkv.models.table import LinearTableConfig, MLPTableConfig
from qkv.recipe import bundle

if TYPE_CHECKING:  # scikit-learn has no types, so these are the methods inherited from it

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, object]: ...
        def set_params(self, **params: object) -> Self: ...
        def __getstate__(self) -> dict[str, object]: ...
        def __setstate__(self, state: dict[str, object]) -> None: ...
        def __sklearn_tags__(self) -> Tags: ...

    class ClassifierMixin:
        def score(self, X: object, y: object, sample_weight: object = None) -> float: ...


try:
    if not TYPE_CHECKING:
        from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils import Tags, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtraError("QkvClassifier", "compare") from None

MIN_SAMPLES = MIN_TRAIN_EXAMPLES + MIN_SCORED_EXAMPLES
HELD_OUT_SHARE = 0.1  # of the samples, on which the best step is chosen


class QkvClassifier(ClassifierMixin, BaseEstimator):
    """A neural network that classifies texts, or rows of numbers, behind scikit-learn's interface.

    Args:
        model: The kind of model, such as "lstm" or "bag"; for numbers "mlp" or "linear". Default: by the data.
        start: A trained or imported model to fine-tune instead: anything that `qkv.load` opens.
        tokenizer: auto, characters, words, bpe, wordpiece, or a file. Default: auto.
        steps: The number of training steps.
        minutes: A time budget for each fit instead of `steps`; the number of steps then depends on the machine.
        class_weights: Weight the classes equally, however rare.
        settings: Single values of the recipe, such as {"training.batch": 32}.
        run: A folder that keeps the run; it must not exist. Default: nothing is kept on disk.
        random_state: The seed, or a generator of seeds.

    Attributes:
        classes_: The labels, sorted; they have the type that `y` had.
        model_: The trained `qkv.Model`.
        n_features_in_: The number of columns, where X is a table of numbers.
    """

    classes_: NDArray[np.generic]
    model_: Model

    def __init__(
        self,
        model: str | None = None,
        *,
        start: str | Path | None = None,
        tokenizer: str | None = None,
        steps: int = 300,
        minutes: float | None = None,
        class_weights: bool = False,
        settings: Mapping[str, object] | None = None,
        run: str | Path | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.model = model
        self.start = start
        self.tokenizer = tokenizer
        self.steps = steps
        self.minutes = minutes
        self.class_weights = class_weights
        self.settings = settings
        self.run = run
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.non_deterministic = self.minutes is not None
        return tags

    def fit(self, X: object, y: object) -> QkvClassifier:
        """Train on texts (a list, an array, a Series of str) or on a 2-D array of numbers, with a label for each."""
        inputs: list[str] | NDArray[np.float64]
        texts = _texts(X)
        if texts is None:
            inputs, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=MIN_SAMPLES)
        else:
            inputs, labels = texts, column_or_1d(y, warn=True)
            check_consistent_length(texts, labels)
            if len(texts) < MIN_SAMPLES:
                raise ValueError(f"{len(texts)} samples; expected at least {MIN_SAMPLES}.")
            for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit on numbers
                self.__dict__.pop(name, None)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class, {self.classes_[0]!r}; expected at least two.")
        self._names = _names(self.classes_)
        self.model_ = self._train(inputs, [self._names[number] for number in numbers])
        return self

    def _train(self, inputs: list[str] | NDArray[np.float64], labels: list[str]) -> Model:
        seed, settings = self.random_state, dict(self.settings or {})
        distinct = len(set(inputs) if isinstance(inputs, list) else np.unique(inputs, axis=0))
        settings.setdefault("corpus.valid_fraction", min(0.5, max(HELD_OUT_SHARE, MIN_SCORED_EXAMPLES / distinct)))
        if self.run is None and "training.average" not in settings:
            settings.setdefault("training.checkpoint_every", 2**30)  # a run that is not kept cannot be resumed
        options: RunOptions = {
            "task": "classification",
            "label": "label",
            "seed": int(seed) if isinstance(seed, Integral) else int(check_random_state(seed).randint(2**31)),
            "class_weights": self.class_weights,
            "settings": settings,
        }
        if self.minutes is None:
            options["steps"] = self.steps
        else:
            options["minutes"] = self.minutes
        with tempfile.TemporaryDirectory() as folder:
            data: object = (inputs, labels)
            options["run"] = self.run
            if self.run is None:
                data, options["run"] = _written(Path(folder) / "samples.jsonl", inputs, labels), Path(folder) / "run"
            if self.start is None:
                model = train(data, model=self.model, tokenizer=self.tokenizer, **options)
            else:
                model = finetune(self.start, data, **options)
        return model if self.run is not None else Model(replace(model.bundle, folder=None), model.device)

    def predict_proba(self, X: object) -> NDArray[np.float64]:
        """The probability of each class, in the order of `classes_`: (samples, classes)."""
        check_is_fitted(self)
        config = self.model_.bundle.config
        if isinstance(config, LinearTableConfig | MLPTableConfig):
            numbers = torch.tensor(validate_data(self, X, dtype=np.float64, reset=False))
            # in f64, the result for a row does not depend on the other rows
            module = deepcopy(self.model_.module).double().cpu()
            with evaluating(module), torch.inference_mode():
                table = module(numbers).softmax(-1).numpy()
            shares = table[:, [config.labels.index(name) for name in self._names]]
        else:
            if (texts := _texts(X)) is None:
                raise ValueError("X: expected texts, as in fit.")
            answers = self.model_.classify(texts)
            shares = np.array([[answer.probabilities[name] for name in self._names] for answer in answers])
        return np.asarray(shares / shares.sum(axis=1, keepdims=True), dtype=np.float64)

    def predict(self, X: object) -> NDArray[np.generic]:
        """The likeliest class of each sample."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __getstate__(self) -> dict[str, object]:
        state = dict(super().__getstate__())
        if isinstance(model := state.get("model_"), Model):
            state["model_"] = _packed(model)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        if isinstance(files := state.get("model_"), dict):
            state = {**state, "model_": _unpacked(files)}
        super().__setstate__(state)


def _texts(X: object) -> list[str] | None:
    """The texts, where X is a column of them."""
    if isinstance(X, str):
        raise ValueError("X: expected a list of texts, not one text.")
    if getattr(getattr(X, "dtype", None), "kind", "O") in "biufc":
        return None
    values = np.asarray(X, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or not any(isinstance(value, str) for value in values):
        return None
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise ValueError(f"X: sample {index} is of type {type(value).__name__}; expected a text.")
    return [str(value) for value in values]


def _names(classes: NDArray[np.generic]) -> list[str]:
    """Names for the classes inside the model: their own, unless two of them would be read as the same label."""
    names = [str(label) for label in classes]
    numeric = all(np.isfinite(parse_number(name)) for name in names)
    names = [integer_spelling(name) for name in names] if numeric else names
    plain = len(set(names)) == len(names) and all(label_text(name) == name for name in names)
    return names if plain else [f"class {index}" for index in range(len(names))]


def _written(file: Path, inputs: Sequence[str] | NDArray[np.float64], labels: Sequence[str]) -> Path:
    """Write the samples of a run that is not kept to a temporary file."""
    columns = [f"x{index}" for index in range(1, inputs.shape[1] + 1)] if isinstance(inputs, np.ndarray) else []
    with file.open("w", encoding="utf-8") as lines:
        for sample, label in zip(inputs, labels, strict=True):
            values = {"text": sample} if isinstance(sample, str) else dict(zip(columns, sample.tolist(), strict=True))
            lines.write(json.dumps({**values, "label": label}) + "\n")
    return file


def _packed(model: Model) -> dict[str, bytes]:
    """The files of a model folder: tensors and JSON, which are checked when they are opened."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        bundle.save(folder, model.bundle)
        return {path.name: path.read_bytes() for path in folder.iterdir()}


def _unpacked(files: Mapping[str, bytes]) -> Model:
    with tempfile.TemporaryDirectory() as place:
        for name, content in files.items():
            (Path(place) / Path(name).name).write_bytes(content)
        model = load(place)
        return Model(replace(model.bundle, folder=None), model.device)
