"""Translation as a task: pairs are prepared, a model is chosen, what it says is scored by BLEU (decision 0015)."""

from __future__ import annotations

import difflib
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from qkv.config import parse, plain
from qkv.data.corpus import ParallelConfig
from qkv.data.detect import Detected
from qkv.data.findings import Progress
from qkv.data.parallel.encoding import PairRows, end_of
from qkv.data.parallel.pairs import Pairs
from qkv.data.parallel.preparing import PreparedPairs, prepare_parallel
from qkv.doctor.examination import Doctor
from qkv.errors import ConfigError
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.evaluation.translation_metrics import Outputs, TranslationScore, require
from qkv.models import transformer
from qkv.models.registry import defaults
from qkv.objectives.translation import Translation, TranslationConfig, pairs_loss
from qkv.recipe import bundle, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import Recipe, TranslationRecipe, check_sections, parse_section
from qkv.tasks.language_modelling.task import autocast_of, require_same
from qkv.tasks.protocol import Costs, Session, Values
from qkv.tasks.report import RunReport
from qkv.tasks.translation import report
from qkv.tasks.translation.evaluate import outputs
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices
from qkv.training.clock import LOOKING
from qkv.training.run import Scores
from qkv.training.settings import TrainingConfig

KINDS = ("transformer", "rnn-translator", *transformer.PRESETS)
USUAL = "transformer-small"
EPOCHS = 60.0
EVALUATIONS = 10
EVALUATED = 200  # sentences that are translated while a run goes on
LOSSES = 5  # pairs whose loss is looked at for each sentence that is translated
FEWEST = 20  # sentences
PROBED = 16
LAST = 2000  # sentences of a side that are translated in the end
BATCHES = 40  # at least, in an epoch: fewer tokens in a batch where there are few pairs
BEAMS = 5
HOUR = 3600.0  # within it a recurrence with attention learns more (docs/measurements.md, one core and 29,000 pairs)
A_SCORE = 0.001  # seconds in which BLEU, chrF and their intervals are computed, for each sentence
CLOSING = 1.0  # seconds for the card and the words
COUNTING = 2.0  # steps that counting the run's FLOPs takes: a few forward passes


def translates(values: Values) -> bool:
    """Whether the model that is asked for is one that translates."""
    model: Any = values.get("model", {})
    return isinstance(model, dict) and str(model.get("kind")) in KINDS


def require_translator(values: Values, where: str) -> None:
    """Refuse a model that cannot translate, before the pairs are read."""
    name = values.get("model", {}).get("kind")
    if name is None or str(name) in KINDS:
        return
    near = difflib.get_close_matches(str(name), KINDS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(KINDS)}."
    raise ConfigError(
        f"{where}: unknown model {name!r} for translation; {hint} Leave --model out for {USUAL}; a language model "
        "learns from one of the files alone."
    )


def unfolded(model: dict[str, Any]) -> dict[str, Any]:
    """The model's section with a preset's numbers; the usual preset where nothing is said."""
    name = str(model.get("kind") or USUAL)
    if name == "transformer" and not {"layers", "width"} & model.keys():
        name = USUAL
    if name not in transformer.PRESETS:
        return {"dropout": 0.2, **model}
    preset = plain(transformer.PRESETS[name])
    shape = {key: preset[key] for key in ("layers", "heads", "width", "hidden", "dropout")}
    return {**shape, **model, "kind": "transformer"}


@dataclass
class TranslationTask:
    kind: ClassVar[str] = "translation"
    unit: ClassVar[str] = "pieces"
    data: ClassVar[str] = "pairs of texts"
    corpus: ClassVar[type] = ParallelConfig

    prepared: PreparedPairs
    said: tuple[str, ...] = ()
    looks: int = EVALUATIONS
    looked_at: int = EVALUATED
    final_outputs: dict[str, Outputs] = field(default_factory=dict)
    _rows: dict[str, PairRows] = field(default_factory=dict)

    @classmethod
    def open(
        cls, values: Values, where: str, progress: Progress | None, detected: Detected | None = None
    ) -> TranslationTask:
        check_sections(values, where)
        require_translator(values, where)
        parse_section("training", values, where)
        task = parse(TranslationConfig, values.get("task", {}), f"{where}: [task]")
        require(task.metric)
        corpus = parse(ParallelConfig, values.get("corpus", {}), f"{where}: [corpus]")
        tokenizer = parse_section("tokenizer", values, where)
        if task.metric == "errors" and tokenizer.kind == "auto":  # symbols are parted by blanks
            tokenizer = replace(tokenizer, kind="words")
        beginnings = detected.beginnings if detected else None
        return cls(prepare_parallel(corpus, tokenizer, progress=progress, beginnings=beginnings))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> TranslationTask:
        corpus: Any = recipe.corpus
        prepared = prepare_parallel(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same(prepared.config.fingerprint, corpus, folder)
        return cls(prepared)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.prepared.notes, *self.said)

    def say(self, note: str) -> None:
        self.said = (*self.said, note)

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

    def choose(self, values: Values, ends_at: float | None) -> float:
        task = values.setdefault("task", {})
        task.setdefault("kind", "translation")
        if ends_at is not None and "kind" not in values.get("model", {}) and ends_at - time.perf_counter() < HOUR:
            self.say(
                f"model: {USUAL}, which `qkv export` writes for others; in so short a time --model rnn-translator "
                "usually learns more."
            )
        model = unfolded(values.get("model", {}))
        model["vocabulary"] = self.prepared.tokenizer.vocabulary
        if own := model.get("target_vocabulary"):
            raise ConfigError(f"model.target_vocabulary = {own!r}: it follows from the tokenizer. Leave it out.")
        model.setdefault("context", max(128, 2 * self.longest))
        values["model"] = model
        self.prepared = replace(self.prepared, config=replace(self.prepared.config, longest=self.longest))
        train = self.side("train")
        for note in train.notes("training pairs", self.longest):
            self.say(note)
        if "tokens" not in task:
            held = int(max(train.sources.lengths.sum(), train.targets.lengths.sum()))
            task["tokens"] = max(256, min(TranslationConfig().tokens, held // BATCHES))
        training = values.setdefault("training", {})
        usual = defaults(model["kind"])
        resolve.fill(training, TrainingConfig, optimizer=usual.optimizer)
        resolve.fill(training, TrainingConfig, **usual.optimizers[usual.optimizer].values())
        device, dtype = resolve.device_and_dtype(training)
        threads = devices.choose_threads()
        resolve.fill(training, TrainingConfig, device=device, dtype=dtype, threads=threads, compile="off", batch=1)
        resolve.fill(training, TrainingConfig, matrix_learning_rate=training["learning_rate"])
        if "patience" not in training:
            training["patience"] = 0
        return EPOCHS

    def steps_worth(self, values: Values, epochs: float) -> int:
        task = parse(TranslationConfig, values["task"], "the recipe: [task]")
        return max(1, int(epochs * Translation(task, self.side("train"), self.end, 0).samples))

    def choose_steps(self, values: Values, steps: int, *, timed: bool) -> None:
        training = values["training"]
        resolve.fill(training, TrainingConfig, steps=max(1, steps))
        steps = training["steps"]
        if training.get("warmup", -1) == -1:
            training["warmup"] = min(steps // 10, 400)
        every = max(1, -(-steps // self.looks) if timed else steps // self.looks)
        resolve.fill(training, TrainingConfig, evaluate_every=every, checkpoint_every=every)
        values["task"].setdefault("evaluation_sentences", self.looked_at)
        values["task"].setdefault("final_evaluation_sentences", LAST)

    def complete(self, values: Values) -> Recipe:
        known = {"corpus": plain(self.prepared.config), "tokenizer": plain(self.prepared.tokenizer_config)}
        found: TranslationRecipe = parse(TranslationRecipe, {**values, **known}, "the recipe")
        return found

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        """Nothing: it starts from random weights."""

    def objective(self, recipe: Recipe) -> Translation:
        config: Any = recipe.task
        return Translation(config, self.side("train"), self.end, recipe.training.seed)

    def said_by(
        self, recipe: Recipe, model: Any, name: str, most: int, beams: int = 1, pace: Pace | None = None
    ) -> Outputs:
        """What the model makes of so many sources of a side, and what they should be."""
        task: Any = recipe.task
        examples: Pairs = getattr(self.prepared.parallel, name)
        with autocast_of(recipe.training)():
            return outputs(
                self.made(recipe, model, 0), examples, self.side(name), task.metric,
                most=most, beams=beams, device=recipe.training.device, pace=pace,
            )  # fmt: skip

    def loss(self, recipe: Recipe, model: nn.Module, name: str, most: int | NDArray[np.int64]) -> float:
        with autocast_of(recipe.training)():
            return pairs_loss(model, self.side(name), self.end, most, recipe.training.device)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task: Any = recipe.task
        most: int = task.evaluation_sentences
        loss = self.loss(recipe, model, "valid", LOSSES * most)
        found = self.said_by(recipe, model, "valid", most).quick()
        # where nothing is said right yet, the one that is surer
        return {"loss": loss, **found, "judged": found["judged"] + 1e-4 * min(loss, 100.0)}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        valid = len(self.side("valid"))
        probed = min(PROBED, valid)

        def evaluated(rows: int) -> None:
            self.loss(recipe, model, "valid", LOSSES * rows)
            self.said_by(recipe, model, "valid", rows)

        # what has learned nothing writes on and on: it takes rather longer now than it will
        a_sentence = timed_rows(evaluated, probed)
        searched = timed_rows(lambda rows: self.said_by(recipe, model, "valid", rows, BEAMS), probed)
        share = LOOKING * left / a_sentence  # sentences that there is time to look at
        self.looked_at = int(min(valid, max(FEWEST, min(EVALUATED, share / EVALUATIONS))))
        self.looks = int(max(1, min(EVALUATIONS, share / self.looked_at)))
        test = self.prepared.parallel.test
        sides = [valid, *([len(test)] if test is not None and len(test) else [])]
        last = sum(min(each, LAST) for each in sides)
        evaluation = a_sentence * self.looked_at
        return Costs(
            in_all=self.looks * evaluation,
            evaluation=evaluation,
            scoring=(searched + a_sentence) * last,
            closing=CLOSING + COUNTING * a_step + A_SCORE * last,
        )

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        own = self.prepared.target_tokenizer
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step, target_pieces=own)

    def examine(self, session: Session) -> None:
        """Nothing is measured before: its baselines are counted when it is scored."""

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        return report.report(session, progress)

    def final(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, TranslationScore]:
        """The best model on every side that is held out, by beam search."""
        best: Any = bundle.load(folder, recipe.training.device).model
        task: Any = recipe.task
        test = self.prepared.parallel.test
        sides = ["valid", *(["test"] if test is not None and len(test) else [])]
        found: dict[str, TranslationScore] = {}
        for left, side in zip(range(len(sides), 0, -1), sides, strict=True):
            own = replace((pace or Pace()).part(left), stage=f"translating {side} sources")
            said = self.said_by(recipe, best, side, task.final_evaluation_sentences, BEAMS, own)
            if said.whole is not None:
                self.say(f"the {side} score is of {len(said):,} of {said.whole:,} sources, evenly spread.")
            self.final_outputs[side] = said
            found[side] = said.score(self.loss(recipe, best, side, np.array(said.rows)))
        return found
