"""The masked language modelling task: predicts masked tokens, and classifies pairs of passages (decision 0012)."""

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
from qkv.data.descriptions import TrainingPlan
from qkv.data.detect import Detected
from qkv.data.findings import Progress
from qkv.data.prepare import Prepared, prepare, require
from qkv.errors import ConfigError
from qkv.evaluation import masked_tokens
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.timed_scoring import Pace, seconds_per_row
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
from qkv.recipe.recipe import CorpusSection, MutableSection, Recipe, Section
from qkv.tasks.language_modelling.task import prepare_resumed, text_plan
from qkv.tasks.masked_language_modelling import report
from qkv.tasks.protocol import (
    CLOSING_SECONDS,
    EvaluationCosts,
    EvaluationOptions,
    Session,
    Task,
    autocast_factory,
    expect,
)
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATION_SHARE
from qkv.training.run import Scores

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

MAX_CONTEXT, MAX_BATCH = 64, 64  # by default
USEFUL_EPOCHS = 40.0  # after which a small model has memorised a text
MAX_EVALUATIONS = 10
MAX_EVALUATED, MIN_EVALUATED = 16_384, 1024  # tokens, in each evaluation during a run
FINAL_TOKENS = 131_072  # evaluated after training
PROBED_TOKENS = 2048  # tokens whose evaluation is timed


def expand_preset(model: Section, pairs: bool) -> MutableSection:
    """The section of a masked model, from the name or the sizes of its encoder.

    With `pairs`, the model also classifies whether a passage follows another.
    """
    pooler, order_head = ("first", "linear") if pairs else ("none", "none")
    if model.get("kind") == "masked":
        encoder = model.get("encoder", {"kind": "bert"})
        if not isinstance(encoder, dict):
            raise ConfigError(
                f"model.encoder = {encoder!r} does not fit; expected a section with its kind, such as bert."
            )
        return {"next_sentence": order_head, **model, "encoder": {"pooler": pooler, **encoder}}
    name = str(model.get("kind"))
    shape = toml_values(bert.PRESETS[name]) if name in bert.PRESETS else {"kind": "bert"}
    shape = {key: shape[key] for key in ("kind", "layers", "heads", "width") if key in shape}
    given = {key: value for key, value in model.items() if key != "kind"}
    return {"kind": "masked", "encoder": {**shape, **given, "pooler": pooler}, "next_sentence": order_head}


@dataclass
class MaskedLanguageModellingTask(Task):
    kind: ClassVar[str] = "masked-language-modelling"
    unit: ClassVar[str] = "masked tokens"
    data_name: ClassVar[str] = "plain text"
    model_configs: ClassVar[LazyClasses] = MASKED_MODELS
    corpus_config: ClassVar[type] = CorpusConfig
    task_config: ClassVar[type] = MaskedLanguageModellingConfig
    options: ClassVar[tuple[str, ...]] = ("documents", "filter", "text")
    study_refusal: ClassVar[str] = (
        "text, and qkv {verb} tries language models on it. Train masked ones one by one: qkv train FILE --model bert."
    )

    prepared: Prepared
    evaluated_tokens: int = MAX_EVALUATED

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
        return cls(prepare_resumed(recipe, tokenizer, folder, progress))

    @cached_property
    def vocabulary(self) -> MaskingVocabulary:
        return MaskingVocabulary.of(self.prepared.tokenizer)

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """How often each token occurs in the training text."""
        return masked_tokens.frequencies(self.prepared.train.tokens, self.vocabulary)

    @property
    def baseline_accuracy(self) -> float:
        """The accuracy on the validation text of always predicting the most frequent token of the training text."""
        tokens = self.prepared.valid.tokens
        ordinary = tokens[self.vocabulary.ordinary[tokens]]
        return float((ordinary == self.frequencies.argmax()).mean()) if len(ordinary) else 0.0

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def cheaper_models(self, given: Draft) -> list[tuple[str, Section]]:
        smallest = next(iter(bert.PRESETS))
        return [(smallest, {"kind": smallest})] if given.model == {"kind": "bert"} else []

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        task = {"next_sentence": "pairs", **draft.task}
        model = expand_preset(draft.model, task["next_sentence"] == "pairs")
        context = model["encoder"].get("context", min(MAX_CONTEXT, max(16, self.tokens // 16)))
        model["encoder"] |= {"vocabulary": self.prepared.tokenizer.vocabulary, "context": context}
        require(self.prepared.train, 4 * context, f"training with a context of {context}")
        require(self.prepared.valid, context, "validation")
        training = resolve.with_optimizer(draft.training, defaults("masked"))
        size = max(4, min(MAX_BATCH, self.tokens // context // 8))
        batch = training.batch or resolve.whole_batch(size, training.accumulate)
        training = resolve.on_machine(replace(training, batch=batch))
        return replace(draft, model=model, task=task, training=training), USEFUL_EPOCHS

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        assert draft.training.batch is not None
        return max(1, int(epochs * (self.tokens / draft.model["encoder"]["context"]) / draft.training.batch))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_tokens": self.evaluated_tokens, "final_evaluation_tokens": FINAL_TOKENS}

    def model_name(self, recipe: Recipe) -> str:
        return "bert"

    def training_plan(self, recipe: Recipe) -> TrainingPlan:
        metric = "the accuracy of masked tokens"
        return text_plan(self.kind, self.model_name(recipe), self.prepared, recipe.model.context, metric)

    def objective(self, recipe: Recipe) -> MaskedLanguageModelling:
        config = expect(recipe.task, MaskedLanguageModellingConfig)
        seed, context = recipe.training.seed, recipe.model.context
        return MaskedLanguageModelling(config, self.prepared.train.tokens, self.vocabulary, context, seed)

    def score_model(
        self, recipe: Recipe, model: object, limit: int, pseudo: int = 0, pace: Pace | None = None
    ) -> MaskedScore:
        """The score on about `limit` tokens of the validation text, `pseudo` of which are also masked one by one."""
        task = expect(recipe.task, MaskedLanguageModellingConfig)
        return masked_tokens.score(
            expect(model, Masked), self.prepared.valid.tokens, self.vocabulary, self.frequencies, task,
            limit=limit, pseudo=pseudo, autocast=autocast_factory(recipe.training), pace=pace,
        )  # fmt: skip

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task = expect(recipe.task, MaskedLanguageModellingConfig)
        score = self.score_model(recipe, model, task.evaluation_tokens or MAX_EVALUATED)
        followed = {"followed_accuracy": score.followed_accuracy} if score.pairs else {}
        return {"loss": score.loss, "accuracy": score.accuracy, **followed, "parts": list(score.parts)}

    def costs(self, recipe: Recipe, model: nn.Module, step_seconds: float, seconds_left: float) -> EvaluationCosts:
        valid, context = len(self.prepared.valid.tokens), recipe.model.context
        window_seconds = seconds_per_row(
            lambda windows: self.score_model(recipe, model, windows * context), PROBED_TOKENS // context + 1
        )
        token_seconds = window_seconds / context
        affordable = EVALUATION_SHARE * seconds_left / token_seconds  # tokens that there is time to evaluate
        self.evaluated_tokens = int(max(MIN_EVALUATED, min(valid, MAX_EVALUATED, affordable / MAX_EVALUATIONS)))
        self.evaluation_count = int(max(1, min(MAX_EVALUATIONS, affordable / self.evaluated_tokens)))
        evaluation = token_seconds * min(valid, self.evaluated_tokens)
        return EvaluationCosts(
            during_run=self.evaluation_count * evaluation,
            evaluation=evaluation,
            final_scoring=token_seconds * (min(valid, FINAL_TOKENS) + report.PSEUDO_TOKENS * context),
            closing=CLOSING_SECONDS,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, self.prepared.train.documents, step)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        score, notes = report.score_text(bundle, expect(corpus, CorpusConfig), progress)
        return EvaluationReport((report.score_table(score),), {**score.values()}, score, notes)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared, self.baseline_accuracy)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        score = self.final_score(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, score)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> MaskedScore:
        """Score the best model on the validation text."""
        best, task = bundle.load(folder, recipe.training.device), expect(recipe.task, MaskedLanguageModellingConfig)
        limit = task.final_evaluation_tokens or FINAL_TOKENS
        return self.score_model(recipe, best.model, limit, report.PSEUDO_TOKENS, pace)
