"""Which model, context, batch and rates give the lowest loss in a given time: the runs behind the time dial.

    python bench/study.py DATA --seconds 38 layers=2,4 width=128,192      (every combination; a line of JSON each)
    python bench/study.py --table                               (what was measured, as a table)

A run computes on one thread and counts its processor's seconds, so that several may run side by side; two threads on
two quiet cores take about 4/7 of the time. Steps are chosen by a short probe so that training takes `--seconds`. The
loss is in bits per byte of validation text, so that tokenizers can be compared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare
from qkv.evaluation.perplexity import score
from qkv.models.language_model import count
from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig
from qkv.recipe.recipe import parse_model
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.loop import initial_state, train
from qkv.training.settings import TrainingConfig

RESULTS = Path(__file__).parent.parent / "docs" / "study.jsonl"
USUAL: dict[str, Any] = {
    "kind": "modern", "tokenizer": "bpe", "size": 1024,
    "layers": 4, "width": 128, "head": 32, "key_heads": 0, "hidden": 0,
    "context": 128, "batch": 32, "learning_rate": 0.01, "matrix_learning_rate": 0.04, "beta1": 0.8,
    "momentum": 0.9, "warmup": 0.03, "final_fraction": 0.03, "schedule": "linear", "decay": 0.5,
    "weight_decay": 0.0, "dropout": 0.0, "tied": 0, "seed": 0,
}  # fmt: skip


def measure(data: str, seconds: float, **given: Any) -> dict[str, Any]:
    """Train once for so many seconds of one processor, and score."""
    o = {**USUAL, **given}
    size = None if o["tokenizer"] == "characters" else o["size"]
    prepared = prepare(CorpusConfig(files=(data,)), TokenizerConfig(kind=o["tokenizer"], size=size))
    shape = {
        "layers": o["layers"],
        "heads": max(1, o["width"] // o["head"]),
        "width": o["width"],
        "context": o["context"],
    }
    more = {key: o[key] for key in ("key_heads", "hidden", "dropout")} | {"head": "tied" if o["tied"] else "own"}
    model = parse_model({"kind": o["kind"], "vocabulary": prepared.tokenizer.vocabulary, **shape, **more}, "the study")
    settings = TrainingConfig(
        steps=1_000_000, batch=o["batch"], optimizer="muon", learning_rate=o["learning_rate"],
        matrix_learning_rate=o["matrix_learning_rate"],
        betas=(o["beta1"], 0.95), momentum=o["momentum"], warmup=1000,
        final_fraction=o["final_fraction"], schedule=o["schedule"],
        decay=o["decay"], weight_decay=o["weight_decay"], seed=o["seed"], device="cpu", dtype="f32", threads=1,
    )  # fmt: skip
    task = LanguageModelling(LanguageModellingConfig(), prepared.train.tokens, o["context"], o["seed"])
    a_step = _probe(model, task, settings)
    steps = max(10, int(seconds / a_step))
    settings = replace(settings, steps=steps, warmup=max(2, int(o["warmup"] * steps)))
    torch.manual_seed(o["seed"])
    state = initial_state(model.build(), settings)
    began = time.process_time()
    for _ in train(state, task, settings):
        pass
    spent = time.process_time() - began
    found = score(state.model, prepared.valid, window=o["context"], limit=60_000)  # type: ignore[arg-type]
    tokens = steps * o["batch"] * o["context"]
    return {
        "data": Path(data).name, "seconds": round(seconds, 1), "bits_per_byte": round(found.bits_per_byte, 4),
        "loss": round(found.loss, 4), "steps": steps, "epochs": round(tokens / len(prepared.train.tokens), 2),
        "parameters": count(state.model), "spent": round(spent, 1),
        **{key: value for key, value in o.items() if value != USUAL[key] or key in ("tokenizer", "layers", "width")},
    }  # fmt: skip


def _probe(model: Any, task: LanguageModelling, settings: TrainingConfig) -> float:
    """Seconds of one processor that a step takes, on a copy of the run."""
    steps = train(initial_state(model.build(), settings), task, settings)
    next(steps)
    spent: list[float] = []
    while len(spent) < 3 or (sum(spent) < 1.5 and len(spent) < 40):
        began = time.process_time()
        next(steps)
        spent.append(time.process_time() - began)
    return sorted(spent)[len(spent) // 2]


def value(word: str) -> tuple[str, list[Any]]:
    name, _, said = word.partition("=")
    if name not in USUAL:
        raise SystemExit(f"{name}: not one of {', '.join(USUAL)}")
    return name, [type(USUAL[name])(part) for part in said.split(",")]


def table(results: Path) -> None:
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in sorted(rows, key=lambda row: (row["data"], row["seconds"], row["bits_per_byte"])):
        rest = {k: v for k, v in row.items() if k not in ("data", "seconds", "bits_per_byte", "loss", "spent")}
        print(f"{row['data']:24} {row['seconds']:6.0f} s  {row['bits_per_byte']:.4f} bits per byte  {rest}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?")
    parser.add_argument("values", nargs="*", help="name=value,value: every combination is run")
    parser.add_argument("--seconds", type=float, default=38.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_intermixed_args()
    if chosen.table:
        table(chosen.results)
        return
    torch.set_num_threads(1)
    grid = dict(value(word) for word in chosen.values)
    for combination in itertools.product(*grid.values()):
        row = measure(chosen.data, chosen.seconds, **dict(zip(grid, combination, strict=True)))
        with chosen.results.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
