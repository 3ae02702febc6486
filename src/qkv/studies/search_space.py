"""Search spaces: the hyperparameters and parts of a system that a trial of Optuna draws.

Their names in the store are SYSTEM.HYPERPARAMETER, for example lstm.learning_rate, so that Optuna models each system on
its own. The first trial of each system on labelled examples has the defaults of `qkv train`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, runtime_checkable

from qkv.config import parse, toml_values
from qkv.data.corpus import CorpusConfig, ExamplesConfig
from qkv.data.hold_out import require_enough
from qkv.data.prepare import prepare
from qkv.data.read_examples import read_examples
from qkv.errors import InputError
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import LANGUAGE_MODELS, defaults
from qkv.models.table import MLPTableConfig
from qkv.recipe.draft import Draft, Values
from qkv.recipe.recipe import language_model_section
from qkv.recipe.resolve import context_for
from qkv.studies.study import StudyPlan, labelled_models
from qkv.tasks.classification import systems
from qkv.tasks.language_modelling.task import require_text
from qkv.tasks.registry import task_to_study

DEFAULT_LANGUAGE_MODELS = ("modern", "gpt", "lstm")
LANGUAGE_MODEL_BATCHES = (16, 32, 64)
LANGUAGE_MODEL_WIDTHS = (64, 128, 192, 256)
TABLE_WIDTHS = (32, 64, 128, 256)
POOLINGS = ("mean", "max", "attention")
SOLVER_STEPS = 300  # at most; a solver stops at the optimum
HEADS = ("linear", "two-layer")
PARTS: dict[str, dict[str, Sequence[str]]] = {
    "encoder": {
        "positions": ("sinusoidal", "learned", "rotary", "none"),
        "norm": ("pre", "post"),
        "activation": ("relu", "gelu"),
    }
}


@runtime_checkable
class Trial(Protocol):
    """The interface of an Optuna trial, as far as it draws values."""

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float: ...
    def suggest_int(self, name: str, low: int, high: int) -> int: ...
    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...


@dataclass(frozen=True)
class Dimension:
    """The range of a hyperparameter: one of `choices`, an integer in `int_range`, or a number in `float_range`, drawn
    on a logarithmic scale if `log` is true. `default` is the value of `qkv train`."""

    default: Any
    choices: Sequence[Any] = ()
    int_range: tuple[int, int] | None = None
    float_range: tuple[float, float] = (0.0, 1.0)
    log: bool = False

    def draw(self, trial: Trial, name: str) -> Any:
        """The value for a trial; numbers are rounded, so that a recipe is readable."""
        if self.choices:
            return trial.suggest_categorical(name, self.choices)
        if self.int_range is not None:
            return trial.suggest_int(name, *self.int_range)
        value = trial.suggest_float(name, *self.float_range, log=self.log)
        return _rounded(value) if self.log else round(value, 3)


Space = dict[str, Dimension]  # by name, in the order of drawing


def labelled_space(name: str, task: str) -> Space:
    """The search space of a system for texts, words or images."""
    system = systems.find_system(name, task, "--model")
    space: Space = {}
    if system.solver is not None:  # one optimum: what can be chosen is the penalty, and what is counted
        return {
            "ngrams": Dimension(2, (1, 2, 3)),
            "letters": Dimension(5, (0, 4, 5, 6)),
            "strength": Dimension(16.0, float_range=(0.25, 256.0), log=True),
        }
    space["dropout"] = Dimension(system.dropout, float_range=(0.0, 0.6))
    if width := system.encoder.get("width"):
        space["width"] = Dimension(width, (width // 2, width, 2 * width))
    if task in systems.LONG_TEXT_SYSTEMS:  # systems that read whole texts
        if system.pooling != "pooler":
            space["pooling"] = Dimension(system.pooling, tuple(dict.fromkeys((system.pooling, *POOLINGS))))
        space["head"] = Dimension(system.head, HEADS)
    for part, kinds in PARTS.get(name, {}).items():
        space[part] = Dimension(system.encoder.get(part, kinds[0]), kinds)
    return space | _training_space(system)


def table_space(name: str) -> Space:
    """The search space of a system for tables of numbers."""
    training_space = _training_space(systems.NUMBER_SYSTEMS[name])
    if name != "mlp":
        return training_space
    defaults_of_mlp = toml_values(MLPTableConfig())
    model_space = {
        "width": Dimension(defaults_of_mlp["width"], TABLE_WIDTHS),
        "layers": Dimension(defaults_of_mlp["layers"], int_range=(1, 3)),
        "dropout": Dimension(defaults_of_mlp["dropout"], float_range=(0.0, 0.5)),
        "activation": Dimension(defaults_of_mlp["activation"], ("relu", "tanh", "gelu")),
    }
    return model_space | training_space


def _training_space(system: ClassifierDefaults) -> Space:
    batch, learning_rate, epochs = system.batch, system.learning_rate, system.epochs
    return {
        "batch": Dimension(batch, (max(1, batch // 2), batch, 2 * batch)),
        "epochs": Dimension(round(epochs), int_range=(1, max(2, round(1.5 * epochs)))),
        "learning_rate": Dimension(learning_rate, float_range=(learning_rate / 8, learning_rate * 4), log=True),
        "weight_decay": Dimension(max(1e-4, system.weight_decay), float_range=(1e-4, 0.3), log=True),
    }


def default_hyperparameters(name: str, space: Space) -> dict[str, Any]:
    """The hyperparameters of `qkv train` under their names in the store."""
    return {f"{name}.{key}": dimension.default for key, dimension in space.items()}


def draw_labelled(trial: Trial, name: str, space: Space, examples: int) -> Values:
    """Draw the sections of a recipe for a system on this number of examples."""
    values = {key: dimension.draw(trial, f"{name}.{key}") for key, dimension in space.items()}
    if "strength" in values:  # scikit-learn's C
        decay = _rounded(1 / (values.pop("strength") * max(1, examples)))
        return {"model": {"kind": name, **values}, "training": {"weight_decay": decay, "steps": SOLVER_STEPS}}
    optimizer = {key: values.pop(key) for key in ("learning_rate", "weight_decay")}
    batch = min(values.pop("batch"), max(1, examples // 8))
    steps = max(1, int(values.pop("epochs") * examples / batch))
    return {"model": {"kind": name, **values}, "training": {**optimizer, "batch": batch, "steps": steps}}


def draw_language_model(trial: Trial, name: str) -> Values:
    """Draw the sections of a recipe for a language model; the time budget sets the number of steps."""
    model_defaults = defaults(name)
    optimizer_defaults = model_defaults.optimizers[model_defaults.optimizer].values()
    scale = trial.suggest_float(f"{name}.rate_scale", 0.25, 4.0, log=True)
    config_fields = {field.name for field in fields(LANGUAGE_MODELS[name])}  # one of the user's own may have no dropout
    space = {
        "width": Dimension(None, LANGUAGE_MODEL_WIDTHS),
        "layers": Dimension(None, int_range=(1, 4)),
        **({"dropout": Dimension(None, float_range=(0.0, 0.3))} if "dropout" in config_fields else {}),
        "batch": Dimension(None, LANGUAGE_MODEL_BATCHES),
        "weight_decay": Dimension(None, float_range=(1e-4, 0.3), log=True),
    }
    values = {key: dimension.draw(trial, f"{name}.{key}") for key, dimension in space.items()}
    training: dict[str, Any] = {key: values.pop(key) for key in ("batch", "weight_decay")}
    for key in ("learning_rate", "matrix_learning_rate"):
        if key in optimizer_defaults:
            training[key] = _rounded(scale * optimizer_defaults[key])
    return {"model": {"kind": name, **values}, "training": {"optimizer": model_defaults.optimizer, **training}}


def _rounded(value: float) -> float:
    """The value with four significant digits."""
    return float(f"{value:.4g}")


@dataclass(frozen=True)
class TuningTask:
    """The task of a search, and the search space of each system."""

    task: str
    spaces: Mapping[str, Space]
    examples: int
    lower_is_better: bool

    @property
    def labelled(self) -> bool:
        return not self.lower_is_better

    def draw(self, trial: Trial) -> Values:
        """The sections of a recipe with the hyperparameters of a trial."""
        names = tuple(self.spaces)
        name = names[0] if len(names) == 1 else trial.suggest_categorical("system", names)
        if self.labelled:
            return draw_labelled(trial, name, self.spaces[name], self.examples)
        return draw_language_model(trial, name)

    def defaults(self) -> list[dict[str, Any]]:
        """The hyperparameters of `qkv train` for each system; these are the first trials."""
        has_choice = len(self.spaces) > 1
        return [
            {**({"system": name} if has_choice else {}), **default_hyperparameters(name, space)}
            for name, space in self.spaces.items()
            if self.labelled
        ]


def tuning_task(plan: StudyPlan, model: str | None) -> TuningTask:
    """The task of a search: its models are `model` or, by default, all that fit the data."""
    chosen = (model,) if model else ()
    if not task_to_study(plan.corpus, plan.task, "tune").labelled:
        names: tuple[str, ...] = chosen or DEFAULT_LANGUAGE_MODELS
        for name in names:
            language_model_section({"kind": name}, "--model")
            if name not in LANGUAGE_MODELS:
                known = ", ".join(LANGUAGE_MODELS)
                raise InputError(f"--model {name}: a search needs a model whose size can be chosen: {known}.")
        corpus: CorpusConfig = parse(CorpusConfig, plan.corpus, "the options")
        tokenizer = Draft.parse({"tokenizer": plan.tokenizer}, "the options").tokenizer
        prepared = prepare(corpus, tokenizer, progress=plan.progress)  # for the first trial, and to refuse a short text
        require_text(prepared, context_for(len(prepared.train.tokens)))
        plan.note_data(prepared.notes)
        return TuningTask("language-modelling", {name: {} for name in names}, 0, lower_is_better=True)
    config = parse(ExamplesConfig, plan.corpus, "the options")
    data = read_examples(config)
    require_enough(data, config.valid_fraction, config.files[0])
    plan.note_data(data.notes)
    names = labelled_models(data, plan, chosen, "--model")
    if data.numeric and data.task == "regression":  # least squares have no hyperparameters
        if model == "linear":
            raise InputError("--model linear: linear regression has one answer, the least squares. Use qkv train.")
        names = tuple(name for name in names if name != "linear")
    space = table_space if data.numeric else partial(labelled_space, task=data.task)
    return TuningTask(data.task, {name: space(name) for name in names}, len(data.train), lower_is_better=False)
