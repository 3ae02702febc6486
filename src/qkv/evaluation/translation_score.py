"""What a translator says beside what it should say, and its score: BLEU and chrF, or errors of symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qkv.evaluation import symbols, translations
from qkv.evaluation.intervals import ByLength
from qkv.evaluation.symbols import ErrorScore, PairedErrors
from qkv.evaluation.translations import Paired, TranslationScore

Metric = Literal["bleu", "errors"]
Score = TranslationScore | ErrorScore
NAMES: dict[Metric, tuple[str, str, str]] = {
    "bleu": ("words of the reference", "BLEU", "chrF"),
    "errors": ("symbols of the reference", "error rate", "error rate"),
}
"""What lengths are counted in, the score by length, and the score of one output."""


@dataclass(frozen=True)
class Outputs:
    """Sources, what was said, and for each what it should be: one reference, or several of which the nearest counts."""

    sources: Sequence[str]
    said: Sequence[str]
    references: Sequence[Sequence[str]]
    metric: Metric
    rows: tuple[int, ...] = ()
    """The pairs that these are: of a source with several references, all of them."""
    whole: int | None = None
    """How many sources there are, where these are a sample; None: these are all."""

    def __len__(self) -> int:
        return len(self.said)

    @property
    def firsts(self) -> list[str]:
        """One reference each: BLEU looks at no more."""
        return [each[0] for each in self.references]

    def quick(self) -> dict[str, float]:
        """The score alone, for choosing between steps, and how far it is from the best (`judged`)."""
        if self.metric == "bleu":
            bleu = translations.bleu(self.said, self.firsts)
            return {"bleu": bleu, "judged": 1 - bleu / 100}
        wrong, words = symbols.error_rates(self.said, self.references)
        return {"symbol_error_rate": wrong, "word_error_rate": words, "judged": wrong}

    def score(self, loss: float | None = None) -> Score:
        if self.metric == "bleu":
            return translations.translation_score(self.said, self.firsts, loss)
        return symbols.error_score(self.said, self.references, loss)

    def by_length(self) -> list[ByLength]:
        if self.metric == "bleu":
            return translations.by_length(self.said, self.firsts)
        return symbols.by_length(self.said, self.references)

    def worst(self, most: int) -> list[tuple[int, float]]:
        """Rows and scores of the worst outputs, the worst first."""
        if self.metric == "bleu":
            return translations.worst(self.said, self.firsts, most)
        return symbols.worst(self.said, self.references, most)

    def beside(self, other: Outputs) -> Paired | PairedErrors:
        """This system and another on the same sources."""
        assert self.sources == other.sources, "two systems are compared on the same sources"
        if self.metric == "bleu":
            return translations.paired(self.said, other.said, self.firsts)
        return symbols.paired(self.said, other.said, self.references)


def require(metric: Metric) -> None:
    """Refuse, before any work, a score whose library is not installed."""
    if metric == "bleu":
        translations.metrics()
