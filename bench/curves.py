"""BLEU over the minutes of training: every checkpoint of some runs, translated greedily, as a table and a picture.

    qkv train train.de train.en --minutes 20 --run RUN --set training.keep=12
    python bench/curves.py test.de test.en NAME=RUN [NAME=RUN ...] [--picture FILE.svg]

The last figure is not that of the model which the run ends with: that one is chosen on the development side, and its
sentences are found by beams.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from qkv.data.corpus import ParallelConfig
from qkv.evaluation.intervals import Estimate
from qkv.recipe import bundle
from qkv.studies.picture import draw_curves
from qkv.tasks.translation.evaluate import PairsEvaluator
from qkv.training import checkpoints


def seconds(run: Path) -> dict[int, float]:
    rows = map(json.loads, (run / "timings.jsonl").read_text().splitlines())
    return {row["step"]: row["seconds"] for row in rows}


def curve(run: Path, files: tuple[str, ...]) -> list[tuple[float, Estimate]]:
    """Seconds of training and BLEU with its interval, for each checkpoint."""
    made = bundle.load(run, "cpu")
    evaluator, times = PairsEvaluator(made, ParallelConfig(files=files)), seconds(run)
    found = []
    for folder in checkpoints.list_checkpoints(run / "checkpoints"):
        checkpoints.load_weights(folder / checkpoints.WEIGHTS, made.model)  # type: ignore[arg-type]
        said, loss = evaluator.outputs(made, beams=1)
        score = said.score(loss).scores["bleu"]
        assert isinstance(score, Estimate)
        found.append((times[int(folder.name)], score))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("runs", nargs="+", help="as NAME=RUN")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    curves: dict[str, list[tuple[float, Estimate]]] = {}
    print("| system | minutes of training: BLEU (95 %) |\n| --- | --- |")
    for named in options.runs:
        name, _, folder = named.partition("=")
        found = curve(Path(folder), (options.source, options.target))
        cells = [f"{when / 60:.1f}: {f.value:.1f} ({f.low:.1f}-{f.high:.1f})" for when, f in found]
        print(f"| {name} | {', '.join(cells)} |", flush=True)
        curves[name] = [(0.0, Estimate(0.0, None, None)), *((when / 60, figure) for when, figure in found)]
    if options.picture:
        draw_curves(options.picture, curves, "BLEU over minutes of training", "minutes")


if __name__ == "__main__":
    main()
