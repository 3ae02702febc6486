"""One set of options: what the functions take, what they declare, and what the command line has."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import qkv
from qkv.cli.compare import compare
from qkv.cli.train import finetune, train
from qkv.cli.tune import tune
from qkv.errors import ConfigError, InputError, WrongTypeError
from qkv.library.arguments import FinetuneOptions, TrainOptions
from qkv.tasks.given import ReadingOptions
from qkv.tasks.python_words import in_python_names

ONLY_TERMINAL = {"json", "tensorboard", "resume", "picture"}
OTHER_NAMES = {"set": "settings"}
ONLY_PYTHON = {"metrics", "stop", "stream", "settings", "progress"}


def names(function: Any) -> set[str]:
    """The parameters; those of an option group as if they were its own."""
    found = set()
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind = parameter.annotation
        fields = getattr(kind, "__dataclass_fields__", None)
        found |= set(fields) if fields else {name}
    return {OTHER_NAMES.get(name, name) for name in found} - {"options"}


@pytest.mark.parametrize(("call", "options"), [(qkv.train, TrainOptions), (qkv.finetune, FinetuneOptions)])
def test_a_call_declares_what_it_takes(call: Any, options: Any) -> None:
    assert set(options.__annotations__) == names(call) - {"data", "stream"} - (
        {"model"} if call is qkv.finetune else set()
    )


@pytest.mark.parametrize(
    ("call", "verb"),
    [(qkv.train, train), (qkv.finetune, finetune), (qkv.compare, compare), (qkv.tune, tune)],
    ids=["train", "finetune", "compare", "tune"],
)
def test_a_call_has_the_names_of_the_verb(call: Any, verb: Any) -> None:
    own = names(call) | (set(ReadingOptions.__annotations__) if call in (qkv.compare, qkv.tune) else set())
    only_verb = ONLY_TERMINAL | {"settings"} | ({"metric"} if verb is finetune else set())  # in Python: metrics
    assert own - ONLY_PYTHON == names(verb) - only_verb


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="minuets"):
        qkv.train("book.txt", minuets=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("call", [qkv.compare, qkv.tune, qkv.describe])
def test_an_unknown_option_of_reading_is_refused(call: Any) -> None:
    with pytest.raises(TypeError, match=r"unknown argument 'lable'\. Did you mean label\?"):
        call(["the dog sat"] * 50, lable="x")
    with pytest.raises(TypeError, match=r"label=5\.5: expected str or int, not float"):
        call(["the dog sat"] * 50, label=5.5)


def test_some_names_of_files_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InputError, match=r"a\.txt' is a file and .*b\.txt' is not"):
        qkv.train([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")])


def test_messages_name_arguments(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "other.txt").write_text("a")
    with pytest.raises(InputError, match=r"not empty, and not a run. Choose another run"):
        qkv.train(["the dog sat on the mat"] * 50, run=tmp_path / "run", steps=2)
    with pytest.raises(InputError, match=r"^minutes and the number of steps"):
        qkv.train(["the dog sat on the mat"] * 50, minutes=1.0, steps=2)
    with pytest.raises(WrongTypeError, match=r"data: expected a file, .* not set\."):
        qkv.train({"a", "b"})


@pytest.mark.parametrize(
    ("message", "python"),
    [
        (
            "Use qkv train FILE --model bert, or qkv finetune from these; --class-weights is for labels",
            'Use qkv.train(FILE, model="bert"), or qkv.finetune from these; class_weights is for labels',
        ),
        ("Name it with --label NAME, or by its number from 1.", 'Name it with label="NAME", or by its number from 1.'),
        ("Did you mean --label stars?", 'Did you mean label="stars"?'),
        ("--task regression learns them as numbers", 'task="regression" learns them as numbers'),
        ("--text says otherwise", "text says otherwise"),
        ("Name both: --text NAME --text2 NAME.", 'Name both: text="NAME" text2="NAME".'),
        ("choose them with --filter '*.md'.", 'choose them with filter="*.md".'),
        ("--metric f1: expected auto, accuracy.", 'metric="f1": expected auto, accuracy.'),
        ("--minutes 0.1: 6 seconds", "minutes=0.1: 6 seconds"),
        ("Leave --task out.", "Leave task out."),
        ("--no-carry leaves them", "carry=False leaves them"),
        ("replace it with --force.", "replace it with force=True."),
        ("Give all of them: --languages en de en cs.", 'Give all of them: languages=["en", "de", "en", "cs"].'),
        ("--from: models are fine-tuned", "start: models are fine-tuned"),
        (
            "(--set training.learning_rate=1.2e-05 --set model.kind=gpt or --set model.width=...)",
            '(settings={"training.learning_rate": 1.2e-05, "model.kind": "gpt"} or settings={"model.width": ...})',
        ),
        ("continue it with: qkv train --run runs/a --resume", 'continue it with: qkv.resume("runs/a")'),
        ("Continue it with --resume, or choose another --run.", "Continue it with qkv.resume, or choose another run."),
        ("Start one without --resume.", "Start one with qkv.train."),
        ("Train one: qkv train train.en train.de", 'Train one: qkv.train(["train.en", "train.de"])'),
        ("`qkv import` writes one", "`qkv.import_model` writes one"),
        ("or qkv finetune MODEL FILE.", "or qkv.finetune(MODEL, FILE)."),
        ("trained with qkv 0.1.0; see `qkv data list`", "trained with qkv 0.1.0; see `qkv data list`"),
        ("Name the file again: --model a.py", 'Name the file again, as in qkv.load(..., model_file="a.py").'),
    ],
)
def test_messages_are_in_pythons_words(message: str, python: str) -> None:
    assert in_python_names(message) == python
    assert in_python_names(python) == python


def test_commands_in_messages_are_calls(tmp_path: Path) -> None:
    texts = [f"a b {number}" for number in range(60)]
    model = qkv.train((texts, ["x", "y"] * 30), model="bag", steps=1, run=tmp_path / "run")
    with pytest.raises(ConfigError, match=r'Use qkv\.train\(FILE, model="bert"\)'):
        qkv.export(model, tmp_path / "out")
