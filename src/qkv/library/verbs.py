"""The other verbs of the command line as functions, with the same names and defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from typing_extensions import Unpack

from qkv.api import Model, load
from qkv.data.descriptions import AnyDescription
from qkv.data.findings import no_progress
from qkv.evaluation.class_metrics import ComparedMetric
from qkv.interop import hub
from qkv.interop.parity import Parity
from qkv.library.arguments import corpus_section
from qkv.library.new_run import model_section, tokenizer_section
from qkv.library.progress_display import progress_display
from qkv.recipe import bundle
from qkv.studies import comparison, search
from qkv.studies.comparison import SystemComparison
from qkv.studies.search import TuningPlan, TuningResult
from qkv.studies.study import ComparisonPlan
from qkv.studies.verify import Proof, proofs_of
from qkv.tasks import described
from qkv.tasks.given import ReadingOptions
from qkv.tasks.python_calls import python_call
from qkv.tasks.python_words import in_python_names
from qkv.text.own_tokenizer import OwnTokenizer


@python_call
def compare(
    data: object,
    *,
    models: Sequence[str] = (),
    start: Sequence[str | Path] = (),
    minutes: float = 10.0,
    seeds: int = 1,
    seed: int = 0,
    tokenizer: str | Path | OwnTokenizer | None = None,
    metric: ComparedMetric = "auto",
    equal: Literal["time", "parameters"] = "time",
    report: Literal["valid", "test"] | None = None,
    run: str | Path | None = None,
    progress: bool = True,
    **options: Unpack[ReadingOptions],
) -> SystemComparison:
    """Compare every architecture that fits the data under one time budget, and compare them with baselines.

    Args:
        data: As for `train`; `options` are its options for reading: valid, test, text, label ...
        models: The networks to train, such as ("bag", "lstm"). Default: all that fit the data.
        start: Models to fine-tune as well.
        minutes: The total time budget.
        seeds: The number of runs of each network; scores are means.
        seed: The first seed.
        tokenizer: As for `train`.
        metric: The metric for classes.
        equal: What networks on text have in common: the time, or also the number of parameters.
        report: The split that the table reports. Default: "valid".
        run: The folder of all results. Default: runs/compare-DATA, with a number if it exists.
        progress: Show the progress in a notebook or on a terminal.
    """
    with progress_display(progress) as display:
        corpus, name = corpus_section(data, options)
        plan = ComparisonPlan(
            corpus={**corpus, **({"report": report} if report else {})},
            folder=Path(run) if run else Path("runs") / f"compare-{name}",
            minutes=minutes,
            models=tuple(models),
            starts=tuple(map(str, start)),
            seeds=seeds,
            seed=seed,
            tokenizer=tokenizer_section(tokenizer),
            metric=metric,
            equal=equal,
            progress=display.report,
            note=display.note,
            watch=display.watch,
        )
        result = comparison.compare(plan)[0]
        return replace(result, notes=tuple(map(in_python_names, result.notes)))


@python_call
def tune(
    data: object,
    *,
    model: str | Path | None = None,
    tokenizer: str | Path | OwnTokenizer | None = None,
    minutes: float | None = None,
    trials: int | None = None,
    each: float | None = None,
    seed: int = 0,
    store: str | None = None,
    run: str | Path | None = None,
    progress: bool = True,
    **options: Unpack[ReadingOptions],
) -> TuningResult:
    """Search for the learning rate, width, dropout, batch size and parts that suit the data.

    Args:
        data: As for `train`; `options` are its options for reading: valid, test, text, label ...
        model: The model to tune: its kind, or the Python file of a model of your own. Default: several are tried.
        tokenizer: As for `train`.
        minutes: The total time budget, including earlier calls.
        trials: The number of trials, including those of earlier calls.
        each: The minutes of a trial. Default: an eighth of `minutes`.
        seed: The seed of the search.
        store: A file, or an SQL address such as sqlite:///study.db. Default: a journal in the folder.
        run: The folder of the search. Default: runs/tune-DATA.
        progress: Show the progress in a notebook or on a terminal.
    """
    with progress_display(progress) as display:
        corpus, name = corpus_section(data, options)
        kind = None if model is None else str(model_section(model)["model.kind"])
        folder = Path(run) if run else Path("runs") / f"tune-{name}{f'-{kind}' if kind else ''}"
        plan = TuningPlan(
            corpus=corpus,
            folder=folder,
            model=kind,
            trials=trials,
            minutes=minutes,
            each=each,
            store=store,
            seed=seed,
            tokenizer=tokenizer_section(tokenizer),
            progress=display.report,
            note=display.note,
        )
        return search.tune(plan)


@python_call
def describe(data: object, **options: Unpack[ReadingOptions]) -> AnyDescription:
    """Describe the data (task, columns, labels, lengths, duplicates, leaks), and in `plan` what `train` would do with
    them: the model, what is held out, the metric, and the first examples as the model gets them.

    Args:
        data: As for `train`; `options` are its options for reading: valid, test, text, label ...
    """
    corpus, _ = corpus_section(data, options)
    description = described.describe(corpus)
    refusal = in_python_names(description.refusal)
    notes = tuple(map(in_python_names, description.notes))
    return replace(description, refusal=refusal, notes=notes)


@python_call
def import_model(source: str | Path, *, to: str | Path | None = None, force: bool = False) -> Model:
    """Convert a model of another project into a model folder of qkv, and load it.

    Args:
        source: A Hugging Face folder, a .gguf file, a .bin of llama2.c, or hf:org/name, which is downloaded.
        to: The folder to write. Default: models/NAME.
        force: Replace a model folder of this name.
    """
    name, address = str(source), hub.is_address(str(source))
    opened = load(hub.fetch(name, no_progress) if address else source)
    base = name.removeprefix("hf:").partition("@")[0] if address else Path(source).resolve().stem
    target = Path(to) if to else Path("models") / (re.sub(r"[^\w.-]+", "-", base).strip("-.") or "model")
    bundle.publish(target, opened.bundle, force=force)
    imported = load(target, opened.device)
    imported.notes = list(opened.bundle.notes)
    return imported


@python_call
def export(
    model: str | Path | Model, folder: str | Path, to: str = "huggingface", *, force: bool = False
) -> list[Parity]:
    """Export a model so that other programs can open it; returns the comparisons of the copy with the original.

    Args:
        model: A loaded model, or whatever `load` opens.
        folder: The folder to write.
        to: The format: "huggingface".
        force: Replace a model folder of this name.
    """
    return _loaded(model).export(folder, to, force=force)


@python_call
def verify(model: str | Path | Model) -> list[Proof]:
    """Prove that a model's files are unaltered and that every way of using it gives the same answers."""
    return list(proofs_of(_loaded(model)).all())


def _loaded(model: str | Path | Model) -> Model:
    return model if isinstance(model, Model) else load(model)
