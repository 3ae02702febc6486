"""Every numeric option of every verb, every number of a recipe: absurd values are refused before anything happens."""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from cyclopts import App

import qkv
import small_pairs
import small_tasks
from cli.commands import run
from data.bad_inputs import prose
from qkv.cli.app import VERBS, application
from qkv.cli.options import RangeValidator
from qkv.data.clean.filters import Limits

ABSURD = ("1e300", "-1e300", "nan", "inf", "-inf", str(10**30), "-1", "0", str(10**11))
MOST = 2**40
LARGEST = 3.5e38  # of f32
LIMITS = {f"--{field.name.replace('_', '-')}" for field in dataclasses.fields(Limits)}  # they hold back text, not cost


def numeric(hint: Any) -> bool:
    return hint in (int, float) or any(numeric(each) for each in typing.get_args(hint) if isinstance(each, type))


def commands(app: App, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every command with its words; verbs of verbs too."""
    for name in app:
        if not name.startswith("-"):
            sub = app[name]
            inner = list(commands(sub, (*words, name)))
            yield from inner or [((*words, name), sub)]


def options() -> list[tuple[tuple[str, ...], str, RangeValidator | None]]:
    found = []
    for words, app in commands(application()):
        for each in app.assemble_argument_collection():
            if numeric(each.hint) and each.hint is not bool and each.name not in LIMITS:
                checks = each.parameter.validator or ()
                found.append((words, each.name, next((one for one in checks if isinstance(one, RangeValidator)), None)))
    return found


OPTIONS = options()


def test_they_are_found() -> None:
    """Of every verb that has some; a table that misses them would pass the tests below."""
    assert {words[0] for words, _, _ in OPTIONS} >= {"train", "generate", "translate", "tokenize", "data", "inspect"}
    assert set(VERBS) >= {words[0] for words, _, _ in OPTIONS}
    assert len(OPTIONS) > 40


@pytest.mark.parametrize(
    ("words", "option", "check"), OPTIONS, ids=[" ".join((*words, name)) for words, name, _ in OPTIONS]
)
def test_absurd_numbers_are_refused(
    words: tuple[str, ...], option: str, check: RangeValidator | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the command exists: who looked at its files or its model first would name those."""
    assert check is not None, f"{' '.join(words)} {option}: give it a range, as in qkv.cli.options"
    assert check.allowed.high <= MOST
    beyond = [value for value in ABSURD if not fits(value, check)]
    assert {"nan", "inf", "1e300"} <= set(beyond)
    for value in beyond:
        assert run([*words, "nothing", f"{option}={value}"], False) == 2
        said = capsys.readouterr().err
        assert f"{option} " in said, said
        assert "expected" in said
        assert "nothing" not in said, said


def fits(value: str, check: RangeValidator) -> bool:
    number = float(value)
    return math.isfinite(number) and number in check.allowed and (number < 2**53)


def configs() -> list[type]:
    """Every section of a recipe, and what its parts are."""
    found: dict[str, type] = {}
    for each in pkgutil.walk_packages(qkv.__path__, "qkv."):
        if not each.name.endswith(("__main__", ".lm_eval_adapter")):  # the adapter has none, and needs an extra
            for value in vars(importlib.import_module(each.name)).values():
                if (
                    isinstance(value, type)
                    and dataclasses.is_dataclass(value)
                    and hasattr(value, "__pydantic_config__")
                ):
                    found[value.__qualname__] = value
    return [found[name] for name in sorted(found)]


def bounds(hint: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The numbers that a field holds, with what is said about each."""
    if typing.get_origin(hint) is Annotated and typing.get_args(hint)[0] in (int, float):
        yield typing.get_args(hint)[0], tuple(each for field in hint.__metadata__ for each in field.metadata)
    elif hint in (int, float):
        yield hint, ()
    else:
        for each in typing.get_args(hint):
            yield from bounds(each)


@pytest.mark.parametrize("config", configs(), ids=lambda each: each.__name__)
def test_numbers_of_recipes_are_bounded(config: type) -> None:
    for name, hint in typing.get_type_hints(config, include_extras=True).items():
        for kind, said in bounds(hint):
            most = [getattr(each, "le", getattr(each, "lt", None)) for each in said]
            least = [getattr(each, "ge", getattr(each, "gt", None)) for each in said]
            place = f"{config.__name__}.{name}"
            assert any(each is not None and each <= LARGEST for each in most), f"{place}: no upper bound"
            assert any(each is not None for each in least), f"{place}: no lower bound"
            assert kind is int or any(getattr(each, "allow_inf_nan", True) is False for each in said), f"{place}: nan"


@pytest.mark.parametrize("value", ["1e300", "nan", "inf", str(10**30), "-2"])
@pytest.mark.parametrize(
    "name", ["training.steps", "training.learning_rate", "training.decay", "model.width", "tokenizer.size"]
)
def test_a_set_value_is_refused(name: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text(prose())
    words = ["train", str(tmp_path / "book.txt"), "--model", "gpt", "--run", str(tmp_path / "run")]
    assert run([*words, "--set", f"{name}={value}"], False) == 2
    assert name.partition(".")[2] in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", ["x", "[1, 2]", "-1", "0.5"])
@pytest.mark.parametrize("task", ["classification", "tagging"])
def test_a_context_that_is_no_number_is_refused(
    task: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is computed with before the whole recipe is read."""
    words = ["train", str(small_tasks.write(tmp_path, task)), "--task", task, "--run", str(tmp_path / "run")]
    assert run([*words, "--tokenizer", "characters", "--set", f"model.context={value}"], False) == 2
    assert "context" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("task", "model", "setting"),
    [("classification", "gru", "model.letters=1"), ("translation", "rnn-translator", "model.target_vocabulary=3")],
)
def test_numbers_that_no_model_can_have_are_refused(
    task: str, model: str, setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = task == "translation"
    data = small_pairs.write(tmp_path, count=60) if pairs else [str(small_tasks.write(tmp_path, task)), "--task", task]
    words = ["train", *data, "--model", model, "--steps", "1", "--run", str(tmp_path / "run"), "--set", setting]
    assert run(words, False) == 2
    assert setting.split(".")[1].split("=")[0] in capsys.readouterr().err
