"""The forecast of memory: slices tell the whole, real runs take what was said, and what is refused has a way out."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qkv.data.corpus import CorpusConfig
from qkv.errors import InputError
from qkv.models.registry import LANGUAGE_MODELS
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe import memory
from qkv.recipe.memory import forecast, require_memory
from qkv.recipe.recipe import Recipe, parse_model
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

SHAPES: list[dict[str, Any]] = [
    {"kind": "modern", "layers": 3, "heads": 4, "width": 128, "context": 96},
    {"kind": "modern", "layers": 3, "heads": 6, "key_heads": 2, "width": 192, "context": 48, "head": "tied"},
    {"kind": "gpt", "layers": 3, "heads": 4, "width": 128, "context": 96},
    {"kind": "gpt", "layers": 2, "heads": 3, "width": 48, "context": 80, "dropout": 0.2},
    {"kind": "modern", "layers": 2, "heads": 2, "width": 48, "context": 256, "window": 8, "dropout": 0.1},
    {"kind": "llama", "layers": 3, "heads": 4, "key_heads": 2, "width": 128, "context": 96},
    {"kind": "qwen2", "layers": 2, "heads": 2, "width": 96, "context": 64, "head": "tied"},
    {"kind": "gpt", "layers": 2, "heads": 2, "width": 48, "context": 200, "window": 16},
    {"kind": "rnn", "layers": 2, "width": 160, "context": 64},
    {"kind": "gru", "layers": 2, "width": 160, "context": 64},
    {"kind": "lstm", "layers": 2, "width": 256, "context": 64},
    {"kind": "modern-fast", "layers": 3, "heads": 4, "width": 128, "context": 64},
    {"kind": "cnn", "layers": 3, "width": 128, "context": 64},
    {"kind": "mlp", "layers": 2, "width": 128, "context": 32},
]
SHAPES += [  # those without a shape of their own
    {"kind": kind, "layers": 2, "width": 96, "context": 64}
    for kind in LANGUAGE_MODELS
    if kind not in {shape["kind"] for shape in SHAPES}
]
CHILD = """
import json, re, sys
from pathlib import Path
import qkv.api
from qkv.recipe import memory
from qkv import session as sessions

def peak():
    # of this program alone: what getrusage says begins with its parent
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = peak()
session = sessions.start(json.loads(sys.argv[1]), Path("run"), numbered=False, minutes=1.0)
for event in session.run.events(session.state, session.objective):
    pass
session.task.final_score(session.recipe, session.run.folder)
print(json.dumps([peak() - before, memory.forecast(session.recipe).total]))
"""


def recipe(model: dict[str, Any], **training: Any) -> Recipe:
    settings = {
        "steps": 10,
        "batch": 4,
        "optimizer": "adamw",
        "learning_rate": 0.01,
        "device": "cpu",
        "dtype": "f32",
        **training,
    }
    return Recipe(
        model=parse_model({"vocabulary": 67, **model}, "the test"),
        tokenizer=TokenizerConfig(kind="characters"),
        corpus=CorpusConfig(files=("a.txt",)),
        task=LanguageModellingConfig(),
        training=TrainingConfig(**settings),
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
def test_slices_tell_the_whole(shape: dict[str, Any]) -> None:
    made = recipe(shape)
    whole = memory.slice_bytes(
        made.model, made.task.synthetic_objective, "f32", shape["context"], shape["layers"], 4, shape["width"]
    )
    assert memory.kept_bytes(made, 4) == pytest.approx(whole, rel=0.05)


def test_a_forecast_takes_no_random_numbers_from_the_run() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    forecast(recipe({"kind": "gpt", "layers": 2, "heads": 2, "width": 32, "context": 32, "dropout": 0.5}))
    assert torch.equal(torch.rand(3), wanted)


def test_a_part_of_a_batch_needs_less_and_more_of_anything_needs_more() -> None:
    made = recipe(SHAPES[0], batch=32)
    usual = forecast(made).total
    for name, value in (("layers", 6), ("width", 256), ("context", 192), ("vocabulary", 5_000)):
        assert forecast(replace(made, model=replace(made.model, **{name: value}))).total > usual
    assert forecast(replace(made, training=replace(made.training, batch=64))).total > usual
    assert forecast(replace(made, training=replace(made.training, accumulate=8))).total < usual


def test_what_does_not_fit_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made = recipe(SHAPES[0], batch=64)
    require_memory(made)
    there = forecast(made).total * 2 // 3
    monkeypatch.setattr("qkv.training.devices.memory_bytes", lambda device: there)
    with pytest.raises(InputError, match="needs about") as refusal:
        require_memory(made)
    found = re.search(r"training\.accumulate=(\d+)", str(refusal.value))
    assert found
    require_memory(replace(made, training=replace(made.training, accumulate=int(found[1]))))
    monkeypatch.setattr("qkv.training.devices.memory_bytes", lambda device: 60 * 2**20)
    with pytest.raises(InputError, match="smaller"):
        require_memory(made)
    monkeypatch.setattr("qkv.training.devices.memory_bytes", lambda device: None)
    require_memory(made)


def test_a_model_as_large_as_a_house_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="Make the model smaller"):
        require_memory(recipe({"kind": "gpt", "layers": 96, "heads": 96, "width": 12_288, "context": 2048}))


REAL: list[tuple[dict[str, Any], int]] = [
    ({"kind": "modern", "layers": 4, "heads": 4, "width": 128, "context": 128}, 16),
    ({"kind": "gpt", "layers": 4, "heads": 4, "width": 192, "context": 128}, 16),
    ({"kind": "gru", "layers": 1, "width": 256, "context": 128}, 64),
    ({"kind": "lstm", "layers": 1, "width": 256, "context": 128}, 64),
    ({"kind": "rnn", "layers": 1, "width": 256, "context": 128}, 64),
]


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted otherwise")
@pytest.mark.parametrize(
    ("model", "batch"),
    [
        pytest.param(*case, marks=[] if case[0]["kind"] == "modern" else [pytest.mark.slow], id=case[0]["kind"])
        for case in REAL
    ],
)
def test_a_real_run_takes_what_was_said(tmp_path: Path, model: dict[str, Any], batch: int) -> None:
    (tmp_path / "a.txt").write_text("the quick brown fox jumps over the lazy dog, again and again. " * 1_000)
    values = {
        "corpus": {"files": ["a.txt"]},
        "tokenizer": {"kind": "characters"},
        "model": model,
        "training": {"steps": 12, "evaluate_every": 6, "batch": batch, "threads": 1, "device": "cpu", "dtype": "f32"},
    }
    source = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "QKV_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", CHILD, json.dumps(values)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, **source})
    assert done.returncode == 0, done.stderr
    real, forecast = json.loads(done.stdout)
    assert forecast == pytest.approx(real, rel=0.2)
