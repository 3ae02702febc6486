"""Language modelling as a task: a text is prepared, sizes follow from it and from the time, scores are bits."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from qkv.config import parse, plain
from qkv.data.corpus import CorpusConfig
from qkv.data.detect import Detected
from qkv.data.files.discover import expand
from qkv.data.findings import Findings, Progress
from qkv.data.prepare import Prepared, prepare, require
from qkv.doctor.examination import Doctor
from qkv.errors import ConfigError, DataError
from qkv.evaluation.perplexity import Score, check, score
from qkv.evaluation.timed_scoring import Pace
from qkv.generation import native
from qkv.models.language_model import LanguageModel, count
from qkv.models.registry import defaults
from qkv.objectives.language_modelling import LanguageModelling
from qkv.recipe import bundle, origin, resolve, time_budget
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import Recipe, parse_section, sections
from qkv.tasks.language_modelling import report
from qkv.tasks.protocol import Costs, Session, Values
from qkv.tasks.report import RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices
from qkv.training.run import Scores
from qkv.training.settings import TrainingConfig

SMALL = 20_000_000  # weights of the layers, about
FURTHER, FURTHER_SMALL, FURTHER_EPOCHS = 1e-4, 5e-4, 3.0


@dataclass
class LanguageModellingTask:
    kind: ClassVar[str] = "language-modelling"
    unit: ClassVar[str] = "tokens"
    data: ClassVar[str] = "plain text"
    corpus: ClassVar[type] = CorpusConfig

    prepared: Prepared
    best_step: int = 0

    @classmethod
    def open(
        cls, values: Values, where: str, progress: Progress | None, detected: Detected | None = None
    ) -> LanguageModellingTask:
        """A wrong word is reported before a long text is read."""
        unfolded = dict(sections(values, where))
        values.clear()
        values.update(unfolded)
        for name in ("task", "training"):
            parse_section(name, values, where)
        start = values.get("training", {}).get("start", "")
        corpus, tokenizer = parse_section("corpus", values, where), parse_section("tokenizer", values, where)
        if start:
            expand(corpus.files, corpus.filter, Findings())  # a missing file is said before what a model cannot do
            values["model"] = origin.whole(start, values.get("model", {}))
            given = origin.opened(start).tokenizer
            opened = cls(prepare(corpus, tokenizer, given_tokenizer=given, progress=progress))
            opened._say_folders(detected)
            return opened
        check_model(values, where)
        opened = cls(prepare(corpus, tokenizer, progress=progress))
        opened._say_folders(detected)
        return opened

    def _say_folders(self, detected: Detected | None) -> None:
        """Say where folders of texts may be labels."""
        if detected and (names := detected.label_folders):
            self.say(
                f"{self.prepared.corpus.files[0]}: texts in {len(names)} folders "
                f"({', '.join(names[:5])}{', ...' if names[5:] else ''}); "
                "if these are labels, say --task classification."
            )

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> LanguageModellingTask:
        """As a run had it."""
        return cls(prepared_again(recipe, tokenizer, folder, progress))

    @property
    def notes(self) -> tuple[str, ...]:
        return self.prepared.notes

    @property
    def tokens(self) -> int:
        return len(self.prepared.train.tokens)

    def choose(self, values: Values, ends_at: float | None) -> float:
        prepared, tokens = self.prepared, self.tokens
        row, threads, dropout = time_budget.USUAL, 0, 0.0
        epochs = resolve.epochs_worth(tokens)
        if ends_at is not None and tokens >= resolve.TINY:
            found = time_budget.pace(*resolve.device_and_dtype(values.get("training", {})))
            seconds = found.speed * (ends_at - time.perf_counter())
            row, threads = time_budget.rung(seconds, tokens), found.threads
            if not row.shape.keys() & values.get("model", {}).keys():  # a size that was set is not the row's
                epochs = min(epochs, time_budget.enough(row))
            dropout = time_budget.dropout(min(epochs, row.epochs(seconds, tokens)))
        if values.get("training", {}).get("start"):
            return self._choose_further(values, row, threads)
        said = values.get("model", {}).get("vocabulary", 0)
        resolve.choose_model(values, prepared.tokenizer.vocabulary, tokens, row, dropout)
        if said not in (0, prepared.tokenizer.vocabulary):
            has = f"{prepared.tokenizer.vocabulary:,}"
            note = f"model.vocabulary = {said!r} was asked for; this text's tokenizer has {has}, and so has the model."
            self.say(note)
        context = values["model"]["context"]
        require(prepared.train, context + 1, f"training with a context of {context}")
        require(prepared.valid, 2, "validation")
        resolve.choose_training(values, tokens, row, threads)
        return epochs

    def _choose_further(self, values: Values, row: time_budget.Rung, threads: int) -> float:
        """A model that goes on learning keeps its sizes, moves more slowly, and sees the text a few times."""
        model, training = values["model"], values["training"]
        if defaults(model["kind"]).shorter_windows:
            model["context"] = min(model["context"], resolve.context_for(self.tokens, row))
        require(self.prepared.train, model["context"] + 1, f"training with a context of {model['context']}")
        require(self.prepared.valid, 2, "validation")
        rate = FURTHER_SMALL if time_budget.Rung(0.0, **resolve.shape_of(model)).weights < SMALL else FURTHER
        if model["kind"] in origin.ENDLESS:
            rate = origin.rate_of_recurrences(bool(training.get("lora")))
        resolve.fill(training, TrainingConfig, optimizer="adamw", learning_rate=rate)
        resolve.choose_training(values, self.tokens, row, threads)
        return FURTHER_EPOCHS

    def say(self, note: str) -> None:
        self.prepared = replace(self.prepared, notes=(*self.prepared.notes, note))

    def steps_worth(self, values: Values, epochs: float) -> int:
        return resolve.steps_worth(values, self.tokens, epochs)

    def choose_steps(self, values: Values, steps: int, *, timed: bool) -> None:
        resolve.choose_steps(values, self.tokens, steps, timed=timed)

    def complete(self, values: Values) -> Recipe:
        prepared = self.prepared
        known = {"corpus": plain(prepared.corpus), "tokenizer": plain(prepared.tokenizer_config)}
        return parse(Recipe, {"task": {}, **values, **known}, "the recipe")

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        """Nothing: it starts from random weights."""

    def objective(self, recipe: Recipe) -> LanguageModelling:
        seed, task = recipe.training.seed, recipe.task
        return LanguageModelling(task, self.prepared.train.tokens, recipe.model.context, seed)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        found = evaluate(recipe, self.prepared, recipe.task.evaluation_tokens, model)  # type: ignore[arg-type]
        parts = [round(part, 5) for part in found.parts]
        return {"loss": found.loss, "bits_per_byte": found.bits_per_byte, "parts": parts}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        tokens = recipe.training.batch * recipe.model.context
        mark = time.perf_counter()
        probed = evaluate(recipe, self.prepared, 2048, model)  # type: ignore[arg-type]
        spent = time.perf_counter() - mark
        a_token = spent / probed.tokens
        more = a_token * tokens * resolve.EVALUATIONS * resolve.EVALUATED
        run = (
            (left - spent - time_budget.SAMPLES) / (a_step + more) * tokens
        )  # tokens, if there were no last evaluation
        held = len(self.prepared.valid.tokens)
        return Costs(
            a_step=more,
            evaluation=a_token * min(held, resolve.evaluated_tokens(int(run))),
            scoring=a_token * min(held, max(resolve.LAST_IN_TIME, run / 10)),
            closing=time_budget.SAMPLES,
        )

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        config = recipe.model
        if recipe.training.start:  # windows were shorter than what it can read
            config = replace(config, context=origin.opened(recipe.training.start).config.context)
        return Bundle(model, config, self.prepared.tokenizer, self.prepared.train.documents, step)

    def examine(self, session: Session) -> Doctor:
        return Doctor(session)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, doctor or self.examine(session))

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        return report.report(session, doctor or self.examine(session), progress)

    def final_score(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> Score:
        """The best model on the validation text, in independent windows of the context's length."""
        best = bundle.load(folder, recipe.training.device)
        model: Any = best.model
        self.best_step = best.step
        if best.checked is None and count(model) >= native.MANY and native.fits(model):
            # keep with a model of many weights how well it would write with int8 ones
            bundle.keep_best(folder, replace(best, checked=check(model, self.prepared.valid, "int8")))
        limit = resolve.last_tokens(recipe)
        return evaluate(recipe, self.prepared, limit, model, pace)


def prepared_again(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Prepared:
    """The text of a run that goes on, which must be what it was."""
    corpus: Any = recipe.corpus
    found = prepare(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress, resumed=True)
    require_same(found.corpus.fingerprint, corpus, folder)
    return found


def require_same(fingerprint: str | None, corpus: Any, folder: Path) -> None:
    """Refuse to go on with other data than the run's."""
    if fingerprint != corpus.fingerprint:
        raise DataError(
            ", ".join(corpus.files),
            "the text is not the one this run was started with",
            f"Put the old text back, or start a new run without --resume (the recipe is {folder / 'recipe.toml'}).",
        )


def check_model(values: Values, where: str) -> None:
    """Refuse a model that fits no amount of text: sizes that are not set follow from it, and it is not read yet."""
    refusals = []
    for tokens in (resolve.TINY, 0):
        tried = copy.deepcopy(values)
        resolve.choose_model(tried, 2, tokens)
        try:
            parse_section("model", tried, where)
        except ConfigError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def evaluate(
    recipe: Recipe, prepared: Prepared, limit: int | None, model: LanguageModel, pace: Pace | None = None
) -> Score:
    window = min(recipe.model.context, len(prepared.valid.tokens) - 1)
    training = recipe.training
    small = training.accumulate > 1 or (pace is not None and pace.limited)  # parts of a batch save memory, and time
    rows = max(1, training.batch // training.accumulate) if small else None
    devices.give_back()
    with devices.enough_memory(training, recipe.model.context):
        return score(
            model, prepared.valid, window=window, limit=limit, rows=rows, autocast=autocast_of(training), pace=pace
        )


def autocast_of(training: TrainingConfig) -> Callable[[], AbstractContextManager[object]]:
    return partial(devices.autocast, training.device, training.dtype)
