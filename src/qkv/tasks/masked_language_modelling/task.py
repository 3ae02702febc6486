"""Masked language modelling as a task: tokens are masked, and pairs of passages judged (decision 0012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.config import parse, plain
from qkv.data.corpus import CorpusConfig
from qkv.data.detect import Detected
from qkv.data.findings import Progress
from qkv.data.prepare import Prepared, prepare, require
from qkv.doctor.examination import Doctor
from qkv.errors import ConfigError
from qkv.evaluation import masked_tokens
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.models import bert
from qkv.models.registry import defaults
from qkv.objectives.masked_language_modelling import (
    MaskedLanguageModelling,
    MaskedLanguageModellingConfig,
    MaskingVocabulary,
)
from qkv.recipe import bundle, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import MaskedRecipe, Recipe, check_sections, parse_section
from qkv.tasks.language_modelling.task import autocast_of, prepared_again
from qkv.tasks.masked_language_modelling import report
from qkv.tasks.protocol import Costs, Session, Values
from qkv.tasks.report import RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices
from qkv.training.clock import LOOKING
from qkv.training.run import Scores
from qkv.training.settings import TrainingConfig

CONTEXT, BATCH = 64, 64
EPOCHS = 40.0  # after which a small model knows a text by heart
EVALUATIONS = 10
EVALUATED = 16_384  # tokens looked at while a run goes on
LAST = 131_072
PROBED = 2048
FEWEST = 1024  # tokens of an evaluation
PSEUDO = 1024  # pieces that are hidden one by one in the end
CLOSING = 1.0  # seconds for the card and the words


def fills(values: Values) -> bool:
    """Whether the model that is asked for is one that fills gaps."""
    model: Any = values.get("model", {})
    return isinstance(model, dict) and str(model.get("kind")) in ("bert", "masked", *bert.PRESETS)


def unfolded(model: dict[str, Any], pairs: bool) -> dict[str, Any]:
    """The section of a masked model: a preset, or sizes, of the encoder inside."""
    pooler = "first" if pairs else "none"
    if model.get("kind") == "masked":
        encoder = model.get("encoder", {"kind": "bert"})
        if not isinstance(encoder, dict):
            raise ConfigError(f"model.encoder = {encoder!r} does not fit; expected a section with its kind, as bert.")
        return {"next_sentence": "linear" if pairs else "none", **model, "encoder": {"pooler": pooler, **encoder}}
    name = str(model.get("kind"))
    shape = plain(bert.PRESETS[name]) if name in bert.PRESETS else {"kind": "bert"}
    shape = {key: shape[key] for key in ("kind", "layers", "heads", "width") if key in shape}
    inside = {key: value for key, value in model.items() if key != "kind"}
    encoder = {**shape, **inside, "pooler": pooler}
    return {"kind": "masked", "encoder": encoder, "next_sentence": "linear" if pairs else "none"}


@dataclass
class MaskedLanguageModellingTask:
    kind: ClassVar[str] = "masked-language-modelling"
    unit: ClassVar[str] = "hidden pieces"
    data: ClassVar[str] = "plain text"
    corpus: ClassVar[type] = CorpusConfig

    prepared: Prepared
    looks: int = EVALUATIONS
    looked_at: int = EVALUATED

    @classmethod
    def open(
        cls, values: Values, where: str, progress: Progress | None, detected: Detected | None = None
    ) -> MaskedLanguageModellingTask:
        check_sections(values, where)
        parse_section("training", values, where)
        parse(MaskedLanguageModellingConfig, values.get("task", {}), f"{where}: [task]")
        corpus = parse_section("corpus", values, where)
        tokenizer = parse_section("tokenizer", values, where)
        if tokenizer.kind == "auto":
            tokenizer = replace(tokenizer, kind="wordpiece", size=tokenizer.size or 8192, case="lower")
        return cls(prepare(corpus, tokenizer, progress=progress))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> MaskedLanguageModellingTask:
        return cls(prepared_again(recipe, tokenizer, folder, progress))

    @property
    def notes(self) -> tuple[str, ...]:
        return self.prepared.notes

    def say(self, note: str) -> None:
        self.prepared = replace(self.prepared, notes=(*self.prepared.notes, note))

    @cached_property
    def pieces(self) -> MaskingVocabulary:
        return MaskingVocabulary.of(self.prepared.tokenizer)

    @cached_property
    def usual(self) -> NDArray[np.float64]:
        return masked_tokens.frequencies(self.prepared.train.tokens, self.pieces)

    @property
    def constant(self) -> float:
        """The share of the validation text's pieces that always saying the most frequent one of training tells."""
        tokens = self.prepared.valid.tokens
        asked = tokens[self.pieces.ordinary[tokens]]
        return float((asked == self.usual.argmax()).mean()) if len(asked) else 0.0

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def choose(self, values: Values, ends_at: float | None) -> float:
        task = values.setdefault("task", {})
        task.setdefault("kind", "masked-language-modelling")
        pairs = task.setdefault("next_sentence", "pairs") == "pairs"
        model = unfolded(values.get("model", {}), pairs)
        encoder = model["encoder"]
        encoder["vocabulary"] = self.prepared.tokenizer.vocabulary
        context = encoder.setdefault("context", min(CONTEXT, max(16, self.tokens // 16)))
        values["model"] = model
        require(self.prepared.train, 4 * context, f"training with a context of {context}")
        require(self.prepared.valid, context, "validation")
        training = values.setdefault("training", {})
        usual = defaults("masked")
        resolve.fill(training, TrainingConfig, optimizer=usual.optimizer)
        resolve.fill(training, TrainingConfig, **usual.optimizers[training["optimizer"]].values())
        accumulate = training.get("accumulate", 1)
        size = max(4, min(BATCH, self.tokens // context // 8))
        resolve.fill(training, TrainingConfig, batch=max(1, size // accumulate) * accumulate)
        device, dtype = resolve.device_and_dtype(training)
        threads = devices.choose_threads()
        resolve.fill(training, TrainingConfig, device=device, dtype=dtype, threads=threads, compile="off")
        resolve.fill(training, TrainingConfig, matrix_learning_rate=training["learning_rate"])
        return EPOCHS

    def steps_worth(self, values: Values, epochs: float) -> int:
        samples = self.tokens / values["model"]["encoder"]["context"]
        return max(1, int(epochs * samples / values["training"]["batch"]))

    def choose_steps(self, values: Values, steps: int, *, timed: bool) -> None:
        training = values["training"]
        resolve.fill(training, TrainingConfig, steps=max(1, steps))
        steps = training["steps"]
        if training.get("warmup", -1) == -1:
            training["warmup"] = min(steps // 10, 200)
        every = max(1, -(-steps // self.looks) if timed else steps // self.looks)
        resolve.fill(training, TrainingConfig, evaluate_every=every, checkpoint_every=every)
        task = values.setdefault("task", {})
        task.setdefault("evaluation_tokens", self.looked_at)
        task.setdefault("final_evaluation_tokens", LAST)

    def complete(self, values: Values) -> Recipe:
        known = {"corpus": plain(self.prepared.corpus), "tokenizer": plain(self.prepared.tokenizer_config)}
        found: MaskedRecipe = parse(MaskedRecipe, {**values, **known}, "the recipe")
        return found

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        """Nothing: it starts from random weights."""

    def objective(self, recipe: Recipe) -> MaskedLanguageModelling:
        config: Any = recipe.task
        seed, context = recipe.training.seed, recipe.model.context
        return MaskedLanguageModelling(config, self.prepared.train.tokens, self.pieces, context, seed)

    def scored(self, recipe: Recipe, model: Any, limit: int, pseudo: int = 0, pace: Pace | None = None) -> MaskedScore:
        task: Any = recipe.task
        return masked_tokens.score(
            model,
            self.prepared.valid.tokens,
            self.pieces,
            self.usual,
            task,
            limit=limit,
            pseudo=pseudo,
            autocast=autocast_of(recipe.training),
            pace=pace,
        )

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        found = self.scored(recipe, model, recipe.task.evaluation_tokens or EVALUATED)
        followed = {"followed_accuracy": found.followed_accuracy} if found.pairs else {}
        return {"loss": found.loss, "accuracy": found.accuracy, **followed}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        held, context = len(self.prepared.valid.tokens), recipe.model.context
        a_token = timed_rows(lambda rows: self.scored(recipe, model, rows * context), PROBED // context + 1) / context
        there = LOOKING * left / a_token  # tokens that there is time to look at
        self.looked_at = int(max(FEWEST, min(held, EVALUATED, there / EVALUATIONS)))
        self.looks = int(max(1, min(EVALUATIONS, there / self.looked_at)))
        evaluation = a_token * min(held, self.looked_at)
        last = a_token * (min(held, LAST) + PSEUDO * context)
        return Costs(in_all=self.looks * evaluation, evaluation=evaluation, scoring=last, closing=CLOSING)

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, self.prepared.train.documents, step)

    def examine(self, session: Session) -> None:
        """Nothing is measured before: its baselines are counted when it is scored."""

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        return report.report(session, progress)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> MaskedScore:
        """The best model on the validation text."""
        best: Any = bundle.load(folder, recipe.training.device).model
        return self.scored(recipe, best, recipe.task.final_evaluation_tokens or LAST, PSEUDO, pace)
