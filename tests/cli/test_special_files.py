"""Pipes, devices and endless input, wherever a verb takes a file: refused at once, without waiting or reading on."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
from pathlib import Path
from typing import Any

import pytest

import marian
import small_tasks
import translators
from cli.guards import guarded
from qkv.cli.app import VERBS
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.tagger import TaggerConfig
from qkv.recipe import bundle
from text.kinds import tokenizer

READ = {
    "data",
    "valid",
    "test",
    "recipe",
    "file",
    "tokenizer",
    "reader",
    "train",
    "among",
    "probe",
    "model",
    "compare_with",
    "start",
}
"""Parameters of verbs that name what is read."""
OTHER = {
    "minutes", "steps", "documents", "task", "text", "text2", "label", "id", "class_weights", "target", "languages",
    "directions", "metric", "filter", "encoding", "run", "resume", "seed", "set", "tensorboard", "json", "freeze",
    "lora", "layer_decay", "prompt", "length", "samples", "temperature", "top_k", "top_p", "min_p",
    "repetition_penalty", "greedy", "stop", "next", "cache", "precision", "message", "system", "format", "window",
    "beams", "models", "seeds", "equal", "report", "picture", "trials", "each", "store", "texts", "layer", "pool",
    "tokens", "out", "top", "word", "words", "probabilities", "to", "nbest", "penalty", "carry", "alignments",
    "second", "head", "token", "heads", "ablate", "lens", "why", "decks", "html", "svg", "png", "force", "folder",
    "labels", "kind", "size", "save", "name", "context", "dry_run", "keep_dropped", "skip", "limits", "source",
}  # fmt: skip
"""Words, numbers, and places to write to; the source of `import` is read as `model` is."""
NAMES = {("train", "model"), ("tune", "model")}  # the name of an architecture
BASE = {
    "train": ["BOOK", "--steps", "1"],
    "finetune": ["MODEL", "BOOK", "--steps", "1"],
    "compare": ["BOOK", "--minutes", "0.01"],
    "tune": ["BOOK", "--minutes", "0.01"],
    "inspect": ["MODEL", "the river", "--heads"],
    "export": ["MODEL", "OUT"],
    "data describe": ["BOOK"],
    "data check": ["BOOK"],
    "data clean": ["BOOK", "--out", "OUT"],
    "evaluate": ["MODEL", "BOOK"],
    "embed": ["MODEL", "the river"],
    "generate": ["MODEL", "the river"],
    "chat": ["MODEL", "the river"],
}
POSITIONAL = {"data": "BOOK", "model": "MODEL"}


def functions() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for verb, (target, _) in VERBS.items():
        module, name = target.split(":")
        made = getattr(importlib.import_module(module), name)
        if inspect.isfunction(made):
            found[verb] = made
        else:  # verbs of its own
            found |= {f"{verb} {each}": made[each].default_command for each in made if not each.startswith("-")}
    return found


def parameters() -> list[tuple[str, str]]:
    return [(verb, name) for verb, made in functions().items() for name in options(made)]


def options(verb: Any) -> list[str]:
    """The names of a verb's options, those of its groups one by one."""
    names: list[str] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        group = name != "limits" and dataclasses.is_dataclass(parameter.default)
        names += [field.name for field in dataclasses.fields(parameter.default)] if group else [name]
    return names


ASKED = [(verb, name) for verb, name in parameters() if name in READ and (verb, name) not in NAMES]


def test_every_parameter_is_known_to_read_or_not() -> None:
    """A new option that reads a file joins READ, and is tried below."""
    there = {name for _, name in parameters()}
    assert there == READ | OTHER, "a new option belongs into READ, where it reads a file, or into OTHER"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    words, labels = tokenizer("wordpiece"), ("bad", "good")
    encoder = BertConfig(vocabulary=words.vocabulary, **small_tasks.ENCODER)
    found = {"fill": small_tasks.origin(folder / "masked", "masked")}
    for verb, config in (
        ("classify", ClassifierConfig(encoder=encoder, labels=labels)),
        ("tag", TaggerConfig(encoder=encoder, labels=labels)),
    ):
        found[verb] = folder / verb
        bundle.save(found[verb], bundle.Bundle(translators.built(config), config, words, 2))
    found["translate"] = folder / "translate"
    bundle.save(found["translate"], marian.bundle())
    return {**found, "": small_tasks.origin(folder / "modern", "modern")}


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


@pytest.mark.parametrize(("verb", "name"), ASKED)
def test_pipes_and_devices_are_refused(
    verb: str, name: str, pipe: str, book: str, models: dict[str, Path], tmp_path: Path, capsys: Any
) -> None:
    names = {"BOOK": book, "MODEL": str(models.get(verb, models[""])), "OUT": str(tmp_path / "out")}
    for place in (pipe, "/dev/zero"):
        base = BASE.get(verb, ["MODEL"] if "model" in inspect.signature(functions()[verb]).parameters else [])
        option = [] if POSITIONAL.get(name) in base else [f"--{name}", place]
        said = names | {POSITIONAL.get(name, ""): place}
        code = guarded([*verb.split(), *(said.get(word, word) for word in base), *option])
        err = capsys.readouterr().err
        assert code == 2, err
        assert "memory" not in err
        assert not (tmp_path / "out").exists()


STREAMED = [
    ["train", "-", "--steps", "1"],
    ["data", "describe", "-"],
    ["data", "check", "-"],
    ["generate", "MODEL", "-"],
    ["tokenize", "-", "--tokenizer", "MODEL"],
    *([verb, "MODEL", "-"] for verb in ("classify", "tag", "translate", "fill", "embed")),
]


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
@pytest.mark.parametrize("words", STREAMED, ids=" ".join)
def test_endless_input_is_refused_at_its_first_bad_byte(
    words: list[str], device: str, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    model = str(models.get(words[0], models[""]))
    with open(device) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code = guarded([model if word == "MODEL" else word for word in words])
    err = capsys.readouterr().err
    assert code == 2, err
    assert "standard input" in err
    assert not list((tmp_path / "cache").rglob("*.part"))


class Endless:
    """Letters without end, as a stream of bytes."""

    def __init__(self, line: bytes) -> None:
        self.line = line * (2**20 // len(line))

    def read(self, size: int = -1) -> bytes:
        return self.line[:size] if size >= 0 else self.line

    read1 = read


@pytest.mark.parametrize("words", [["generate", "MODEL", "-"], ["embed", "MODEL", "-"]], ids=" ".join)
def test_a_text_without_end_is_refused_before_it_fills_the_memory(
    words: list[str], models: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    class Stream:
        buffer = Endless(b"a")

        def isatty(self) -> bool:
            return False

    monkeypatch.setattr("sys.stdin", Stream())
    assert guarded([str(models[""]) if word == "MODEL" else word for word in words]) == 2
    assert "more than 67,108,864 characters" in capsys.readouterr().err
