"""Scores of translations against references: sacreBLEU's BLEU and chrF, or the error rate of symbols.

BLEU and chrF have sacreBLEU's signatures and intervals (Papineni 2002, Popović 2015, Post 2018); two systems are
compared on the same sentences (Koehn 2004). Symbols, such as the phonemes of a word, are separated by spaces:

    error rate = Σ edits / Σ symbols of the reference            Levenshtein 1966; of phonemes it is called PER
    word error rate = outputs that are not exactly right / outputs          as usual where letters become phonemes

If a source has several references, the nearest one counts; BLEU takes the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from qkv.errors import require_package
from qkv.evaluation import intervals
from qkv.evaluation.intervals import RESAMPLES, Array, Estimate, Verdict, bootstrap_rows, json_values, ratio_of_totals
from qkv.visible import ShortRepr, ShownResult

if TYPE_CHECKING:
    from sacrebleu.metrics.chrf import CHRF, CHRFScore

Metric = Literal["bleu", "errors"]
LENGTHS = (5, 10, 15, 20, 30, 40, 60)  # words or symbols of the reference: the bounds of the bins
TRANSLATION_TITLES = {
    "bleu": "BLEU",  # with the tokenizer 13a, cased
    "chrf": "chrF",
    "bleu_lowercased": "BLEU, lowercased",  # as some published scores are
    "symbol_error_rate": "symbol error rate",
    "word_error_rate": "word error rate",
    "loss": "loss (nats a token)",
}


@dataclass(frozen=True)
class NamedEstimate:
    """A score with its title and the number of digits to show."""

    name: str
    estimate: Estimate
    digits: int

    @property
    def value(self) -> str:
        value = self.estimate.value
        return "undefined" if value is None else f"{value:.{self.digits}f}"

    @property
    def interval(self) -> str:
        low, high = self.estimate.low, self.estimate.high
        return intervals.interval_text(low, high, self.digits)


@dataclass(frozen=True, repr=False)
class TranslationScore(ShownResult):
    """The scores of `count` outputs, by their names in JSON. `quality` is from 0 to 1, higher is better; it is below 0
    if there are more errors than symbols in the references."""

    count: int
    counted: str  # what `count` counts, for JSON
    quality: float
    digits: int
    scores: Mapping[str, Estimate | float]
    signatures: Mapping[str, str] = field(default_factory=dict)  # sacreBLEU's, by their names in JSON

    def rows(self) -> list[NamedEstimate]:
        estimates = {key: v if isinstance(v, Estimate) else Estimate(v) for key, v in self.scores.items()}
        digits = {"loss": 4}
        return [
            NamedEstimate(TRANSLATION_TITLES.get(key, key), v, digits.get(key, self.digits))
            for key, v in estimates.items()
        ]

    def values(self) -> dict[str, object]:
        return {**json_values(self.scores), **self.signatures, self.counted: self.count}


@dataclass(frozen=True)
class LengthBin:
    """The score of the outputs whose reference has up to `most` words or symbols; None: all longer ones."""

    most: int | None
    count: int
    score: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same sources: the values for JSON, and a sentence."""

    values: Mapping[str, object]
    sentence: str
    verdict: Verdict  # how the first is compared with the second


@dataclass(frozen=True, repr=False)
class Outputs(ShortRepr):
    """Sources, their translations, and one or several references for each."""

    sources: Sequence[str]
    translations: Sequence[str]
    references: Sequence[Sequence[str]]
    rows: tuple[int, ...] = ()  # indices of the pairs; of a source with several references, of all its pairs
    whole: int | None = None  # the number of all sources if these are a sample, else None

    labels: ClassVar[tuple[str, str, str]]  # titles of the length, the score by length, and the score of one output
    digits: ClassVar[int]

    def __len__(self) -> int:
        return len(self.translations)

    def quick_scores(self) -> dict[str, float]:
        """The scores without intervals, for evaluations during training; the lowest `criterion` is the best."""
        raise NotImplementedError

    def score(self, loss: float | None = None) -> TranslationScore:
        raise NotImplementedError

    def by_length(self) -> list[LengthBin]:
        """The scores by the length of the reference, the shortest first; empty bins are left out."""
        bins = np.searchsorted(LENGTHS, self._lengths(), side="left")
        rows = [
            (max_length, np.flatnonzero(bins == number).tolist()) for number, max_length in enumerate((*LENGTHS, None))
        ]
        return [LengthBin(max_length, len(chosen), self._score_of(chosen)) for max_length, chosen in rows if chosen]

    def _lengths(self) -> Sequence[int]:
        raise NotImplementedError

    def _score_of(self, rows: list[int]) -> float:
        raise NotImplementedError

    def worst(self, limit: int) -> list[tuple[int, float]]:
        """Rows and scores of the worst outputs, the worst first."""
        raise NotImplementedError

    def compared_with(self, other: Outputs) -> Comparison:
        """This system and another on the same sources."""
        raise NotImplementedError


class BleuOutputs(Outputs):
    labels, digits = ("words of the reference", "BLEU", "chrF"), 2

    @property
    def first_references(self) -> list[str]:
        return [references[0] for references in self.references]

    def quick_scores(self) -> dict[str, float]:
        value = bleu(self.translations, self.first_references)
        return {"bleu": value, "criterion": 1 - value / 100}

    def score(self, loss: float | None = None) -> TranslationScore:
        texts, references = list(self.translations), [self.first_references]
        cased, chrf, lowercased = metrics().BLEU(), character_score(), metrics().BLEU(lowercase=True)
        drawn = [metric.corpus_score(texts, references, n_bootstrap=RESAMPLES) for metric in (cased, chrf)]
        ends = [(float(s.score), max(0.0, s.score - s._ci), min(100.0, s.score + s._ci)) for s in drawn]
        bleu, chrf_score = (intervals.widened(Estimate(*map(float, own)), (0.0, 100.0), len(self)) for own in ends)
        scores: dict[str, Estimate | float] = {"bleu": bleu, "chrf": chrf_score}
        scores["bleu_lowercased"] = float(lowercased.corpus_score(texts, references).score)
        signatures = {"signature": str(cased.get_signature()), "chrf_signature": str(chrf.get_signature())}
        quality = (bleu.value or 0.0) / 100
        return TranslationScore(len(self), "sentences", quality, self.digits, _with(scores, loss), signatures)

    def _lengths(self) -> Sequence[int]:
        return [len(text.split()) for text in self.first_references]

    def _score_of(self, rows: list[int]) -> float:
        return bleu([self.translations[row] for row in rows], [self.first_references[row] for row in rows])

    def worst(self, limit: int) -> list[tuple[int, float]]:
        """By chrF, which is steadier on single sentences than BLEU."""
        chrf, pairs = character_score(), zip(self.translations, self.first_references, strict=True)
        scores = [float(chrf.sentence_score(text, [true]).score) for text, true in pairs]
        return [(int(row), scores[row]) for row in np.argsort(scores, kind="stable")[:limit]]

    def compared_with(self, other: Outputs) -> Comparison:
        from sacrebleu.significance import PairedTest, Result

        assert self.sources == other.sources, "two systems are compared on the same sources"
        first, second = list(self.translations), list(other.translations)
        scores, p = (bleu(first, self.first_references), bleu(second, self.first_references)), 1.0
        if first != second:  # for equal translations sacreBLEU's formula would give the lowest p
            metric = {"BLEU": metrics().BLEU(references=[self.first_references])}
            systems: list[tuple[str, Sequence[str]]] = [("second", second), ("first", first)]
            result = PairedTest(systems, metric, references=None, test_type="bs", n_samples=RESAMPLES)()[1]["BLEU"][1]
            assert isinstance(result, Result)
            p = float(result.p_value or 0.0)
        values = {"metric": "bleu", "first": scores[0], "second": scores[1], "p": p, "draws": RESAMPLES}
        differing = sum(one != another for one, another in zip(first, second, strict=True))
        verdict: Verdict = "not distinguishable" if differing else "equal"
        if p < intervals.SIGNIFICANCE_LEVEL and differing >= intervals.MIN_DIFFERING:
            verdict = "better" if scores[0] > scores[1] else "worse"
        sentence = f"BLEU {scores[0]:.2f} against {scores[1]:.2f}; p = {p:.4f}: {verdict} (paired bootstrap)"
        return Comparison(values, sentence, verdict)


class SymbolOutputs(Outputs):
    labels, digits = ("symbols of the reference", "error rate", "error rate"), 4

    def quick_scores(self) -> dict[str, float]:
        wrong, symbols, words = self.counts.sum(0).tolist()
        rate = wrong / max(1, symbols)
        return {"symbol_error_rate": rate, "word_error_rate": words / max(1, len(self)), "criterion": rate}

    def score(self, loss: float | None = None) -> TranslationScore:
        limits = (0.0, max(1.0, float(ratio_of_totals(self.counts, 0).max(initial=0.0))))
        (symbols,) = bootstrap_rows(self.counts, lambda n, distinct: ratio_of_totals(n @ distinct, 0)[:, None], limits)
        words = intervals.proportion(int(self.counts[:, 2].sum()), len(self))
        scores = _with({"symbol_error_rate": symbols, "word_error_rate": words}, loss)
        return TranslationScore(len(self), "words", 1.0 - (symbols.value or 0.0), self.digits, scores)

    @cached_property
    def counts(self) -> Array:
        """For each output: the edits to the nearest reference, the length of that one, and whether it is wrong."""
        table = np.zeros((len(self), 3), dtype=np.int64)
        for row, (text, references) in enumerate(zip(self.translations, self.references, strict=True)):
            symbols = text.split()
            distance, length = min((edit_distance(symbols, true.split()), len(true.split())) for true in references)
            table[row] = distance, length, distance > 0
        return table

    def _lengths(self) -> Sequence[int]:
        return self.counts[:, 1].tolist()

    def _score_of(self, rows: list[int]) -> float:
        return float(ratio_of_totals(self.counts[rows].sum(0, keepdims=True), 1)[0])

    def worst(self, limit: int) -> list[tuple[int, float]]:
        """The worst outputs by error rate; correct ones are left out."""
        rates = ratio_of_totals(self.counts, 0)
        order = np.argsort(-rates, kind="stable")[:limit]
        return [(int(row), float(rates[row])) for row in order if rates[row] > 0]

    def compared_with(self, other: Outputs) -> Comparison:
        assert isinstance(other, SymbolOutputs)
        assert self.sources == other.sources, "two systems are compared on the same sources"
        first, second = (outputs.counts[:, :2] for outputs in (self, other))
        rates = intervals.paired(first, second, ratio_of_totals)
        between = f"difference {rates.difference:+.4f}, from {rates.low:+.4f} to {rates.high:+.4f}"
        verdict = rates.verdict(lower_is_better=True)
        sentence = f"symbol error rate {rates.first:.4f} against {rates.second:.4f}; {between}: {verdict}"
        return Comparison({"metric": "symbol_error_rate", **rates.values()}, f"{sentence} (paired bootstrap)", verdict)


OUTPUTS: dict[Metric, type[Outputs]] = {"bleu": BleuOutputs, "errors": SymbolOutputs}


def _with(scores: Mapping[str, Estimate | float], loss: float | None) -> dict[str, Estimate | float]:
    return {**scores} if loss is None else {**scores, "loss": loss}


def metrics() -> ModuleType:
    require_package("sacrebleu", "scoring translations with BLEU and chrF")
    from sacrebleu import metrics as module

    return module


def require(metric: Metric) -> None:
    """Refuse a metric whose library is not installed, before any work is done."""
    if metric == "bleu":
        metrics()


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """BLEU without an interval, which is fast to compute."""
    return float(metrics().BLEU().corpus_score(list(translations), [list(references)]).score)


def character_score() -> CHRF:
    """chrF with scores that are Python numbers: sacreBLEU fails at the mean of resamples if some are numpy's."""
    chrf = metrics().CHRF()
    compute = chrf._compute_score_from_stats

    def plain(stats: list[int] | Array) -> CHRFScore:
        score = compute(stats)
        score.score = float(score.score)
        return score

    chrf._compute_score_from_stats = plain
    return chrf


def edit_distance(symbols: Sequence[str], reference: Sequence[str]) -> int:
    """The least number of changes, insertions and deletions from one sequence to the other."""
    row = list(range(len(reference) + 1))
    for index, symbol in enumerate(symbols, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(reference, 1):
            diagonal, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, diagonal + (symbol != other))
    return row[-1]
