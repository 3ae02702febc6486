"""Finds the task of a recipe or of a model: the one it names, or the first that claims the data and the model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from qkv.config import LazyClasses
from qkv.data.detect import Detected, detect, report_deciding_options
from qkv.data.findings import Progress, no_progress
from qkv.errors import ConfigError, InputError, QkvError
from qkv.recipe import recipe as recipes
from qkv.recipe.bundle import Bundle
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import Recipe, Section
from qkv.tasks import TASK_FILES
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.recipe.recipe import CorpusSection
    from qkv.tasks.protocol import EvaluationOptions, Task
    from qkv.tasks.report import EvaluationReport

TASKS: Mapping[str, type[Task]] = LazyClasses("qkv.tasks", TASK_FILES)


def detect_corpus(values: Mapping[str, Section]) -> Detected:
    """What the files in the [corpus] section of a recipe hold."""
    return detect(dict(values.get("corpus", {})))


def task_class(draft: Draft, detected: Detected | None = None) -> type[Task]:
    """The task that the draft names, or else the one that its model and its files call for."""
    if (kind := draft.task.get("kind")) is not None:
        return _task_of_kind(str(kind), draft.where)
    detected = detected or detect(dict(draft.corpus))
    folders = {kind: import_module(f"qkv.tasks.{kind.replace('-', '_')}") for kind in reversed([*TASKS])}
    return TASKS[next(kind for kind, folder in folders.items() if folder.claims(draft, detected))]


def _task_of_kind(kind: str, where: str) -> type[Task]:
    if kind not in TASKS:
        raise ConfigError(f"{where}: task.kind = {kind!r} is not known; expected one of {', '.join(TASKS)}.")
    return TASKS[kind]


def _require_fitting_options(draft: Draft, task: type[Task], detected: Detected) -> None:
    """Refuse options that are for the data of other tasks, by the names that the user typed."""
    corpus = draft.corpus
    own = {field.name for field in fields(task.corpus_config)}
    for key, value in corpus.items():
        if key in own or value is None:
            continue
        options_by_data = {other.data_name: other.options for other in TASKS.values()}
        if intended := [data for data, options in options_by_data.items() if key in options]:
            shown = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
            files = corpus.get("files") or ("the data",)
            raise ConfigError(
                f"{draft.where}: --{key} {shown}: is for {' and '.join(intended)}, and {files[0]} is read as "
                f"{task.data_name}. Leave it out, or give --task, which says what the data are."
            )
    tokenizer = draft.tokenizer
    if tokenizer.kind is not None and task.labelled and detected.inputs != "text":
        raise ConfigError(
            f"--tokenizer {tokenizer.file or tokenizer.kind}: does not apply, because the data are {detected.inputs}. "
            "Leave it out."
        )
    if "metric" in draft.task and "metric" not in {field.name for field in fields(task.task_config)}:
        raise ConfigError(
            f"--metric {draft.task['metric']}: does not apply, because the data are read as {task.data_name}. "
            "Leave it out."
        )
    if "weights" in draft.task and not task.labelled:
        raise ConfigError(
            f"{draft.where}: task.weights (--class-weights) is for labelled examples, and this is {task.kind}."
        )


def task_to_study(corpus: Section, task_section: Section, verb: str) -> type[Task]:
    """The task of files on which `qkv compare` or `qkv tune` (the verb) trains several models."""
    draft = Draft.parse({"corpus": corpus, "task": task_section}, "the options")
    detected = detect(dict(corpus))
    task = task_class(draft, detected)
    if task.study_refusal:
        raise InputError(f"{', '.join(map(str, corpus.get('files', ())))}: {task.study_refusal.format(verb=verb)}")
    _require_fitting_options(draft, task, detected)
    return task


def open_task(draft: Draft, progress: Progress | None, detected: Detected | None = None) -> Task:
    """Read and prepare the training data of a new run."""
    detected = detected or detect(dict(draft.corpus))
    task = task_class(draft, detected)
    _require_fitting_options(draft, task, detected)
    with report_deciding_options({**draft.corpus, **draft.task}):
        opened = task.open(draft, progress, detected)
    return opened if opened.kind_after_reading == opened.kind else TASKS[opened.kind_after_reading](opened.prepared)


def resume_task(recipe: Recipe, tokenizer: Tokenizer | None, folder: Path, progress: Progress | None) -> Task:
    """Prepare the data of a run that is resumed."""
    return TASKS[recipe.task.kind].resume(recipe, tokenizer, folder, progress)


def load_recipe(path: Path) -> Recipe:
    """Read the complete recipe of a run folder."""
    values = recipes.read_sections(path)
    task = _task_of_kind(str(values.get("task", {}).get("kind", "language-modelling")), str(path))
    return recipes.parse_recipe(values, task.model_configs, task.corpus_config, task.task_config, str(path))


def task_of_model(bundle: Bundle) -> type[Task]:
    """The task of the run that a model comes from, if it is for this kind of model; else the first task that is."""
    kind, recipe = bundle.config.kind, training_recipe(bundle)
    if recipe is not None and kind in TASKS[recipe.task.kind].model_configs:
        return TASKS[recipe.task.kind]
    return next((task for task in TASKS.values() if kind in task.model_configs), next(iter(TASKS.values())))


def evaluate_model(
    bundle: Bundle, corpus: CorpusSection, options: EvaluationOptions, device: str, progress: Progress = no_progress
) -> EvaluationReport:
    """Score a model on other data, also by metrics of the user's own."""
    task = task_of_model(bundle)
    if not task.gives_predictions:
        options.own.refuse_prediction_metrics(f"a model of kind {bundle.config.kind}")
    report = task.evaluate(bundle, corpus, options, device, progress)
    return report.with_own_scores(options.own.of_model(bundle)) if options.own.metrics else report


def training_recipe(bundle: Bundle) -> Recipe | None:
    """The recipe of the run that a model comes from; None if the model is not in a run folder, or it is unreadable."""
    path = None if bundle.folder is None else bundle.folder.parent / "recipe.toml"
    if path is not None and path.is_file():
        with suppress(QkvError):
            return load_recipe(path)
    return None
