"""Optional packages, each hidden in turn: what needs one names its extra before any work, all else goes on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from cli.commands import run
from interop import tiny_gguf
from qkv import errors
from qkv.data.corpus import ExamplesConfig
from qkv.data.read_examples import read_examples
from qkv.evaluation import classical_baselines
from qkv.tasks.classification.systems import PROBLEM_BY_TASK
from studies import tables

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"pillow": "PIL", "scikit-learn": "sklearn"}
LONG = "A dog runs. " * 20

# The models and data are not there or damaged as well: a verb that opened them first would say that.
REFUSED: dict[str, list[list[str]]] = {
    "pyarrow": [
        ["train", "damaged.txt", "rows.parquet"],
        ["train", "damaged.csv", "rows.parquet", "--label", "label"],
        ["embed", "nowhere", "a text", "--out", "vectors.parquet"],
    ],
    "zstandard": [
        ["train", "damaged.txt", "book.txt.zst"],
        ["train", "damaged.csv", "rows.csv.zst", "--label", "label"],
        ["train", "damaged.de", "book.en.zst", "--task", "translation"],
    ],
    "lxml": [
        ["train", "damaged.txt", "page.html"],
        ["train", "documents/"],
        ["data", "describe", "report.docx"],
        ["data", "check", "book.epub"],
        ["data", "clean", "page.html", "--out", "clean.jsonl"],
    ],
    "pypdf": [["train", "damaged.txt", "paper.pdf"]],
    "striprtf": [["train", "damaged.txt", "letter.rtf"]],
    "openpyxl": [
        ["train", "damaged.csv", "rows.xlsx", "--label", "label"],
        ["data", "describe", "rows.xlsx"],
    ],
    "PIL": [
        ["train", "pictures/"],
        ["compare", "nowhere.csv", "--picture", "figures.png"],
        ["inspect", "nowhere", "a text", "--png", "heads.png"],
        ["embed", "nowhere", "--probe", "nowhere.csv", "--picture", "layers.png"],
    ],
    "tensorboard": [["train", "nowhere.txt", "--tensorboard"]],
    "gguf": [["import", "packed.gguf", "--to", "imported"]],
    "sklearn": [["embed", "nowhere", "--probe", "nowhere.csv"]],
    "optuna": [["tune", "nowhere.csv", "--trials", "2"]],
    "sacrebleu": [["train", "damaged.de", "damaged.en", "--task", "translation"]],
    "sentencex": [["translate", "nowhere", LONG]],
}
NOTED = {
    "sklearn": ["compare", "damaged.csv", "--label", "label"],
    "transformers": ["export", "nowhere", "exported"],
    "sentencex": ["translate", "nowhere", "--file", "book.en"],
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("damaged.txt").write_bytes(b"a line of text\n" * 9000 + b"\xff\n")
    for name in ("damaged.de", "damaged.en"):
        Path(name).write_bytes(b"a line of text\n" * 9000 + b"\xff\n")
    Path("damaged.csv").write_bytes(b"text,label\n" + b"a good film,1\na bad film,0\n" * 9000 + b"\xff,1\n")
    Path("documents").mkdir()
    packed = ("rows.parquet", "rows.xlsx", "book.txt.zst", "rows.csv.zst", "book.en.zst")
    documents = ("page.html", "report.docx", "book.epub", "paper.pdf", "letter.rtf", "documents/page.html")
    for name in (*packed, *documents):
        Path(name).write_bytes(b"cannot be opened without its package")
    Path("book.en").write_text("A dog runs.\n" * 9000)
    for label in ("cat", "dog"):
        Path("pictures", label).mkdir(parents=True)
        Path("pictures", label, "1.png").write_bytes(b"\x89PNG\r\n\x1a\nnot decoded")
    five_bits = {"blk.0.ffn_up.weight": ([32, 64], 6, bytes(32 * 64 // 32 * 22))}  # Q5_0, which the package reads
    tensors = tiny_gguf.tensors_of("qwen3") | five_bits
    Path("packed.gguf").write_bytes(tiny_gguf.assembled(tiny_gguf.values_of("qwen3"), tensors))
    return tmp_path


def hide(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own way to say that a module is not there."""
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize(
    ("package", "words"), [(package, words) for package, commands in REFUSED.items() for words in commands]
)
def test_refused_before_any_work(
    package: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(package, monkeypatch)
    assert run(words, False) == 2
    said = capsys.readouterr()
    assert f"pip install 'qkv[{errors.EXTRA_OF_PACKAGE[package]}]'" in said.err
    assert not said.out
    assert not Path("runs").exists()


@pytest.mark.parametrize(("package", "words"), NOTED.items())
def test_noted_before_any_work(
    package: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide(package, monkeypatch)
    assert run(words, False) == 2  # the model is not there, the data is damaged
    first, *_, last = capsys.readouterr().err.strip().splitlines()
    assert first.startswith("note: ")
    assert f"pip install 'qkv[{errors.EXTRA_OF_PACKAGE[package]}]' adds it" in first
    assert "qkv[" not in last


def test_every_optional_package_is_hidden_here() -> None:
    """A new one comes with its line in EXTRA_OF_PACKAGE and with what it is needed for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = {
        MODULES.get(name, name): extra
        for extra, needed in project["optional-dependencies"].items()
        if extra != "all"
        for name in (re.split(r"[<>=]", each)[0] for each in needed)
    }
    assert listed.pop("pytorch-lightning") == "lightning"  # of examples/lightning.py only
    assert listed.pop("lm-eval") == "lm-eval"  # of library/lm_eval_adapter.py only
    assert listed == errors.EXTRA_OF_PACKAGE
    assert REFUSED.keys() | NOTED.keys() == listed.keys()


HIDDEN = """
import sys
sys.modules["sklearn"] = None
from qkv.cli.app import main
main(sys.argv[1:])
"""


def test_compare_goes_on_without_scikit_learn(tmp_path: Path) -> None:
    """Linear regression is solved at once: the minutes are never used up."""
    rows = [f"{i},{i * i % 7},{3 * i + 0.5}" for i in range(80)]
    (tmp_path / "line.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    words = ["compare", "line.csv", "--label", "y", "--models", "linear", "--minutes", "60", "--json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN, *words], capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["system"] for each in found["systems"]] == ["linear", "mean"]
    assert "note: mean: pearson undefined" in done.stderr  # what is constant has no correlation
    assert found["notes"][0].startswith("scikit-learn is not installed")
    assert done.stderr.startswith(f"note: {found['notes'][0]}\n")


@pytest.mark.parametrize(
    ("made", "left"), [("table", ["majority"]), ("pictures", ["majority"]), ("tagged", ["majority", "usual tag"])]
)
def test_baselines_that_need_nothing_stay(
    made: str, left: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = {"table": "t.csv", "pictures": "p.npz", "tagged": "t.conll"}[made]
    found = read_examples(ExamplesConfig(files=(getattr(tables, made)(tmp_path / name),), report="valid"))
    whole = [each.name for each in classical_baselines.fit_baselines(found, PROBLEM_BY_TASK[found.task])]
    hide("sklearn", monkeypatch)
    assert [each.name for each in classical_baselines.fit_baselines(found, PROBLEM_BY_TASK[found.task])] == left
    assert len(whole) > len(left)
