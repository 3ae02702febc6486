"""The doctor: measures what a run's loss can be compared with, watches it, and reports on it when it is over.

Before training the text is examined (baselines.py), in at most a few seconds and in less for a short run; during it a
`Watch` looks on; after it the metrics are judged (diagnosis.py) and put into words (remarks.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qkv.evaluation import baselines
from qkv.evaluation.baselines import Baselines
from qkv.evaluation.language import Plan, Score
from qkv.recipe import choices, dial, remarks
from qkv.recipe.assembly import Session
from qkv.text.tokenizer import Tokenizer, token_bytes
from qkv.training import devices, journal
from qkv.training.diagnosis import Diagnosis, diagnose
from qkv.training.history import History
from qkv.training.watch import Watch

FEWEST = 50_000  # training tokens are counted in any case; of longer runs a quarter of what they will see


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
        said = {name: getattr(self, name) for name in ("verdict", "comparison", "model", "advice")}
        figures = {**asdict(self.diagnosis), "gain": self.diagnosis.gain}
        return {"kind": figures.pop("kind"), **said, "figures": figures, "baselines": self.baselines.values()}


class Doctor:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.epoch = session.task.samples / session.recipe.training.batch  # steps
        self.watch = Watch(self.epoch, journal.read(session.run.folder / "metrics.jsonl"))
        self.baselines = self._measured()

    def _measured(self) -> Baselines:
        """The baselines on the tokens that the last evaluation will look at."""
        recipe, prepared = self.session.recipe, self.session.prepared
        self._limit = choices.last_tokens(recipe.training, recipe.model.context)
        window = min(recipe.model.context, len(prepared.valid.tokens) - 1)
        places, reach = Plan(len(prepared.valid.tokens), window, window).predictions(self._limit)
        tokenizer = prepared.tokenizer
        training = recipe.training
        run = training.length * training.batch * recipe.model.context
        with devices.enough_memory(training, recipe.model.context):
            return baselines.measure(
                prepared.train,
                prepared.valid,
                tokenizer.vocabulary,
                places,
                reach,
                spell=(lambda tokens: spelled(tokenizer, tokens)) if tokenizer.lossless else None,
                most=min(baselines.COUNTED, max(FEWEST, run // 4)),
            )

    def before(self) -> str:
        """What counting alone reaches: the marks to hold a loss against while it falls."""
        found = self.baselines
        marks = [
            f"{found.bits(found.uniform):.2f} guessing",
            f"{found.bits(found.unigram):.2f} single pieces",
            f"{found.bits(found.ngram):.2f} {found.order}-grams",
        ]
        if found.xz is not None:
            marks.append(f"{found.xz:.2f} xz")
        return f"bits per byte by counting alone: {', '.join(marks)}"

    def report(self, score: Score) -> Report:
        recipe, state = self.session.recipe, self.session.state
        limit = choices.last_tokens(recipe.training, recipe.model.context)
        if limit != self._limit and min(limit, self._limit) < len(self.session.prepared.valid.tokens):
            self.baselines = self._measured()  # the clock moved the end, and other tokens were scored
        folder = self.session.run.folder
        history = History.of(journal.read(folder / "metrics.jsonl"))
        found = diagnose(history, self.baselines, score.loss, self.epoch)
        found = replace(found, enough=dial.learned(recipe.model, state.step / self.epoch))
        evaluated = history.stages[-1].step if history.stages else 0
        seconds = journal.elapsed(folder / "timings.jsonl")
        return Report(
            found,
            self.baselines,
            verdict=remarks.verdict(found, self.baselines),
            comparison=remarks.comparison(score.bits_per_byte, self.baselines),
            model=remarks.which(found, evaluated),
            advice=remarks.advice(found, recipe, state.step, seconds),
        )


def spelled(tokenizer: Tokenizer, tokens: NDArray[Any]) -> bytes:
    """The bytes of the text; a table of the pieces that occur is many times faster than the library's decoder."""
    kinds, places = np.unique(tokens, return_inverse=True)
    table = [
        b""
        if tokenizer.is_special(number)
        else token_bytes(tokenizer.token(number))
        if tokenizer.kind == "bpe"
        else tokenizer.token(number).encode()
        for number in kinds.tolist()
    ]
    return b"".join(table[place] for place in places.tolist())
