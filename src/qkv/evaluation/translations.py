"""How good translations are: sacreBLEU's BLEU and chrF with their signatures (Papineni 2002, Popović 2015, Post 2018).

Intervals are sacreBLEU's bootstrap; two systems are compared on the same sentences (Koehn 2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qkv.errors import require_package
from qkv.evaluation.intervals import ByLength, Estimate, Figure, binned

DRAWS = 1000
SURE = 0.05


@dataclass(frozen=True)
class TranslationScore:
    """BLEU as 13a cuts words, cased; `lowered` on text in small letters, as some published figures are."""

    bleu: Estimate
    chrf: Estimate
    lowered: float
    signature: str
    chrf_signature: str
    count: int
    loss: float | None = None

    @property
    def worth(self) -> float:
        """From 0 to 1, higher is better."""
        return (self.bleu.value or 0.0) / 100

    @property
    def signatures(self) -> tuple[str, ...]:
        return self.signature, self.chrf_signature

    def figures(self) -> list[Figure]:
        """As people read them."""
        lowered = Figure("BLEU, lowercased", Estimate(self.lowered, None, None), 2)
        return [Figure("BLEU", self.bleu, 2), Figure("chrF", self.chrf, 2), lowered, *Figure.of_loss(self.loss)]

    def values(self) -> dict[str, Any]:
        return {
            **self.bleu.values("bleu"),
            **self.chrf.values("chrf"),
            "bleu_lowercased": self.lowered,
            "signature": self.signature,
            "chrf_signature": self.chrf_signature,
            "sentences": self.count,
            **({} if self.loss is None else {"loss": self.loss}),
        }


def metrics() -> Any:
    require_package("sacrebleu", "scoring translations with BLEU and chrF")
    from sacrebleu import metrics as found

    return found


def character_score() -> Any:
    """chrF; its scores as Python's numbers, for where some of the drawn ones are numpy's their mean would fail."""
    kind = metrics().CHRF

    class Plain(kind):  # type: ignore[misc, valid-type]
        def _compute_score_from_stats(self, stats: Any) -> Any:
            made = super()._compute_score_from_stats(stats)
            made.score = float(made.score)
            return made

    return Plain()


def bleu(said: Sequence[str], true: Sequence[str]) -> float:
    """BLEU alone, quickly: for choosing between steps."""
    return float(metrics().BLEU().corpus_score(list(said), [list(true)]).score)


def translation_score(said: Sequence[str], true: Sequence[str], loss: float | None = None) -> TranslationScore:
    found = metrics()
    cased, chrf = found.BLEU(), character_score()
    main = cased.corpus_score(list(said), [list(true)], n_bootstrap=DRAWS)
    letters = chrf.corpus_score(list(said), [list(true)], n_bootstrap=DRAWS)
    lowered = found.BLEU(lowercase=True).corpus_score(list(said), [list(true)]).score
    return TranslationScore(
        _estimate(main), _estimate(letters), float(lowered), str(cased.get_signature()), str(chrf.get_signature()),
        len(said), loss,
    )  # fmt: skip


def _estimate(score: Any) -> Estimate:
    return Estimate(float(score.score), float(score.score - score._ci), float(score.score + score._ci))


def by_length(said: Sequence[str], true: Sequence[str]) -> list[ByLength]:
    """BLEU of the sentences whose reference has up to so many words."""
    found = binned([len(text.split()) for text in true])
    return [
        ByLength(most, len(rows), bleu([said[row] for row in rows], [true[row] for row in rows]))
        for most, rows in found
    ]


def worst(said: Sequence[str], true: Sequence[str], most: int) -> list[tuple[int, float]]:
    """The sentences with the lowest chrF, which is steadier on single sentences than BLEU."""
    chrf = character_score()
    scores = [float(chrf.sentence_score(one, [other]).score) for one, other in zip(said, true, strict=True)]
    return [(int(row), scores[row]) for row in np.argsort(scores, kind="stable")[:most]]


@dataclass(frozen=True)
class Paired:
    """The first system beside the second: BLEU of both, and how likely so great a difference is by chance."""

    first: float
    second: float
    p: float

    def values(self) -> dict[str, Any]:
        return {"metric": "bleu", **vars(self), "draws": DRAWS}

    def __str__(self) -> str:
        verdict = "not by chance" if self.p < SURE else "may be chance"
        return f"BLEU {self.first:.2f} against {self.second:.2f}; p = {self.p:.4f}: {verdict} (paired bootstrap)"


def paired(first: Sequence[str], second: Sequence[str], true: Sequence[str]) -> Paired:
    from sacrebleu.significance import PairedTest

    if list(first) == list(second):  # where nothing differs, sacreBLEU's formula finds the least p
        return Paired(bleu(first, true), bleu(second, true), 1.0)
    test: Any = PairedTest(
        [("second", list(second)), ("first", list(first))],
        {"BLEU": metrics().BLEU(references=[list(true)])},
        references=None,
        test_type="bs",
        n_samples=DRAWS,
    )
    _, found = test()
    base, other = found["BLEU"]
    return Paired(float(other.score), float(base.score), float(other.p_value))
