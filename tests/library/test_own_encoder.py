"""An encoder from outside, or a language model from outside as one: classifies, tags, resumes, is looked into."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import qkv
from qkv.errors import ConfigError, InputError
from qkv.recipe import own_model

OWN = Path(__file__).parents[2] / "examples"
FILES = {"deepsets": OWN / "deepsets.py", "mingru": OWN / "mingru.py"}
TEXTS = [f"{'warm and bright' if n % 2 else 'cold and dull'} song {n}" for n in range(120)]
LABELS = ["good" if n % 2 else "bad" for n in range(120)]
SETTINGS = {"training.checkpoint_every": 4, "training.threads": 1, "training.dtype": "f32", "training.device": "cpu"}


@pytest.fixture(scope="module", params=FILES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder") / "run"
    qkv.train((TEXTS, LABELS), run=folder, model=FILES[kind], steps=20, settings=SETTINGS)
    return folder


def test_it_classifies(run: Path, kind: str) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    assert model.bundle.config.kind == "classifier"
    assert [decision.label for decision in model.classify(["warm and bright day", "cold and dull"])] == ["good", "bad"]
    assert model.evaluate((TEXTS, LABELS)).values()["accuracy"] == 1.0
    alone = model.classify(["warm"])[0].probabilities["good"]
    beside = model.classify(["warm", " ".join(TEXTS[:9])])[0].probabilities["good"]
    assert alone == pytest.approx(beside, abs=1e-5), "padding changes nothing"


KILLED = """
import os, sys
import qkv
texts = [f"{'warm and bright' if n % 2 else 'cold and dull'} song {n}" for n in range(120)]
labels = ["good" if n % 2 else "bad" for n in range(120)]
settings = {"training.checkpoint_every": 4, "training.threads": 1, "training.dtype": "f32", "training.device": "cpu"}
for event in qkv.train((texts, labels), run=sys.argv[1], model=sys.argv[2], steps=20, settings=settings, stream=True):
    if type(event).__name__ == "Step" and event.number == 10:
        os.kill(os.getpid(), 9)
"""


def test_it_resumes_to_the_same_bits(run: Path, kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(FILES[kind])]
    assert subprocess.run(words, capture_output=True).returncode == -9
    resumed, whole = qkv.resume(tmp_path / "run", model_file=FILES[kind]), qkv.load(run, model_file=FILES[kind])
    mine, theirs = resumed.module.state_dict(), whole.module.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_it_is_inspected_and_verified(run: Path, kind: str) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    assert model.trace("warm and bright") is not None
    with pytest.raises(InputError, match="has no layers called blocks"):
        model.embed(["warm", "cold"])
    assert all(proof.passed is not False for proof in qkv.verify(model))
    with pytest.raises(InputError):
        model.export(run.parent / "out")


def test_the_command_line_asks_for_the_file(run: Path, kind: str) -> None:
    code = "from qkv.__main__ import main\nmain()"
    words = [sys.executable, "-c", code, "classify", str(run), "a warm day"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"--model {FILES[kind].name}" in done.stderr
    assert subprocess.run([*words, "--model", str(FILES[kind])], capture_output=True).returncode == 0


def test_it_tags_and_reads_pairs(kind: str, tmp_path: Path) -> None:
    words = [text.split() for text in TEXTS]
    tags = [["N" if word.isdigit() else "X" for word in each] for each in words]
    tagger = qkv.train((words, tags), run=tmp_path / "tags", model=FILES[kind], steps=2, settings=SETTINGS)
    assert len(tagger.tag("warm song")[0]) == 2
    pairs = [(text, text) for text in TEXTS]
    model = qkv.train((pairs, LABELS), run=tmp_path / "pairs", model=FILES[kind], steps=2, settings=SETTINGS)
    assert model.classify([("warm", "cold")])[0].label in LABELS


def test_an_encoder_does_not_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is an encoder, for labelled examples"):
        qkv.train(TEXTS, run=tmp_path / "run", model=FILES["deepsets"], steps=2)
    config = own_model.load_file(FILES["deepsets"]).config(width=16, layers=1)
    model = qkv.train((TEXTS, LABELS), run=tmp_path / "small", model=config, steps=2)
    assert model.bundle.config.width == 16
