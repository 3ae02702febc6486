"""Tiny runs: the command that starts one, and the hashes of all that must be equal."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from reliability.nursery import Nursery

FAMILIES = ("modern", "gpt", "lstm")
TRANSLATORS = ("transformer", "rnn-translator")


def command(text: Path, run: Path, family: str = "modern", *, steps: int = 60, **more: object) -> list[str]:
    """`qkv train` for a tiny model, with dropout and accumulation."""
    shape = {"layers": 2, "width": 24, "context": 16, "dropout": 0.1} | ({"heads": 3} if family != "lstm" else {})
    training = {"threads": 1, "batch": 4, "accumulate": 2, "patience": 0}
    every = {"checkpoint_every": 5, "evaluate_every": 10}
    settings = {f"model.{key}": value for key, value in shape.items()}
    settings |= {f"training.{key}": value for key, value in (training | every).items()}
    settings |= {"task.evaluation_tokens": 200}
    settings |= {key.replace("__", "."): value for key, value in more.items()}
    words = [
        "train",
        str(text),
        "--model",
        family,
        "--tokenizer",
        "characters",
        "--run",
        str(run),
        "--steps",
        str(steps),
    ]
    return [*words, "--json", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


def pair_command(files: list[Path], run: Path, family: str, *, steps: int = 60, **more: object) -> list[str]:
    """`qkv train` for a tiny translator, with dropout."""
    heads = {"layers": 1, "heads": 2, "hidden": 32} if family == "transformer" else {}
    every = {"threads": 1, "checkpoint_every": 10, "evaluate_every": 20}
    settings: dict[str, object] = {"task.tokens": 256, "tokenizer.size": 400}
    settings |= {"task.evaluation_sentences": 10, "task.final_evaluation_sentences": 10}
    settings |= {f"model.{key}": value for key, value in {"width": 16, "dropout": 0.1, **heads}.items()}
    settings |= {f"training.{key}": value for key, value in every.items()}
    settings |= {key.replace("__", "."): value for key, value in more.items()}
    named = ["--model", family, "--tokenizer", "bpe", "--run", str(run), "--steps", str(steps), "--json"]
    sets = (word for key, value in settings.items() for word in ("--set", f"{key}={value}"))
    return ["train", *map(str, files), *named, *sets]


def resume(run: Path) -> list[str]:
    return ["train", "--run", str(run), "--resume", "--json"]


def fingerprint(run: Path) -> dict[str, str]:
    """sha256 of weights, optimizer, random state and position, of the best model and of the log."""
    newest = max((path for path in (run / "checkpoints").iterdir() if path.name.isdigit()), key=lambda p: int(p.name))
    files = [*sorted(newest.iterdir()), *sorted((run / "best").iterdir()), run / "metrics.jsonl"]
    return {path.relative_to(run).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def left_over(run: Path) -> list[str]:
    """What a finished run must not have: things left aside."""
    return sorted(p.relative_to(run).as_posix() for p in run.rglob("*") if p.name.endswith((".partial", ".trash")))


def seconds_of_training(run: Path) -> float:
    lines = (run / "timings.jsonl").read_text().splitlines()
    return float(json.loads(lines[-1])["seconds"])


def whole(nursery: Nursery, words: list[str], run: Path) -> dict[str, str]:
    """A run without any interruption: its fingerprint."""
    done = nursery.qkv(*words)
    assert done.code == 0, done.err
    return fingerprint(run)
