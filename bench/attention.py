"""Attention forward and backward on this machine: torch's kernel beside one product after the other, by length.

    python bench/attention.py [--rounds 9]

Milliseconds of both, in turns, causal, bf16 and f32; `SHORT` in blocks/attention.py holds the lengths from which on the
kernel wins on a processor with bf16.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qkv.blocks.attention import MultiHeadAttention, written

SHAPES = (  # texts, heads, positions, head width
    (32, 4, 64, 32), (16, 6, 128, 32), (8, 6, 256, 64), (2, 12, 512, 64), (1, 12, 1024, 64), (1, 8, 2048, 64),
)  # fmt: skip


def seconds(mix: object, parts: list[Tensor], back: Tensor) -> float:
    for part in parts:
        part.grad = None
    began = time.perf_counter()
    mix(*parts).backward(back)  # type: ignore[operator]
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    print("| format | texts x heads x positions x width | kernel, ms | product by product, ms |\n|---|---|---|---|")
    for dtype in (torch.bfloat16, torch.float32):
        for texts, heads, length, width in SHAPES:
            parts = [torch.randn(texts, heads, length, width).to(dtype).requires_grad_() for _ in range(3)]
            back, mask = torch.randn_like(parts[0]), torch.ones(length, length, dtype=torch.bool).tril()
            linear = nn.Linear(heads * width, heads * width)
            module = MultiHeadAttention(linear, linear, linear, linear, heads=heads)
            ways = {
                "kernel": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, mask),  # noqa: B023
                "products": lambda q, k, v: written(module, q, k, v, mask, 0.0),  # noqa: B023
            }
            times: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds + 1):
                for name, mix in ways.items():
                    times[name].append(seconds(mix, parts, back))
            own = [f"{statistics.median(each[1:]) * 1e3:.1f}" for each in times.values()]
            print(f"| {str(dtype)[6:]} | {texts} x {heads} x {length} x {width} | {own[0]} | {own[1]} |", flush=True)


if __name__ == "__main__":
    main()
