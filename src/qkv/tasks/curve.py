"""How the losses of a run went, for the reports of tasks that have no baselines of the loss."""

from __future__ import annotations

from collections.abc import Iterable

from qkv.doctor.messages import longer
from qkv.tasks.protocol import Session
from qkv.training import metrics_log
from qkv.training.diagnosis import Diagnosis, diagnose_curve
from qkv.training.history import History, LogLine


def curve_diagnosis(session: Session, log: Iterable[LogLine] | None = None) -> Diagnosis:
    """The diagnosis of a run by its metrics."""
    lines = metrics_log.read(session.run.folder / "metrics.jsonl") if log is None else log
    return diagnose_curve(History.of(lines), session.objective.samples / session.recipe.training.batch)


def curve_advice(session: Session, diagnosis: Diagnosis) -> str | None:
    """What to try next, where that follows from the losses alone."""
    step, rate = session.state.step, session.recipe.training.learning_rate
    match diagnosis.kind:
        case "learning":
            seconds = metrics_log.elapsed_seconds(session.run.folder / "timings.jsonl")
            return f"more time, {longer(step, seconds, 2)}"
        case "diverged":
            return f"a lower learning rate, --set training.learning_rate={rate / 3:.2g}"
        case "unclear" if not diagnosis.fall.known:
            return f"more evaluations, --set training.evaluate_every={max(1, step // 10)}"
        case "unclear":
            return "more validation data, which would show whether more time helps"
    return None
