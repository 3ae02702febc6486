"""The doctor: measures what a run's loss can be compared with, watches it, and reports on it when it is over.

Before training the text is examined (`evaluation/text_baselines.py`): in a few seconds, and in no more than a twentieth
of the run's time. An `EarlyWarning` follows the run; after it the metrics are diagnosed (`training/diagnosis.py`) and
put into words (`messages.py`).
Every number that is compared with the score is computed on the windows of the validation text that were scored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from qkv.data.prepare import Prepared
from qkv.doctor import messages as remarks
from qkv.evaluation import text_baselines
from qkv.evaluation.perplexity import Score, WindowPlan
from qkv.evaluation.text_baselines import Baselines
from qkv.objectives.objective import Objective
from qkv.recipe import resolve, time_budget
from qkv.recipe.recipe import Recipe
from qkv.text.tokenizer import Tokenizer, token_bytes
from qkv.training import devices, metrics_log
from qkv.training.diagnosis import Diagnosis, EarlyWarning, diagnose
from qkv.training.history import History
from qkv.training.loop import TrainingState
from qkv.training.run import Run

FEWEST = 50_000  # training tokens are counted in any case
COUNTING = 0.05  # of a run's time, at most
ASKED = 2**18  # validation tokens for which counts are asked before it is known how many the last evaluation scores


@dataclass(frozen=True)
class Report:
    """The end of a run in a few lines."""

    diagnosis: Diagnosis
    baselines: Baselines
    verdict: str
    comparison: str
    model: str
    advice: str

    def lines(self) -> list[str]:
        return [self.verdict, self.comparison, self.model, f"try: {self.advice}"]

    def values(self) -> dict[str, Any]:
        sentences = {name: getattr(self, name) for name in ("verdict", "comparison", "model", "advice")}
        numbers = {**asdict(self.diagnosis), "gain": self.diagnosis.gain}
        return {"kind": numbers.pop("kind"), **sentences, "numbers": numbers, "baselines": self.baselines.values()}


@runtime_checkable
class Examined(Protocol):
    """A training run of a language model: what the doctor examines."""

    @property
    def recipe(self) -> Recipe: ...
    @property
    def objective(self) -> Objective: ...
    @property
    def state(self) -> TrainingState: ...
    @property
    def run(self) -> Run: ...


class Doctor:
    def __init__(self, session: Examined, prepared: Prepared) -> None:
        self.session, self.prepared = session, prepared
        self.epoch = session.objective.samples / session.recipe.training.batch  # steps
        self.watch = EarlyWarning(self.epoch, metrics_log.read(session.run.folder / "metrics.jsonl"))
        self.most = self._most()
        self.baselines = self._measured()

    @property
    def plan(self) -> WindowPlan:
        """The windows of the validation text."""
        tokens = len(self.prepared.valid.tokens)
        window = min(self.session.recipe.model.context, tokens - 1)
        return WindowPlan(tokens, window, window)

    def _measured(self, scored: Sequence[int] | None = None) -> Baselines:
        """The baselines on the windows that were scored; before, on those that will be, and on more in case of need."""
        recipe, prepared, plan = self.session.recipe, self.prepared, self.plan
        limit = resolve.final_tokens(recipe)
        planned = plan.spread(limit) if scored is None else scored
        self.windows = np.asarray(plan.spread(max(ASKED, limit + limit // 4)) if scored is None else scored)
        places, reach = plan.predictions_of(self.windows.tolist())
        sizes = [plan[index].fresh for index in self.windows.tolist()]
        self.scored = np.asarray(planned)
        with devices.enough_memory(recipe.training, recipe.model.context):
            self.measured = text_baselines.measure(
                prepared.train,
                prepared.valid,
                prepared.tokenizer.vocabulary,
                places,
                reach,
                spell=self.spell,
                most=self.most,
                groups=np.repeat(np.arange(len(sizes)), sizes),
                packed=plan.predictions_of(planned)[0],
            )
        return self.measured.on(np.searchsorted(self.windows, self.scored))

    def _on(self, windows: Sequence[int]) -> Baselines:
        """On these of the windows for which counts were asked."""
        prepared, clock = self.prepared, self.session.run.clock
        late = clock is not None and not clock.minutes_left()  # compressors would take another second
        places, _ = self.plan.predictions_of(windows)
        spell = None if late else self.spell
        packed = text_baselines.compressors(prepared.train, prepared.valid, places, spell, self.most)
        return replace(self.measured.on(np.searchsorted(self.windows, windows)), **packed)

    @property
    def spell(self) -> Callable[[NDArray[Any]], bytes] | None:
        """How tokens become text; a special one, which a model has to predict as well, is one byte."""
        tokenizer = self.prepared.tokenizer
        return (lambda tokens: spelled(tokenizer, tokens, b"\0")) if tokenizer.lossless else None

    def _most(self) -> int:
        """How many training tokens there is time to count."""
        if self.session.run.clock is None:
            return text_baselines.COUNTED
        seconds = COUNTING * 60 * self.session.run.clock.minutes_left()
        return min(text_baselines.COUNTED, max(FEWEST, int(seconds * text_baselines.A_SECOND)))

    def before(self) -> str:
        """What counting alone reaches: baselines to compare a loss with while it falls."""
        baselines = self.baselines
        part = "" if baselines.whole else f" (of {baselines.counted:,} tokens)"
        counts = [
            f"{baselines.bits(baselines.uniform):.2f} guessing",
            f"{baselines.bits(baselines.unigram):.2f} single tokens",
            f"{baselines.bits(baselines.ngram):.2f} {baselines.order}-grams{part}",
        ]
        if baselines.xz is not None:
            part = "" if baselines.packed_after_all else f" (of {baselines.packed_after:,} bytes)"
            counts.append(f"{baselines.xz:.2f} xz{part}")
        return f"bits per byte by counting alone: {', '.join(counts)}"

    def report(self, score: Score) -> Report:
        recipe, state = self.session.recipe, self.session.state
        if not np.isin(score.windows, self.windows).all():
            self.baselines = self._measured(score.windows)  # the run became much longer than planned
        elif not np.array_equal(score.windows, self.scored):
            self.baselines = self._on(score.windows)
        folder = self.session.run.folder
        history = History.of(metrics_log.read(folder / "metrics.jsonl"))
        diagnosis = diagnose(history, self.baselines, score.loss, self.epoch)
        diagnosis = replace(diagnosis, enough=time_budget.seen_enough(recipe.model, state.step / self.epoch))
        evaluated = history.stages[-1].step if history.stages else 0
        seconds = metrics_log.elapsed_seconds(folder / "timings.jsonl")
        return Report(
            diagnosis,
            self.baselines,
            verdict=remarks.verdict(diagnosis, self.baselines),
            comparison=remarks.comparison(score.bits_per_byte, self.baselines),
            model=remarks.which(diagnosis, evaluated),
            advice=remarks.advice(diagnosis, recipe, state.step, seconds),
        )


def spelled(tokenizer: Tokenizer, tokens: NDArray[Any], special: bytes = b"") -> bytes:
    """The bytes of the text, with `special` for each special token; a table of the tokens that occur is many times
    faster than the library's decoder."""
    kinds, places = np.unique(tokens, return_inverse=True)
    table = [
        special
        if tokenizer.is_special(number)
        else token_bytes(tokenizer.token(number))
        if tokenizer.kind == "bpe"
        else tokenizer.token(number).encode()
        for number in kinds.tolist()
    ]
    return b"".join(table[place] for place in places.tolist())
