"""Systems that judge texts, words and pictures, on the same data and under the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from qkv.config import parse, plain
from qkv.data.corpus import ExamplesConfig
from qkv.data.examples import Examples, Labelled
from qkv.data.findings import Caution
from qkv.data.read_examples import read_examples
from qkv.errors import InterruptedRun, QkvError, install_hint, installed
from qkv.evaluation import decisions
from qkv.evaluation.classification_metrics import ClassScore, MultilabelScore
from qkv.evaluation.labelled_evaluation import LabelledScore
from qkv.evaluation.spans import SpanScore
from qkv.models.language_model import count
from qkv.recipe import bundle
from qkv.recipe.recipe import read
from qkv.studies import baselines
from qkv.studies.comparison import Comparison, Entry, Measure, Plan, in_order, measure
from qkv.tasks.classification import report, systems
from qkv.tasks.classification.systems import PROBLEMS
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.protocol import Session, autocast_of, expect
from qkv.tasks.report import write_card
from qkv.training import devices
from qkv.training.loop import training_flops

USUAL = {"tagging": ("cnn", "lstm", "encoder"), "images": ("cnn", "vision")}
OF_TEXTS = ("linear", "bag", "cnn", "lstm", "encoder")

WITHOUT = (
    "scikit-learn is not installed: naive Bayes, logistic regression and ridge are left out of the comparison; "
    f"{install_hint('sklearn')}."
)


def compare(plan: Plan) -> Comparison:
    config = parse(ExamplesConfig, {"report": "valid", **plan.corpus}, "the options")
    missing = () if installed("sklearn") else (WITHOUT,)
    for note in missing:
        plan.say(note)
    found = read_examples(config, plan.progress) if plan.progress else read_examples(config)
    for note in found.notes:
        plan.say(note)
    names = plan.models or tuple(systems.TABLES if found.numeric else USUAL.get(found.task, OF_TEXTS))
    for name in names:
        if found.numeric:
            systems.of_numbers({"kind": name}, "--models")
        else:
            systems.system(name, found.task, "--models")
    for start in plan.starts:
        bundle.find(start)  # a name that leads nowhere is said before anything is trained
    said = {key: value for key, value in plain(config).items() if value is not None}
    plan = replace(plan, corpus={**said, "task": found.task})
    entries = list(_untaught(plan, found))
    jobs: list[tuple[str, dict[str, Any]]] = [(name, {"model": {"kind": name}}) for name in names]
    jobs += [(f"from {called(start)}", {"training": {"start": start}}) for start in plan.starts]
    seen = [note for start in plan.starts for note in taught_here(start, config)]
    for note in seen:
        plan.say(note)
    minutes = plan.share(len(jobs) * plan.seeds)
    failed: dict[str, str] = {}
    for name, values in jobs:
        try:
            entries.append(_taught(plan, name, values, minutes))
        except InterruptedRun:
            raise
        except QkvError as error:
            failed[name] = str(error)
            plan.say(f"{name} is left out: {error}")
    yardstick = next((entry.name for entry in reversed(entries) if not entry.learned), None)
    return Comparison(
        data=tuple(config.files),
        task=found.task,
        entries=in_order(entries, lower=False),
        failed=failed,
        reported=len(reported(found)),
        chosen_on=len(found.valid),
        unit="sentences" if found.task == "tagging" else "rows",
        minutes_each=minutes,
        notes=(*missing, *found.notes, *seen),
        yardstick=yardstick,
    )


def taught_here(start: str, config: ExamplesConfig) -> Iterator[str]:
    """A model whose own run read these files may have learned what is reported: its figure would flatter it."""
    folder = Path(start)
    recipe = next((each for each in (folder / "recipe.toml", folder.parent / "recipe.toml") if each.is_file()), None)
    if recipe is None:
        return
    files = read(recipe).get("corpus", {}).get("files", ())
    if {Path(name).resolve() for name in files} & {Path(name).resolve() for name in config.files}:
        yield Caution(f"leak: {start} was trained on these files, and may have learned rows that are reported here.")


def called(start: str) -> str:
    """A model's part of a run's name."""
    path = Path(start)
    return path.parent.name if path.name == "best" else path.name.split(".")[0] or "model"


def reported(found: Labelled) -> Examples:
    assert found.test is not None
    return found.test


def _untaught(plan: Plan, found: Labelled) -> Iterator[Entry]:
    problem, side = PROBLEMS[found.task], reported(found)
    for system in baselines.fitted(found, problem):
        held = baselines.judge(system.answers(found.valid), found.valid, problem)
        mark = time.perf_counter()
        answers = system.answers(side)
        speed = len(side) / max(time.perf_counter() - mark, 1e-9)
        judgement = baselines.judge(answers, side, problem)
        yield Entry(
            name=system.name,
            learned=False,
            measures=(measure(judgement, side, plan.metric),),
            chosen_by=_value(measure(held, found.valid, plan.metric)),
            macro_f1=macro_f1(judgement),
            parameters=system.parameters,
            flops=None,
            train_seconds=system.seconds,
            predictions_per_second=speed,
            more={"scores": judgement.values()},
        )
        value = judgement.figure.value
        figure = "undefined" if value is None else f"{value:.4f}"
        plan.say(f"{system.name}: {judgement.name} {figure} in {system.seconds:.1f} s")


def _value(found: Measure) -> float | None:
    return found.value if np.isfinite(found.value) else None


def _taught(plan: Plan, name: str, values: dict[str, Any], minutes: float) -> Entry:
    """Train with every seed; figures are the means."""
    measures, held, f1s, flops, seconds, speeds = [], [], [], [], [], []
    runs: list[dict[str, Any]] = []
    parameters = 0
    for seed in plan.all_seeds():
        plan.say(f"{name}, seed {seed}: {minutes:.2f} minutes")
        session, spent = plan.trained(values, name.replace(" ", "-"), seed, minutes)
        recipe, task = session.recipe, expect(session.task, ClassificationTask)
        best: Any = bundle.load(session.run.folder, recipe.training.device).model
        chosen: LabelledScore = task.judged(recipe, best, "valid")
        answers, speed = _answers(session, best)
        side = task.prepared.labelled.test
        assert side is not None, "a comparison has a side to report"
        judgement = baselines.judge(answers, side, task.problem)
        found = {"valid": chosen, "test": judgement}
        write_card(session, report.card_content(session, task, found, report.remarks(session, task, found)))
        measures.append(measure(judgement, side, plan.metric))
        held.append(measure(chosen, task.prepared.labelled.valid, plan.metric).value)
        f1s.append(macro_f1(judgement))
        flops.append(training_flops(best, session.objective, recipe.training.batch, session.state.samples))
        seconds.append(spent)
        speeds.append(speed)
        parameters = count(best)
        runs.append({"run": str(session.run.folder), "seed": seed, "steps": session.state.step, **judgement.values()})
        runs[-1]["epochs"] = session.state.samples / session.objective.samples
        del session, best
        devices.give_back()
    known = [each for each in f1s if each is not None]
    return Entry(
        name=name,
        learned=True,
        measures=tuple(measures),
        chosen_by=float(np.mean(held)) if np.isfinite(held).all() else None,
        macro_f1=float(np.mean(known)) if known else None,
        parameters=parameters,
        flops=float(np.mean(flops)),
        train_seconds=float(np.mean(seconds)),
        predictions_per_second=float(np.mean(speeds)),
        more={"runs": runs},
    )


def _answers(session: Session, model: Any) -> tuple[Any, float]:
    """What a model says about the reported side, from its texts on, and how many a second."""
    recipe, task = session.recipe, expect(session.task, ClassificationTask)
    side = task.prepared.labelled.test
    assert side is not None, "a comparison has a side to report"
    mark = time.perf_counter()
    rows = task.prepared.rows(side, task.context)
    autocast = autocast_of(recipe.training)
    answers = decisions.answers(model, rows, task.problem, autocast)
    return answers, len(side) / max(time.perf_counter() - mark, 1e-9)


def macro_f1(judgement: LabelledScore) -> float | None:
    """Beside the figure, always; of spans it is that of their types, of numbers there is none."""
    match judgement.score:
        case ClassScore(macro_f1=estimate):
            return estimate.value
        case MultilabelScore(macro_f1=value):
            return value
        case SpanScore(macro=found):
            return found.f1
        case _:
            return None
