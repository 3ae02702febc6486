"""Translation as a task: pairs are prepared, a model is chosen, what it says is scored by BLEU (decision 0015)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.config import LazyClasses, parse, toml_values
from qkv.data.corpus import ParallelConfig
from qkv.data.detect import PARALLEL_OPTIONS, Detected
from qkv.data.encode import PairRows, end_of
from qkv.data.examples import Pairs
from qkv.data.findings import Progress
from qkv.data.prepare_examples import PreparedPairs, prepare_parallel
from qkv.errors import ConfigError
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.evaluation.translation_metrics import Outputs, TranslationScore, require
from qkv.models import transformer
from qkv.models.registry import TRANSLATORS, defaults, presets
from qkv.objectives.translation import Translation, TranslationConfig, pairs_loss
from qkv.recipe import bundle, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, NewSection, Recipe, Section, unknown_model
from qkv.tasks.protocol import CLOSING, Costs, EvaluationOptions, Session, Task, autocast_of, expect, require_same
from qkv.tasks.report import EvaluationReport, RunReport
from qkv.tasks.translation import report
from qkv.tasks.translation.evaluate import outputs as translated_side
from qkv.tasks.translation.report import BEAMS
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATING
from qkv.training.run import Scores

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

KINDS = (*TRANSLATORS, *presets(TRANSLATORS))
DEFAULT = "transformer-small"
EPOCHS = 60.0
EVALUATIONS = 10
EVALUATED = 200  # sentences that are translated in each evaluation during a run
LOSSES = 5  # pairs whose loss is computed for each sentence that is translated
FEWEST = 20  # sentences
PROBED = 16
LAST = 2000  # sentences of a side that are translated in the end
BATCHES = 40  # at least, in an epoch: fewer tokens in a batch where there are few pairs
HOUR = 3600.0  # within it a recurrence with attention learns more (docs/measurements.md, one core and 29,000 pairs)
A_SCORE = 0.001  # seconds in which BLEU, chrF and their intervals are computed, for each sentence
COUNTING = 2.0  # steps that counting the run's FLOPs takes: a few forward passes


def require_translator(model: Section, where: str) -> None:
    """Refuse a model that cannot translate, before the pairs are read."""
    name = model.get("kind")
    if name is not None and str(name) not in KINDS:
        raise ConfigError(
            f"{unknown_model(str(name), KINDS, where, 'translation')} Leave --model out for {DEFAULT}; a language "
            "model learns from one of the files alone."
        )


def unfolded(model: Section) -> NewSection:
    """The model's section with a preset's numbers; the default preset where no sizes are given."""
    name = str(model.get("kind") or DEFAULT)
    if name == "transformer" and not {"layers", "width"} & model.keys():
        name = DEFAULT
    if name not in transformer.PRESETS:
        return {"dropout": 0.2, **model}
    preset = toml_values(transformer.PRESETS[name])
    shape = {key: preset[key] for key in ("layers", "heads", "width", "hidden", "dropout")}
    return {**shape, **model, "kind": "transformer"}


@dataclass
class TranslationTask(Task):
    kind: ClassVar[str] = "translation"
    unit: ClassVar[str] = "target tokens"
    data: ClassVar[str] = "parallel text"
    models: ClassVar[LazyClasses] = TRANSLATORS
    corpus: ClassVar[type] = ParallelConfig
    config: ClassVar[type] = TranslationConfig
    options: ClassVar[tuple[str, ...]] = ("test", *PARALLEL_OPTIONS)
    not_studied: ClassVar[str] = (
        "parallel text, and qkv {verb} knows no translators. Train them one by one: qkv train SOURCE TARGET "
        "--model transformer, or rnn-translator."
    )
    evaluation_options: ClassVar[tuple[str, ...]] = ("metric", "beams", "compare_with")
    example: ClassVar[str] = "a.en a.de"
    default_model: ClassVar[str] = "transformer"
    warmup: ClassVar[int] = 400

    prepared: PreparedPairs
    evaluated: int = EVALUATED
    final_outputs: dict[str, Outputs] = field(default_factory=dict)
    _rows: dict[str, PairRows] = field(default_factory=dict)

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> TranslationTask:
        require_translator(draft.model, draft.where)
        task = parse(TranslationConfig, draft.task, f"{draft.where}: [task]")
        require(task.metric)
        corpus = parse(ParallelConfig, draft.corpus, f"{draft.where}: [corpus]")
        tokenizer = draft.tokenizer
        if task.metric == "errors" and tokenizer.kind is None:  # symbols are separated by blanks
            tokenizer = replace(tokenizer, kind="words")
        previews = detected.previews if detected else None
        return cls(prepare_parallel(corpus, tokenizer, progress=progress, previews=previews))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> TranslationTask:
        corpus = expect(recipe.corpus, ParallelConfig)
        prepared = prepare_parallel(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same(prepared.config.fingerprint, recipe, folder)
        return cls(prepared)

    @property
    def end(self) -> int:
        """What closes a text; the decoder begins with it, too."""
        return end_of(self.prepared.tokenizer)[-1]

    def side(self, name: str) -> PairRows:
        """A side as ids; what is learned from is bounded by the context."""
        if name not in self._rows:
            examples: Pairs = getattr(self.prepared.parallel, name)
            self._rows[name] = self.prepared.rows(examples, self.longest if name == "train" else 0)
        return self._rows[name]

    @cached_property
    def longest(self) -> int:
        return self.prepared.context

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        if ends_at is not None and "kind" not in draft.model and ends_at - time.perf_counter() < HOUR:
            self.say(
                f"model: {DEFAULT}, which `qkv export` writes for others; in so short a time --model rnn-translator "
                "usually learns more."
            )
        model = {"context": max(128, 2 * self.longest), **unfolded(draft.model)}
        model["vocabulary"] = self.prepared.tokenizer.vocabulary
        if own := model.get("target_vocabulary"):
            raise ConfigError(f"model.target_vocabulary = {own!r}: it follows from the tokenizer. Leave it out.")
        self.prepared = replace(self.prepared, config=replace(self.prepared.config, max_tokens=self.longest))
        train = self.side("train")
        self.said += train.notes("training pairs", self.longest)
        held = int(max(train.sources.lengths.sum(), train.targets.lengths.sum()))
        tokens = max(256, min(TranslationConfig().tokens, held // BATCHES))
        training = resolve.on_machine(resolve.with_optimizer(draft.training, defaults(model["kind"])))
        training = replace(training, batch=training.batch or 1, patience=training.patience or 0)
        return replace(draft, model=model, task={"tokens": tokens, **draft.task}, training=training), EPOCHS

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        task = parse(TranslationConfig, draft.task, f"{draft.where}: [task]")
        return max(1, int(epochs * Translation(task, self.side("train"), self.end, 0).samples))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_sentences": self.evaluated, "final_evaluation_sentences": LAST}

    def objective(self, recipe: Recipe) -> Translation:
        return Translation(expect(recipe.task, TranslationConfig), self.side("train"), self.end, recipe.training.seed)

    def outputs(
        self, recipe: Recipe, model: nn.Module, name: str, most: int, beams: int = 1, pace: Pace | None = None
    ) -> Outputs:
        """Translations of at most `most` sources of a split, with their references."""
        task = expect(recipe.task, TranslationConfig)
        examples: Pairs = getattr(self.prepared.parallel, name)
        with autocast_of(recipe.training)():
            return translated_side(
                self.bundle(recipe, model, 0), examples, self.side(name), task.metric,
                most=most, beams=beams, device=recipe.training.device, pace=pace,
            )  # fmt: skip

    def loss(self, recipe: Recipe, model: nn.Module, name: str, most: int | NDArray[np.int64]) -> float:
        with autocast_of(recipe.training)():
            return pairs_loss(model, self.side(name), self.end, most, recipe.training.device)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        most = expect(recipe.task, TranslationConfig).evaluation_sentences or EVALUATED
        loss = self.loss(recipe, model, "valid", LOSSES * most)
        found = self.outputs(recipe, model, "valid", most).quick()
        # where nothing is right yet, the one that is surer
        return {"loss": loss, **found, "criterion": found["criterion"] + 1e-4 * min(loss, 100.0)}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        valid = len(self.side("valid"))
        probed = min(PROBED, valid)

        def evaluated(rows: int) -> None:
            self.loss(recipe, model, "valid", LOSSES * rows)
            self.outputs(recipe, model, "valid", rows)

        # what has learned nothing writes on and on: it takes rather longer now than it will
        a_sentence = timed_rows(evaluated, probed)
        searched = timed_rows(lambda rows: self.outputs(recipe, model, "valid", rows, BEAMS), probed)
        affordable = EVALUATING * left / a_sentence  # sentences that there is time to evaluate
        self.evaluated = int(min(valid, max(FEWEST, min(EVALUATED, affordable / EVALUATIONS))))
        self.evaluations = int(max(1, min(EVALUATIONS, affordable / self.evaluated)))
        last = sum(min(len(getattr(self.prepared.parallel, side)), LAST) for side in self.held_out)
        evaluation = a_sentence * self.evaluated
        return Costs(
            in_all=self.evaluations * evaluation,
            evaluation=evaluation,
            scoring=(searched + a_sentence) * last,
            closing=CLOSING + COUNTING * a_step + A_SCORE * last,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        own = self.prepared.target_tokenizer
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step, target_pieces=own)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        return report.evaluation(bundle, expect(corpus, ParallelConfig), options, device, progress)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        scores = self.final_scores(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, scores, self.final_outputs)

    @property
    def held_out(self) -> list[str]:
        return ["valid", *(["test"] if self.prepared.parallel.test else [])]

    def final_scores(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, TranslationScore]:
        """The best model on every side that is held out, by beam search."""
        best = bundle.load(folder, recipe.training.device).model
        assert isinstance(best, nn.Module)
        most = expect(recipe.task, TranslationConfig).final_evaluation_sentences or LAST
        scores: dict[str, TranslationScore] = {}
        for number, side in enumerate(self.held_out):
            own = replace((pace or Pace()).part(len(self.held_out) - number), stage=f"translating {side} sources")
            outputs = self.outputs(recipe, best, side, most, BEAMS, own)
            if outputs.whole is not None:
                self.say(f"the {side} score is of {len(outputs):,} of {outputs.whole:,} sources, evenly spread.")
            self.final_outputs[side] = outputs
            scores[side] = outputs.score(self.loss(recipe, best, side, np.array(outputs.rows)))
        return scores
