"""What classification and tagging share: examples are prepared, a system is chosen and sized, answers are scored.

Classification as a task: labels, or a number, for each text, pair of texts, picture or row of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import nn

from qkv.blocks.embeddings import SpelledEmbedding
from qkv.config import parse, plain
from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import Detected
from qkv.data.findings import Progress
from qkv.data.labelled.examples import Examples, ImageExamples, LabelMap, NumberExamples
from qkv.data.labelled.preparing import PreparedExamples, prepare_examples
from qkv.data.split import even_order
from qkv.doctor.examination import Doctor
from qkv.errors import ConfigError
from qkv.evaluation.classification_metrics import ClassScore
from qkv.evaluation.labelled_evaluation import LabelledScore, evaluate_labelled
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.models.image_encoders import PatchesConfig
from qkv.objectives.classification import Classification, Problem
from qkv.objectives.objective import Objective
from qkv.recipe import bundle, origin, resolve
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import LabelledRecipe, Recipe, check_sections, parse_model, parse_section
from qkv.tasks.classification import report, systems
from qkv.tasks.classification.evaluate import EVALUATED, EVALUATIONS, evaluations, judged_in_time, some
from qkv.tasks.classification.systems import PROBLEMS, choose_training
from qkv.tasks.language_modelling.task import autocast_of, require_same
from qkv.tasks.protocol import Costs, Session, Values
from qkv.tasks.report import NextCommand, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import LOOKING
from qkv.training.run import Scores
from qkv.training.settings import TrainingConfig
from qkv.visible import shortened

PROBED = 64  # examples whose evaluation is timed
FAR = 600  # characters, from which on a usual text is long
OFTEN = 30.0  # epochs at most, for the sake of steps
CLOSING = 1.0  # seconds for the card and the words


@dataclass
class LabelledTask:
    """What classification and tagging share; each says what its objective is."""

    kind: ClassVar[str]
    unit: ClassVar[str] = "examples"
    data: ClassVar[str] = "labelled examples"
    corpus: ClassVar[type] = ExamplesConfig

    prepared: PreparedExamples
    said: tuple[str, ...] = ()
    system: systems.System = field(default_factory=lambda: systems.TEXTS["lstm"])
    context: int = 0
    looks: int = EVALUATIONS
    looked_at: int = EVALUATED
    _rows: dict[tuple[str, int], Any] = field(default_factory=dict)
    _scored: dict[str, Examples] = field(default_factory=dict)

    @classmethod
    def open(
        cls, values: Values, where: str, progress: Progress | None, detected: Detected | None = None
    ) -> LabelledTask:
        check_sections(values, where)
        parse_section("training", values, where)
        corpus = parse(ExamplesConfig, values.get("corpus", {}), f"{where}: [corpus]")
        tokenizer = parse_section("tokenizer", values, where)
        start = values.get("training", {}).get("start", "")
        given = origin.opened(start).pieces if start else None
        beginnings = detected.beginnings if detected else None
        return cls(prepare_examples(corpus, tokenizer, given_tokenizer=given, progress=progress, beginnings=beginnings))

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> LabelledTask:
        corpus: Any = recipe.corpus
        if tokenizer is None and recipe.training.start:  # it stopped before it had a model of its own
            tokenizer = origin.opened(recipe.training.start).pieces
        prepared = prepare_examples(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same(prepared.config.fingerprint, corpus, folder)
        made = cls(prepared)
        made.context = corpus.longest
        made.system = systems.known(recipe.model)
        return made

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.prepared.notes, *self.said)

    def say(self, note: str) -> None:
        self.said = (*self.said, note)

    @property
    def problem(self) -> Problem:
        return PROBLEMS[self.prepared.labelled.task]

    @property
    def labels(self) -> LabelMap:
        found = self.prepared.labelled
        return LabelMap(("value",)) if found.task == "regression" else found.labels

    def side(self, name: str) -> Any:
        """A side's rows of ids, pixels or numbers; kept."""
        key = (name, self.context)
        if key not in self._rows:
            examples: Examples = getattr(self.prepared.labelled, name)
            self._rows[key] = self.prepared.rows(examples, self.context)
        return self._rows[key]

    def choose(self, values: Values, ends_at: float | None) -> float:
        found = self.prepared.labelled
        values["task"] = {**values.get("task", {})}
        kind = self.kind
        if values["task"].setdefault("kind", kind) != kind:
            raise ConfigError(
                f"task.kind = {values['task']['kind']!r} does not fit these examples, which are for {found.task}. "
                f"Leave it out, or give {kind!r}."
            )
        if values["task"].get("weights") == "balanced" and (self.problem != "single" or found.task == "tagging"):
            raise ConfigError(f"task.weights (--class-weights) is for one class an example, and this is {found.task}.")
        training = values.setdefault("training", {})
        if isinstance(found.train, NumberExamples):
            return self._choose_numbers(values, found.train)
        said = values.get("model", {})
        if training.get("start"):
            model, self.system = systems.tuned(
                origin.opened(training["start"]), values.get("model", {}), training, found
            )
        else:
            if "kind" not in said and found.task in systems.LONG and np.median(found.train.lengths) > FAR:
                said = {**said, "kind": systems.LONG[found.task]}
                self.say(f"model: {said['kind']}, for texts are long; --model says otherwise, as --model lstm.")
            model, self.system = systems.unfolded(said, found.task, "the recipe")
        model["labels"] = list(self.labels.names)
        encoder = model["encoder"]
        if isinstance(found.train, ImageExamples):
            shape = found.train.all_pixels.shape[1:]
            encoder |= {"height": shape[0], "width_pixels": shape[1], "channels": shape[2] if len(shape) > 2 else 1}
            if encoder["kind"] == "patches" and "patch" not in {**said, **said.get("encoder", {})}:
                encoder["patch"] = systems.patch_of(shape[0], shape[1], encoder.get("patch", PatchesConfig().patch))
        else:
            assert self.prepared.tokenizer is not None
            if not training.get("start"):
                encoder["vocabulary"] = self.prepared.tokenizer.vocabulary
                encoder["context"] = encoder.get("context") or self.prepared.config.longest or self.prepared.context
                if found.pairs and encoder["kind"] == "encoder":
                    encoder.setdefault("segments", 2)
            wanted = self.prepared.config.longest or self.prepared.context
            if training.get("start") and encoder["kind"] in origin.ENDLESS:
                encoder["context"] = max(wanted, encoder["context"])
            parse_model(model, "the recipe")  # the context is computed with before the recipe is complete
            self.context = min(wanted, encoder["context"])
            self.prepared = replace(self.prepared, config=replace(self.prepared.config, longest=self.context))
        if found.task != "tagging":
            model["problem"] = self.problem
            model["texts"] = 2 if found.pairs else 1
        if self.problem == "regression":
            targets = found.train.targets
            middle = 0.0 if model.get("head") == "no-bias" else float(np.mean(targets))  # which it could not add
            model.setdefault("center", round(middle, 6))
            model.setdefault("spread", round(max(float(np.std(targets)), 1e-6), 6))
        values["model"] = model
        for name, rows in (("training texts", "train"), ("texts to check on", "valid")):
            if not isinstance(found.train, ImageExamples):
                for note in self.side(rows).notes(name, self.context):
                    self.say(note)
        choose_training(values, self.system, len(self.prepared.labelled.train))
        return self.system.epochs

    def _choose_numbers(self, values: Values, train: NumberExamples) -> float:
        training = values.setdefault("training", {})
        if training.get("start"):
            raise ConfigError("models of numbers are learned from scratch: qkv train FILE.")
        if training.get("dtype", "auto") == "auto":
            training["dtype"] = "f32"  # numbers as they are given: bf16 keeps three digits, and rows are short
        model, self.system = systems.of_numbers(values.get("model", {}), "the recipe")
        model |= {"labels": list(self.labels.names), "problem": self.problem, "columns": list(train.columns)}
        model["target"] = self.prepared.labelled.columns["label"]
        values["model"] = model
        if systems.solved(model["kind"], self.problem):
            self.say("linear regression starts from its closed form, the least squares; steps hardly move it.")
            self.system = replace(self.system, rate=systems.SOLVED, epochs=0.0)
        choose_training(values, self.system, len(self.prepared.labelled.train))
        return self.system.epochs

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        if isinstance(self.prepared.labelled.train, NumberExamples):
            systems.fit(model, recipe.model, self.prepared.labelled.train, recipe.training.device)
        for part in model.modules():
            if isinstance(part, SpelledEmbedding) and not recipe.training.start:
                part.spell(systems.spellings(self.prepared.tokenizer))

    def steps_worth(self, values: Values, epochs: float) -> int:
        """Few examples are gone through more often: epochs alone would end before anything is learned."""
        an_epoch = len(self.prepared.labelled.train) / values["training"]["batch"]
        return max(1, int(max(epochs * an_epoch, min(self.system.steps, OFTEN * an_epoch))))

    def choose_steps(self, values: Values, steps: int, *, timed: bool) -> None:
        training = values["training"]
        resolve.fill(training, TrainingConfig, steps=max(1, steps))
        steps = training["steps"]
        if training.get("warmup", -1) == -1:
            training["warmup"] = min(steps // 10, 200)
        every = max(1, -(-steps // self.looks) if timed else steps // self.looks)
        resolve.fill(training, TrainingConfig, evaluate_every=every, checkpoint_every=every)
        values["task"].setdefault("evaluation_examples", self.looked_at)

    def complete(self, values: Values) -> Recipe:
        known = {"corpus": plain(self.prepared.config), "tokenizer": plain(self.prepared.tokenizer_config)}
        found: LabelledRecipe = parse(LabelledRecipe, {**values, **known}, "the recipe")
        return found

    def objective(self, recipe: Recipe) -> Objective:
        raise NotImplementedError

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        return (NextCommand(("evaluate", str(folder), "FILE"), "score it on other examples"),)

    def judged(self, recipe: Recipe, model: nn.Module, side: str, most: int | None = None) -> LabelledScore:
        """The model on a side, or on `most` of its examples, evenly spread: files are often sorted by label."""
        examples: Examples = getattr(self.prepared.labelled, side)
        rows = self.side(side)
        if most is not None and most < len(examples):
            examples = some(examples, np.sort(even_order(len(examples), most)))
            key = (f"{side} {most}", self.context)
            if key not in self._rows:
                self._rows[key] = self.prepared.rows(examples, self.context)
            rows = self._rows[key]
        return evaluate_labelled(model, rows, examples, self.problem, autocast_of(recipe.training))

    def _rows_of(self, side: str, examples: Examples) -> Any:
        whole = len(examples) == len(getattr(self.prepared.labelled, side))
        return self.side(side) if whole else self.prepared.rows(examples, self.context)

    def scored(self, side: str) -> Examples:
        """The examples of a side that the last score is of."""
        examples: Examples = getattr(self.prepared.labelled, side)
        return self._scored.get(side, examples)

    def scores(self, recipe: Recipe, model: nn.Module) -> Scores:
        task: Any = recipe.task
        found = self.judged(recipe, model, "valid", task.evaluation_examples)
        # of two models that are right as often, the one that is surer of it
        judged = 1 - found.value + 1e-4 * min(found.loss, 100.0)
        beside = {"macro_f1": found.score.macro_f1.value} if isinstance(found.score, ClassScore) else {}
        return {"loss": found.loss, found.name: found.value, **beside, "judged": judged}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        valid = len(self.prepared.labelled.valid)
        an_example = timed_rows(lambda rows: self.judged(recipe, model, "valid", rows), min(PROBED, valid))
        self.looks, self.looked_at = evaluations(valid, LOOKING * left / an_example)
        test = self.prepared.labelled.test
        judged = valid + (0 if test is None else len(test))  # in the end, each side as a whole
        evaluation = an_example * self.looked_at
        return Costs(
            in_all=self.looks * evaluation, evaluation=evaluation, scoring=an_example * judged, closing=CLOSING
        )

    def made(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step)

    def examine(self, session: Session) -> None:
        """Nothing is measured before: its baselines are counted when it is scored."""

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        return report.report(session, progress)

    def final(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, LabelledScore]:
        """The best model on every side that is held out."""
        best: Any = bundle.load(folder, recipe.training.device).model
        sides = ["valid", *(["test"] if self.prepared.labelled.test is not None else [])]
        found = {}
        for left, side in zip(range(len(sides), 0, -1), sides, strict=True):
            own = (pace or Pace()).part(left)
            found[side], self._scored[side] = judged_in_time(
                best, getattr(self.prepared.labelled, side), partial(self._rows_of, side), self.problem,
                autocast_of(recipe.training), replace(own, stage=f"scoring {side} examples"),
            )  # fmt: skip
        return found


class ClassificationTask(LabelledTask):
    kind = "classification"

    def objective(self, recipe: Recipe) -> Classification:
        config: Any = recipe.task
        rows, targets = self.side("train"), self.prepared.labelled.train.targets
        return Classification(config, rows, targets, self.problem, recipe.training.batch, recipe.training.seed)

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        found = self.prepared.labelled
        commands = []
        if found.numeric:
            commands.append(NextCommand(("classify", str(folder), "--file", "rows.csv"), "answer other rows"))
        elif found.task != "images":
            example: Any = found.valid[0]
            given = (shortened(example.text, 60),) if example.second is None else ("--file", "pairs.tsv")
            commands.append(NextCommand(("classify", str(folder), *given), "judge any text"))
        return (*commands, *super().next_commands(folder))
