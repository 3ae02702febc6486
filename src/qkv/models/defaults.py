"""What suits a kind of model where a recipe leaves it open. Each config carries its own: `defaults`, by kind; encoders
and models of tables also `classifiers` and `taggers`, by the names that `--model` takes for labelled examples.

Decision 4 says where the figures of language models come from, decision 12 those of BERT, 13 those of classifiers, 15
those of translators; `bench/memory.py` measures the fragmentation of the heap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

OptimizerName = Literal["muon", "adamw", "lbfgs"]


@dataclass(frozen=True)
class OptimizerDefaults:
    """Settings of one optimizer. None: the section's own default."""

    learning_rate: float  # of AdamW
    betas: tuple[float, float]  # of AdamW
    matrix_learning_rate: float | None = None  # of Muon
    momentum: float | None = None  # of Muon

    def values(self) -> dict[str, Any]:
        """As they are written in the section [training]."""
        muon = {"matrix_learning_rate": self.matrix_learning_rate, "momentum": self.momentum}
        known = {key: value for key, value in muon.items() if value is not None}
        return {"learning_rate": self.learning_rate, **known, "betas": list(self.betas)}


@dataclass(frozen=True)
class ModelDefaults:
    """What one kind of model is trained with."""

    optimizers: Mapping[OptimizerName, OptimizerDefaults]  # by name; the first is the default
    layers: int | None = None  # where the width follows: as many parameters as `modern` has for the same text
    shorter_windows: bool = True  # False where weights depend on the context
    heap_fragmentation: Mapping[str, float] = field(default_factory=dict)  # by number format, times what is in use
    evaluated_widths: int = 9  # widths that a layer holds at once of a token in an evaluation; 9 with a feed-forward

    @property
    def optimizer(self) -> OptimizerName:
        """The name of the default optimizer."""
        return next(iter(self.optimizers))


@dataclass(frozen=True)
class ClassifierDefaults:
    """A model of labelled examples: sizes of its encoder, what stands around it, and how it is trained."""

    encoder: Mapping[str, Any] = field(default_factory=dict)  # keys of its section
    pooling: str = "mean"
    dropout: float = 0.3
    head: str = "linear"
    learning_rate: float = 2e-3
    batch: int = 64
    epochs: float = 8.0  # that a run has at most by default
    steps: int = 0  # which help even where they are more epochs
    weight_decay: float = 0.01
    layer_decay: float | None = None
    solver: OptimizerName | None = None  # finds the optimum of a model that has one, on all examples at once
    tokenizer: Literal["characters"] | None = None  # the kind of tokens that it reads; None: any


Defaults = Mapping[str, ModelDefaults]
Classifiers = Mapping[str, ClassifierDefaults]


def muon(betas: tuple[float, float]) -> OptimizerDefaults:
    """Rates of Muon that suited every language model but `modern-fast`."""
    return OptimizerDefaults(0.01, betas, matrix_learning_rate=0.04, momentum=0.9)


def adamw(learning_rate: float, betas: tuple[float, float] = (0.9, 0.95)) -> OptimizerDefaults:
    return OptimizerDefaults(learning_rate, betas)
