"""The doctor of a language model: measures baselines before a run, watches the run, and reports on it at the end.

Baselines (`evaluation/text_baselines.py`) take a few seconds, or about a twentieth of a short run's time. An
`EarlyWarning` follows the run; at the end the metrics are diagnosed (`training/diagnosis.py`) and `messages.py` puts
the diagnosis into sentences. The baselines are computed on the same windows of the validation text as the final score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qkv.data.prepare import Prepared
from qkv.doctor import messages
from qkv.doctor.baseline_table import BaselineTable, compared, compared_with_number
from qkv.evaluation import text_baselines
from qkv.evaluation.intervals import Estimate, ratio_of_totals
from qkv.evaluation.perplexity import Score, WindowPlan
from qkv.evaluation.significance import RowStatistics
from qkv.evaluation.text_baselines import Baselines
from qkv.objectives.objective import Objective
from qkv.recipe import resolve
from qkv.recipe.recipe import Recipe
from qkv.safe_json import without_nonfinite
from qkv.text.tokenizer import Tokenizer, token_bytes
from qkv.training import devices, metrics_log
from qkv.training.diagnosis import Diagnosis, diagnose
from qkv.training.early_warning import EarlyWarning
from qkv.training.history import History
from qkv.training.loop import TrainingState
from qkv.training.run import Run

GUESSING = "uniform guessing"
MIN_COUNTED_TOKENS = 50_000  # training tokens that are counted even if there is little time
COUNTING_SHARE = 0.05  # of a run's time, for counting
MIN_MEASURED_TOKENS = 2**18  # validation tokens of the baselines, because the final score may use more than planned


@dataclass(frozen=True)
class DoctorReport:
    """The doctor's report on a run: the diagnosis, and four sentences on it."""

    diagnosis: Diagnosis
    baselines: Baselines
    table: BaselineTable
    verdict: str
    comparison: str
    model: str
    advice: str

    def lines(self) -> list[str]:
        return [self.verdict, self.comparison, self.model, f"try: {self.advice}"]

    def values(self) -> dict[str, Any]:
        sentences = {name: getattr(self, name) for name in ("verdict", "comparison", "model", "advice")}
        numbers = without_nonfinite(asdict(self.diagnosis))
        return {
            "kind": numbers.pop("kind"),
            **sentences,
            "numbers": numbers,
            "baselines": self.baselines.values(),
            "table": self.table.values(),
        }


@runtime_checkable
class ExaminedSession(Protocol):
    """The parts of a session that the doctor reads."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def state(self) -> TrainingState: ...
    @property
    def run(self) -> Run: ...


class Doctor:
    def __init__(self, session: ExaminedSession, prepared: Prepared) -> None:
        self.session, self.prepared = session, prepared
        self.epoch_steps = session.objective.samples / session.recipe.training.batch
        self.early_warning = EarlyWarning(self.epoch_steps, metrics_log.read(session.run.folder / "metrics.jsonl"))
        self.max_counted = self._max_counted()
        self.baselines = self._measure_baselines()

    @property
    def window_plan(self) -> WindowPlan:
        """The windows of the validation text."""
        tokens = len(self.prepared.valid.tokens)
        window = min(self.session.recipe.model.context, tokens - 1)
        return WindowPlan(tokens, window, window)

    def _measure_baselines(self, scored: Sequence[int] | None = None) -> Baselines:
        """The baselines on the scored windows or, before training, on those that are planned to be scored. Before
        training, more windows are measured, so that `_baselines_on` can choose among them later."""
        recipe, prepared, plan = self.session.recipe, self.prepared, self.window_plan
        limit = resolve.final_tokens(recipe)
        if scored is None:
            planned = plan.evenly_spaced(limit)
            self.measured_windows = np.asarray(plan.evenly_spaced(max(MIN_MEASURED_TOKENS, limit + limit // 4)))
        else:
            planned = scored
            self.measured_windows = np.asarray(scored)
        self.planned_windows = np.asarray(planned)
        positions, reach = plan.predictions_of(self.measured_windows.tolist())
        sizes = [plan[window].counted for window in self.measured_windows.tolist()]
        with devices.enough_memory(recipe.training, recipe.model.context):
            self.measured = text_baselines.measure(
                prepared.train,
                prepared.valid,
                prepared.tokenizer.vocabulary,
                positions,
                reach,
                decode=self.decode,
                max_tokens=self.max_counted,
                groups=np.repeat(np.arange(len(sizes)), sizes),
                compressed=plan.predictions_of(planned)[0],
            )
        return self.measured.for_groups(np.searchsorted(self.measured_windows, self.planned_windows))

    def _baselines_on(self, windows: Sequence[int]) -> Baselines:
        """The baselines on some of the measured windows."""
        prepared, clock = self.prepared, self.session.run.clock
        no_time = clock is not None and not clock.minutes_left()  # for compressors, which take about a second
        positions, _ = self.window_plan.predictions_of(windows)
        decode = None if no_time else self.decode
        compressed = text_baselines.compressors(prepared.train, prepared.valid, positions, decode, self.max_counted)
        return replace(self.measured.for_groups(np.searchsorted(self.measured_windows, windows)), **compressed)

    def table(self, score: Score) -> BaselineTable:
        """The model compared with the baselines on the windows that were scored; `measured` holds all of these."""
        baselines, measured = self.baselines, self.measured
        assert measured.sums is not None
        assert measured.sizes is not None
        assert score.sums is not None
        places = np.searchsorted(self.measured_windows, score.windows)
        sizes, nats = measured.sizes[places].astype(np.float64), measured.sums[:, places]
        highest = baselines.bits(max(baselines.uniform, float((nats / sizes).max()), float((score.sums / sizes).max())))

        def statistics(sums: NDArray[Any]) -> RowStatistics:
            rows = np.stack([sums, sizes], axis=1)
            return RowStatistics(
                "bits_per_byte",
                rows,
                lambda totals, rows: baselines.bits(1.0) * ratio_of_totals(totals, rows),
                (0.0, highest),
            )

        own, part = (
            statistics(score.sums),
            "" if baselines.counted_all else f"{baselines.counted:,} of {baselines.training_tokens:,} tokens",
        )
        with_rows = {
            GUESSING: (baselines.uniform * sizes, ""),
            "single tokens": (nats[0], ""),
            f"{baselines.order}-grams": (nats[baselines.order - 1], part),
        }
        systems = [
            compared(name, own, statistics(sums), lower_is_better=True, part=part, exact=name == GUESSING)
            for name, (sums, part) in with_rows.items()
        ]
        bits = Estimate(score.bits_per_byte, score.bits_per_byte_low, score.bits_per_byte_high)
        seen = f"{baselines.priming_bytes:,} of {baselines.training_bytes:,} bytes"
        part = "" if baselines.compressed_after_all else seen
        for name, value in (("gzip", baselines.gzip), ("xz", baselines.xz)):
            if value is not None:
                systems.append(compared_with_number(name, value, bits, lower_is_better=True, part=part))
        amount = f"{score.tokens:,} validation tokens"
        return BaselineTable(
            "bits per byte", amount, score.tokens, bits, tuple(systems), lower_is_better=True, digits=3
        )

    @property
    def decode(self) -> Callable[[NDArray[Any]], bytes] | None:
        """A function from tokens to the bytes of their text, in which a special token is one byte; None if the
        tokenizer loses text."""
        tokenizer = self.prepared.tokenizer
        return (lambda tokens: text_bytes(tokenizer, tokens, b"\0")) if tokenizer.lossless else None

    def _max_counted(self) -> int:
        """The number of training tokens that can be counted in the time."""
        if self.session.run.clock is None:
            return text_baselines.MAX_COUNTED
        clock = self.session.run.clock
        seconds = COUNTING_SHARE * 60 * clock.minutes_left() * clock.share
        affordable = int(seconds * text_baselines.COUNTED_PER_SECOND)
        return min(text_baselines.MAX_COUNTED, max(MIN_COUNTED_TOKENS, affordable))

    def baselines_line(self) -> str:
        """The baselines in one line, to compare the falling loss with."""
        baselines = self.baselines
        part = "" if baselines.counted_all else f" (of {baselines.counted:,} tokens)"
        counts = [
            f"{baselines.bits(baselines.uniform):.2f} guessing",
            f"{baselines.bits(baselines.unigram):.2f} single tokens",
            f"{baselines.bits(baselines.ngram):.2f} {baselines.order}-grams{part}",
        ]
        if baselines.xz is not None:
            part = "" if baselines.compressed_after_all else f" (of {baselines.priming_bytes:,} bytes)"
            counts.append(f"{baselines.xz:.2f} xz{part}")
        return f"bits per byte by counting alone: {', '.join(counts)}"

    def report(self, score: Score) -> DoctorReport:
        recipe, state = self.session.recipe, self.session.state
        if not np.isin(score.windows, self.measured_windows).all():
            self.baselines = self._measure_baselines(score.windows)  # the run became much longer than planned
        elif not np.array_equal(score.windows, self.planned_windows):
            self.baselines = self._baselines_on(score.windows)
        folder = self.session.run.folder
        history = History.of(metrics_log.read(folder / "metrics.jsonl"))
        diagnosis = diagnose(history, self.baselines, score.loss, self.epoch_steps)
        last_evaluation = history.stages[-1].step if history.stages else 0
        seconds = metrics_log.elapsed_seconds(folder / "timings.jsonl")
        table = self.table(score)
        return DoctorReport(
            diagnosis,
            self.baselines,
            table,
            verdict=messages.verdict(diagnosis, self.baselines),
            comparison=" ".join(table.sentences()),
            model=messages.checkpoint_to_use(diagnosis, last_evaluation),
            advice=messages.advice(diagnosis, recipe, state.step, seconds),
        )


def text_bytes(tokenizer: Tokenizer, tokens: NDArray[Any], special: bytes = b"") -> bytes:
    """The bytes of the tokens' text, with `special` for each special token. A table of the distinct tokens makes this
    many times faster than the decoder of the tokenizers library."""
    distinct, indices = np.unique(tokens, return_inverse=True)
    table = [
        special
        if tokenizer.is_special(token)
        else token_bytes(tokenizer.token(token))
        if tokenizer.kind == "bpe"
        else tokenizer.token(token).encode()
        for token in distinct.tolist()
    ]
    return b"".join(table[index] for index in indices.tolist())
