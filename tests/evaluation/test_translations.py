"""Scores of translations: sacreBLEU's own numbers and signatures, by length, the worst, two systems."""

from __future__ import annotations

import pytest

from qkv.evaluation.translation_metrics import BleuOutputs, SymbolOutputs, TranslationScore, bleu

sacrebleu = pytest.importorskip("sacrebleu")
TRUE = [f"the little dog number {n} sleeps in the quiet garden of the old house" for n in range(40)]
GOOD = [text.replace("quiet", "silent") if n % 3 else text for n, text in enumerate(TRUE)]
BAD = [text.replace("little dog", "big cat").replace("quiet", "loud") for text in TRUE]


def outputs(translations: list[str], references: list[str] = TRUE) -> BleuOutputs:
    return BleuOutputs(references, translations, [(text,) for text in references])


def translation_score(
    translations: list[str], references: list[str] = TRUE, loss: float | None = None
) -> TranslationScore:
    return outputs(translations, references).score(loss)


def test_the_numbers_are_sacrebleus() -> None:
    score = translation_score(GOOD, TRUE, 1.25)
    assert score.scores["bleu"].value == pytest.approx(sacrebleu.corpus_bleu(GOOD, [TRUE]).score)
    assert score.scores["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(GOOD, [TRUE]).score)
    assert score.scores["bleu"].low < score.scores["bleu"].value < score.scores["bleu"].high
    assert score.signatures["signature"].startswith("nrefs:1|")
    assert "tok:13a" in score.signatures["signature"]
    assert "case:mixed" in score.signatures["signature"]
    assert [row.name for row in score.rows()] == ["BLEU", "chrF", "BLEU, lowercased", "loss (nats a token)"]
    upper = translation_score([text.upper() for text in GOOD], TRUE)
    assert upper.scores["bleu_lowercased"] == pytest.approx(score.scores["bleu"].value)
    assert upper.scores["bleu"].value < 1
    assert "loss" not in upper.scores


def test_hardly_anything_right() -> None:
    """Draws in which nothing is right are numbers like the others."""
    score = translation_score(["q", "zzz zz", "", "the", "xx"], TRUE[:5])
    assert score.scores["chrf"].low <= score.scores["chrf"].value <= score.scores["chrf"].high
    assert score.scores["bleu"].value < 5


def test_by_length_and_the_worst() -> None:
    true = ["a b c d", *TRUE]
    said = ["a b c d", *GOOD]
    table = outputs(said, true).by_length()
    assert [(each.most, each.count) for each in table] == [(5, 1), (15, 40)]
    assert table[0].score == pytest.approx(100)
    assert table[1].score == pytest.approx(bleu(GOOD, TRUE))
    rows = outputs([*GOOD, "nothing"], [*TRUE, TRUE[0]]).worst(2)
    assert rows[0][0] == 40
    assert rows[0][1] < rows[1][1]


def test_bins_hold_every_row_once() -> None:
    lengths = [0, 5, 6, 60, 61, 900, 10]
    table = outputs([" a" * n for n in lengths], [" a" * n for n in lengths]).by_length()
    assert [(row.most, row.count) for row in table] == [(5, 2), (10, 2), (60, 1), (None, 2)]


def test_two_systems() -> None:
    found = outputs(GOOD).compared_with(outputs(BAD))
    assert found.values["first"] == pytest.approx(bleu(GOOD, TRUE))
    assert found.values["second"] == pytest.approx(bleu(BAD, TRUE))
    assert found.values["p"] < 0.01
    assert "better" in found.sentence
    same = outputs(GOOD).compared_with(outputs(GOOD))
    assert same.values["p"] > 0.5
    assert same.verdict == "equal"


def test_outputs_choose_their_score() -> None:
    said = outputs(GOOD)
    assert said.quick_scores()["criterion"] == pytest.approx(1 - said.score().quality)
    counted = SymbolOutputs(TRUE, GOOD, [(text,) for text in TRUE])
    rate = counted.score().scores["symbol_error_rate"].value
    assert counted.quick_scores()["symbol_error_rate"] == rate == counted.quick_scores()["criterion"]
    assert [row for row, _ in counted.worst(3)] == [1, 2, 4]
