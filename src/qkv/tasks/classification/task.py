"""The classification task: labels, or a number, for a text, a pair, an image or a row; tagging is a subclass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import nn

from qkv.config import LazyClasses, parse
from qkv.data.corpus import ExamplesConfig
from qkv.data.descriptions import TrainingPlan
from qkv.data.detect import Detected
from qkv.data.examples import Examples, ImageExamples, LabelMap, NumberExamples, TagExamples
from qkv.data.findings import Assumption, Progress
from qkv.data.prepare_examples import PreparedExamples, prepare_examples
from qkv.data.split import even_order
from qkv.doctor.labelled import LabelledBaselines
from qkv.errors import ConfigError
from qkv.evaluation.labelled_evaluation import LabelledScore, evaluate_labelled, logged_scores
from qkv.evaluation.timed_scoring import Pace, seconds_per_row
from qkv.models.defaults import ClassifierDefaults
from qkv.models.linear import LinearConfig
from qkv.models.registry import LABELLED_MODELS, is_recurrent
from qkv.objectives.classification import Classification, ClassificationConfig, Problem, TaggingConfig
from qkv.objectives.objective import Objective
from qkv.recipe import bundle, origin
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, MutableSection, Recipe, Section, parse_model
from qkv.tasks.classification import from_data, planned, report, solver, systems
from qkv.tasks.classification.evaluate import MAX_EVALUATED, MAX_EVALUATIONS, plan_evaluations, score_in_time
from qkv.tasks.classification.ngrams import NgramRows
from qkv.tasks.protocol import (
    CLOSING_SECONDS,
    EvaluationCosts,
    EvaluationOptions,
    Session,
    Task,
    autocast_factory,
    expect,
    require_same_data,
)
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATION_SHARE
from qkv.training.run import Scores

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

PROBED_EXAMPLES = 64  # whose evaluation is timed
MAX_EPOCHS_FOR_STEPS = 30.0  # a run over few examples has more epochs than are usual, up to these, to reach its steps


@dataclass
class ClassificationTask(Task):
    kind: ClassVar[str] = "classification"
    unit: ClassVar[str] = "examples"
    data_name: ClassVar[str] = "labelled examples"
    model_configs: ClassVar[LazyClasses] = LABELLED_MODELS
    corpus_config: ClassVar[type] = ExamplesConfig
    task_config: ClassVar[type] = ClassificationConfig
    options: ClassVar[tuple[str, ...]] = (
        "filter", "test", "text", "label", "labels", "text2", "id", "task", "header", "columns"
    )  # fmt: skip
    gives_predictions: ClassVar[bool] = True
    labelled: ClassVar[bool] = True
    example: ClassVar[str] = "reviews.csv"
    extends: ClassVar[bool] = True

    prepared: PreparedExamples
    system: ClassifierDefaults = field(default_factory=lambda: systems.TEXT_SYSTEMS["lstm"])
    context: int = 0
    evaluation_count: int = field(default=MAX_EVALUATIONS, kw_only=True)
    evaluated_examples: int = MAX_EVALUATED
    _rows: dict[tuple[str, int, int], Any] = field(default_factory=dict)  # by split, number of examples and context
    ngrams: NgramRows | None = None  # of the training rows, for a linear model
    _baselines: LabelledBaselines | None = None
    _scored: dict[str, Examples] = field(default_factory=dict)  # examples of the final score, by split

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> ClassificationTask:
        corpus = parse(ExamplesConfig, draft.corpus, f"{draft.where}: [corpus]")
        start = draft.training.start
        tokenizer = origin.open_start(start).optional_tokenizer if start else None
        previews = detected.previews if detected else None
        prepared = prepare_examples(
            corpus, draft.tokenizer, given_tokenizer=tokenizer, progress=progress, previews=previews,
            tagging_kind=systems.tagging_tokenizer(draft.model), text_kind=solver.text_tokenizer(draft.model),
        )  # fmt: skip
        return cls(prepared)

    @property
    def kind_after_reading(self) -> str:
        """Tagging if the examples turned out to be sentences of tagged words."""
        return "tagging" if self.prepared.labelled.task == "tagging" else "classification"

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> ClassificationTask:
        corpus = expect(recipe.corpus, ExamplesConfig)
        if tokenizer is None and recipe.training.start:  # the run stopped before it saved a model with a tokenizer
            tokenizer = origin.open_start(recipe.training.start).optional_tokenizer
        prepared = prepare_examples(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same_data(prepared.config.fingerprint, recipe, folder)
        return cls(prepared, systems.system_of(recipe.model), corpus.max_tokens)

    @property
    def problem(self) -> Problem:
        return systems.PROBLEM_BY_TASK[self.prepared.labelled.task]

    @property
    def labels(self) -> LabelMap:
        data = self.prepared.labelled
        return LabelMap(("value",)) if data.task == "regression" else data.labels

    def split_rows(self, split: str) -> Any:
        """The ids, pixels or numbers of a split."""
        return self._cached_rows(split, getattr(self.prepared.labelled, split))

    def _cached_rows(self, name: str, examples: Examples) -> Any:
        key = (name, len(examples), self.context)
        if key not in self._rows:
            self._rows[key] = self.prepared.rows(examples, self.context)
        return self._rows[key]

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        data = self.prepared.labelled
        if (kind := draft.task.get("kind", self.kind)) != self.kind:
            raise ConfigError(
                f"task.kind = {kind!r} does not fit these examples, which are for {data.task}. "
                f"Leave it out, or give {self.kind!r}."
            )
        if draft.task.get("weights") == "balanced" and (self.problem != "single" or data.task == "tagging"):
            raise ConfigError(f"task.weights (--class-weights) is for one class an example, and this is {data.task}.")
        if isinstance(data.train, NumberExamples):
            model, training = solver.number_model(self, draft, data.train)
        else:
            model, training = self._classifier(draft), draft.training
        draft = systems.with_tagging_options(draft, model, self.labels)
        self.solved = self.system.solver is not None
        if self.solved:
            self.evaluation_count = 1  # of the optimum; no earlier step is better
            training = solver.with_solver(training, self.system, len(data.train))
            model, training = solver.with_choices(self, replace(draft, model=model, training=training), ends_at)
        else:
            training = systems.with_system_defaults(training, self.system, len(data.train))
        return replace(draft, model=model, training=training), self.system.epochs

    def cheaper_models(self, given: Draft) -> list[tuple[str, Section]]:
        return [] if given.model or given.training.start else systems.cheaper_systems(self.prepared.labelled)

    def _classifier(self, draft: Draft) -> MutableSection:
        """The section of a classifier or a tagger of texts or images."""
        data, start, given = self.prepared.labelled, draft.training.start, draft.model
        if start:
            model, self.system = systems.finetuning_section(origin.open_start(start), given, draft.training, data)
        else:
            if "kind" not in given and (long_text_system := systems.long_text_system(data)):
                given = {**given, "kind": long_text_system}
                choice = f"model: {long_text_system}, because texts are long; --model takes another, as --model lstm."
                self.add_note(Assumption(choice))
            if not given and (system := systems.system_of_few_spans(data)):
                given = {"kind": system}
                choice = f"model: {system}, because few words have tags; --model takes another, as --model lstm."
                self.add_note(Assumption(choice))
            model, self.system = systems.classifier_section(given, data.task, draft.where)
            self.prepared = solver.read_as_wanted(self.prepared, self.system, draft)
        model["labels"] = list(self.labels.names)
        if isinstance(data.train, TagExamples) and model.get("head") == "crf":
            model.setdefault("scheme", from_data.tag_scheme(data.train))
        encoder = model["encoder"]
        if isinstance(data.train, ImageExamples):
            from_data.set_image_sizes(encoder, data.train.all_values.shape[1:], {**given, **given.get("encoder", {})})
        else:
            assert self.prepared.tokenizer is not None
            usual = self.prepared.context if start else self.system.encoder.get("context") or self.prepared.context
            wanted = self.prepared.config.max_tokens or usual
            if not start:
                encoder["vocabulary"] = self.prepared.tokenizer.vocabulary
                encoder["context"] = encoder.get("context") or wanted
                if data.pairs and encoder["kind"] == "encoder":
                    encoder.setdefault("segments", 2)
            elif is_recurrent(encoder["kind"]):
                encoder["context"] = max(wanted, encoder["context"])
            parse_model(model, draft.where)  # report wrong keys before the context is used
            self.context = min(wanted, encoder["context"])
            self.prepared = replace(self.prepared, config=replace(self.prepared.config, max_tokens=self.context))
        if data.task != "tagging":
            model |= {"problem": self.problem, "texts": 2 if data.pairs else 1}
        if self.problem == "regression":
            from_data.set_target_scale(model, data.train.targets)
        if not isinstance(data.train, ImageExamples):
            for name, split in (("training texts", "train"), ("validation texts", "valid")):
                self.added_notes += self.split_rows(split).notes(name, self.context)
        return model

    def prepare_model(self, recipe: Recipe, model: nn.Module) -> None:
        solver.prepare_model(self, recipe, model)

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        """The steps of these epochs; with few examples more, because so few steps would hardly train a model."""
        epoch_steps = len(self.prepared.labelled.train) / (draft.training.batch or 1)
        return max(1, int(max(epochs * epoch_steps, min(self.system.steps, MAX_EPOCHS_FOR_STEPS * epoch_steps))))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_examples": self.evaluated_examples}

    def model_name(self, recipe: Recipe) -> str:
        return systems.system_name(recipe.model)

    def training_plan(self, recipe: Recipe) -> TrainingPlan:
        return planned.training_plan(self, self.model_name(recipe))

    def objective(self, recipe: Recipe) -> Objective:
        if isinstance(getattr(recipe.model, "encoder", None), LinearConfig):
            return solver.whole_data(self, recipe)
        config, targets = expect(recipe.task, ClassificationConfig), self.prepared.labelled.train.targets
        rows, training = self.split_rows("train"), recipe.training
        return Classification(config, rows, targets, self.problem, training.batch, training.seed)

    def score_split(self, recipe: Recipe, model: nn.Module, split: str, limit: int | None = None) -> LabelledScore:
        """The score on a split, or on `limit` of its examples, evenly spread as files are often sorted by label."""
        examples = self._sample(split, limit)
        rows = self._cached_rows(split, examples)
        result = evaluate_labelled(model, rows, examples, self.problem, autocast_factory(recipe.training))
        return self.own.added_to(result, examples)

    def _sample(self, split: str, limit: int | None) -> Examples:
        examples: Examples = getattr(self.prepared.labelled, split)
        return examples if limit is None else examples.select(np.sort(even_order(len(examples), limit)))

    def _portion_rows(self, split: str, examples: Examples) -> Any:
        complete = len(examples) == len(getattr(self.prepared.labelled, split))
        return self.split_rows(split) if complete else self.prepared.rows(examples, self.context)

    def scored_examples(self, split: str) -> Examples:
        """The examples of a split in its final score; before that, all."""
        examples: Examples = getattr(self.prepared.labelled, split)
        return self._scored.get(split, examples)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        assert isinstance(recipe.task, ClassificationConfig | TaggingConfig)
        result = self.score_split(recipe, model, "valid", recipe.task.evaluation_examples)
        targets = self._sample("valid", recipe.task.evaluation_examples).targets
        return logged_scores(result, targets, self.problem)

    def costs(self, recipe: Recipe, model: nn.Module, step_seconds: float, seconds_left: float) -> EvaluationCosts:
        valid, test = len(self.prepared.labelled.valid), self.prepared.labelled.test
        probed = min(PROBED_EXAMPLES, valid)
        example_seconds = seconds_per_row(lambda rows: self.score_split(recipe, model, "valid", rows), probed)
        number, self.evaluated_examples = plan_evaluations(valid, EVALUATION_SHARE * seconds_left / example_seconds)
        self.evaluation_count = 1 if self.solved else number
        evaluation = example_seconds * self.evaluated_examples
        return EvaluationCosts(
            during_run=self.evaluation_count * evaluation,
            evaluation=evaluation,
            final_scoring=example_seconds * (valid + len(test or ())),
            closing=CLOSING_SECONDS,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        return report.evaluation_report(bundle, expect(corpus, ExamplesConfig), options.own, progress)

    def baselines(self, session: Session) -> LabelledBaselines:
        self._baselines = self._baselines or LabelledBaselines(self.prepared.labelled, self.problem, session.run.clock)
        return self._baselines

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        scores = self.final_scores(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self, scores)

    def final_scores(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, LabelledScore]:
        """Score the best model on every held-out split."""
        best = bundle.load(folder, recipe.training.device).model
        assert isinstance(best, nn.Module)
        splits = ["valid", *(["test"] if self.prepared.labelled.test is not None else [])]
        results = {}
        for index, split in enumerate(splits):
            part = replace((pace or Pace()).next_share(len(splits) - index), stage=f"scoring {split} examples")
            result, self._scored[split] = score_in_time(
                best, getattr(self.prepared.labelled, split), partial(self._portion_rows, split), self.problem,
                autocast_factory(recipe.training), part,
            )  # fmt: skip
            results[split] = self.own.added_to(result, self._scored[split])
        return results
