"""The translation task: it learns from pairs of texts and is scored by BLEU or symbol errors (decision 0015)."""

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
from qkv.data.descriptions import PLANNED_EXAMPLES, TrainingPlan
from qkv.data.detect import PARALLEL_OPTIONS, Detected
from qkv.data.encode import PairRows, decoded, end_of
from qkv.data.examples import Pairs
from qkv.data.findings import Assumption, Progress
from qkv.data.prepare_pairs import PreparedPairs, prepare_parallel
from qkv.errors import ConfigError
from qkv.evaluation.timed_scoring import Pace, seconds_per_row
from qkv.evaluation.translation_metrics import OUTPUTS, Outputs, TranslationScore, require
from qkv.models import transformer
from qkv.models.registry import TRANSLATORS, defaults, presets
from qkv.objectives.translation import Translation, TranslationConfig, pairs_loss
from qkv.recipe import bundle, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import CorpusSection, MutableSection, Recipe, Section, unknown_model_error
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
from qkv.tasks.translation import report
from qkv.tasks.translation.evaluate import translate_pairs
from qkv.tasks.translation.report import BEAMS
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATION_SHARE
from qkv.training.run import Scores

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

MODEL_NAMES = (*TRANSLATORS, *presets(TRANSLATORS))
DEFAULT_PRESET = "transformer-small"
USEFUL_EPOCHS = 60.0
MAX_EVALUATIONS = 10
MAX_EVALUATED, MIN_EVALUATED = 200, 20  # sentences that are translated in each evaluation during a run
FEWEST_EVALUATED = 4  # where even one evaluation of so many would take more than its share of the time
LOSS_PAIRS = 5  # pairs whose loss is computed for each sentence that is translated
PROBED_SENTENCES = 16  # sentences whose evaluation is timed
FINAL_SENTENCES = 2000  # sentences of each held-out split that are translated after training
MIN_BATCHES = 40  # in an epoch; where there are few pairs, batches have fewer tokens
RECURRENT_SECONDS = 3600.0  # shorter runs learn more with rnn-translator (docs/measurements.md: one core, 29,000 pairs)
SCORE_SECONDS = 0.003  # for BLEU, chrF, their intervals and the comparison with copies, for each sentence
FLOPS_STEPS = 2.0  # counting the run's FLOPs takes as long as this many steps: it runs a few forward passes


def require_translator_name(model: Section, where: str) -> None:
    """Refuse a model that cannot translate, before the pairs are read."""
    name = model.get("kind")
    if name is not None and str(name) not in MODEL_NAMES:
        raise ConfigError(
            f"{unknown_model_error(str(name), MODEL_NAMES, where, 'translation')} Leave --model out for "
            f"{DEFAULT_PRESET}; a language model learns from one of the files alone."
        )


def expand_preset(model: Section) -> MutableSection:
    """The model's section with the sizes of its preset; the default preset where no sizes are given."""
    name = str(model.get("kind") or DEFAULT_PRESET)
    if name == "transformer" and not {"layers", "width"} & model.keys():
        name = DEFAULT_PRESET
    if name not in transformer.PRESETS:
        return {"dropout": 0.2, **model}
    preset = toml_values(transformer.PRESETS[name])
    shape = {key: preset[key] for key in ("layers", "heads", "width", "hidden", "dropout")}
    return {**shape, **model, "kind": "transformer"}


@dataclass
class TranslationTask(Task):
    kind: ClassVar[str] = "translation"
    unit: ClassVar[str] = "target tokens"
    data_name: ClassVar[str] = "pairs of texts"
    model_configs: ClassVar[LazyClasses] = TRANSLATORS
    corpus_config: ClassVar[type] = ParallelConfig
    task_config: ClassVar[type] = TranslationConfig
    options: ClassVar[tuple[str, ...]] = ("filter", "test", *PARALLEL_OPTIONS)
    study_refusal: ClassVar[str] = (
        "parallel text, and qkv {verb} knows no translators. Train them one by one: qkv train SOURCE TARGET "
        "--model transformer, or rnn-translator."
    )
    evaluation_options: ClassVar[tuple[str, ...]] = ("metric", "beams", "compare_with")
    gives_predictions: ClassVar[bool] = True
    example: ClassVar[str] = "a.en a.de"
    max_warmup: ClassVar[int] = 400

    prepared: PreparedPairs
    evaluated_sentences: int = MAX_EVALUATED
    final_outputs: dict[str, Outputs] = field(default_factory=dict)
    _rows: dict[str, PairRows] = field(default_factory=dict)

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> TranslationTask:
        require_translator_name(draft.model, draft.where)
        task = parse(TranslationConfig, draft.task, f"{draft.where}: [task]")
        require(task.metric)
        corpus = parse(ParallelConfig, draft.corpus, f"{draft.where}: [corpus]")
        tokenizer = draft.tokenizer
        if task.metric == "errors" and tokenizer.kind is None:  # symbols are separated by spaces
            tokenizer = replace(tokenizer, kind="words")
        previews = detected.previews if detected else None
        return cls(prepare_parallel(corpus, tokenizer, progress=progress, previews=previews))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> TranslationTask:
        corpus = expect(recipe.corpus, ParallelConfig)
        prepared = prepare_parallel(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same_data(prepared.config.fingerprint, recipe, folder)
        return cls(prepared)

    @property
    def end(self) -> int:
        """The token that ends a text, and with which the decoder begins."""
        return end_of(self.prepared.tokenizer)[-1]

    def split_rows(self, split: str) -> PairRows:
        """The pairs of a split as ids. Training pairs with too long a text are left out."""
        if split not in self._rows:
            pairs: Pairs = getattr(self.prepared.parallel, split)
            self._rows[split] = self.prepared.rows(pairs, self.max_tokens if split == "train" else 0)
        return self._rows[split]

    @cached_property
    def max_tokens(self) -> int:
        """The tokens that a training text may have."""
        return self.prepared.context

    def cheaper_models(self, given: Draft) -> list[tuple[str, Section]]:
        return [] if given.model else [("rnn-translator", {"kind": "rnn-translator"})]

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        if ends_at is not None and "kind" not in draft.model and ends_at - time.perf_counter() < RECURRENT_SECONDS:
            choice = f"model: {DEFAULT_PRESET}, which `qkv export` can write for other programs; in so short a time "
            self.add_note(Assumption(f"{choice}--model rnn-translator usually learns more."))
        model = {"context": max(128, 2 * self.max_tokens), **expand_preset(draft.model)}
        model["vocabulary"] = self.prepared.tokenizer.vocabulary
        if own := model.get("target_vocabulary"):
            raise ConfigError(f"model.target_vocabulary = {own!r}: it follows from the tokenizer. Leave it out.")
        self.prepared = replace(self.prepared, config=replace(self.prepared.config, max_tokens=self.max_tokens))
        train = self.split_rows("train")
        self.added_notes += train.notes("training pairs", self.max_tokens)
        longer_side = int(max(train.sources.lengths.sum(), train.targets.lengths.sum()))  # tokens
        tokens = max(256, min(TranslationConfig().tokens, longer_side // MIN_BATCHES))
        training = resolve.on_machine(resolve.with_optimizer(draft.training, defaults(model["kind"])))
        training = replace(training, batch=training.batch or 1, patience=training.patience or 0)
        return replace(draft, model=model, task={"tokens": tokens, **draft.task}, training=training), USEFUL_EPOCHS

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        task = parse(TranslationConfig, draft.task, f"{draft.where}: [task]")
        return max(1, int(epochs * Translation(task, self.split_rows("train"), self.end, 0).samples))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_sentences": self.evaluated_sentences, "final_evaluation_sentences": FINAL_SENTENCES}

    def training_plan(self, recipe: Recipe) -> TrainingPlan:
        data, rows = self.prepared.parallel, self.split_rows("train")
        tokenizer = self.prepared.tokenizer
        to = self.prepared.target_tokenizer or tokenizer
        return TrainingPlan(
            task=self.kind,
            model=self.model_name(recipe),
            unit="pairs",
            train=len(rows),
            valid=len(data.valid),
            test=len(data.test or ()),
            held_out=data.held_out,
            metric=OUTPUTS[expect(recipe.task, TranslationConfig).metric].labels[1],
            max_tokens=self.max_tokens,
            examples=tuple(
                {"source": decoded(tokenizer, rows.sources.row(row)), "target": decoded(to, rows.targets.row(row))}
                for row in range(min(PLANNED_EXAMPLES, len(rows)))
            ),
        )

    def objective(self, recipe: Recipe) -> Translation:
        task = expect(recipe.task, TranslationConfig)
        return Translation(task, self.split_rows("train"), self.end, recipe.training.seed)

    def outputs(
        self, recipe: Recipe, model: nn.Module, split: str, max_sources: int, beams: int = 1, pace: Pace | None = None
    ) -> Outputs:
        """Translations of at most `max_sources` sources of a split, with their references."""
        task = expect(recipe.task, TranslationConfig)
        pairs: Pairs = getattr(self.prepared.parallel, split)
        with autocast_factory(recipe.training)():
            return translate_pairs(
                self.bundle(recipe, model, 0), pairs, self.split_rows(split), task.metric,
                max_sources=max_sources, beams=beams, device=recipe.training.device, pace=pace,
            )  # fmt: skip

    def loss(
        self, recipe: Recipe, model: nn.Module, split: str, rows: int | NDArray[np.int64]
    ) -> tuple[float, list[float]]:
        """The loss on these rows of a split, or on this number of them; and the losses of groups of them."""
        with autocast_factory(recipe.training)():
            return pairs_loss(model, self.split_rows(split), self.end, rows, recipe.training.device)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        sentences = expect(recipe.task, TranslationConfig).evaluation_sentences or MAX_EVALUATED
        loss, losses = self.loss(recipe, model, "valid", LOSS_PAIRS * sentences)
        parts = [float(f"{part:.6g}") for part in losses]
        outputs = self.outputs(recipe, model, "valid", sentences)
        scores, own = outputs.quick_scores(), self.own.of_outputs(outputs)
        # of two models with equal scores, such as two with no right word yet, the one with the lower loss is better
        criterion = scores["criterion"] + 1e-4 * min(loss, 100.0)
        return {"loss": loss, **scores, "criterion": criterion, "parts": parts, **own}

    def costs(self, recipe: Recipe, model: nn.Module, step_seconds: float, seconds_left: float) -> EvaluationCosts:
        valid = len(self.split_rows("valid"))
        probed = min(PROBED_SENTENCES, valid)

        def probe(sentences: int) -> None:
            self.loss(recipe, model, "valid", LOSS_PAIRS * sentences)
            self.outputs(recipe, model, "valid", sentences)

        # an untrained model rarely ends a sentence, so these times are longer than those after some training
        sentence_seconds = seconds_per_row(probe, probed)
        beam_seconds = seconds_per_row(lambda rows: self.outputs(recipe, model, "valid", rows, BEAMS), min(2, probed))
        affordable = EVALUATION_SHARE * seconds_left / sentence_seconds  # sentences that there is time to evaluate
        fitting = max(MIN_EVALUATED, min(MAX_EVALUATED, affordable / MAX_EVALUATIONS))
        self.evaluated_sentences = int(min(valid, fitting, max(FEWEST_EVALUATED, affordable)))
        self.evaluation_count = int(max(1, min(MAX_EVALUATIONS, affordable / self.evaluated_sentences)))
        final = sum(min(len(getattr(self.prepared.parallel, split)), FINAL_SENTENCES) for split in self.held_out)
        evaluation = sentence_seconds * self.evaluated_sentences
        return EvaluationCosts(
            during_run=self.evaluation_count * evaluation,
            evaluation=evaluation,
            final_scoring=(beam_seconds + sentence_seconds) * final,
            closing=CLOSING_SECONDS + FLOPS_STEPS * step_seconds + SCORE_SECONDS * final,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        target_tokenizer = self.prepared.target_tokenizer
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step, separate_target_tokenizer=target_tokenizer)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        return report.evaluation_report(bundle, expect(corpus, ParallelConfig), options, device, progress)

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self.prepared)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        scores = self.final_scores(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self.prepared, scores, self.final_outputs)

    @property
    def held_out(self) -> list[str]:
        """The names of the splits that are held out."""
        return ["valid", *(["test"] if self.prepared.parallel.test else [])]

    def final_scores(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, TranslationScore]:
        """Score the best model on every held-out split, by beam search."""
        best = bundle.load(folder, recipe.training.device).model
        assert isinstance(best, nn.Module)
        sentences = expect(recipe.task, TranslationConfig).final_evaluation_sentences or FINAL_SENTENCES
        scores: dict[str, TranslationScore] = {}
        for index, split in enumerate(self.held_out):
            part = replace(
                (pace or Pace()).next_share(len(self.held_out) - index), stage=f"translating {split} sources"
            )
            outputs = self.outputs(recipe, best, split, sentences, BEAMS, part)
            if outputs.whole is not None:
                self.add_note(f"the {split} score is of {len(outputs):,} of {outputs.whole:,} sources, evenly spread.")
            self.final_outputs[split] = outputs
            score = outputs.score(self.loss(recipe, best, split, np.array(outputs.rows))[0])
            scores[split] = replace(score, scores={**score.scores, **self.own.of_outputs(outputs)})
        return scores
