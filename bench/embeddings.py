"""Vectors of texts: qkv in f32 and bf16 beside Hugging Face's `BertModel` in f32, same batch, in turns, in one run.

    python bench/embeddings.py FOLDER [--pairs 15] [--threads 2]

FOLDER is MiniLM (all-MiniLM-L6-v2) as Hugging Face keeps it. Two loads: 32 texts of 128 tokens each, where nobody pads,
and 32 texts of 8 to 128 tokens, which Hugging Face pads to the longest. Both get ids and give mean-pooled vectors.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import transformers

import qkv
from qkv.evaluation import vectors
from qkv.objectives.objective import padded

TEXTS, LENGTH = 32, 128


def loads() -> dict[str, list[list[int]]]:
    drawn = random.Random(0)

    def text(length: int) -> list[int]:
        return [101, *(drawn.randrange(1000, 30000) for _ in range(length - 2)), 102]

    return {
        "32 x 128": [text(LENGTH) for _ in range(TEXTS)],
        "32 x 8..128": [text(drawn.randrange(8, LENGTH + 1)) for _ in range(TEXTS)],
    }


def theirs(model: Any, rows: list[list[int]]) -> torch.Tensor:
    tokens, present = padded(rows)
    with torch.inference_mode():
        x = model(tokens, attention_mask=present.long()).last_hidden_state
        mask = present.unsqueeze(-1)
        return (x * mask).sum(1) / mask.sum(1)


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ours = qkv.load(options.folder).bundle.model
    assert isinstance(ours, torch.nn.Module)
    other = transformers.BertModel.from_pretrained(options.folder).eval()
    print(f"{options.threads} threads, torch {torch.__version__}, transformers {transformers.__version__}")
    for name, rows in loads().items():
        calls: dict[str, Callable[[], torch.Tensor]] = {
            "f32": lambda: vectors.text_vectors(ours, rows),  # noqa: B023
            "bf16": lambda: vectors.text_vectors(ours, rows, precision="bf16"),  # noqa: B023
            "Hugging Face f32": lambda: theirs(other, rows),  # noqa: B023
        }
        found = {which: call() for which, call in calls.items()}  # warms all
        times: dict[str, list[float]] = {which: [] for which in calls}
        for _ in range(options.pairs):
            for which, call in calls.items():
                times[which].append(seconds(call))
        true, their = found["Hugging Face f32"], times["Hugging Face f32"]
        print(f"{name}: Hugging Face f32 {statistics.median(their) * 1e3:.0f} ms")
        for which in ("f32", "bf16"):
            ratios = sorted(other / own for own, other in zip(times[which], their, strict=True))
            low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
            cosine = torch.cosine_similarity(found[which], true).min().item()
            print(
                f"  qkv {which} {statistics.median(times[which]) * 1e3:.0f} ms, ratio {statistics.median(ratios):.2f} "
                f"(8 of 10 pairs within {low:.2f} to {high:.2f}), largest difference "
                f"{(found[which] - true).abs().max().item():.1e}, least cosine {cosine:.6f}"
            )


if __name__ == "__main__":
    main()
