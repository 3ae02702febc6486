"""Comparisons: sides, rows and their totals, baselines, and whole comparisons on tiny data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import small_pairs
from qkv.data.corpus import ExamplesConfig
from qkv.data.read_examples import read_examples
from qkv.errors import ConfigError, InputError
from qkv.evaluation import classical_baselines
from qkv.evaluation.labelled_evaluation import score_examples, score_predictions
from qkv.evaluation.significance import difference, estimate, row_statistics
from qkv.studies import picture
from qkv.studies.compared_system import ComparedSystem
from qkv.studies.comparison import compare
from qkv.studies.study import ComparisonPlan
from studies import tables


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def keys(examples: object) -> set[int]:
    return set(examples.keys.tolist())


def test_what_is_reported_is_in_no_other_side(tmp_path: Path) -> None:
    found = read_examples(ExamplesConfig(files=(tables.table(tmp_path / "one.csv"),), report="valid"))
    assert len(found.train) > len(found.valid) > 0
    assert found.test is not None
    assert not keys(found.test) & (keys(found.train) | keys(found.valid))
    assert not keys(found.valid) & keys(found.train)


def test_the_own_validation_side_is_reported_whole(tmp_path: Path) -> None:
    files = (tables.table(tmp_path / "train.csv"), tables.table(tmp_path / "dev.csv", 40, 9))
    found = read_examples(ExamplesConfig(files=files, report="valid"))
    assert found.test is not None
    assert len(found.test) == 40
    assert len(found.train) + len(found.valid) == 240


def test_where_the_test_side_is_reported_the_validation_side_chooses(tmp_path: Path) -> None:
    files = tuple(
        tables.table(tmp_path / f"{name}.csv", n, n) for name, n in (("train", 90), ("dev", 30), ("test", 20))
    )
    found = read_examples(ExamplesConfig(files=files, report="test"))
    assert (len(found.train), len(found.valid), len(found.test or ())) == (90, 30, 20)
    with pytest.raises(ConfigError, match="no test split"):
        read_examples(ExamplesConfig(files=files[:1], report="test"))


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1", "matthews"])
def test_totals_of_rows_give_the_score(tmp_path: Path, metric: str) -> None:
    found = read_examples(ExamplesConfig(files=(tables.table(tmp_path / "one.csv"),), report="valid"))
    answers = np.random.default_rng(0).dirichlet([1, 1], len(found.train)).astype(np.float32)
    judgement = score_predictions(answers, found.train.targets, found.labels.names, "single")
    made = row_statistics(judgement, found.train, metric)  # type: ignore[arg-type]
    assert made.value == pytest.approx(judgement.values()[metric])
    whole = estimate([made])
    assert whole.low is not None
    assert whole.low < made.value < (whole.high or 0)


def test_f1_is_that_of_the_second_class(tmp_path: Path) -> None:
    from sklearn.metrics import f1_score

    found = read_examples(ExamplesConfig(files=(tables.table(tmp_path / "one.csv"),), report="valid"))
    answers = np.random.default_rng(0).dirichlet([1, 2], len(found.train)).astype(np.float32)
    judgement = score_predictions(answers, found.train.targets, found.labels.names, "single")
    expected = f1_score(found.train.targets, answers.argmax(1), pos_label=1)
    assert row_statistics(judgement, found.train, "f1").value == pytest.approx(expected)
    three = score_predictions(np.eye(3, dtype=np.float32), np.arange(3), ("a", "b", "c"), "single")
    with pytest.raises(InputError, match="is for two classes"):
        row_statistics(three, found.train, "f1")


def test_pearson_of_totals(tmp_path: Path) -> None:
    found = read_examples(ExamplesConfig(files=(tables.numbers(tmp_path / "pairs.tsv"),), report="valid"))
    answers = (found.train.targets + np.random.default_rng(0).normal(size=len(found.train)))[:, None]
    judgement = score_predictions(answers.astype(np.float32), found.train.targets, (), "regression")
    assert row_statistics(judgement, found.train).value == pytest.approx(judgement.value, abs=1e-6)


def entry(name: str, *tables: np.ndarray) -> ComparedSystem:
    from qkv.evaluation.intervals import mean
    from qkv.evaluation.significance import RowStatistics

    measures = tuple(RowStatistics("accuracy", each[:, None], mean) for each in tables)
    return ComparedSystem(name, True, measures, None, 0.0)


def test_seeds_are_averaged_and_noise_is_told() -> None:
    random = np.random.default_rng(0)
    good, same, bad = (random.random(400) < share for share in (0.9, 0.9, 0.5))
    both = entry("both", good, same)
    assert both.score.value == pytest.approx((good.mean() + same.mean()) / 2)
    close, far = (
        difference(one.statistics, other.statistics)
        for one, other in ((entry("good", good), entry("same", same)), (both, entry("bad", bad)))
    )
    assert close.includes_zero
    assert not far.includes_zero
    assert far.difference == pytest.approx(both.score.value - bad.mean())


@pytest.mark.parametrize("make", [tables.table, tables.numbers, tables.tagged, tables.pictures, tables.columns])
def test_systems_without_a_network_learn(tmp_path: Path, make: object) -> None:
    name = {"table": "t.csv", "numbers": "p.tsv", "tagged": "w.conll", "pictures": "i.npz", "columns": "c.csv"}[
        make.__name__
    ]
    found = read_examples(ExamplesConfig(files=(make(tmp_path / name),), report="valid"))
    problem = "regression" if found.task == "regression" else "single"
    assert found.test is not None
    scores = {
        each.name: score_examples(each.predict(found.test), found.test, problem).value
        for each in classical_baselines.fit_baselines(found, problem)
    }
    first, *others = scores.values()
    assert max(others) > max(0.9 if problem == "single" else 0.2, first)


def plan(path: str, folder: Path, **more: object) -> ComparisonPlan:
    return ComparisonPlan(corpus={"files": [path]}, folder=folder, minutes=0.2, **more)  # type: ignore[arg-type]


def test_a_comparison_of_a_table(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    path = tables.table(tmp_path / "reviews.csv")
    found, folder = compare(plan(path, tmp_path / "runs" / "compare-reviews", models=("linear", "lstm"), seeds=2))
    names = [each.name for each in found.systems]
    assert set(names) == {"majority", "naive Bayes", classical_baselines.TF_IDF, "linear", "lstm"}
    values = json.loads((folder / "compare.json").read_text())
    systems = {each["system"]: each for each in values["systems"]}
    assert systems["lstm"]["training_flops"] > systems["linear"]["training_flops"] > 0
    assert len(systems["lstm"]["by_seed"]) == 2
    assert systems["lstm"]["predictions_per_second"] > 0
    assert values["best"] == max((each for each in found.systems), key=lambda each: each.held_out_score or 0).name
    assert all(Path(run["run"], "card.md").is_file() for run in systems["lstm"]["runs"])
    assert classical_baselines.TF_IDF in (folder / "compare.md").read_text()
    assert (folder / "compare.svg").read_text().startswith("<svg")
    assert found.sentences()[0].startswith("Best on")


def test_a_model_that_was_trained_on_these_files_is_told(tmp_path: Path) -> None:
    from qkv.studies.compare_labelled import find_leaks

    files = tables.table(tmp_path / "reviews.csv"), tables.table(tmp_path / "other.csv")
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "recipe.toml").write_text('[corpus]\nfiles = ["reviews.csv"]\n')
    for start in ("run", "run/best"):
        assert [len(list(find_leaks(start, ExamplesConfig(files=(name,))))) for name in files] == [1, 0]


def test_a_comparison_of_columns_of_numbers(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    found, _ = compare(plan(tables.columns(tmp_path / "columns.csv"), tmp_path / "out", models=("mlp",)))
    assert {each.name for each in found.systems} == {"majority", "naive Bayes", "logistic", "mlp"}
    assert not found.failed


def test_a_comparison_of_text(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    path = tables.book(tmp_path / "book.txt")
    found, _ = compare(plan(path, tmp_path / "out", models=("mlp", "modern"), equal="parameters"))
    assert {each.name for each in found.systems if each.is_network} == {"mlp", "modern"}
    sizes = [each.parameters for each in found.systems if each.parameters]
    assert max(sizes) < 1.1 * min(sizes)
    assert found.lower_is_better
    figures = [each.score.value for each in found.systems]
    assert figures == sorted(figures)


def test_too_little_time_and_unknown_systems_are_told(tmp_path: Path) -> None:
    path = tables.table(tmp_path / "reviews.csv")
    with pytest.raises(InputError, match="Give more minutes"):
        compare(ComparisonPlan(corpus={"files": [path]}, folder=tmp_path / "a", minutes=0.01))
    with pytest.raises(ConfigError, match="did you mean 'lstm'"):
        compare(plan(path, tmp_path / "b", models=("lstn",)))
    with pytest.raises(InputError, match=r"ends in \.svg"):
        picture.require_format(Path("table.pdf"))


def test_a_picture_in_both_formats(tmp_path: Path) -> None:
    from qkv.evaluation.intervals import Estimate

    lines = [
        picture.IntervalRow("a <b>", Estimate(0.9, 0.85, 0.95), True, True),
        picture.IntervalRow("c", Estimate(None, None, None), False),
    ]
    for name, first in (("p.svg", b"<svg"), ("p.png", b"\x89PNG")):
        picture.draw_intervals(tmp_path / name, lines, "title", "axis")
        assert (tmp_path / name).read_bytes().startswith(first)
    assert "a &lt;b&gt; *" in (tmp_path / "p.svg").read_text()
    low, high, ticks = picture.axis([0.82, 0.97])
    assert low <= 0.82 <= 0.97 <= high
    assert ticks[0] == low


@pytest.mark.parametrize("values", [[1.0, 1.0 - 2**-53], [0.0, 5e-324], [-3.0, -3.0], [1e9, 1e9 + 1e-6], []])
def test_an_axis_has_a_length_whatever_the_figures(values: list[float]) -> None:
    low, high, ticks = picture.axis(values)
    assert low < high
    assert len(ticks) == len(set(ticks))
    assert all(low <= value <= high for value in values)


def test_masked_language_models_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    text = tmp_path / "book.txt"
    text.write_text("The river keeps its stones.\n" * 400)
    corpus = {"files": [str(text)], "task": "masked-language-modelling"}
    with pytest.raises(InputError, match="Train masked ones one by one"):
        compare(ComparisonPlan(corpus=corpus, folder=tmp_path / "found"))
    assert not (tmp_path / "found").exists()


def test_pairs_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    files = small_pairs.write(tmp_path / "pairs")
    with pytest.raises(InputError, match="knows no translators"):
        compare(ComparisonPlan(corpus={"files": files}, folder=tmp_path / "found"))
    assert not (tmp_path / "found").exists()
