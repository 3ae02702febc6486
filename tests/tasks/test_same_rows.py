"""What the doctor compares a score with is computed on the rows that were scored, with counts of the whole training
side; where that is not so, no model is called better."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_tasks
from doctor.test_messages import BASELINES, FOUND
from qkv import session as sessions
from qkv.data.examples import TagExamples
from qkv.data.split import even_order
from qkv.doctor import messages
from qkv.doctor.baseline_table import BaselineTable, compared
from qkv.doctor.examination import Doctor, text_bytes
from qkv.doctor.labelled import LabelledBaselines
from qkv.evaluation import ngram_model as ngrams
from qkv.evaluation import text_baselines
from qkv.evaluation.intervals import mean
from qkv.evaluation.labelled_evaluation import score_examples, score_predictions, score_tags
from qkv.evaluation.perplexity import WindowPlan
from qkv.evaluation.significance import RowStatistics, estimate
from qkv.evaluation.spans import is_spans
from qkv.tasks.classification.systems import PROBLEM_BY_TASK
from qkv.tasks.protocol import Session
from qkv.training.diagnosis import diagnose
from qkv.training.history import History

STEPS = {"steps": 1, "threads": 1, "batch": 4}
SMALL = {"layers": 1, "heads": 1, "width": 8, "context": 16}


def text_session(folder: Path, text: str, valid: str, **training: Any) -> Session:
    for name, content in (("a.txt", text), ("b.txt", valid)):
        (folder / name).write_text(content, encoding="utf-8")
    corpus = {"files": [str(folder / "a.txt")], "valid": [str(folder / "b.txt")]}
    values = {"corpus": corpus, "tokenizer": {"kind": "characters"}, "model": SMALL, "training": STEPS | training}
    return sessions.start(values, folder / "run", numbered=False, minutes=1.0)


def sentences(number: int, seed: int) -> str:
    """Two words of sixty follow each other by a table that only a long text shows whole."""
    draw = np.random.default_rng(seed)
    words = ["".join(letters) for letters in np.random.default_rng(0).choice([*"abcdefghijklmnop"], (3000, 6))]
    return " ".join(words[pick] for pick in draw.integers(0, len(words), number))


def test_all_training_tokens_are_counted_however_short_the_run(tmp_path: Path) -> None:
    """With an eighth of the tokens the n-gram would need a bit more a byte, and a model between the two be praised."""
    session = text_session(tmp_path, sentences(24_000, 1), sentences(2_000, 2))
    doctor, train = Doctor(session, session.task.prepared), session.task.prepared.train.tokens
    found, vocabulary = doctor.baselines, session.task.prepared.tokenizer.vocabulary
    assert len(train) > 150_000
    assert found.counted == found.training_tokens == len(train)
    tokens = session.task.prepared.valid.tokens
    plan = WindowPlan(len(tokens), 16, 16)
    places, reach = plan.predictions_of(plan.evenly_spaced(None))
    few = ngrams.probabilities(text_baselines.spread(train, len(train) // 8), vocabulary, 6, tokens, places, reach)
    all_of_it = ngrams.probabilities(train, vocabulary, 6, tokens, places, reach)
    low, high = (found.bits(float((-np.log(each)).mean(axis=1).min())) for each in (all_of_it, few))
    assert found.bits(found.ngram) == pytest.approx(low)
    assert low < 0.9 * high


def test_a_baseline_of_a_part_of_the_data_has_its_count_beside_it() -> None:
    model = RowStatistics("accuracy", np.repeat([1.0, 0.0], [90, 10])[:, None], mean)
    baseline = RowStatistics("accuracy", np.repeat([1.0, 0.0], [50, 50])[:, None], mean)
    part = compared("linear", model, baseline, lower_is_better=False, part="500 of 1,000 training examples")
    table = BaselineTable("accuracy", "100 rows", 100, estimate([model]), (part,))
    (sentence,) = table.sentences()
    assert "better than linear (fitted on 500 of 1,000 training examples), 0.5000" in sentence
    assert "fitted on all of it the baseline may be better" in sentence
    assert table.cells()[1][0] == "linear (fitted on 500 of 1,000 training examples)"


def test_a_model_that_is_equal_is_called_equal() -> None:
    rows = np.repeat([1.0, 0.0], [90, 10])[:, None]
    model = RowStatistics("accuracy", rows, mean)
    other = rows.copy()
    other[:3] = 0.0
    for baseline, verdict, words in (
        (rows, "equal", "equal to it, 0.9000; no row differs"),
        (other, "not distinguishable", "not distinguishable from it, 0.8700; the difference is +0.0300"),
    ):
        found = compared("it", model, RowStatistics("accuracy", baseline, mean), lower_is_better=False)
        assert found.verdict == verdict
        assert words in BaselineTable("accuracy", "100 rows", 100, estimate([model]), (found,)).sentences()[0]


def test_the_baselines_are_of_the_windows_that_were_scored(tmp_path: Path) -> None:
    """The first half of the validation text is known by heart and the second is noise: other rows, another figure."""
    drawn = np.random.default_rng(3)
    one, other = ("".join(drawn.choice([*"abcdefghijklmnop"], 4_000)) for _ in range(2))
    session = text_session(tmp_path, "hello world. " * 2_000 + one, "hello world. " * 300 + other)
    doctor, valid = Doctor(session, session.task.prepared), session.task.prepared.valid
    whole = doctor.baselines
    windows = len(WindowPlan(len(valid.tokens), 16, 16))
    for part in (range(windows // 4), range(3 * windows // 4, windows)):
        made = doctor._baselines_on(part)
        places, reach = WindowPlan(len(valid.tokens), 16, 16).predictions_of(part)
        alone = text_baselines.measure(
            session.task.prepared.train, valid, session.task.prepared.tokenizer.vocabulary, places, reach
        )
        assert made.unigram == pytest.approx(alone.unigram)
        assert made.ngrams == pytest.approx(alone.ngrams)
        both = (valid.tokens[places], session.task.prepared.train.tokens)
        text, known = (text_bytes(session.task.prepared.tokenizer, each) for each in both)
        assert made.xz == pytest.approx(text_baselines.xz_bits(text, known), rel=0.05, abs=0.01)
        assert made.ngram < 0.5 * whole.ngram or made.ngram > 1.5 * whole.ngram


def test_a_smaller_sample_of_windows_is_part_of_a_larger_one() -> None:
    plan = WindowPlan(100_000, 16, 16)
    samples = [set(plan.evenly_spaced(limit)) for limit in (500, 4_000, 30_000, 99_000, None)]
    assert all(small < large for small, large in pairwise(samples))
    assert [len(each) for each in samples[:3]] == [31, 250, 1875]
    for count, most in ((10, 10), (1000, 7), (1000, 999), (1, 1)):
        rows = even_order(count, most)
        assert len(set(rows.tolist())) == most
        gaps = np.diff(np.sort(rows), prepend=-1, append=count)
        assert gaps.max() <= 3 * count / most + 1


def test_best_and_last_are_of_the_same_tokens() -> None:
    """The last evaluation looks at more, and at harder, text: no step was worse for it."""
    found = replace(FOUND, kind="overfitting", since=None, validation=1.5, lowest=1.9, last=1.9)
    assert "at step" not in messages.verdict(found, BASELINES)
    rose = messages.verdict(replace(found, since=120, lowest=1.7), BASELINES)
    assert "rose from 1.70 to 1.90" in rose


def test_lowest_is_of_the_run_itself() -> None:
    lines = [{"step": step, "loss": 2.0} for step in range(1, 5)]
    lines += [{"step": 4, "validation_loss": 1.8, "validation_parts": [1.7, 1.8, 1.9, 1.8]}]
    found = diagnose(History.of(lines), BASELINES, 1.5, 10.0)
    assert (found.lowest, found.last, found.validation) == (1.8, 1.8, 1.5)


@pytest.mark.parametrize("task", [*PROBLEM_BY_TASK, "pairs", "spans"])
def test_baselines_are_scored_on_the_rows_of_the_model(task: str, tmp_path: Path) -> None:
    """One answer for all has the score of a real model which gives this answer, on the scored examples alone."""
    data = small_tasks.write(tmp_path / "data", "tagging" if task == "spans" else task)
    if task == "spans":
        data.write_text(data.read_text(encoding="utf-8").replace("NOUN", "O").replace("DET", "B-X"), encoding="utf-8")
        data.write_text(data.read_text(encoding="utf-8").replace("VERB", "I-X").replace("CONJ", "O"), encoding="utf-8")
    opened = small_tasks.begun(data, tmp_path / "run", "tagging" if task == "spans" else task).task
    found = opened.prepared.labelled
    assert task != "spans" or is_spans(found.labels.names)
    baselines = LabelledBaselines(found, opened.problem)
    for rows in (found.valid.rows, found.valid.rows[: len(found.valid) // 2]):
        scored = replace(found.valid, rows=rows)
        answers = baselines.fitted[
            1
        ].predictions  # of all validation rows: the table must take those of the scored ones
        kept = np.isin(found.valid.rows, rows)
        if isinstance(found.valid, TagExamples):
            kept = np.repeat(kept, found.valid.lengths)
        table = baselines.table(score_examples(answers[kept], scored, opened.problem), scored)
        majority, strong = table.baselines
        assert table.count == len(scored)
        assert majority.score.value == pytest.approx(by_hand(found, scored, opened.problem), abs=1e-6)
        assert (strong.verdict, strong.score) == ("equal", table.model)


def by_hand(found: Any, scored: Any, problem: str) -> float:
    train, names = found.train.targets, scored.labels.names
    if problem == "regression":
        answers = np.full((len(scored), 1), train.mean(), dtype=np.float32)
        return score_predictions(answers, scored.targets, names, "regression").loss
    if problem == "multi":
        best = max(
            (score_predictions(table(train, count, len(train)), train, names, "multi").value, -count)
            for count in range(1, len(names) + 1)
        )
        return score_predictions(table(train, -best[1], len(scored)), scored.targets, names, "multi").value
    answers = np.zeros((len(scored.targets), len(names)), dtype=np.float32)
    answers[:, np.bincount(train).argmax()] = 1.0
    if found.task == "tagging":
        made = score_tags(answers, scored)
        assert made.name == ("span_f1" if is_spans(names) else "accuracy")
        return made.value
    return score_predictions(answers, scored.targets, names, "single").value


def table(train: np.ndarray, count: int, rows: int) -> np.ndarray:
    given = np.zeros(train.shape[1], dtype=np.float32)
    given[np.argsort(-train.sum(axis=0), kind="stable")[:count]] = 1.0
    return np.tile(given, (rows, 1))
