"""A recipe with open places, as a person writes it. What suits data, model and machine is chosen by pure functions:

Draft -> Task.resolve -> Draft -> Task.resolve_steps -> Draft -> Task.complete -> Recipe
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import get_type_hints

from qkv.config import parse
from qkv.models.defaults import OptimizerName
from qkv.recipe.recipe import NewSection, Section, check_sections
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

Values = dict[str, NewSection]  # the sections of a recipe, as TOML gives them
_HINTS = get_type_hints(TrainingConfig, include_extras=True)
_OPEN = make_dataclass(
    "TrainingConfig",
    [(item.name, _HINTS[item.name] | None, None) for item in fields(TrainingConfig) if item.default is MISSING],
    bases=(TrainingConfig,),
    frozen=True,
    kw_only=True,
)
"""The section as a person writes it: what has no default may be left open."""


@dataclass(frozen=True, kw_only=True)
class TrainingDraft:
    """The section [training]. None is open; `others` are settings that no rule reads."""

    steps: int | None = None
    batch: int | None = None
    accumulate: int = 1
    optimizer: OptimizerName | None = None
    learning_rate: float | None = None
    matrix_learning_rate: float | None = None
    betas: tuple[float, float] | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    layer_decay: float | None = None
    warmup: int | None = None
    evaluate_every: int | None = None
    checkpoint_every: int | None = None
    patience: int | None = None
    device: str | None = None
    dtype: str | None = None
    threads: int | None = None
    start: str = ""
    frozen: str = "none"
    lora: int = 0
    others: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, values: Section, where: str) -> TrainingDraft:
        config = parse(_OPEN, values, where)
        given = {name: getattr(config, name) for name in values}
        known = {item.name for item in fields(cls)}
        others = {name: value for name, value in given.items() if name not in known}
        return cls(**{name: value for name, value in given.items() if name in known}, others=others)

    def values(self) -> dict[str, object]:
        """What is settled, as the section has it."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "others"}
        return {name: value for name, value in own.items() if value is not None} | {**self.others}


@dataclass(frozen=True)
class Draft:
    """The sections of a recipe. Which keys a model, a corpus and a task have depends on their kind: the config of each
    checks them when the kind is known."""

    model: Section
    tokenizer: TokenizerConfig
    corpus: Section
    task: Section
    training: TrainingDraft
    where: str  # the source, for messages

    @classmethod
    def parse(cls, values: Mapping[str, Section], where: str) -> Draft:
        check_sections(values, where)
        return cls(
            model=values.get("model", {}),
            tokenizer=parse(TokenizerConfig, values.get("tokenizer", {}), f"{where}: [tokenizer]"),
            corpus=values.get("corpus", {}),
            task=values.get("task", {}),
            training=TrainingDraft.parse(values.get("training", {}), f"{where}: [training]"),
            where=where,
        )
