"""Language modelling as a task: a text is prepared, sizes follow from it and from the time, scores are bits."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from torch import nn

from qkv.config import LazyClasses, parse
from qkv.data.corpus import CorpusConfig
from qkv.data.detect import Detected
from qkv.data.files.discover import find_text_files
from qkv.data.findings import Findings, Progress
from qkv.data.prepare import Prepared, prepare, require
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
from qkv.tasks.protocol import Costs, EvaluationOptions, Session, Task, autocast_of, expect, require_same
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices
from qkv.training.run import Scores

SMALL = 20_000_000  # weights of the layers, about
FURTHER, FURTHER_SMALL, FURTHER_EPOCHS = 1e-4, 5e-4, 3.0


@dataclass
class LanguageModellingTask(Task):
    kind: ClassVar[str] = "language-modelling"
    unit: ClassVar[str] = "tokens"
    data: ClassVar[str] = "plain text"
    models: ClassVar[LazyClasses] = LANGUAGE_MODELS
    corpus: ClassVar[type] = CorpusConfig
    config: ClassVar[type] = LanguageModellingConfig
    options: ClassVar[tuple[str, ...]] = ("documents", "filter", "text")
    evaluation_options: ClassVar[tuple[str, ...]] = ("window",)
    default_model: ClassVar[str] = "modern"

    prepared: Prepared
    best_step: int = 0

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> LanguageModellingTask:
        model = language_model_section(draft.model, draft.where)
        parse(LanguageModellingConfig, draft.task, f"{draft.where}: [task]")
        corpus: CorpusConfig = parse(CorpusConfig, draft.corpus, f"{draft.where}: [corpus]")
        tokenizer, start = None, draft.training.start
        if start:
            find_text_files(
                corpus.files, corpus.filter, Findings()
            )  # a missing file is reported before what a model cannot do
            origin.whole(start, model)
            tokenizer = origin.opened(start).tokenizer
        else:
            check_model(model, draft.where)
        opened = cls(prepare(corpus, draft.tokenizer, given_tokenizer=tokenizer, progress=progress))
        if detected and (names := detected.label_folders):
            opened.say(
                f"{opened.prepared.corpus.files[0]}: texts in {len(names)} folders "
                f"({', '.join(names[:5])}{', ...' if names[5:] else ''}); "
                "if these are labels, give --task classification."
            )
        return opened

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> LanguageModellingTask:
        return cls(prepared_again(recipe, tokenizer, folder, progress))

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        tokens, start = self.tokens, draft.training.start
        size, threads, dropout = time_budget.DEFAULT_SIZE, 0, 0.0
        model = language_model_section(draft.model, draft.where)
        if start:
            model = origin.whole(start, model)
        epochs = resolve.useful_epochs(tokens)
        if ends_at is not None and tokens >= resolve.TINY:
            machine = time_budget.machine_speed(*resolve.device_and_dtype(draft.training))
            seconds = machine.speed * (ends_at - time.perf_counter())
            size, threads = time_budget.size_for(seconds, tokens), machine.threads
            if not size.shape.keys() & model.keys():  # a size that was set is not the preset's
                epochs = min(epochs, time_budget.enough(size))
            dropout = time_budget.dropout(min(epochs, size.epochs(seconds, tokens)))
        if start:
            return self._resolve_further(draft, model, size, threads), FURTHER_EPOCHS
        wanted, vocabulary = model.get("vocabulary", 0), self.prepared.tokenizer.vocabulary
        model = resolve.language_model(model, vocabulary, tokens, size, dropout)
        if wanted not in (0, vocabulary):
            self.say(
                f"model.vocabulary = {wanted!r} was asked for; this text's tokenizer has {vocabulary:,}, and so has "
                "the model."
            )
        self._require_text(model["context"])
        training = resolve.language_model_training(draft.training, model, tokens, size, threads)
        return replace(draft, model=model, training=training), epochs

    def _resolve_further(self, draft: Draft, model: Section, size: time_budget.SizePreset, threads: int) -> Draft:
        """A model that goes on learning keeps its sizes, moves more slowly, and sees the text a few times."""
        training = draft.training
        if defaults(model["kind"]).shorter_windows:
            model = {**model, "context": min(model["context"], resolve.context_for(self.tokens, size))}
        self._require_text(model["context"])
        rate = FURTHER_SMALL if 12 * model.get("layers", 1) * model.get("width", 1) ** 2 < SMALL else FURTHER
        if is_recurrent(model["kind"]):
            rate = origin.rate_of_recurrences(bool(training.lora))
        training = replace(
            training, optimizer=training.optimizer or "adamw", learning_rate=training.learning_rate or rate
        )
        training = resolve.language_model_training(training, model, self.tokens, size, threads)
        return replace(draft, model=model, training=training)

    def _require_text(self, context: int) -> None:
        require(self.prepared.train, context + 1, f"training with a context of {context}")
        require(self.prepared.valid, 2, "validation")

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        pace = Pace(progress=progress, stage="scoring tokens")
        found, notes = score_files(bundle, expect(corpus, CorpusConfig), options.window, pace)
        return EvaluationReport((report.score_table(found),), {"window": options.window, **found.values()}, notes)

    @classmethod
    def require_room(cls, recipe: Recipe) -> None:
        memory.require_room(recipe)

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        return resolve.useful_steps(draft, self.tokens, epochs)

    def resolve_steps(self, draft: Draft, steps: int, *, timed: bool) -> Draft:
        return resolve.language_model_steps(draft, self.tokens, steps, timed=timed)

    def objective(self, recipe: Recipe) -> LanguageModelling:
        task = expect(recipe.task, LanguageModellingConfig)
        return LanguageModelling(task, self.prepared.train.tokens, recipe.model.context, recipe.training.seed)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task = expect(recipe.task, LanguageModellingConfig)
        found = evaluate(recipe, self.prepared, task.evaluation_tokens, model)
        parts = [round(part, 5) for part in found.parts]
        return {"loss": found.loss, "bits_per_byte": found.bits_per_byte, "parts": parts}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        tokens = recipe.training.batch * recipe.model.context
        mark = time.perf_counter()
        probed = evaluate(recipe, self.prepared, 2048, model)
        spent = time.perf_counter() - mark
        a_token = spent / probed.tokens
        more = a_token * tokens * resolve.EVALUATIONS * resolve.EVALUATED
        run = (left - spent - time_budget.SAMPLES) / (a_step + more) * tokens  # tokens, without a final evaluation
        held = len(self.prepared.valid.tokens)
        return Costs(
            a_step=more,
            evaluation=a_token * min(held, resolve.evaluated_tokens(int(run))),
            scoring=a_token * min(held, max(resolve.LAST_IN_TIME, run / 10)),
            closing=time_budget.SAMPLES,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        config = recipe.model
        if recipe.training.start:  # windows were shorter than what it can read
            config = replace(config, context=origin.opened(recipe.training.start).config.context)
        return Bundle(model, config, self.prepared.tokenizer, self.prepared.train.documents, step)

    def examine(self, session: Session) -> Doctor:
        return Doctor(session, self.prepared)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared, doctor or self.examine(session))

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        score = self.final_score(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, doctor or self.examine(session), score, self.best_step)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> Score:
        """The best model on the validation text, in independent windows of the context's length."""
        best = bundle.load(folder, recipe.training.device)
        model = best.model
        assert isinstance(model, nn.Module)
        assert isinstance(model, LanguageModel)
        self.best_step = best.step
        if best.checked is None and count(model) >= native.MANY and native.fits(model):
            # keep with a model of many weights how well it would write with int8 ones
            bundle.keep_best(folder, replace(best, checked=check_format(model, self.prepared.valid, "int8")))
        return evaluate(recipe, self.prepared, resolve.last_tokens(recipe), model, pace)


def prepared_again(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Prepared:
    """The text of a run that goes on, which must be what it was."""
    corpus = expect(recipe.corpus, CorpusConfig)
    found = prepare(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress, resumed=True)
    require_same(found.corpus.fingerprint, recipe, folder)
    return found


def check_model(model: Section, where: str) -> None:
    """Refuse a model that fits no amount of text: sizes that are not set follow from it, and it is not read yet."""
    refusals = []
    for tokens in (resolve.TINY, 0):
        try:
            parse_model(resolve.language_model(model, 2, tokens), where)
        except ConfigError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def evaluate(
    recipe: Recipe, prepared: Prepared, limit: int | None, model: nn.Module, pace: Pace | None = None
) -> Score:
    assert isinstance(model, LanguageModel)
    window = min(recipe.model.context, len(prepared.valid.tokens) - 1)
    training = recipe.training
    small = training.accumulate > 1 or (pace is not None and pace.limited)  # parts of a batch save memory, and time
    rows = max(1, training.batch // training.accumulate) if small else None
    devices.give_back()
    with devices.enough_memory(training, recipe.model.context):
        return score(
            model, prepared.valid, window=window, limit=limit, rows=rows, autocast=autocast_of(training), pace=pace
        )
