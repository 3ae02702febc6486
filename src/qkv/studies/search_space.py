"""What a search may change: hyperparameters and parts of a system, drawn by a trial of Optuna.

The names in the store are SYSTEM.NUMBER, so that what is learned about the learning rate of one system says nothing
about another's. The first trial of each system tries the defaults, which `qkv train` would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from qkv.config import plain
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import defaults
from qkv.models.table import MLPTableConfig
from qkv.recipe.draft import Values
from qkv.tasks.classification import systems

BATCHES = (16, 32, 64)  # of language models
POOLINGS = ("mean", "max", "attention")
HEADS = ("linear", "two-layer")
TABLE_WIDTHS = (32, 64, 128, 256)
WIDTHS, LAYERS = (64, 128, 192, 256), (1, 4)  # of language models
LANGUAGE_MODELS = ("modern", "gpt", "lstm")  # by default
PARTS: dict[str, dict[str, Sequence[str]]] = {
    "encoder": {
        "positions": ("sinusoidal", "learned", "rotary", "none"),
        "norm": ("pre", "post"),
        "activation": ("relu", "gelu"),
    }
}


@runtime_checkable
class Drawing(Protocol):
    """What a trial of Optuna offers."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...
    def suggest_int(self, name: str, low: int, high: int) -> int: ...
    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...


def labelled(trial: Drawing, name: str, task: str, examples: int) -> Values:
    """The sections of a recipe for a system on this number of examples."""
    system = systems.system(name, task, "--model")
    model: dict[str, Any] = {"kind": name}
    if name != "linear":
        model["dropout"] = round(trial.suggest_float(f"{name}.dropout", 0.0, 0.6), 3)
    if width := system.encoder.get("width"):
        model["width"] = trial.suggest_categorical(f"{name}.width", (width // 2, width, 2 * width))
    if task not in ("tagging", "images") and name != "linear":
        if system.pooling != "pooler":
            poolings = tuple(dict.fromkeys((system.pooling, *POOLINGS)))
            model["pooling"] = trial.suggest_categorical(f"{name}.pooling", poolings)
        model["head"] = trial.suggest_categorical(f"{name}.head", HEADS)
    for part, kinds in PARTS.get(name, {}).items():
        model[part] = trial.suggest_categorical(f"{name}.{part}", kinds)
    return {"model": model, "training": _training(trial, name, system, examples)}


def table(trial: Drawing, name: str, examples: int) -> Values:
    """The same for a table of numbers."""
    model: dict[str, Any] = {"kind": name}
    if name == "mlp":
        model |= {
            "width": trial.suggest_categorical(f"{name}.width", TABLE_WIDTHS),
            "layers": trial.suggest_int(f"{name}.layers", 1, 3),
            "dropout": round(trial.suggest_float(f"{name}.dropout", 0.0, 0.5), 3),
            "activation": trial.suggest_categorical(f"{name}.activation", ("relu", "tanh", "gelu")),
        }
    return {"model": model, "training": _training(trial, name, systems.TABLES[name], examples)}


def _training(trial: Drawing, name: str, system: ClassifierDefaults, examples: int) -> dict[str, Any]:
    batch = trial.suggest_categorical(f"{name}.batch", (max(1, system.batch // 2), system.batch, 2 * system.batch))
    epochs = trial.suggest_int(f"{name}.epochs", 1, max(2, round(1.5 * system.epochs)))
    training = {
        "learning_rate": _rounded(
            trial.suggest_float(f"{name}.learning_rate", system.learning_rate / 8, system.learning_rate * 4, log=True)
        ),
        "weight_decay": _rounded(trial.suggest_float(f"{name}.weight_decay", 1e-4, 0.3, log=True)),
        "batch": min(batch, max(1, examples // 8)),
    }
    training["steps"] = max(1, int(epochs * examples / training["batch"]))
    return training


def labelled_defaults(name: str, task: str) -> dict[str, Any]:
    """What `qkv train` would take, as the parameters of a trial."""
    system = systems.system(name, task, "--model")
    parts = {part: system.encoder.get(part, kinds[0]) for part, kinds in PARTS.get(name, {}).items()}
    values = {
        "dropout": system.dropout,
        "width": system.encoder.get("width"),
        "pooling": system.pooling,
        "head": system.head,
        **parts,
        **_training_defaults(system),
    }
    recorder = _NameRecorder()
    labelled(recorder, name, task, 1)
    return {f"{name}.{key}": value for key, value in values.items() if f"{name}.{key}" in recorder.names}


def table_defaults(name: str) -> dict[str, Any]:
    """The same for a table of numbers."""
    own = plain(MLPTableConfig())
    shape = {key: own[key] for key in ("width", "layers", "dropout", "activation")} if name == "mlp" else {}
    return {f"{name}.{key}": value for key, value in {**shape, **_training_defaults(systems.TABLES[name])}.items()}


def _training_defaults(system: ClassifierDefaults) -> dict[str, Any]:
    decay = max(1e-4, system.weight_decay)
    return {
        "batch": system.batch,
        "epochs": round(system.epochs),
        "learning_rate": system.learning_rate,
        "weight_decay": decay,
    }


class _NameRecorder:
    """A trial that only records the names it is asked for."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        self.names.add(name)
        return low

    def suggest_int(self, name: str, low: int, high: int) -> int:
        self.names.add(name)
        return low

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        self.names.add(name)
        return choices[0]


def language_model(trial: Drawing, name: str) -> Values:
    """The sections of a recipe for a language model; the time budget sets the number of steps."""
    own = defaults(name)
    optimizer, rates = own.optimizer, own.optimizers[own.optimizer].values()
    scale = trial.suggest_float(f"{name}.rate_scale", 0.25, 4.0, log=True)
    model = {
        "kind": name,
        "width": trial.suggest_categorical(f"{name}.width", WIDTHS),
        "layers": trial.suggest_int(f"{name}.layers", *LAYERS),
        "dropout": round(trial.suggest_float(f"{name}.dropout", 0.0, 0.3), 3),
    }
    training: dict[str, Any] = {
        key: _rounded(scale * rates[key]) for key in ("learning_rate", "matrix_learning_rate") if key in rates
    }
    training |= {
        "optimizer": optimizer,
        "batch": trial.suggest_categorical(f"{name}.batch", BATCHES),
        "weight_decay": _rounded(trial.suggest_float(f"{name}.weight_decay", 1e-4, 0.3, log=True)),
    }
    return {"model": model, "training": training}


def _rounded(value: float) -> float:
    """Four digits: a recipe that people read."""
    return float(f"{value:.4g}")
