"""The language modelling task: the size of the model follows from the text and the time, the score is a loss."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

from qkv.config import LazyClasses, parse
from qkv.data.corpus import CorpusConfig
from qkv.data.descriptions import PLANNED_EXAMPLES, TrainingPlan
from qkv.data.detect import Detected
from qkv.data.encode import decoded
from qkv.data.findings import Findings, Progress
from qkv.data.prepare import Prepared, prepare, require
from qkv.data.text_files import find_text_files
from qkv.doctor.examination import Doctor
from qkv.errors import ConfigError
from qkv.evaluation.perplexity import Score, check_format, score
from qkv.evaluation.timed_scoring import Pace
from qkv.generation import native
from qkv.models.language_model import LanguageModel, count
from qkv.models.registry import LANGUAGE_MODELS, defaults, is_recurrent
from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig
from qkv.recipe import bundle, memory, origin, resolve, time_budget
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, Recipe, Section, language_model_section, parse_model
from qkv.tasks.language_modelling import report
from qkv.tasks.language_modelling.evaluate import score_files
from qkv.tasks.protocol import (
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
from qkv.training import devices
from qkv.training.run import Scores

# for a model that is trained further (qkv finetune)
SMALL_MODEL = 20_000_000  # weights of its layers; a smaller model takes the higher rate
FINETUNE_RATE, SMALL_FINETUNE_RATE = 1e-4, 5e-4
FINETUNE_EPOCHS = 3.0
PROBED_TOKENS = 2048  # tokens whose evaluation is timed
SEARCHED_TOKENS = 1_000_000  # in which the beginnings of documents are looked up
MACHINE_SHARE = 0.03  # of the time, twice, for measuring the machine


@dataclass
class LanguageModellingTask(Task):
    kind: ClassVar[str] = "language-modelling"
    unit: ClassVar[str] = "tokens"
    data_name: ClassVar[str] = "plain text"
    model_configs: ClassVar[LazyClasses] = LANGUAGE_MODELS
    corpus_config: ClassVar[type] = CorpusConfig
    task_config: ClassVar[type] = LanguageModellingConfig
    options: ClassVar[tuple[str, ...]] = ("documents", "filter", "text")
    evaluation_options: ClassVar[tuple[str, ...]] = ("window",)

    prepared: Prepared
    best_step: int = 0

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> LanguageModellingTask:
        model = language_model_section(draft.model, draft.where)
        parse(LanguageModellingConfig, draft.task, f"{draft.where}: [task]")
        corpus: CorpusConfig = parse(CorpusConfig, draft.corpus, f"{draft.where}: [corpus]")
        tokenizer, start = None, draft.training.start
        if start:
            find_text_files(corpus.files, corpus.filter, Findings())  # report a missing file before an unfit model
            origin.continued_section(start, model)
            tokenizer = origin.open_start(start).tokenizer
        else:
            require_possible_sizes(model, draft.where)
        task = cls(prepare(corpus, draft.tokenizer, given_tokenizer=tokenizer, progress=progress))
        for note in detected.text_notes if detected else ():
            task.add_note(note)
        return task

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> LanguageModellingTask:
        return cls(prepare_resumed(recipe, tokenizer, folder, progress))

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        tokens, start = self.tokens, draft.training.start
        size, threads, dropout = time_budget.DEFAULT_SIZE, 0, 0.0
        model = language_model_section(draft.model, draft.where)
        if start:
            model = origin.continued_section(start, model)
        epochs = resolve.useful_epochs(tokens)
        if ends_at is not None and tokens >= resolve.TINY_TEXT:
            patience = MACHINE_SHARE * (ends_at - time.perf_counter())
            machine = time_budget.measure_machine(*resolve.device_and_dtype(draft.training), patience)
            seconds = machine.speed * (ends_at - time.perf_counter())
            size, threads = time_budget.size_for(seconds, tokens), machine.threads
            if not size.shape.keys() & model.keys():  # sizes that the user set are not the preset's
                epochs = min(epochs, time_budget.useful_epochs(size))
            dropout = time_budget.dropout(min(epochs, size.epochs(seconds, tokens)))
        if start:
            return self._resolve_continued(draft, model, size, threads), FINETUNE_EPOCHS
        wanted, vocabulary = model.get("vocabulary", 0), self.prepared.tokenizer.vocabulary
        model = resolve.language_model(model, vocabulary, tokens, size, dropout)
        if wanted not in (0, vocabulary):
            self.add_note(
                f"model.vocabulary = {wanted!r} was asked for; this text's tokenizer has {vocabulary:,}, and so has "
                "the model."
            )
        require_text(self.prepared, model["context"])
        training = resolve.language_model_training(draft.training, model, tokens, size, threads)
        return replace(draft, model=model, training=training), epochs

    def _resolve_continued(self, draft: Draft, model: Section, size: time_budget.SizePreset, threads: int) -> Draft:
        """A model that is trained further keeps its sizes and takes a lower learning rate."""
        training = draft.training
        if defaults(model["kind"]).shorter_windows:
            model = {**model, "context": min(model["context"], resolve.context_for(self.tokens, size))}
        require_text(self.prepared, model["context"])
        small = 12 * model.get("layers", 1) * model.get("width", 1) ** 2 < SMALL_MODEL
        rate = SMALL_FINETUNE_RATE if small else FINETUNE_RATE
        if is_recurrent(model["kind"]):
            rate = origin.recurrent_finetune_rate(bool(training.lora))
        training = replace(
            training, optimizer=training.optimizer or "adamw", learning_rate=training.learning_rate or rate
        )
        training = resolve.language_model_training(training, model, self.tokens, size, threads)
        return replace(draft, model=model, training=training)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        pace = Pace(progress=progress, stage="scoring tokens")
        result, notes = score_files(bundle, expect(corpus, CorpusConfig), options.window, pace)
        return EvaluationReport(
            (report.score_table(result),), {"window": options.window, **result.values()}, result, notes
        )

    @classmethod
    def require_memory(cls, recipe: Recipe) -> None:
        memory.require_memory(recipe)

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        return resolve.useful_steps(draft, self.tokens, epochs)

    def resolve_steps(self, draft: Draft, steps: int, *, timed: bool) -> Draft:
        return resolve.language_model_steps(draft, self.tokens, steps, timed=timed)

    def training_plan(self, recipe: Recipe) -> TrainingPlan:
        return text_plan(self.kind, self.model_name(recipe), self.prepared, recipe.model.context, "the validation loss")

    def objective(self, recipe: Recipe) -> LanguageModelling:
        task = expect(recipe.task, LanguageModellingConfig)
        return LanguageModelling(task, self.prepared.train.tokens, recipe.model.context, recipe.training.seed)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task = expect(recipe.task, LanguageModellingConfig)
        result = score_validation(recipe, self.prepared, task.evaluation_tokens, model)
        parts = [round(part, 5) for part in result.parts]
        return {"loss": result.loss, "bits_per_byte": result.bits_per_byte, "parts": parts}

    def costs(self, recipe: Recipe, model: nn.Module, step_seconds: float, seconds_left: float) -> EvaluationCosts:
        step_tokens = recipe.training.batch * recipe.model.context
        began = time.perf_counter()
        probed = score_validation(recipe, self.prepared, PROBED_TOKENS, model)
        spent = time.perf_counter() - began
        token_seconds = spent / probed.tokens
        per_step = token_seconds * step_tokens * resolve.EVALUATIONS * resolve.EVALUATED_SHARE
        steps = (seconds_left - spent - time_budget.REPORT_SECONDS) / (step_seconds + per_step)
        run_tokens = steps * step_tokens  # an estimate that leaves out the final evaluation
        valid = len(self.prepared.valid.tokens)
        return EvaluationCosts(
            per_step=per_step,
            evaluation=token_seconds * min(valid, resolve.evaluated_tokens(int(run_tokens))),
            final_scoring=token_seconds * min(valid, max(resolve.FINAL_TOKENS_TIMED, run_tokens / 10)),
            closing=time_budget.REPORT_SECONDS,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        config = recipe.model
        if recipe.training.start:  # the training windows may be shorter than the context of the original model
            config = replace(config, context=origin.open_start(recipe.training.start).config.context)
        return Bundle(model, config, self.prepared.tokenizer, self.prepared.train.documents, step)

    def examine(self, session: Session) -> Doctor:
        return Doctor(session, self.prepared)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared, doctor or self.examine(session))

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        score = self.final_score(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, doctor or self.examine(session), score, self.best_step)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> Score:
        """Score the best model on the validation text, in independent windows as long as the context."""
        best = bundle.load(folder, recipe.training.device)
        model = best.model
        assert isinstance(model, nn.Module)
        assert isinstance(model, LanguageModel)
        self.best_step = best.step
        if best.int8_check is None and count(model) >= native.MIN_COMPRESSED and native.fits(model):
            # save with a large model how much its loss changes with int8 weights
            bundle.keep_best(folder, replace(best, int8_check=check_format(model, self.prepared.valid, "int8")))
        return score_validation(recipe, self.prepared, resolve.final_tokens(recipe), model, pace)


def require_text(prepared: Prepared, context: int) -> None:
    """Refuse a text that is too short for windows of this length."""
    require(prepared.train, context + 1, f"training with a context of {context}")
    require(prepared.valid, 2, "validation")


def prepare_resumed(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Prepared:
    """Prepare the text of a resumed run; a text that has changed is refused."""
    corpus = expect(recipe.corpus, CorpusConfig)
    prepared = prepare(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress, resumed=True)
    require_same_data(prepared.corpus.fingerprint, recipe, folder)
    return prepared


def require_possible_sizes(model: Section, where: str) -> None:
    """Refuse, before the text is read, sizes that no model can have, however long the text.

    Sizes that are not set depend on the length of the text, so a long and a tiny text are tried.
    """
    refusals = []
    for tokens in (resolve.TINY_TEXT, 0):
        try:
            parse_model(resolve.language_model(model, 2, tokens), where)
        except ConfigError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def score_validation(
    recipe: Recipe, prepared: Prepared, limit: int | None, model: nn.Module, pace: Pace | None = None
) -> Score:
    """The score on the validation text, on `limit` tokens of it, or on as many as `pace` has time for."""
    assert isinstance(model, LanguageModel)
    window = min(recipe.model.context, len(prepared.valid.tokens) - 1)
    training = recipe.training
    small = training.accumulate > 1 or (pace is not None and pace.limited)  # small batches save memory and time
    rows = max(1, training.batch // training.accumulate) if small else None
    devices.trim_heap()
    with devices.enough_memory(training, recipe.model.context):
        return score(
            model, prepared.valid, window=window, limit=limit, rows=rows, autocast=autocast_factory(training), pace=pace
        )


def text_plan(kind: str, model: str, prepared: Prepared, context: int, metric: str) -> TrainingPlan:
    """The plan of a run on plain text; its examples are the beginnings of documents, or windows of the only one."""
    train, tokenizer = prepared.train.tokens, prepared.tokenizer
    begins = np.flatnonzero(train[:SEARCHED_TOKENS] == tokenizer.separator)[:PLANNED_EXAMPLES] + 1
    if prepared.train.documents < PLANNED_EXAMPLES or len(begins) < PLANNED_EXAMPLES:
        begins = np.linspace(0, max(0, len(train) - context), PLANNED_EXAMPLES).astype(np.int64)
    windows = [decoded(tokenizer, train[begin : begin + context]) for begin in begins.tolist()]
    return TrainingPlan(
        task=kind,
        model=model,
        unit="tokens",
        train=len(train),
        valid=len(prepared.valid.tokens),
        test=0,
        held_out=prepared.held_out,
        metric=metric,
        max_tokens=context,
        examples=tuple({"text": text} for text in dict.fromkeys(windows)),
    )
