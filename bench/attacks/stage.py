"""What the trials act on: small data and models of every kind, and a command for every verb."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import numpy as np

import small_pairs
import small_tasks
from attacks.families import LABELLED, families
from interop import tiny_folder, tiny_gguf
from qkv.cli import app, data
from qkv.models import registry
from reliability.nursery import Nursery

# what a verb is called with where nothing is to go wrong; {stage}: the folder of data and models, {here}: the trial's
VERBS: dict[str, list[str]] = {
    "train": ["train", "{stage}/book.txt", "--model", "gpt", "--tokenizer", "characters", "--steps", "3", "--run",
              "{here}/run", "--set", "model.layers=1", "--set", "model.heads=2", "--set", "model.width=16",
              "--set", "model.context=16", "--set", "training.batch=2"],
    "finetune": ["finetune", "{stage}/gpt", "{stage}/classification/table.csv", "--steps", "3", "--run", "{here}/run"],
    "generate": ["generate", "{stage}/gpt", "The river", "--length", "5"],
    "chat": ["chat", "{stage}/chat", "he", "--length", "4"],
    "evaluate": ["evaluate", "{stage}/gpt", "{stage}/short.txt"],
    "compare": ["compare", "{stage}/classification/table.csv", "--models", "bag", "--minutes", "0.02", "--run",
                "{here}/compare"],
    "tune": ["tune", "{stage}/classification/table.csv", "--model", "bag", "--trials", "1", "--each", "0.01", "--run",
             "{here}/tune"],
    "embed": ["embed", "{stage}/bert", "the river", "the stone"],
    "classify": ["classify", "{stage}/classifier", "the fine river", "a dull stone"],
    "tag": ["tag", "{stage}/tagger", "the river keeps the stone"],
    "translate": ["translate", "{stage}/translator", "one two", "--beams", "2"],
    "fill": ["fill", "{stage}/bert", "the [MASK] keeps the stone"],
    "inspect": ["inspect", "{stage}/gpt", "the river"],
    "import": ["import", "{stage}/chat", "--to", "{here}/imported"],
    "export": ["export", "{stage}/gpt", "{here}/exported"],
    "verify": ["verify", "{stage}/gpt"],
    "tokenize": ["tokenize", "the river", "--tokenizer", "{stage}/gpt"],
    "data list": ["data", "list"],
    "data get": ["data", "get", "no-such-set"],
    "data describe": ["data", "describe", "{stage}/classification/table.csv"],
    "data check": ["data", "check", "{stage}/short.txt"],
    "data clean": ["data", "clean", "{stage}/short.txt", "--documents", "lines", "--out", "{here}/clean.txt"],
}  # fmt: skip
SLOW = ("compare", "tune", "export", "verify")  # drawn less often


def verbs() -> list[str]:
    """Every verb of the command line, those of `data` one by one. A new one needs its words above."""
    below = [name for name in data.app if not name.startswith("-")]
    found = [name for name in app.VERBS if name != "data"] + [f"data {name}" for name in below]
    if missing := set(found) ^ set(VERBS):
        raise SystemExit(f"bench/attacks/stage.py: VERBS and the command line differ in {', '.join(sorted(missing))}.")
    return found


def options() -> list[tuple[str, str, set[Any]]]:
    """Every option of every verb, with the types that it takes."""
    found = []
    for verb in verbs():
        part = app.application()
        for word in verb.split():
            part = part[word]
        for argument in part.assemble_argument_collection():
            if argument.name.startswith("--"):
                found.append((verb, argument.name, _types(argument.hint)))
    return found


def _types(hint: Any) -> set[Any]:
    """int, str and the like, out of `list[str] | None`."""
    return set().union(*map(_types, inner)) if (inner := typing.get_args(hint)) else {hint}


def build(folder: Path, nursery: Nursery) -> None:
    """The data, and a model of each kind that a verb needs. Done once: a file says that it is whole."""
    if (folder / "whole.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    texts = [text for text, _ in small_tasks.sentences(400)]
    (folder / "book.txt").write_text(".\n".join(texts), encoding="utf-8")
    (folder / "short.txt").write_text(".\n".join(texts[:40]), encoding="utf-8")
    for task in LABELLED:
        small_tasks.write(folder / task, task)
    small_pairs.write(folder)
    drawn = np.random.default_rng(1).normal(size=(160, 3)).round(3)
    rows = [f"{a},{b},{c},{'high' if a + b > 0 else 'low'},{a - 2 * c:.3f}" for a, b, c in drawn.tolist()]
    (folder / "numbers.csv").write_text("\n".join(["one,two,three,class,amount", *rows]) + "\n", encoding="utf-8")
    tiny_folder.write(folder / "chat")
    (folder / "tiny.gguf").write_bytes(tiny_gguf.whole("llama"))
    models = {family.name: family for family in families()}
    wanted = {kind: f"text {kind}" for kind in registry.LANGUAGE_MODELS} | {
        "bert": "masked bert",
        "tagger": "tagging lstm",
    }
    wanted |= {"classifier": "classification bert", "table": "numbers mlp class", "pictures": "images cnn"}
    wanted |= {"translator": "translation transformer forward", "regressor": "regression bag"}
    for name, family in wanted.items():
        words = [word.replace("{stage}", str(folder)) for word in models[family].train(folder / name, 3)]
        done = nursery.qkv(*words, seconds=600)
        if done.code:
            raise SystemExit(f"the stage cannot be built: {name}: exit {done.code}: {done.err}")
    nursery.qkv("export", folder / "classifier", folder / "hf", seconds=600)
    (folder / "whole.json").write_text(json.dumps(sorted(wanted)))
