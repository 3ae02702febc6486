"""Classification as a task: labels, or a number, for each text, pair of texts, image or row of numbers.

Examples are prepared, a system is chosen and sized, answers are scored. Tagging, a label for each word, builds on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import nn

from qkv.blocks.embeddings import SpelledEmbedding
from qkv.config import LazyClasses, parse
from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import Detected
from qkv.data.examples import Examples, ImageExamples, LabelMap, NumberExamples, TextExamples
from qkv.data.findings import Progress
from qkv.data.prepare_examples import PreparedExamples, prepare_examples
from qkv.data.split import even_order
from qkv.errors import ConfigError
from qkv.evaluation.classification_metrics import ClassScore
from qkv.evaluation.labelled_evaluation import LabelledScore, evaluate_labelled
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.timed_scoring import timed as timed_rows
from qkv.models.defaults import ClassifierDefaults
from qkv.models.registry import IMAGE_ENCODERS, LABELLED_MODELS, is_recurrent
from qkv.objectives.classification import Classification, ClassificationConfig, Problem, TaggingConfig
from qkv.objectives.objective import Objective
from qkv.recipe import bundle, origin
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft, TrainingDraft
from qkv.recipe.recipe import CorpusSection, NewSection, Recipe, parse_model
from qkv.tasks.classification import report, systems
from qkv.tasks.classification.evaluate import EVALUATED, EVALUATIONS, evaluations, judged_examples, judged_in_time, some
from qkv.tasks.classification.systems import PROBLEMS
from qkv.tasks.protocol import CLOSING, Costs, EvaluationOptions, Session, Task, autocast_of, expect, require_same
from qkv.tasks.report import EvaluationReport, NextCommand, RunReport
from qkv.text.tokenizer import Tokenizer
from qkv.training.clock import EVALUATING
from qkv.training.run import Scores
from qkv.visible import shortened

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor

PROBED = 64  # examples whose evaluation is timed
FAR = 600  # characters: texts are long where the median has more
OFTEN = 30.0  # epochs at most, for the sake of steps


@dataclass
class ClassificationTask(Task):
    kind: ClassVar[str] = "classification"
    unit: ClassVar[str] = "examples"
    data: ClassVar[str] = "labelled examples"
    models: ClassVar[LazyClasses] = LABELLED_MODELS
    corpus: ClassVar[type] = ExamplesConfig
    config: ClassVar[type] = ClassificationConfig
    options: ClassVar[tuple[str, ...]] = (
        "filter", "test", "text", "label", "text2", "id", "task", "header", "columns"
    )  # fmt: skip
    labelled: ClassVar[bool] = True
    example: ClassVar[str] = "reviews.csv"
    default_model: ClassVar[str] = "lstm"

    prepared: PreparedExamples
    system: ClassifierDefaults = field(default_factory=lambda: systems.TEXTS["lstm"])
    context: int = 0
    evaluations: int = field(default=EVALUATIONS, kw_only=True)
    evaluated: int = EVALUATED
    _rows: dict[tuple[str, int], Any] = field(default_factory=dict)
    _scored: dict[str, Examples] = field(default_factory=dict)

    @classmethod
    def open(cls, draft: Draft, progress: Progress | None, detected: Detected | None = None) -> ClassificationTask:
        corpus = parse(ExamplesConfig, draft.corpus, f"{draft.where}: [corpus]")
        start = draft.training.start
        tokenizer = origin.opened(start).pieces if start else None
        previews = detected.previews if detected else None
        prepared = prepare_examples(
            corpus, draft.tokenizer, given_tokenizer=tokenizer, progress=progress, previews=previews
        )
        return cls(prepared)

    @classmethod
    def default_model_for(cls, detected: Detected) -> str:
        return systems.DEFAULT_TABLE if detected.numeric else cls.default_model

    @property
    def kind_of_data(self) -> str:
        return "tagging" if self.prepared.labelled.task == "tagging" else "classification"

    @classmethod
    def resume(
        cls, recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None
    ) -> ClassificationTask:
        corpus = expect(recipe.corpus, ExamplesConfig)
        if tokenizer is None and recipe.training.start:  # it stopped before it had a model of its own
            tokenizer = origin.opened(recipe.training.start).pieces
        prepared = prepare_examples(corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress)
        require_same(prepared.config.fingerprint, recipe, folder)
        return cls(prepared, systems.known(recipe.model), corpus.max_tokens)

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

    def resolve(self, draft: Draft, ends_at: float | None) -> tuple[Draft, float]:
        found = self.prepared.labelled
        if (kind := draft.task.get("kind", self.kind)) != self.kind:
            raise ConfigError(
                f"task.kind = {kind!r} does not fit these examples, which are for {found.task}. "
                f"Leave it out, or give {self.kind!r}."
            )
        if draft.task.get("weights") == "balanced" and (self.problem != "single" or found.task == "tagging"):
            raise ConfigError(f"task.weights (--class-weights) is for one class an example, and this is {found.task}.")
        if isinstance(found.train, NumberExamples):
            model, training = self._numbers_model(draft, found.train)
        else:
            model, training = self._model(draft), draft.training
        training = systems.with_system(training, self.system, len(found.train))
        return replace(draft, model=model, training=training), self.system.epochs

    def _model(self, draft: Draft) -> NewSection:
        """The section of a classifier or a tagger of texts or images."""
        found, start, given = self.prepared.labelled, draft.training.start, draft.model
        if start:
            model, self.system = systems.tuned(origin.opened(start), given, draft.training, found)
        else:
            if "kind" not in given and found.task in systems.LONG and np.median(found.train.lengths) > FAR:
                given = {**given, "kind": systems.LONG[found.task]}
                self.say(f"model: {given['kind']}, because texts are long; --model takes another, as --model lstm.")
            model, self.system = systems.unfolded(given, found.task, draft.where)
        model["labels"] = list(self.labels.names)
        encoder = model["encoder"]
        if isinstance(found.train, ImageExamples):
            shape = found.train.all_values.shape[1:]
            encoder |= {"height": shape[0], "width_pixels": shape[1], "channels": shape[2] if len(shape) > 2 else 1}
            if encoder["kind"] == "patches" and "patch" not in {**given, **given.get("encoder", {})}:
                encoder["patch"] = systems.patch_of(
                    shape[0], shape[1], encoder.get("patch", IMAGE_ENCODERS["patches"]().patch)
                )
        else:
            assert self.prepared.tokenizer is not None
            wanted = self.prepared.config.max_tokens or self.prepared.context
            if not start:
                encoder["vocabulary"] = self.prepared.tokenizer.vocabulary
                encoder["context"] = encoder.get("context") or wanted
                if found.pairs and encoder["kind"] == "encoder":
                    encoder.setdefault("segments", 2)
            elif is_recurrent(encoder["kind"]):
                encoder["context"] = max(wanted, encoder["context"])
            parse_model(model, draft.where)  # the context is computed with before the recipe is complete
            self.context = min(wanted, encoder["context"])
            self.prepared = replace(self.prepared, config=replace(self.prepared.config, max_tokens=self.context))
        if found.task != "tagging":
            model |= {"problem": self.problem, "texts": 2 if found.pairs else 1}
        if self.problem == "regression":
            targets = found.train.targets
            middle = 0.0 if model.get("head") == "no-bias" else float(np.mean(targets))  # which it could not add
            model.setdefault("center", round(middle, 6))
            model.setdefault("spread", round(max(float(np.std(targets)), 1e-6), 6))
        if not isinstance(found.train, ImageExamples):
            for name, rows in (("training texts", "train"), ("texts to check on", "valid")):
                self.said += self.side(rows).notes(name, self.context)
        return model

    def _numbers_model(self, draft: Draft, train: NumberExamples) -> tuple[NewSection, TrainingDraft]:
        """The section of a model of a table of numbers."""
        if draft.training.start:
            raise ConfigError("models of numbers are learned from scratch: qkv train FILE.")
        model, self.system = systems.of_numbers(draft.model, draft.where)
        model |= {"labels": list(self.labels.names), "problem": self.problem, "columns": list(train.columns)}
        model["target"] = self.prepared.labelled.columns["label"]
        if systems.solved(model["kind"], self.problem):
            self.say("linear regression starts from its closed form, the least squares; steps hardly move it.")
            self.system = replace(self.system, learning_rate=systems.SOLVED, epochs=0.0)
        # numbers as they are given: bf16 keeps three digits, and rows are short
        return model, replace(draft.training, dtype=draft.training.dtype or "f32")

    def begin(self, recipe: Recipe, model: nn.Module) -> None:
        if isinstance(self.prepared.labelled.train, NumberExamples):
            systems.fit(model, self.problem, self.prepared.labelled.train, recipe.training.device)
        for part in model.modules():
            if isinstance(part, SpelledEmbedding) and not recipe.training.start:
                part.spell(systems.spellings(self.prepared.tokenizer))

    def useful_steps(self, draft: Draft, epochs: float) -> int:
        """Few examples are gone through more often: epochs alone would end before anything is learned."""
        assert draft.training.batch is not None
        an_epoch = len(self.prepared.labelled.train) / draft.training.batch
        return max(1, int(max(epochs * an_epoch, min(self.system.steps, OFTEN * an_epoch))))

    def evaluation_sizes(self) -> dict[str, int]:
        return {"evaluation_examples": self.evaluated}

    def objective(self, recipe: Recipe) -> Objective:
        config = expect(recipe.task, ClassificationConfig)
        rows, targets = self.side("train"), self.prepared.labelled.train.targets
        return Classification(config, rows, targets, self.problem, recipe.training.batch, recipe.training.seed)

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        examples = self.prepared.labelled.valid
        evaluate = NextCommand(("evaluate", str(folder), "FILE"), "score it on other examples")
        if isinstance(examples, NumberExamples):
            return NextCommand(("classify", str(folder), "--file", "rows.csv"), "answer other rows"), evaluate
        if isinstance(examples, TextExamples):
            example = examples[0]
            given = (shortened(example.text, 60),) if example.second is None else ("--file", "pairs.tsv")
            return NextCommand(("classify", str(folder), *given), "classify any text"), evaluate
        return (evaluate,)

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
        assert isinstance(recipe.task, ClassificationConfig | TaggingConfig)
        found = self.judged(recipe, model, "valid", recipe.task.evaluation_examples)
        # of two models that are right as often, the one that is surer of it
        criterion = 1 - found.value + 1e-4 * min(found.loss, 100.0)
        macro = {"macro_f1": found.score.macro_f1.value} if isinstance(found.score, ClassScore) else {}
        return {"loss": found.loss, found.name: found.value, **macro, "criterion": criterion}

    def costs(self, recipe: Recipe, model: nn.Module, a_step: float, left: float) -> Costs:
        valid, test = len(self.prepared.labelled.valid), self.prepared.labelled.test
        an_example = timed_rows(lambda rows: self.judged(recipe, model, "valid", rows), min(PROBED, valid))
        self.evaluations, self.evaluated = evaluations(valid, EVALUATING * left / an_example)
        evaluation = an_example * self.evaluated
        return Costs(
            in_all=self.evaluations * evaluation,
            evaluation=evaluation,
            scoring=an_example * (valid + len(test or ())),  # in the end, each side as a whole
            closing=CLOSING,
        )

    def bundle(self, recipe: Recipe, model: nn.Module, step: int) -> Bundle:
        return Bundle(model, recipe.model, self.prepared.tokenizer, 0, step)

    @classmethod
    def evaluate(
        cls, bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress
    ) -> EvaluationReport:
        judged = judged_examples(bundle, expect(corpus, ExamplesConfig), progress)
        return report.evaluation(*judged, ", ".join(corpus.files))

    def plan(self, session: Session, doctor: Doctor | None) -> list[str]:
        return report.plan(session, self)

    def report(self, session: Session, doctor: Doctor | None, progress: Progress) -> RunReport:
        scores = self.final_scores(session.recipe, session.run.folder, session.pace(progress))
        return report.report(session, self, scores)

    def final_scores(self, recipe: Recipe, folder: Path, pace: Pace | None = None) -> dict[str, LabelledScore]:
        """The best model on every side that is held out."""
        best = bundle.load(folder, recipe.training.device).model
        assert isinstance(best, nn.Module)
        sides = ["valid", *(["test"] if self.prepared.labelled.test is not None else [])]
        found = {}
        for left, side in zip(range(len(sides), 0, -1), sides, strict=True):
            own = (pace or Pace()).part(left)
            found[side], self._scored[side] = judged_in_time(
                best, getattr(self.prepared.labelled, side), partial(self._rows_of, side), self.problem,
                autocast_of(recipe.training), replace(own, stage=f"scoring {side} examples"),
            )  # fmt: skip
        return found
