"""How classifiers and taggers are trained by default."""

from __future__ import annotations

from qkv.objectives.classification import Problem
from qkv.recipe import choices
from qkv.recipe.systems import System
from qkv.tasks.protocol import Values
from qkv.training import devices
from qkv.training.settings import TrainingConfig

PROBLEMS: dict[str, Problem] = {
    "classification": "single",
    "images": "single",
    "tagging": "single",
    "multi-label": "multi",
    "regression": "regression",
}


def choose_training(values: Values, system: System, examples: int) -> None:
    """Fill the training section but for the steps, as suits the system and the number of examples."""
    training = values.setdefault("training", {})
    accumulate = training.get("accumulate", 1)
    batch = max(1, min(system.batch, examples // 8) // accumulate) * accumulate
    choices.fill(training, TrainingConfig, optimizer=system.optimizer, learning_rate=system.rate, batch=batch)
    for key, value in {
        "weight_decay": system.weight_decay,
        "betas": [0.9, 0.98],
        "patience": 0,  # a slow start is no end, and the best step is kept in any case
        **system.training,
    }.items():
        training.setdefault(key, value)
    device, dtype = choices.device_and_dtype(training)
    choices.fill(training, TrainingConfig, device=device, dtype=dtype)
    choices.fill(training, TrainingConfig, threads=devices.choose_threads(), compile="off")
    choices.fill(training, TrainingConfig, matrix_learning_rate=training["learning_rate"])
