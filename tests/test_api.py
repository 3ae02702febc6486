"""The Python door: hooks and edited weights count, wrong types are refused by name, one set of defaults."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import qkv
from qkv.cli.generate import chat, generate
from qkv.errors import InputError
from qkv.generation.sampling import TEMPERATURE

TEXT = "the dog sat on the mat and the cat saw two birds in the old tree by the river\n" * 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model after a few steps."""
    room = tmp_path_factory.mktemp("api")
    (room / "book.txt").write_text(TEXT)
    recipe = {
        "model": {"kind": "gpt", "layers": 2, "heads": 2, "width": 32, "context": 32},
        "training": {"steps": 30, "device": "cpu", "dtype": "f32", "threads": 1},
    }
    qkv.train(room / "book.txt", run=room / "run", recipe=recipe)
    return room


@pytest.fixture
def model(folder: Path) -> Any:
    return qkv.load(folder / "run")


def written(model: Any, cached: bool = True) -> str:
    return model.generate("the dog", length=12, temperature=0.0, cached=cached)


def test_steering_counts_for_every_token(model: Any) -> None:
    plain, calls = written(model), 0

    def steer(module: nn.Module, given: Any, made: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return made + 4 * torch.linspace(-1, 1, made.size(-1))

    hook = model.module.blocks[1].register_forward_hook(steer)
    found = written(model)
    assert calls == 12
    assert found == written(model, cached=False) != plain
    hook.remove()
    assert written(model) == plain


@pytest.mark.parametrize("precision", ["f32", "bf16", "int8"])
def test_edited_weights_count_at_the_next_call(model: Any, precision: str) -> None:
    def text() -> str:
        return model.generate("the dog", length=12, temperature=0.0, precision=precision)

    before = text()
    model.module.blocks[1].feedforward.sublayer.outer.weight.data.mul_(-4)  # no version counter sees this
    changed = text()
    assert changed != before
    fresh = qkv.load(model.bundle.folder)
    fresh.module.load_state_dict(model.module.state_dict())
    assert fresh.generate("the dog", length=12, temperature=0.0, precision=precision) == changed


def test_a_training_loop_stays_in_training(model: Any) -> None:
    """Between two steps of somebody's own loop every method may be called."""
    model.module.train()
    for call in (
        lambda: written(model),
        lambda: list(model.generate("the", stream=True, length=3)),
        lambda: model.next("the dog"),
        lambda: model.embed(["the dog"]),
        lambda: model.trace("the dog"),
        lambda: model.evaluate("the dog sat on the mat"),
    ):
        call()
        assert all(part.training for part in model.module.modules())


def test_a_precision_that_hooks_forbid_is_refused_with_the_reason(model: Any) -> None:
    model.module.blocks[0].register_forward_hook(lambda *_: None)
    with pytest.raises(InputError, match="int8: this model generates in f32 only, because it has forward hooks"):
        model.generate("the", precision="int8", length=2)


WRONG = {
    "model.generate(5)": "model.generate: prompt=5: expected str or a list of str, not int",
    "model.generate(['the', 5])": "prompt[1]=5: expected str, not int",
    "model.generate('the', length='5')": "length='5': expected int, not str",
    "model.generate('the', max_new_tokens=5)": "unknown argument 'max_new_tokens'. Here it is length.",
    "model.generate(['the'], stream=True)": "prompt=['the']: expected str, not list",
    "model.samples(['the'])": "model.samples: prompt=['the']: expected str, not list",
    "model.next(('a', 'b'))": "prompt=('a', 'b'): expected str, not tuple",
    "model.evaluate('a', window='3')": "window='3': expected int, not str",
    "model.evaluate('a', compare_with=5)": "compare_with=5: expected str, Path or Model, not int",
    "model.evaluate('a', label=5.5)": "model.evaluate: label=5.5: expected str or int, not float",
    "model.evaluate('a', lable='x')": "model.evaluate: unknown argument 'lable'. Did you mean label?",
    "model.next('a', top='x')": "top='x': expected int, not str",
    "model.chat(5)": "messages=5: expected a list of Message, not int.",
    "model.embed(5)": "texts=5: expected str or a list of str, not int",
    "model.embed(['a', 5])": "texts[1]=5: expected str, not int",
    "model.embed('a', pool='middle')": "pool='middle': expected 'mean', 'first', 'last', 'max' or 'none'.",
    "model.tag(None)": "sentences: expected str or a list of (str or a list of str), not None",
    "model.translate(5)": "texts=5: expected str or a list of str, not int",
    "model.align('a')": "translation='a': expected TranslatedText, not str",
    "model.fill(5)": "text=5: expected str, not int",
    "model.trace(5)": "text=5: expected str or (str, str), not int",
    "model.trace('the', layers=1)": "layers=1: expected a list of int, not int. Put it into a list: [1]",
    "model.classify(5)": "texts=5: expected str or a list of (str, (str, str) or a list of str), not int",
    "qkv.load(None)": "qkv.load: model: expected str or Path, not None",
    "qkv.train('book.txt', steps='3')": "qkv.train: steps='3': expected int, not str",
    "qkv.train('book.txt', task='classify')": "language-modelling' or 'translation'. Did you mean 'classification'?",
    "qkv.train('book.txt', epochs=3)": "qkv.train: unknown argument 'epochs'. Here it is steps or minutes.",
    "qkv.train('book.txt', lr=3)": "unknown argument 'lr'. Here it is settings={\"training.learning_rate\": ...}.",
    "qkv.train('book.txt', languages='en')": "languages='en': expected a list of str, not str. Put it into a list",
    "qkv.train('book.txt', model=model)": "expected str, Path or ModelConfig, not Model. To start from a trained model",
    "qkv.train('book.txt', model=model.module)": "A model of your own is given as its config or as a Python file",
    "qkv.compare('book.txt', models='gpt')": "expected a list of str, not str. Put it into a list: ['gpt']",
    "qkv.compare('book.txt', minutes='1')": "minutes='1': expected float, not str",
    "qkv.tune('book.txt', steps=3)": "qkv.tune: unknown argument 'steps'. Expected one of data, model, tokenizer",
    "qkv.resume(5)": "qkv.resume: run=5: expected str or Path, not int",
    "qkv.finetune(5, 'book.txt')": "qkv.finetune: model=5: expected str, Path or Model, not int",
    "qkv.verify(5)": "qkv.verify: model=5: expected str, Path or Model, not int",
}
TAKEN = [
    "model.generate(np.array(['the', 'dog']), length=np.int64(2)) == model.generate(['the', 'dog'], length=2)",
    "model.generate(pd.Series(['the', 'dog']), length=2) == model.generate(('the', 'dog'), length=2)",
    "len(model.embed(pd.Series(['the', 'dog']))) == 2",
    "list(model.trace('the', layers=np.array([0])).layers) == list(model.trace('the', layers=[0]).layers)",
    "inspect.signature(qkv.train).parameters['minutes'].annotation == 'float | None'",
]
ASK = """
import inspect, json, sys
import numpy as np, pandas as pd
import qkv
model, answers = qkv.load(sys.argv[1]), {}
for call in json.loads(sys.argv[2]):
    try:
        answers[call] = repr(eval(call))
    except TypeError as error:
        answers[call] = str(error)
print(json.dumps(answers))
"""


def test_types_are_checked_and_wrong_ones_refused_by_name(folder: Path) -> None:
    """In a process of its own: within this one the annotations are checked before."""
    words = [sys.executable, "-c", ASK, str(folder / "run"), json.dumps([*WRONG, *TAKEN])]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    expected = {**WRONG, **dict.fromkeys(TAKEN, "True")}
    assert {call: answer for call, answer in found.items() if expected[call] not in answer} == {}


OUT_OF_RANGE: list[Callable[[Any], Any]] = [
    lambda model: model.generate("a", temperature=-1.0),
    lambda model: model.generate("a", top_p=2.0),
    lambda model: model.generate("a", length=0),
    lambda model: model.evaluate("the dog sat", window=0),
    lambda model: model.export("x", to="onnx2"),
    lambda model: model.evaluate("the dog sat", beams=3),
    lambda model: model.evaluate(["the dog sat"], label="stars"),
    lambda model: model.classify("a"),
    lambda model: model.fill("a [MASK]"),
    lambda model: qkv.load("no-such-folder"),
    lambda model: qkv.load(model.bundle.folder, device="cuda:77"),
]


@pytest.mark.parametrize("number", range(len(OUT_OF_RANGE)))
def test_messages_to_python_callers_name_no_flags(model: Any, number: int) -> None:
    with pytest.raises(InputError) as caught:
        OUT_OF_RANGE[number](model)
    assert not re.search(r"--[a-z]", str(caught.value)), caught.value


def test_replacing_an_export_is_asked_for_in_words_for_both(model: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine.txt").write_text("x")
    for force in (False, True):
        with pytest.raises(InputError) as caught:
            model.export(tmp_path / "there", force=force)
        assert "--" not in str(caught.value)


def test_evaluate_reads_the_file_and_not_its_name(model: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    whole = model.evaluate(TEXT)
    for given in ("book.txt", Path("book.txt")):
        score = model.evaluate(given)
        assert score.tokens == whole.tokens
        assert score.loss == pytest.approx(whole.loss)
    model.evaluate("book.txt")
    assert any("this file is evaluated, not its name" in note for note in model.notes)
    with pytest.raises(InputError, match=r"no-such\.txt: no such file"):
        model.evaluate("no-such.txt")


def test_one_window_has_no_interval(model: Any) -> None:
    score = model.evaluate("the dog sat")
    assert math.isfinite(score.loss)
    assert all(
        math.isnan(getattr(score, f"{name}_{end}")) for name in ("loss", "perplexity") for end in ("low", "high")
    )
    assert "unknown" in score.interval()


def test_reprs_fit_on_a_screen(model: Any) -> None:
    trace = model.trace("the dog sat")
    objects = [model, trace, trace.layer(0), model.evaluate(TEXT), *model.embed(["the dog"], pool="none")]
    for value in objects:
        assert len(repr(value)) < 1200, type(value)
    assert "<Tensor" in repr(trace.layer(0))


def test_results_show_themselves_in_notebooks(model: Any) -> None:
    described = qkv.describe([TEXT, TEXT[::-1]])
    assert len(repr(described)) < 1200
    for value in (model.evaluate(TEXT), described, model.trace("the dog sat")):
        html = value._repr_html_()
        assert html.startswith("<table>") or "<table>" in html
        assert "<script" not in html


def test_command_line_and_library_have_one_temperature(model: Any) -> None:
    for verb in (generate, chat, qkv.api.Model.stream):
        assert inspect.signature(verb).parameters["temperature"].default == TEMPERATURE
    assert model.generate("the", length=20, seed=3) == model.generate("the", length=20, seed=3, temperature=TEMPERATURE)


@pytest.mark.parametrize(
    ("before", "after"), [({}, "1000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_waiting_threads_leave_the_processor_to_others(before: dict[str, str], after: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in {"GOMP_SPINCOUNT", *before}}
    code = "import os, qkv; print(os.environ.get('GOMP_SPINCOUNT'))"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env={**environment, **before})
    assert done.stdout.strip() == str(after)
