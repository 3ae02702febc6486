"""Runs from Python: starts a run from the arguments of `train`, shows its progress, and finishes it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from qkv import session as sessions
from qkv.api import Model, load, own_metrics_of
from qkv.data.findings import Progress
from qkv.library.arguments import RunOptions, Stop, corpus_section
from qkv.library.new_run import start
from qkv.library.progress_display import progress_display
from qkv.tasks.protocol import Session
from qkv.tasks.python_words import in_python_names
from qkv.training.run import Evaluation, Event

Events = Generator[Event, None, Session]


def model_of(events: Events) -> Model:
    """Run to the end, and return the best model."""
    while True:
        try:
            next(events)
        except StopIteration as end:
            model = load(end.value.run.folder)
            model.notes += map(in_python_names, end.value.task.notes)
            return model


def trained(data: object, options: RunOptions, own: Mapping[str, object], model: str = "", *, shown: bool) -> Events:
    """The events of a new run. `own` are the options that `train` and `finetune` do not share, by their recipe keys."""

    def begin(report: Progress) -> Session:
        corpus, data_name = corpus_section(data, options)
        metrics = options.get("metrics")
        run, weights = options.get("run"), "balanced" if options.get("class_weights") else None
        shared = {"training.steps": options.get("steps"), "training.seed": options.get("seed"), "task.weights": weights}
        given = {key: value for key, value in {**own, **shared}.items() if value is not None}
        given |= {f"corpus.{key}": value for key, value in corpus.items()}
        return start(
            given,
            recipe=options.get("recipe"),
            settings=options.get("settings") or {},
            minutes=options.get("minutes"),
            run=None if run is None else Path(run),
            names=(data_name, model),
            progress=report,
            own=None if metrics is None else own_metrics_of(metrics),
        )

    return events_of(begin, options.get("stop"), shown=shown)


def events_of(begin: Callable[[Progress], Session], stop: Stop | None, *, shown: bool) -> Events:
    """Start or resume a run, train, and finish it: score the best model and write its card."""
    with progress_display(shown) as display:
        session = begin(display.report)
        doctor = session.task.examine(session)
        for event in display.watch(session.run.events(session.state, session.objective), session):
            if isinstance(event, Evaluation) and stop is not None and stop(event):
                session.run.stop_asked = True
            yield event
        sessions.finish(session, doctor, display.report)
        return session
