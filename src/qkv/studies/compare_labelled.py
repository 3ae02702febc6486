"""Comparison of systems on labelled examples: the same data, and the same training time for every network."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from qkv.config import parse, toml_values
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Labelled, TagExamples
from qkv.data.findings import Caution, no_progress
from qkv.data.hold_out import require_enough
from qkv.data.object_names import name_of
from qkv.data.read_examples import read_examples
from qkv.errors import InputError, installation_hint, is_installed
from qkv.evaluation import classical_baselines, decisions
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.labelled_evaluation import LabelledScore, main_metric, score_examples
from qkv.evaluation.significance import require_metric, row_statistics
from qkv.evaluation.spans import SpanScore
from qkv.recipe import bundle
from qkv.recipe.draft import Values
from qkv.recipe.recipe import read_sections
from qkv.studies.compared_system import ComparedSystem, ScoredRun, network_system, sorted_systems
from qkv.studies.comparison import SystemComparison
from qkv.studies.study import ComparisonPlan, TrainedRun, labelled_models
from qkv.tasks.classification import report
from qkv.tasks.classification.systems import PROBLEM_BY_TASK
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.protocol import Session, autocast_factory, expect
from qkv.tasks.report import write_card

SKLEARN_MISSING = (
    "scikit-learn is not installed: naive Bayes, logistic regression and ridge are left out of the comparison; "
    f"{installation_hint('sklearn')}."
)


def compare(plan: ComparisonPlan) -> SystemComparison:
    if plan.equal != "time":
        raise InputError(
            f"--equal {plan.equal}: is for text; networks on labelled examples have equal time. Leave it out."
        )
    config = parse(ExamplesConfig, {"report": "valid", **plan.corpus}, "the options")
    missing_notes = () if is_installed("sklearn") else (SKLEARN_MISSING,)
    for note in missing_notes:
        plan.note(note)
    data = read_examples(config, plan.progress or no_progress)
    require_enough(data, config.valid_fraction, config.files[0])
    plan.note_data(data.notes)
    assert data.test is not None
    require_metric(plan.metric, main_metric(data.test, PROBLEM_BY_TASK[data.task]), len(data.labels))
    names = labelled_models(data, plan, plan.models, "--models")
    for start in plan.starts:
        bundle.find(start)  # a missing model is reported before anything is trained
    corpus = {key: value for key, value in toml_values(config).items() if value is not None}
    plan = replace(plan, corpus={**corpus, "task": data.task})
    baselines = list(_scored_baselines(plan, data))
    recipes: dict[str, Values] = {name: {"model": {"kind": name}} for name in names}
    recipes |= {f"from {model_name(start)}": {"training": {"start": start}} for start in plan.starts}
    leak_notes = [note for start in plan.starts for note in find_leaks(start, config)]
    for note in leak_notes:
        plan.note(note)
    minutes = plan.minutes_per_run((len(names) + len(plan.starts)) * plan.seeds)

    def train(name: str) -> ComparedSystem:
        return network_system(name, plan.train_seeds(name, recipes[name], minutes, score))

    def score(run: TrainedRun, session: Session, model: Any) -> ScoredRun:
        return _score_network(plan, run, session, model)

    networks, failed = plan.train_all(recipes, train)
    return SystemComparison(
        data=tuple(map(name_of, config.files)),
        task=data.task,
        systems=sorted_systems([*baselines, *networks.values()], lower_is_better=False),
        failed=failed,
        reported_count=len(data.test),
        held_out_count=len(data.valid),
        unit="sentences" if isinstance(data.test, TagExamples) else "rows",
        minutes_each=minutes,
        notes=(*missing_notes, *data.notes, *leak_notes),
        baseline=baselines[-1].name if baselines else None,
    )


def find_leaks(start: str, config: ExamplesConfig) -> Iterator[str]:
    """Warn if the run of a starting model read the compared files: the model may have learned reported rows."""
    folder = Path(start)
    recipe = next((path for path in (folder / "recipe.toml", folder.parent / "recipe.toml") if path.is_file()), None)
    if recipe is None:
        return
    files = read_sections(recipe).get("corpus", {}).get("files", ())
    if {Path(name).resolve() for name in files} & {Path(name).resolve() for name in config.files}:
        yield Caution(f"leak: {start} was trained on these files, and may have learned rows that are reported here.")


def model_name(start: str) -> str:
    """A model's part of a run's name."""
    path = Path(start)
    return path.parent.name if path.name == "best" else path.name.split(".")[0] or "model"


def _scored_baselines(plan: ComparisonPlan, data: Labelled) -> Iterator[ComparedSystem]:
    problem, test = PROBLEM_BY_TASK[data.task], data.test
    assert test is not None
    for baseline in classical_baselines.fit_baselines(data, problem):
        valid_result = score_examples(baseline.predict(data.valid), data.valid, problem)
        held_out_score = row_statistics(valid_result, data.valid, plan.metric).value
        started_at = time.perf_counter()
        predictions = baseline.predict(test)
        speed = len(test) / max(time.perf_counter() - started_at, 1e-9)
        result = score_examples(predictions, test, problem)
        yield ComparedSystem(
            name=baseline.name,
            is_network=False,
            statistics=(row_statistics(result, test, plan.metric),),
            held_out_score=held_out_score if np.isfinite(held_out_score) else None,
            train_seconds=baseline.seconds,
            macro_f1=macro_f1(result),
            parameters=baseline.parameters,
            predictions_per_second=speed,
            more_values={"scores": result.values()},
        )
        value = result.main_score.value
        score = "undefined" if value is None else f"{value:.4f}"
        plan.note(f"{baseline.name}: {result.name} {score} in {baseline.seconds:.1f} s")


def _score_network(plan: ComparisonPlan, run: TrainedRun, session: Session, model: Any) -> ScoredRun:
    """Score a network on the validation and the test split, and write the card of its run. The speed counts from the
    texts, with their tokenization."""
    recipe, task = session.recipe, expect(session.task, ClassificationTask)
    valid_result: LabelledScore = task.score_split(recipe, model, "valid")
    data = task.prepared.labelled
    assert data.test is not None
    started_at = time.perf_counter()
    rows = task.prepared.rows(data.test, task.context)
    predictions = decisions.predict(model, rows, task.problem, autocast_factory(recipe.training))
    speed = len(data.test) / max(time.perf_counter() - started_at, 1e-9)
    test_result = score_examples(predictions.values, data.test, task.problem, predictions.chosen)
    results = {"valid": valid_result, "test": test_result}
    remarks = report.remarks(session, task, results, None)  # the comparison has the baselines
    write_card(session, report.card_content(session, task, results, remarks, None))
    return ScoredRun(
        run,
        row_statistics(test_result, data.test, plan.metric),
        row_statistics(valid_result, data.valid, plan.metric).value,
        speed,
        macro_f1(test_result),
        test_result.values(),
    )


def macro_f1(result: LabelledScore) -> float | None:
    """The macro-F1, which is reported with every score: for spans the mean over their types; None for regression."""
    match result.score:
        case ClassScore(macro_f1=estimate):
            return estimate.value
        case MultilabelScore(macro_f1=value):
            return value
        case SpanScore(macro=spans):
            return spans.f1
        case _:
            return None
