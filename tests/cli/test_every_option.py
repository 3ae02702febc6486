"""An option that does not apply is refused by name, never ignored: all options of all verbs, on all kinds of models
and data, alone and beside each other. The options come from the verbs' own signatures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import qkv
import qkv.cli.translate
import qkv.text.chat_formats
from cli.every_option import Runner, ignored, options
from qkv import session as sessions
from qkv.recipe import bundle
from qkv.recipe.bundle import Bundle
from qkv.tasks.protocol import EvaluationOptions, Task
from qkv.tasks.registry import TASKS
from qkv.tasks.report import EvaluationReport, lines
from qkv.tasks.translation.predict import TranslatedText
from qkv.text.chat_formats import FORMATS
from reliability import families

SHAPES: dict[str, dict[str, Any]] = {  # of tiny models
    "text": {"kind": "gpt", "layers": 1, "heads": 2, "width": 16, "context": 32},
    "masked": {"kind": "bert", "layers": 1, "heads": 2, "width": 16, "context": 32},
    "classification": {"kind": "gpt", "layers": 1, "heads": 2, "width": 16},
    "multi-label": {"kind": "cnn", "width": 12},
    "regression": {"kind": "cnn", "width": 12},
    "two texts": {"kind": "cnn", "width": 12},
    "tagging": {"kind": "cnn", "width": 12},
    "images": {"kind": "cnn"},
    "numbers": {"kind": "mlp", "width": 8},
    "translation": {"kind": "rnn-translator", "width": 16, "context": 16},
}
TEXTS = "The warm café keeps the stone\nThe dull film keeps the song and the book\nThe cold play keeps the river\n"


def corpus(words: list[str]) -> dict[str, Any]:
    """The section [corpus] of the words of a command."""
    place = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    return {"files": words[:place], **{words[at][2:]: words[at + 1] for at in range(place, len(words), 2)}}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Tiny data of each kind, as words of a command."""
    root = tmp_path_factory.mktemp("data")
    return {kind: families.write(root / kind.replace(" ", "-"), kind) for kind in families.DATA}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, data: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    """A model of each kind that has learned nothing, with weights large enough to be sure of something."""
    root, found = tmp_path_factory.mktemp("models"), {}
    for kind, shape in SHAPES.items():
        values = {
            "corpus": corpus(data["text" if kind == "masked" else kind]),
            "model": shape,
            "training": {"steps": 1, "threads": 1},
        }
        session = sessions.start(values, root / kind.replace(" ", "-"), numbered=False, minutes=1.0)
        torch.manual_seed(1)
        for parameter in session.model.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        bundle.keep_best(session.run.folder, session.task.bundle(session.recipe, session.model, 0))
        found[kind] = str(session.run.folder)
    opened = {folder: qkv.load(folder) for folder in found.values()}
    real = qkv.load
    with pytest.MonkeyPatch.context() as patch:  # opened once
        patch.setattr(qkv, "load", lambda model, *more: opened[model] if model in opened else real(model, *more))
        yield found


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(tmp_path / "out", capsys)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "texts.txt").write_text(TEXTS, encoding="utf-8")
    return str(tmp_path / "texts.txt")


def test_generate(models: dict[str, str], call: Runner) -> None:
    base = (models["text"], "The warm river", "--length", "8")
    stop = call("generate", *base).out.strip()[-3]
    assert not ignored(
        call, ("generate",), base, {"--stop": (stop,)}, silent=("--cache", "--precision"), single=("--stop", "--min-p")
    )
    assert call("generate", *base, "--no-cache", "--precision", "bf16").refuses("--precision")
    for option in options(("generate",), {}):
        if option.name not in ("--next", "--json"):
            assert call("generate", *base[:2], "--next", "4", *option.words).refuses(option.name), option


ONE_TEXT = {"multi-label": "The warm river", "regression": "The warm river", "numbers": "1,2,3"}


@pytest.mark.parametrize(
    ("kind", "text"),
    {"classification": "The warm river", "two texts": "The warm\tThe cold", **ONE_TEXT}.items(),
)
def test_classify(models: dict[str, str], call: Runner, file: str, kind: str, text: str) -> None:
    assert not ignored(
        call, ("classify",), (models[kind], text), {"--file": (file,), "--precision": ("bf16",)}, ("--precision",)
    )


def test_tag(models: dict[str, str], call: Runner, file: str) -> None:
    assert not ignored(call, ("tag",), (models["tagging"], "The warm river, keeps."), {"--file": (file,)})


def test_fill(models: dict[str, str], call: Runner, file: str) -> None:
    assert not ignored(call, ("fill",), (models["masked"], "The ___ river"), {"--file": (file,)})


def test_embed(models: dict[str, str], call: Runner, file: str) -> None:
    files = {"--file": (file,), "--among": (file,), "--probe": (file,), "--out": (str(call.folder / "out.jsonl"),)}
    values = {**files, "--picture": (str(call.folder / "a.svg"),), "--precision": ("bf16",)}
    base = (models["text"], "The warm river", "The cold river")
    assert not ignored(call, ("embed",), base, values, ("--precision",))


def test_translate(models: dict[str, str], call: Runner, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reaches the search: an untrained translator says the same, however it searches."""
    said = TranslatedText("one", -1.0, (), ())
    monkeypatch.setattr(qkv.api.Model, "translate", lambda model, texts, **more: print(more) or [[said]] * len(texts))
    monkeypatch.setattr(qkv.cli.translate, "alignment_lines", lambda model, translation: ["0-0"])
    monkeypatch.setattr(qkv.cli.translate, "json_values", lambda model, said, alignments: {"aligned": alignments})
    base = (models["translation"], "one two")
    assert not ignored(call, ("translate",), base, {"--file": (file,)})
    assert call("translate", *base, "--temperature", "2", "--beams", "3").refuses("--beams")


def test_chat(models: dict[str, str], call: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qkv.text.chat_formats, "choose", lambda words, form, source: (form, FORMATS["chatml"]))
    monkeypatch.setattr(qkv.api.Model, "chat", lambda model, turns, **more: [f"{turns} {more}"])
    assert not ignored(call, ("chat",), (models["text"], "Hello"), {})
    assert call("chat", models["text"], "Hello", "--temperature", "0", "--seed", "3").refuses("--seed")


def test_tokenize(call: Runner, file: str, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text(TEXTS + "Nobody knows a café\n", encoding="utf-8")
    values = {"--file": (file,), "--train": (str(tmp_path / "more.txt"),), "--save": (str(call.folder / "t.json"),)}
    values |= {"--kind": ("words",), "--tokenizer": ("words",), "--size": ("9",)}
    for base in (("The warm river",), ("--file", file), ("--train", file)):
        assert not ignored(call, ("tokenize",), base, values, single=("--tokenizer", "--size")), base


READING = tuple(
    option.name
    for option in options(("data", "describe"), {"--valid": ("x",), "--test": ("x",)})
    if option.name != "--json"
)
"""They may name what is detected anyway."""
LABELS = {"numbers": "class", "tagging": "2"}


@pytest.mark.parametrize("kind", ["text", "masked", "classification", "tagging", "images", "numbers", "translation"])
def test_evaluate(
    models: dict[str, str], data: dict[str, list[str]], call: Runner, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def score(task: type[Task], bundle: Bundle, corpus: object, options: EvaluationOptions, *more: object) -> Any:
        return EvaluationReport((lines(str(options)),), {"options": str(options)}, cast(Any, None))

    if kind in ("masked", "tagging", "translation"):  # what reaches the task
        for task in (*TASKS.values(),):
            monkeypatch.setattr(task, "evaluate", classmethod(score))
    words = data["text" if kind == "masked" else kind]
    base = (models[kind], *words[: 2 if kind == "translation" else 1])
    values = {"--compare-with": (models["translation"],), "--label": (LABELS.get(kind, "label"),)}
    values |= {"--metric": ("errors",), "--languages": ("en", "de"), "--task": ("multi-label",)}
    assert not ignored(call, ("evaluate",), base, values, silent=READING, pairs=False)


FILES = ("--text", "--documents", "--filter", "--encoding")
COLUMNS = ("--text", "--text2", "--label", "--labels", "--id", "--filter", "--encoding", "--test")
FOR: dict[str, tuple[str, ...]] = {  # which options of reading are for which data; all verbs share them
    "text": (*FILES,),
    **dict.fromkeys(("classification", "regression", "multi-label", "two texts", "tagging", "images"), COLUMNS),
    **dict.fromkeys(("numbers", "numbers, regression"), COLUMNS),
    "translation": (
        "--documents",
        "--source",
        "--target",
        "--languages",
        "--encoding",
        "--test",
        "--directions",
        "--metric",
    ),
}
WEIGHED = ("--class-weights",)  # of labelled examples; of which tasks, is known when they have been read
ALWAYS = (
    "--task",
    "--valid",
    "--model",
    "--models",
    "--seed",
    "--seeds",
    "--set",
    "--minutes",
    "--steps",
    "--recipe",
    "--each",
)


class Stopped(SystemExit):
    """Before anything is read."""


@pytest.mark.parametrize("kind", families.DATA)
def test_training(
    data: dict[str, list[str]], call: Runner, monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    """What is for other data is refused before the data are read."""

    stopping = True

    def stopped(open_: Any) -> Any:
        def opened(task: type[Task], *more: Any) -> Any:
            if stopping:
                raise Stopped(0)
            return open_.__func__(task, *more)

        return classmethod(opened)

    for task in TASKS.values():
        if "open" in vars(task):
            monkeypatch.setattr(task, "open", stopped(vars(task)["open"]))
    files = corpus(data[kind])["files"]
    values = {"--valid": tuple(files), "--test": tuple(files), "--run": (str(tmp_path / "run"),)}
    values |= {"--recipe": ("gpt-nano",)}
    for option in options(("train",), values):
        if option.output or option.name in (*ALWAYS, *data[kind]):
            continue
        stopping = True
        result = call("train", *data[kind], *option.words)
        if option.name == "--tokenizer":
            applies = kind not in ("images", "numbers", "numbers, regression")
        elif option.name in WEIGHED:
            applies = kind not in ("text", "translation")
        else:
            applies = option.name in FOR[kind]
        if not applies and result.code == 0:  # it says what the data are, and they are not
            stopping = False
            result = call("train", *data[kind], *option.words)
        assert result.code == 0 if applies else result.refuses(option.name), (option, result)


@pytest.mark.parametrize(
    ("verb", "kind"),
    [("clean", "text"), ("check", "text"), *(("describe", kind) for kind in ("text", "classification", "translation"))],
)
def test_data(data: dict[str, list[str]], call: Runner, verb: str, kind: str) -> None:
    """An option of reading is accepted, or refused by name."""
    files = tuple(corpus(data[kind])["files"])
    values = {"--valid": files, "--test": files, "--skip": ("copies",)}
    for name, ending in (("--out", "jsonl"), ("--report", "json"), ("--keep-dropped", "dropped.jsonl")):
        values[name] = (str(call.folder / f"out.{ending}"),)
    base = (*data[kind], *(("--dry-run", "--documents", "lines") if verb == "clean" else ()))
    for option in options(("data", verb), values):
        if option.name not in base:
            result = call("data", verb, *base, *option.words)
            assert result.code == 0 or result.refuses(option.name), (option, result)
