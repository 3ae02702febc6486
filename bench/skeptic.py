"""Deck 000's skeptic: "maybe a large MLP or CNN could do this same thing". Models of equal size on the same text.

    python bench/skeptic.py TEXT [--steps 1000 | --minutes 2] [--seeds 3] [--models modern gpt mlp cnn lstm]

`--steps`: all see the same tokens (windows of 64 characters, 32 a step). `--minutes`: all have the same time. Every
model gets the width at which it has as many parameters as `modern` with 4 layers, 4 heads, 128 wide; rates are those of
qkv's own rules. Loss is on the last 10 % of the text, in independent windows. Rewrites a part of docs/measurements.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pages import replace_section
from qkv.recipe.origin import matched_width, parameters

MEASUREMENTS = Path(__file__).parents[1] / "docs" / "measurements.md"
CONTEXT, BATCH = 64, 32
MODERN = {"kind": "modern", "layers": 4, "heads": 4, "width": 128}
SHAPES: dict[str, dict[str, Any]] = {
    "modern": MODERN,
    "gpt": {"kind": "gpt", "layers": 4, "heads": 4, "width": 128},  # 1 % smaller; a width that 4 heads divide
    "mlp": {"kind": "mlp", "layers": 2},
    "cnn": {"kind": "cnn", "layers": 6},
    "lstm": {"kind": "lstm", "layers": 1},
}
PAGE = """```sh
{command}
```

Deck 000 wonders whether "a large MLP or CNN could do this same thing". Equal parameters, {same},
rates from qkv's own rules, windows of {context} characters. Best first.

{table}
"""


def settings(model: str, vocabulary: int) -> list[str]:
    """The model's shape, its width matched, and what is the same for all."""
    common = {"context": CONTEXT, "vocabulary": vocabulary}
    shape = {**SHAPES[model]}
    if "width" not in shape:
        shape["width"] = matched_width({**common, **shape}, parameters({**common, **MODERN}))
    words = [f"model.{name}={value}" for name, value in shape.items() if name != "kind"]
    return [*words, f"model.context={CONTEXT}", f"training.batch={BATCH}", "training.patience=0"]


def train(text: str, model: str, seed: int, budget: list[str], vocabulary: int) -> dict[str, Any]:
    words = ["train", text, "--model", model, "--tokenizer", "characters", "--seed", str(seed), "--json", *budget]
    for setting in settings(model, vocabulary):
        words += ["--set", setting]
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "qkv", *words, "--run", f"{folder}/run"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def table(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = ["| model | parameters | tokens seen | seconds | loss by seed | mean loss | bits a character |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- |")
    for model, answers in sorted(found.items(), key=lambda pair: mean(pair[1], "loss")):
        losses = ", ".join(f"{answer['validation']['loss']:.3f}" for answer in answers)
        seconds = sorted(answer["seconds"] for answer in answers)
        tokens = statistics.mean(answer["steps"] for answer in answers) * CONTEXT * BATCH
        cells = [
            model,
            f"{answers[0]['parameters']:,}",
            f"{tokens:,.0f}",
            f"{seconds[0]:.0f}-{seconds[-1]:.0f}",
            losses,
        ]
        cells += [f"{mean(answers, 'loss'):.3f}", f"{mean(answers, 'bits_per_character'):.3f}"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def mean(answers: list[dict[str, Any]], name: str) -> float:
    return statistics.mean(answer["validation"][name] for answer in answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("text")
    budgets = parser.add_mutually_exclusive_group()
    budgets.add_argument("--steps", type=int, default=1000)
    budgets.add_argument("--minutes", type=float)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", default=list(SHAPES), choices=list(SHAPES))
    given = parser.parse_args()
    option, amount = ("minutes", given.minutes) if given.minutes else ("steps", given.steps)
    vocabulary = len(set(Path(given.text).read_text(encoding="utf-8"))) + 2  # and those for a separator and the unknown
    found: dict[str, list[dict[str, Any]]] = {model: [] for model in given.models}
    for seed in range(given.seeds):  # models interleaved, so that a noisy minute hits all alike
        for model in given.models:
            found[model].append(train(given.text, model, seed, [f"--{option}", str(amount)], vocabulary))
    same = f"the same {amount} steps of {BATCH} windows" if option == "steps" else f"the same {amount} minutes"
    command = f"python bench/skeptic.py input.txt --{option} {amount} --seeds {given.seeds}"
    body = PAGE.format(command=command, same=same, context=CONTEXT, table="\n".join(table(found)))
    heading = "Maybe a big MLP or CNN does the same: equal " + ("tokens" if option == "steps" else "time")
    replace_section(MEASUREMENTS, heading, body)
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
