"""`qkv train TEXT --minutes N` for growing N: on time each, and a loss that falls with every step up.

python bench/minutes.py TEXT [TEXT ...] --minutes 0.5 1 2 5 15       (a line of JSON for each run)
python bench/minutes.py --table                                      (what was measured, as a table)
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "docs" / "minutes.jsonl"


def measure(text: str, minutes: float, seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        order = [sys.executable, "-m", "qkv", "train", text, "--minutes", str(minutes), "--run", str(run), "--json"]
        began = time.perf_counter()
        done = subprocess.run([*order, "--seed", str(seed)], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(done.stderr)
        result = json.loads(done.stdout)
        recipe = tomllib.loads((run / "recipe.toml").read_text())
        config = json.loads((run / "best" / "config.json").read_text())
    model, training, found = recipe["model"], recipe["training"], result["validation"]
    return {
        "text": Path(text).name, "minutes": minutes, "seed": seed, "seconds": round(seconds, 1),
        "bits_per_byte": round(found["bits_per_byte"], 4),
        "nats_per_character": round(found["bits_per_character"] * math.log(2), 4),
        "model": "/".join(str(model[name]) for name in ("layers", "heads", "width")), "context": model["context"],
        "dropout": model.get("dropout", 0.0), "vocabulary": model["vocabulary"], "parameters": result["parameters"],
        "batch": training["batch"], "steps": result["steps"], "best_step": result["best_step"],
        "turns": len(training.get("turns", [])), "verdict": result["doctor"]["verdict"],
        "int8": config.get("int8"), "notes": [note for note in result["notes"] if "epochs" in note],
    }  # fmt: skip


def table(results: Path) -> None:
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    print("| text | minutes | seconds in all | bits per byte | nats a character | model | vocabulary | steps |")
    print("|---|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda row: (row["text"], row["minutes"], row["seed"])):
        shape = f"{row['model']}, context {row['context']}" + (f", dropout {row['dropout']}" if row["dropout"] else "")
        scores = f"{row['bits_per_byte']:.3f} | {row['nats_per_character']:.3f}"
        print(
            f"| {row['text']} | {row['minutes']:g} | {row['seconds']:.1f} | {scores} | {shape} | {row['vocabulary']:,} "
            f"| {row['steps']:,} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*")
    parser.add_argument("--minutes", nargs="+", type=float, default=[0.5, 1, 2, 5, 15])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table:
        table(chosen.results)
        return
    for minutes in chosen.minutes:
        for text in chosen.texts:
            row = measure(text, minutes, chosen.seed)
            with chosen.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
