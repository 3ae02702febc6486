"""Systems that label texts, words and images, on the same data and under the same time."""

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
from qkv.data.read_examples import read_examples
from qkv.errors import InputError, installation_hint, is_installed
from qkv.evaluation import decisions
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.labelled_evaluation import LabelledScore, main_metric, score_examples
from qkv.evaluation.spans import SpanScore
from qkv.recipe import bundle
from qkv.recipe.draft import Values
from qkv.recipe.recipe import read_sections
from qkv.studies import classical_baselines
from qkv.studies.comparison import Entry, ScoredRun, SystemComparison, in_order, network_entry
from qkv.studies.significance import measure, require_metric
from qkv.studies.study import ComparisonPlan, TrainedRun, labelled_models
from qkv.tasks.classification import report
from qkv.tasks.classification.systems import PROBLEM_BY_TASK
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.protocol import Session, autocast_factory, expect
from qkv.tasks.report import write_card

WITHOUT = (
    "scikit-learn is not installed: naive Bayes, logistic regression and ridge are left out of the comparison; "
    f"{installation_hint('sklearn')}."
)


def compare(plan: ComparisonPlan) -> SystemComparison:
    if plan.equal != "time":
        raise InputError(
            f"--equal {plan.equal}: is for text; networks on labelled examples have equal time. Leave it out."
        )
    config = parse(ExamplesConfig, {"report": "valid", **plan.corpus}, "the options")
    missing = () if is_installed("sklearn") else (WITHOUT,)
    for note in missing:
        plan.note(note)
    data = read_examples(config, plan.progress or no_progress)
    for note in data.notes:
        plan.note(note)
    assert data.test is not None
    require_metric(plan.metric, main_metric(data.test, PROBLEM_BY_TASK[data.task]), len(data.labels))
    names = labelled_models(data, plan, plan.models, "--models")
    for start in plan.starts:
        bundle.find(start)  # a name that leads nowhere is refused before anything is trained
    given = {key: value for key, value in toml_values(config).items() if value is not None}
    plan = replace(plan, corpus={**given, "task": data.task})
    baselines = list(_baselines(plan, data))
    jobs: dict[str, Values] = {name: {"model": {"kind": name}} for name in names}
    jobs |= {f"from {model_name(start)}": {"training": {"start": start}} for start in plan.starts}
    leaks = [note for start in plan.starts for note in trained_on_these(start, config)]
    for note in leaks:
        plan.note(note)
    minutes = plan.share((len(names) + len(plan.starts)) * plan.seeds)

    def score(run: TrainedRun, session: Session, model: Any) -> ScoredRun:
        return _scored(plan, run, session, model)

    networks, failed = plan.each(jobs, lambda name: network_entry(name, plan.trained(name, jobs[name], minutes, score)))
    return SystemComparison(
        data=tuple(config.files),
        task=data.task,
        entries=in_order([*baselines, *networks.values()], lower=False),
        failed=failed,
        reported=len(data.test),
        chosen_on=len(data.valid),
        unit="sentences" if isinstance(data.test, TagExamples) else "rows",
        minutes_each=minutes,
        notes=(*missing, *data.notes, *leaks),
        baseline=baselines[-1].name if baselines else None,
    )


def trained_on_these(start: str, config: ExamplesConfig) -> Iterator[str]:
    """A model whose own run read these files may have learned what is reported: its score would flatter it."""
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


def _baselines(plan: ComparisonPlan, data: Labelled) -> Iterator[Entry]:
    problem, test = PROBLEM_BY_TASK[data.task], data.test
    assert test is not None
    for system in classical_baselines.fitted(data, problem):
        held_out = measure(
            score_examples(system.answers(data.valid), data.valid, problem), data.valid, plan.metric
        ).value
        began = time.perf_counter()
        answers = system.answers(test)
        speed = len(test) / max(time.perf_counter() - began, 1e-9)
        result = score_examples(answers, test, problem)
        yield Entry(
            name=system.name,
            learned=False,
            measures=(measure(result, test, plan.metric),),
            held_out=held_out if np.isfinite(held_out) else None,
            train_seconds=system.seconds,
            macro_f1=macro_f1(result),
            parameters=system.parameters,
            predictions_per_second=speed,
            more={"scores": result.values()},
        )
        value = result.figure.value
        score = "undefined" if value is None else f"{value:.4f}"
        plan.note(f"{system.name}: {result.name} {score} in {system.seconds:.1f} s")


def _scored(plan: ComparisonPlan, run: TrainedRun, session: Session, model: Any) -> ScoredRun:
    """Score a network on the validation set and, from its texts on, on the reported one; writes the run's card."""
    recipe, task = session.recipe, expect(session.task, ClassificationTask)
    chosen: LabelledScore = task.score_split(recipe, model, "valid")
    data = task.prepared.labelled
    assert data.test is not None
    began = time.perf_counter()
    rows = task.prepared.rows(data.test, task.context)
    answers = decisions.answers(model, rows, task.problem, autocast_factory(recipe.training))
    speed = len(data.test) / max(time.perf_counter() - began, 1e-9)
    result = score_examples(answers, data.test, task.problem)
    both = {"valid": chosen, "test": result}
    write_card(session, report.card_content(session, task, both, report.remarks(session, task, both)))
    return ScoredRun(
        run,
        measure(result, data.test, plan.metric),
        measure(chosen, data.valid, plan.metric).value,
        speed,
        macro_f1(result),
        result.values(),
    )


def macro_f1(result: LabelledScore) -> float | None:
    """Reported with every score; of spans it is that of their types, of numbers there is none."""
    match result.score:
        case ClassScore(macro_f1=estimate):
            return estimate.value
        case MultilabelScore(macro_f1=value):
            return value
        case SpanScore(macro=spans):
            return spans.f1
        case _:
            return None
