"""Every language model on Tiny Shakespeare characters, one command each: loss, parameters, seconds.

    python bench/shakespeare.py TEXT [--seeds 3] [--models modern gpt lstm gru rnn]

The shape is nanoGPT's CPU recipe (4 layers, 4 heads, 128 wide, 64 characters); recurrent models have one layer of 256.
Loss is on the last 10 % of the text, in independent windows of 64 characters.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

SHAPE = ["model.layers=4", "model.heads=4", "model.width=128", "model.context=64", "training.batch=32"]
RECURRENT = ["model.context=64", "training.batch=32"]
# steps that take about as long as modern's 140
MODELS: dict[str, list[str]] = {
    "modern": [*SHAPE, "training.steps=140", "training.learning_rate=0.02", "training.warmup=3"],
    "gpt": [*SHAPE, "training.steps=200"],
    "lstm": [*RECURRENT, "training.steps=300"],
    "gru": [*RECURRENT, "training.steps=300"],
    "rnn": [*RECURRENT, "training.steps=400"],
}


def run(text: str, model: str, seed: int) -> dict[str, float]:
    """One command, from start to end; gives its loss, parameters and wall seconds, and the load of others meanwhile."""
    words = ["train", text, "--model", model, "--tokenizer", "characters", "--seed", str(seed), "--json"]
    for setting in MODELS[model]:
        words += ["--set", setting]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "qkv", *words, "--run", f"{folder}/run"]
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        wall = time.perf_counter() - began
    answer = json.loads(done.stdout)
    return {
        "loss": answer["validation"]["loss"],
        "parameters": answer["parameters"],
        "training": answer["seconds"],
        "wall": wall,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    given = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = {model: [] for model in given.models}
    for seed in range(given.seeds):  # models interleaved, so that a noisy minute hits all alike
        for model in given.models:
            found[model].append(run(given.text, model, seed))
            print(f"{model} seed {seed}: {json.dumps(found[model][-1])}", file=sys.stderr, flush=True)
    print("| model | parameters | validation loss by seed | training seconds | whole command |")
    print("| --- | --- | --- | --- | --- |")
    for model, rows in found.items():
        losses = ", ".join(f"{row['loss']:.3f}" for row in rows)
        spans = [f"{min(row[n] for row in rows):.0f}-{max(row[n] for row in rows):.0f}" for n in ("training", "wall")]
        print(f"| {model} | {rows[0]['parameters']:,} | {losses} | {' | '.join(spans)} |")


if __name__ == "__main__":
    main()
