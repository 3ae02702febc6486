"""Which rates suit which model: the runs behind decision 0004.

    python bench/rates.py TEXT          (Tiny Shakespeare; one line of JSON a run)

4 layers, 4 heads, 128 wide, 64 characters, batch 32, seed 0; the recurrent models have one layer of 256; `mlp` and
`cnn` are as large as `modern`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

TRANSFORMER = ["model.layers=4", "model.heads=4", "model.width=128", "model.context=64", "training.batch=32"]
RECURRENT = ["model.context=64", "training.batch=32"]
GRID: list[tuple[str, list[str]]] = [
    *(("modern", [*TRANSFORMER, "training.steps=140", *more]) for more in (
        ["training.learning_rate=0.02", "training.matrix_learning_rate=0.04"],
        ["training.learning_rate=0.02", "training.matrix_learning_rate=0.04", "training.clip=0.0"],
        ["training.learning_rate=0.01", "training.matrix_learning_rate=0.04"],
        ["training.learning_rate=0.02", "training.matrix_learning_rate=0.02"],
    )),
    *(("gpt", [*TRANSFORMER, "training.steps=140", f"training.learning_rate={rate}",
               f"training.matrix_learning_rate={matrix}"])
      for rate, matrix in ((0.003, 0.02), (0.01, 0.02), (0.003, 0.04), (0.01, 0.04))),
    *((kind, [*TRANSFORMER, "training.steps=140", "training.optimizer=adamw", f"training.learning_rate={rate}"])
      for kind in ("modern", "gpt") for rate in (0.002, 0.004, 0.008)),
    *((kind, [*RECURRENT, "training.steps=300", f"training.learning_rate={rate}"])
      for kind, rates in (("lstm", (0.006, 0.012)), ("gru", (0.004, 0.008)), ("rnn", (0.002, 0.004)))
      for rate in rates),
    *((kind, [*RECURRENT, "training.steps=140", *more]) for kind in ("mlp", "cnn") for more in (
        ["training.learning_rate=0.01", "training.matrix_learning_rate=0.04"],
        ["training.learning_rate=0.02", "training.matrix_learning_rate=0.04"],
        ["training.learning_rate=0.01", "training.matrix_learning_rate=0.02"],
        ["training.optimizer=adamw", "training.learning_rate=0.004"],
        ["training.optimizer=adamw", "training.learning_rate=0.008"],
    )),
]  # fmt: skip


def main(text: str) -> None:
    for model, settings in GRID:
        words = [sys.executable, "-m", "qkv", "train", text, "--model", model, "--tokenizer", "characters", "--json"]
        for setting in settings:
            words += ["--set", setting]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*words, "--run", f"{folder}/run"], capture_output=True, text=True, check=True)
        answer = json.loads(done.stdout)
        row = {"model": model, "settings": settings, "loss": answer["validation"]["loss"], "seconds": answer["seconds"]}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
