"""What data hold and what a run would do with them, for `qkv data describe`, `qkv data check` and `qkv.describe`.

The plan of a run comes from the task itself, which opens the data and resolves the recipe as for `qkv train`, without
training. What training would refuse is described too, with the refusal.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.config import parse
from qkv.data import descriptions
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.descriptions import AnyDescription, TrainingPlan
from qkv.data.detect import CONFIGS, Detected
from qkv.data.files import standard_input
from qkv.data.findings import Progress, no_progress, ranked
from qkv.data.prepare_examples import PreparedExamples
from qkv.data.prepare_pairs import PreparedPairs
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import QkvError
from qkv.recipe.draft import Draft, Values
from qkv.recipe.recipe import Section
from qkv.tasks import detected_as, named_task, registry
from qkv.tasks.protocol import Task


def describe(corpus: Section, progress: Progress = no_progress, detected: Detected | None = None) -> AnyDescription:
    """The data of a section [corpus], in which --task may be among the options, and what a run would do with them."""
    detected = detected or detected_as(corpus)
    reading, task = named_task(corpus)
    config = parse(CONFIGS[detected.content], {**reading, "files": tuple(reading["files"])}, "the options")
    values: Values = {"corpus": reading, "task": task}
    if isinstance(config, CorpusConfig):
        with standard_input.receive_once(config) as copy:
            opened, plan, error = planned({**values, "corpus": _read_from(copy, reading)}, progress, detected)
            found = descriptions.describe_text(config, copy, progress)
            notes = found.notes if copy or opened is None else (*opened.notes, *found.notes)
            return replace(found, plan=plan, refusal=str(error or ""), notes=ranked(notes))
    opened, plan, error = planned(values, progress, detected)
    refusal = str(error or "")
    prepared = None if opened is None else opened.prepared
    notes = () if opened is None else opened.notes
    if isinstance(config, ExamplesConfig):
        if isinstance(prepared, PreparedExamples):
            labelled = replace(prepared.labelled, notes=notes)
        else:
            labelled = read_examples(config, progress, purpose="describe", previews=detected.previews)
        return replace(descriptions.describe_examples(labelled), plan=plan, refusal=refusal)
    assert isinstance(config, ParallelConfig)
    if isinstance(prepared, PreparedPairs):
        parallel = replace(prepared.parallel, notes=notes)
    else:
        parallel = read_parallel(config, progress, purpose="describe", previews=detected.previews)
    return replace(descriptions.describe_pairs(parallel), plan=plan, refusal=refusal)


def _read_from(copy: Path | None, reading: dict[str, Any]) -> dict[str, Any]:
    """The section, which reads what was piped in from its copy."""
    return reading if copy is None else {**reading, "files": [str(copy)]}


def planned(
    values: Values, progress: Progress = no_progress, detected: Detected | None = None
) -> tuple[Task | None, TrainingPlan | None, QkvError | None]:
    """The task with its prepared data, and what a run would do, or why training refuses the data."""
    draft, opened = Draft.parse(values, "the options"), None
    try:
        opened = registry.open_task(draft, progress, detected)
        resolved, _ = opened.resolve(draft, None)
        recipe = opened.complete(opened.resolve_steps(resolved, 1, timed=False))
        return opened, opened.training_plan(recipe), None
    except QkvError as error:
        return opened, None, error
