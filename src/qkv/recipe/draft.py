"""A draft: a recipe as the user writes it, in which settings may be left open. They are chosen in three steps:

Draft -> Task.resolve -> Draft -> Task.resolve_steps -> Draft -> Task.complete -> Recipe
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from typing import get_type_hints

from qkv.config import parse
from qkv.models.defaults import OptimizerName
from qkv.recipe.recipe import MutableSection, Section, check_sections
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

Values = dict[str, MutableSection]  # the sections of a recipe by name, as a TOML file has them
_HINTS = get_type_hints(TrainingConfig, include_extras=True)
_OpenTrainingConfig = make_dataclass(
    "TrainingConfig",
    [(key.name, _HINTS[key.name] | None, None) for key in fields(TrainingConfig) if key.default is MISSING],
    bases=(TrainingConfig,),
    frozen=True,
    kw_only=True,
)
"""A `TrainingConfig` in which the fields without a default may be None."""


@dataclass(frozen=True, kw_only=True)
class TrainingDraft:
    """The section [training]. A setting that is None is open; `others` are the settings that no rule reads."""

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
        config = parse(_OpenTrainingConfig, values, where)
        given = {name: getattr(config, name) for name in values}
        own = {field.name for field in fields(cls)}
        others = {name: value for name, value in given.items() if name not in own}
        return cls(**{name: value for name, value in given.items() if name in own}, others=others)

    def values(self) -> dict[str, object]:
        """The settings that are not open, as keys of the section."""
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "others"}
        return {name: value for name, value in settings.items() if value is not None} | {**self.others}


@dataclass(frozen=True)
class Draft:
    """The sections of a recipe. The keys of [model], [corpus] and [task] depend on the kind of each, so the config of
    that kind checks them later."""

    model: Section
    tokenizer: TokenizerConfig
    corpus: Section
    task: Section
    training: TrainingDraft
    where: str  # where the draft comes from, for messages

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
