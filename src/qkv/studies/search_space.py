"""What a search may change: hyperparameters and parts of a system, drawn by a trial of Optuna.

The names in the store are SYSTEM.NUMBER, so that what is learned about the learning rate of one system says nothing
about another's. The first trial of each system tries the defaults, which `qkv train` would take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from qkv.config import toml_values
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import defaults
from qkv.models.table import MLPTableConfig
from qkv.recipe.draft import Values
from qkv.tasks.classification import systems

BATCHES = (16, 32, 64)  # of language models
POOLINGS = ("mean", "max", "attention")
HEADS = ("linear", "two-layer")
TABLE_WIDTHS = (32, 64, 128, 256)
WIDTHS = (64, 128, 192, 256)  # of language models
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


@dataclass(frozen=True)
class Dimension:
    """A value that is searched: one of `choices`, a whole number of `whole`, or a number of `real`, which is drawn by
    its logarithm where `log` asks for it. `default` is what `qkv train` would take."""

    default: Any
    choices: Sequence[Any] = ()
    whole: tuple[int, int] | None = None
    real: tuple[float, float] = (0.0, 1.0)
    log: bool = False

    def draw(self, trial: Drawing, name: str) -> Any:
        """The value of a trial, numbers rounded to what people read in a recipe."""
        if self.choices:
            return trial.suggest_categorical(name, self.choices)
        if self.whole is not None:
            return trial.suggest_int(name, *self.whole)
        value = trial.suggest_float(name, *self.real, log=self.log)
        return _rounded(value) if self.log else round(value, 3)


Space = dict[str, Dimension]  # by name, in the order in which they are drawn


def labelled_space(name: str, task: str) -> Space:
    """What is searched of a system that reads texts, words or images."""
    system = systems.find_system(name, task, "--model")
    space: Space = {}
    if name != "linear":
        space["dropout"] = Dimension(system.dropout, real=(0.0, 0.6))
    if width := system.encoder.get("width"):
        space["width"] = Dimension(width, (width // 2, width, 2 * width))
    if task in systems.LONG_TEXT_SYSTEMS and name != "linear":  # of whole texts
        if system.pooling != "pooler":
            space["pooling"] = Dimension(system.pooling, tuple(dict.fromkeys((system.pooling, *POOLINGS))))
        space["head"] = Dimension(system.head, HEADS)
    for part, kinds in PARTS.get(name, {}).items():
        space[part] = Dimension(system.encoder.get(part, kinds[0]), kinds)
    return space | _training_space(system)


def table_space(name: str) -> Space:
    """What is searched of a system that reads tables of numbers."""
    own, space = toml_values(MLPTableConfig()), _training_space(systems.NUMBER_SYSTEMS[name])
    if name != "mlp":
        return space
    shape = {
        "width": Dimension(own["width"], TABLE_WIDTHS),
        "layers": Dimension(own["layers"], whole=(1, 3)),
        "dropout": Dimension(own["dropout"], real=(0.0, 0.5)),
        "activation": Dimension(own["activation"], ("relu", "tanh", "gelu")),
    }
    return shape | space


def _training_space(system: ClassifierDefaults) -> Space:
    batch, rate, epochs = system.batch, system.learning_rate, system.epochs
    return {
        "batch": Dimension(batch, (max(1, batch // 2), batch, 2 * batch)),
        "epochs": Dimension(round(epochs), whole=(1, max(2, round(1.5 * epochs)))),
        "learning_rate": Dimension(rate, real=(rate / 8, rate * 4), log=True),
        "weight_decay": Dimension(max(1e-4, system.weight_decay), real=(1e-4, 0.3), log=True),
    }


def default_trial(name: str, space: Space) -> dict[str, Any]:
    """What `qkv train` would take, as the parameters of a trial."""
    return {f"{name}.{key}": dimension.default for key, dimension in space.items()}


def labelled(trial: Drawing, name: str, space: Space, examples: int) -> Values:
    """The sections of a recipe for a system on this number of examples."""
    model = {key: dimension.draw(trial, f"{name}.{key}") for key, dimension in space.items()}
    rates = {key: model.pop(key) for key in ("learning_rate", "weight_decay")}
    batch = min(model.pop("batch"), max(1, examples // 8))
    steps = max(1, int(model.pop("epochs") * examples / batch))
    return {"model": {"kind": name, **model}, "training": {**rates, "batch": batch, "steps": steps}}


def language_model(trial: Drawing, name: str) -> Values:
    """The sections of a recipe for a language model; the time budget sets the number of steps."""
    own = defaults(name)
    rates = own.optimizers[own.optimizer].values()
    scale = trial.suggest_float(f"{name}.rate_scale", 0.25, 4.0, log=True)
    space = {
        "width": Dimension(None, WIDTHS),
        "layers": Dimension(None, whole=(1, 4)),
        "dropout": Dimension(None, real=(0.0, 0.3)),
        "batch": Dimension(None, BATCHES),
        "weight_decay": Dimension(None, real=(1e-4, 0.3), log=True),
    }
    model = {key: dimension.draw(trial, f"{name}.{key}") for key, dimension in space.items()}
    training: dict[str, Any] = {key: model.pop(key) for key in ("batch", "weight_decay")}
    for key in ("learning_rate", "matrix_learning_rate"):
        if key in rates:
            training[key] = _rounded(scale * rates[key])
    return {"model": {"kind": name, **model}, "training": {"optimizer": own.optimizer, **training}}


def _rounded(value: float) -> float:
    """Four digits: a recipe that people read."""
    return float(f"{value:.4g}")
