"""Masked language modelling as a task: tokens are masked, and pairs of passages classified (decision 0012)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.config import LazyClasses, parse, toml_values
from qkv.data.corpus import CorpusConfig
from qkv.data.detect import Detected
from qkv.data.findings import Progress
from qkv.data.prepare import Prepared, prepare, require
from qkv.errors import ConfigError
from qkv.evaluation import masked_tokens
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.models import bert
from qkv.models.masked import Masked
from qkv.models.registry import MASKED_MODELS, defaults
from qkv.objectives.masked_language_modelling import (
    MaskedLanguageModelling,
    MaskedLanguageModellingConfig,
    MaskingVocabulary,
)
from qkv.recipe import bundle, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, NewSection, Recipe, Section
from qkv.tasks.language_modelling.task import prepared_again
from qkv.tasks.masked_language_modelling import report
from qkv.tasks.protocol import CLOSING, Costs, EvaluationOptions, Session, Task, autocast_of, expect
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATING
from qkv.training.run import Scores

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

CONTEXT, BATCH = 64, 64
EPOCHS = 40.0  # after which a small model has memorised a text
EVALUATIONS = 10
EVALUATED = 16_384  # tokens, in each evaluation during a run
LAST = 131_072
PROBED = 2048
FEWEST = 1024  # tokens of an evaluation
PSEUDO = 1024  # tokens that are masked one by one in the end


def unfolded(model: Section, pairs: bool) -> NewSection:
    """The section of a masked model: a preset, or sizes, of the encoder inside."""
    pooler, order = ("first", "linear") if pairs else ("none", "none")
    if model.get("kind") == "masked":
        encoder = model.get("encoder", {"kind": "bert"})
        if not isinstance(encoder, dict):
            raise ConfigError(f"model.encoder = {encoder!r} does not fit; expected a section with its kind, as bert.")
        return {"next_sentence": order, **model, "encoder": {"pooler": pooler, **encoder}}
    name = str(model.get("kind"))
    shape = toml_values(bert.PRESETS[name]) if name in bert.PRESETS else {"kind": "bert"}
    shape = {key: shape[key] for key in ("kind", "layers", "heads", "width") if key in shape}
    inside = {key: value for key, value in model.items() if key != "kind"}
    return {"kind": "masked", "encoder": {**shape, **inside, "pooler": pooler}, "next_sentence": order}


@dataclass
class MaskedLanguageModellingTask(Task):
    kind: ClassVar[str] = "masked-language-modelling"
    unit: ClassVar[str] = "masked tokens"
    data: ClassVar[str] = "plain text"
    models: ClassVar[LazyClasses] = MASKED_MODELS
    corpus: ClassVar[type] = CorpusConfig
    config: ClassVar[type] = MaskedLanguageModellingConfig
    options: ClassVar[tuple[str, ...]] = ("documents", "filter", "text")
    not_studied: ClassVar[str] = (
        "text, and qkv {verb} tries language models on it. Train masked ones one by one: qkv train FILE --model bert."
    )
    default_model: ClassVar[str] = "bert"

    prepared: Prepared
    evaluated: int = EVALUATED

    @classmethod
    def open(
        cls, draft: Draft, progress: Progress | None, detected: Detected | None = None
    ) -> MaskedLanguageModellingTask:
        parse(MaskedLanguageModellingConfig, draft.task, f"{draft.where}: [task]")
        corpus = parse(CorpusConfig, draft.corpus, f"{draft.where}: [corpus]")
        tokenizer = draft.tokenizer
        if tokenizer.kind is None:
            tokenizer = replace(tokenizer, kind="wordpiece", size=tokenizer.size or 8192, case="lower")
        return cls(prepare(corpus, tokenizer, progress=progress))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> MaskedLanguageModellingTask:
        return cls(prepared_again(recipe, tokenizer, folder, progress))

    @cached_property
    def pieces(self) -> MaskingVocabulary:
        return MaskingVocabulary.of(self.prepared.tokenizer)

    @cached_property
    def usual(self) -> NDArray[np.float64]:
        return masked_tokens.frequencies(self.prepared.train.tokens, self.pieces)

    @property
    def constant(self) -> float:
        """The accuracy on the validation text of always predicting the most frequent token of the training text."""
        tokens = self.prepared.valid.tokens
        asked = tokens[self.pieces.ordinary[tokens]]
        return float((asked == self.usual.argmax()).mean()) if len(asked) else 0.0

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        task = {"next_sentence": "pairs", **draft.task}
        model = unfolded(draft.model, task["next_sentence"] == "pairs")
        context = model["encoder"].get("context", min(CONTEXT, max(16, self.tokens // 16)))
        model["encoder"] |= {"vocabulary": self.prepared.tokenizer.vocabulary, "context": context}
        require(self.prepared.train, 4 * context, f"training with a context of {context}")
        require(self.prepared.valid, context, "validation")
        training = resolve.with_optimizer(draft.training, defaults("masked"))
        size = max(4, min(BATCH, self.tokens // context // 8))
        batch = training.batch or resolve.whole_batch(size, training.accumulate)
        return replace(
            draft, model=model, task=task, training=resolve.on_machine(replace(training, batch=batch))
        ), EPOCHS

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        assert draft.training.batch is not None
        return max(1, int(epochs * (self.tokens / draft.model["encoder"]["context"]) / draft.training.batch))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_tokens": self.evaluated, "final_evaluation_tokens": LAST}

    def objective(self, recipe: Recipe) -> MaskedLanguageModelling:
        config = expect(recipe.task, MaskedLanguageModellingConfig)
        seed, context = recipe.training.seed, recipe.model.context
        return MaskedLanguageModelling(config, self.prepared.train.tokens, self.pieces, context, seed)

    def scored(
        self, recipe: Recipe, model: object, limit: int, pseudo: int = 0, pace: Pace | None = None
    ) -> MaskedScore:
        task = expect(recipe.task, MaskedLanguageModellingConfig)
        return masked_tokens.score(
            expect(model, Masked), self.prepared.valid.tokens, self.pieces, self.usual, task,
            limit=limit, pseudo=pseudo, autocast=autocast_of(recipe.training), pace=pace,
        )  # fmt: skip

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task = expect(recipe.task, MaskedLanguageModellingConfig)
        found = self.scored(recipe, model, task.evaluation_tokens or EVALUATED)
        followed = {"followed_accuracy": found.followed_accuracy} if found.pairs else {}
        return {"loss": found.loss, "accuracy": found.accuracy, **followed}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        held, context = len(self.prepared.valid.tokens), recipe.model.context
        a_token = timed_rows(lambda rows: self.scored(recipe, model, rows * context), PROBED // context + 1) / context
        affordable = EVALUATING * left / a_token  # tokens that there is time to evaluate
        self.evaluated = int(max(FEWEST, min(held, EVALUATED, affordable / EVALUATIONS)))
        self.evaluations = int(max(1, min(EVALUATIONS, affordable / self.evaluated)))
        evaluation = a_token * min(held, self.evaluated)
        last = a_token * (min(held, LAST) + PSEUDO * context)
        return Costs(in_all=self.evaluations * evaluation, evaluation=evaluation, scoring=last, closing=CLOSING)

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, self.prepared.train.documents, step)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        found, notes = report.score_gaps(bundle, expect(corpus, CorpusConfig), progress)
        return EvaluationReport((report.score_table(found),), {**found.values()}, notes)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared, self.constant)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        score = self.final_score(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, score)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> MaskedScore:
        """The best model on the validation text."""
        best, task = bundle.load(folder, recipe.training.device), expect(recipe.task, MaskedLanguageModellingConfig)
        return self.scored(recipe, best.model, task.final_evaluation_tokens or LAST, PSEUDO, pace)
