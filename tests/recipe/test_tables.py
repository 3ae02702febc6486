"""Tables of numbers from the file to the answers: the closed form, scikit-learn's accuracy, another file's columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qkv
from cli.commands import run
from qkv.data.corpus import ExamplesConfig
from qkv.data.read_examples import read_examples
from qkv.recipe import bundle
from qkv.tasks.registry import load_recipe

sklearn_datasets = pytest.importorskip("sklearn.datasets")


def write(path: Path, name: str, *, words: bool = True, every: int = 1) -> Any:
    """A data set of scikit-learn as a csv file."""
    found = getattr(sklearn_datasets, f"load_{name}")()
    with path.open("w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow([*found.feature_names, "kind" if words else "target"])
        for x, y in list(zip(found.data, found.target, strict=True))[::every]:
            out.writerow([*x, found.target_names[y] if words else y])
    return found


def trained(folder: Path, *words: str) -> Path:
    assert run(["train", *words, "--run", str(folder), "--set", "training.threads=1"], True) == 0
    return folder


def sides(path: Path) -> tuple[Any, Any]:
    found = read_examples(ExamplesConfig(files=(str(path),)))
    return found.train, found.valid


def test_linear_regression_is_the_closed_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "diabetes.csv"
    write(path, "diabetes", words=False)
    folder = trained(tmp_path / "run", str(path), "--model", "linear")
    assert "starts from its closed form" in capsys.readouterr().err
    train, valid = sides(path)
    ones = np.hstack([train.values.astype(np.float64), np.ones((len(train), 1))])
    found = np.linalg.lstsq(ones, train.targets.astype(np.float64), rcond=None)[0]
    expected = np.hstack([valid.values, np.ones((len(valid), 1))]) @ found
    said = [each.label for each in qkv.load(folder).classify([row.tolist() for row in valid.values])]
    np.testing.assert_allclose(said, expected, rtol=1e-3)
    assert load_recipe(folder / "recipe.toml").training.dtype == "f32"  # scored in it, too: no digit is lost


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
def test_logistic_regression_is_as_good_as_scikit_learn(name: str, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    path = tmp_path / "a.csv"
    write(path, name)
    folder = trained(tmp_path / "run", str(path), "--model", "linear", "--steps", "400", "--set",
                     "corpus.valid_fraction=0.3")  # fmt: skip
    found = read_examples(ExamplesConfig(files=(str(path),), valid_fraction=0.3))
    train: Any = found.train
    valid: Any = found.valid
    oracle = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train.values, train.targets)
    expected = float(oracle.score(valid.values, valid.targets))
    answers = qkv.load(folder).classify([row.tolist() for row in valid.values])
    accuracy = np.mean([each.label == example.label for each, example in zip(answers, valid, strict=True)])
    assert accuracy >= expected - 0.03
    assert expected > 0.9


def test_an_mlp_is_saved_opened_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "iris.csv", tmp_path / "other.csv"
    write(path, "iris")
    folder = trained(tmp_path / "run", str(path), "--steps", "150")
    opened = bundle.load(folder)
    config: Any = opened.config
    assert (config.kind, config.target, opened.optional_tokenizer) == ("mlp-table", "kind", None)
    assert config.columns[0] == "sepal length (cm)"
    rows = list(csv.reader(path.read_text().splitlines()))
    turned = [[row[4], "", *row[3::-1]] for row in rows]
    turned[0][1] = "remark"
    other.write_text("\n".join(",".join(row) for row in turned) + "\n")
    scores = []
    for file in (path, other):
        capsys.readouterr()
        assert run(["evaluate", str(folder), str(file), "--json"], True) == 0
        scores.append(json.loads(capsys.readouterr().out))
    assert scores[0]["accuracy"] == scores[1]["accuracy"] > 0.9
    assert {"confusion", "calibration", "mistakes", "macro_f1"} <= scores[0].keys()
    assert run(["evaluate", str(folder), str(path)], True) == 0
    assert "columns:" in capsys.readouterr().out


def test_rows_of_a_file_are_answered_in_their_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "iris.csv"
    write(path, "iris")
    folder = trained(tmp_path / "run", str(path), "--steps", "150")
    rows = list(csv.reader(path.read_text().splitlines()))
    (tmp_path / "rows.csv").write_text("\n".join(",".join(row[3::-1]) for row in rows) + "\n")
    (tmp_path / "one.csv").write_text(",".join(rows[0][:4]) + "\n" + ",".join(rows[1][:4]) + "\n")
    names = rows[0][:4]
    lines = [json.dumps(dict(zip(names, map(float, row[:4]), strict=True))) for row in rows[1:]]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    said = {}
    for name in ("iris.csv", "rows.csv", "rows.jsonl", "one.csv"):
        capsys.readouterr()
        assert run(["classify", str(folder), "--file", str(tmp_path / name)], True) == 0
        said[name] = capsys.readouterr().out.splitlines()
    assert said["iris.csv"] == said["rows.csv"] == said["rows.jsonl"]
    assert said["one.csv"] == said["iris.csv"][:1]
    right = [line.split("\t")[0] == row[4] for line, row in zip(said["iris.csv"], rows[1:], strict=True)]
    assert np.mean(right) > 0.9
    assert run(["classify", str(folder), ",".join(rows[1][:4])], True) == 0
    assert capsys.readouterr().out.split("\t")[0] == said["iris.csv"][0].split("\t")[0]


@pytest.mark.parametrize(
    ("rows", "mention"),
    [
        ("a,b\n1,2\n3,4\n", "no column 'sepal length (cm)'"),
        ("{names}\n1,2,3,4\n1,x,3,4\n", "rows.csv:3: expected a number in 'sepal width (cm)', found 'x'"),
        ("{names}\n1,2,3,4\n1,2,3\n1,2,3,4\n", "rows.csv:3: expected 4 cells, found 3"),
        ("", "empty"),
    ],
)
def test_rows_that_cannot_be_answered(
    rows: str, mention: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"columns": ("sepal length (cm)", "sepal width (cm)", "c", "d"), "labels": ("x", "y")}
    from qkv.models.table import LinearTableConfig

    made = LinearTableConfig(**config)
    bundle.save(tmp_path / "model", bundle.Bundle(made.build(), made, None, 0))
    (tmp_path / "rows.csv").write_text(rows.format(names=",".join(config["columns"])))
    assert run(["classify", str(tmp_path / "model"), "--file", str(tmp_path / "rows.csv")], False) == 2
    assert mention in capsys.readouterr().err


def test_models_that_read_numbers_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qkv.models.table import MLPTableConfig

    made = MLPTableConfig(columns=("a", "b"), labels=("x", "y"))
    folder = str(tmp_path / "model")
    bundle.save(tmp_path / "model", bundle.Bundle(made.build(), made, None, 0))
    (tmp_path / "film.csv").write_text("text,label\n" + "".join(f"a film of {n} hours,{n % 2}\n" for n in range(20)))
    (tmp_path / "prose.txt").write_text("a text\n" * 50)
    film, prose = str(tmp_path / "film.csv"), str(tmp_path / "prose.txt")
    for words, mention in (
        (["classify", folder, "1,2,3"], "expected 2 numbers separated by commas: a, b"),
        (["embed", folder, "a text"], "reads rows of numbers"),
        (["evaluate", folder, film], "no column 'a'"),
        (["evaluate", folder, prose], "without labels"),
        (["evaluate", folder, film, "--window", "8"], "is scored on labelled examples"),
        (["train", film, "--model", "gtp", "--steps", "2", "--run", str(tmp_path / "run")], "did you mean 'gpt'"),
    ):
        assert run(words, False) == 2, words
        assert mention in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
