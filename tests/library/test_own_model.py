"""A model from outside trains, resumes to the same bits, writes alike with and without its state, is named again."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import optuna
import pytest
import torch

import qkv
from qkv.errors import InputError, QkvError, RefusedError
from qkv.inspection.answer_scores import answers
from qkv.inspection.logit_lens import lens
from qkv.models.registry import LANGUAGE_MODELS
from qkv.recipe import own_model
from qkv.studies.search_space import draw_language_model
from qkv.tasks.inspection_subject import inspection_subject

OWN = Path(__file__).parents[2] / "examples"
FILES = {"mingru": OWN / "mingru.py", "gpt-alibi": OWN / "alibi.py"}
TEXTS = [f"the dog sat on mat {number} and the cat saw it" for number in range(300)]
SETTINGS = {"training.checkpoint_every": 4, "training.threads": 1, "training.dtype": "f32", "training.device": "cpu"}


@pytest.fixture(scope="module", params=FILES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def run(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "run"
    qkv.train(TEXTS, run=folder, model=str(FILES[kind]), steps=20, settings=SETTINGS)
    return folder


def test_it_learns(run: Path, kind: str) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    assert model.bundle.config.kind == kind
    assert (
        model.evaluate("the dog sat on mat 7 and the cat saw it").loss < 2.8
    )  # ln 23 = 3.1 is a guess among all characters


def test_it_writes_the_same_with_and_without_its_state(run: Path, kind: str) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    written = model.generate("the dog", length=30, temperature=0.0)
    assert written == model.generate("the dog", length=30, temperature=0.0, cached=False)
    tokens = torch.tensor([model.tokenizer.encode("the dog sat on mat")])
    with torch.inference_mode():
        state = model.language_model.state(1)
        steps = [model.language_model(tokens[:, i : i + 1], state) for i in range(tokens.size(1))]
        assert torch.allclose(torch.cat(steps, 1), model.language_model(tokens), atol=1e-5)


KILLED = """
import os, sys
import qkv
texts = [f"the dog sat on mat {number} and the cat saw it" for number in range(300)]
settings = {"training.checkpoint_every": 4, "training.threads": 1, "training.dtype": "f32", "training.device": "cpu"}
for event in qkv.train(texts, run=sys.argv[1], model=sys.argv[2], steps=20, settings=settings, stream=True):
    if type(event).__name__ == "Step" and event.number == 10:
        os.kill(os.getpid(), 9)
"""


def test_it_resumes_to_the_same_bits(run: Path, kind: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", KILLED, str(tmp_path / "run"), str(FILES[kind])]
    assert subprocess.run(words, capture_output=True).returncode == -9
    resumed = qkv.resume(tmp_path / "run", model_file=FILES[kind])
    whole = qkv.load(run, model_file=FILES[kind])
    mine, theirs = resumed.module.state_dict(), whole.module.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_it_is_inspected_and_verified(run: Path, kind: str, tmp_path: Path) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    trace = model.trace("the dog sat")
    assert trace is not None
    assert model.page("the dog sat", tmp_path / "page.html").is_file()
    subject = inspection_subject(model.bundle, "the dog sat")
    with torch.inference_mode():
        scores = answers(subject, [subject.inputs])[0].softmax(-1)
    likeliest = model.next("the dog sat", 3)
    expected = [row.probability for row in likeliest]
    assert scores[[row.token for row in likeliest]].tolist() == pytest.approx(expected, abs=1e-5)
    assert all(proof.passed is not False for proof in qkv.verify(model))


def test_a_search_sets_only_what_the_config_has(run: Path, kind: str) -> None:
    drawn = draw_language_model(optuna.create_study().ask(), kind)["model"]
    assert drawn.keys() <= {field.name for field in fields(LANGUAGE_MODELS[kind])}
    assert drawn.keys() >= {"kind", "layers", "width"}


def test_export_says_why_not(run: Path, kind: str, tmp_path: Path) -> None:
    with pytest.raises(QkvError, match=kind):
        qkv.load(run, model_file=FILES[kind]).export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_lens_reads_every_layer(run: Path, kind: str) -> None:
    model = qkv.load(run, model_file=FILES[kind])
    subject = inspection_subject(model.bundle, "the dog sat")
    if not hasattr(model.module, "blocks"):
        with pytest.raises(InputError, match="the lens needs"):
            lens(subject)
        return
    layers = lens(subject)
    assert [layer.layer for layer in layers] == list(range(1 + len(model.module.blocks)))
    last = [token.text for token in layers[-1].top[-1]]
    assert last == [model.tokenizer.piece(row.token) for row in model.next("the dog sat", len(last))]


TAPPED = """
from typing import Literal
from torch import nn
from qkv.blocks.state import RecurrentState
from qkv.blocks.tap import Tap
from qkv.config import Context, CountOrZero, Layers, Width, strict

@strict
class Config:
    kind: Literal["tapped"] = "tapped"
    vocabulary: CountOrZero = 0
    layers: Layers = 3
    width: Width = 8
    context: Context = 16

    def build(self):
        return Model(self)

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix, self.stream = nn.Linear(width, width), Tap()

    def forward(self, x):
        return self.stream(x + self.mix(x))

class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.vocabulary, self.context = config.vocabulary, config.context
        self.embedding, self.embedded = nn.Embedding(config.vocabulary, config.width), Tap()
        self.blocks = nn.ModuleList(Block(config.width) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.vocabulary)

    def state(self, rows, capacity=None):
        return RecurrentState(rows, (self.embedding.weight.new_zeros(1, rows, 1),))

    def forward(self, tokens, state=None):
        x = self.embedded(self.embedding(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""


def test_the_lens_reads_the_taps_of_own_layers(tmp_path: Path) -> None:
    file = tmp_path / "tapped.py"
    file.write_text(TAPPED)
    model = qkv.train(TEXTS, run=tmp_path / "run", model=str(file), steps=2, settings=SETTINGS)
    subject = inspection_subject(model.bundle, "the dog sat")
    layers = lens(subject)
    assert len(layers) == 1 + len(model.module.blocks) > 2
    best = model.next("the dog sat", 1)[0].token
    assert layers[-1].top[-1][0].text == model.tokenizer.piece(best)
    file.write_text(TAPPED.replace("self.stream(x + self.mix(x))", "x + self.mix(x)").replace('"tapped"', '"untapped"'))
    model = qkv.train(TEXTS, run=tmp_path / "other", model=str(file), steps=2, settings=SETTINGS)
    with pytest.raises(InputError, match="a Tap named `stream` in each layer"):
        lens(inspection_subject(model.bundle, "the dog sat"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("@strict", "@dataclass"), "Put @strict above it"),
        (("@strict", "@strict\n@dataclass"), "FrozenInstanceError when Config"),
        (("Block(config.width)", "Block(config.size)"), "AttributeError when Config"),
    ],
)
def test_a_file_with_a_mistake_is_not_called_a_bug_of_qkv(
    change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "tapped.py"
    file.write_text("from dataclasses import dataclass\n" + TAPPED.replace(*change))
    with pytest.raises(InputError, match=message):
        qkv.train(TEXTS, run=tmp_path / "run", model=str(file), steps=2)


def test_the_card_of_a_run(run: Path, kind: str) -> None:
    assert "language model of" in qkv.load(run, model_file=FILES[kind]).card


ALONE = """
import sys
from qkv.__main__ import main
main()
"""


def command(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", ALONE, *map(str, words)], capture_output=True, text=True)


def test_the_command_line_asks_for_the_file(run: Path, kind: str, tmp_path: Path) -> None:
    """In a process of its own, in which no other test has loaded the file."""
    done = command("generate", run, "the dog", "--length", "5")
    assert done.returncode == 2
    assert f"--model {FILES[kind].name}" in done.stderr
    assert command("generate", run, "the dog", "--length", "5", "--model", FILES[kind]).returncode == 0
    other = tmp_path / FILES[kind].name
    other.write_text(FILES[kind].read_text() + "\n# changed\n")
    done = command("generate", run, "the dog", "--length", "5", "--model", other)
    assert done.returncode == 5
    assert "another version" in done.stderr


def test_the_commands_that_training_prints_name_the_file(kind: str, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("\n".join(TEXTS))
    done = command("train", tmp_path / "book.txt", "--run", tmp_path / "r", "--model", FILES[kind], "--steps", "3")
    assert done.returncode == 0
    printed = [line for line in done.stdout.splitlines() if f"{tmp_path / 'r'}" in line and line.startswith("  ")]
    assert len(printed) >= 3
    assert all(f"--model {FILES[kind]}" in line for line in printed)


def test_code_inside_a_folder_is_not_executed(run: Path, kind: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run / "best", copy)
    for name in (FILES[kind].name, "model.py", "__init__.py"):
        (copy / name).write_text("raise SystemExit('executed')")
    done = command("generate", copy, "the dog", "--length", "5")
    assert done.returncode in (2, 5)
    assert "executed" not in done.stdout + done.stderr


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    cases = {
        "nothing.py": ("x = 1", "expected one config class"),
        "broken.py": ("x = 1 / 0", "ZeroDivisionError"),
        "taken.py": (FILES["mingru"].read_text().replace('"mingru"', '"gpt"'), "is a model of qkv"),
    }
    for name, (content, message) in cases.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=message):
            own_model.load_file(tmp_path / name)
    with pytest.raises(InputError, match="cannot be read"):
        own_model.load_file(tmp_path / "absent.py")
    with pytest.raises(RefusedError, match="does not fit"):
        own_model.require_same_file({"kind": "mingru"}, {"file": 5}, "here")


def test_a_config_made_in_python(tmp_path: Path) -> None:
    config = own_model.load_file(FILES["mingru"]).config(layers=1, width=24)
    model = qkv.train(TEXTS, run=tmp_path / "run", model=config, steps=3)
    assert (model.bundle.config.layers, model.bundle.config.width) == (1, 24)
