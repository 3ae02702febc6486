"""The product of one vector with all weights of GPT-2's shape, in every way torch offers: what decision 8 compares.

python bench/products.py
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import torch
import torch.nn.functional as F

from qkv.generation.native import quantized

SHAPES = [(2304, 768), (768, 768), (3072, 768), (768, 3072)] * 12 + [(50257, 768)]


def show(name: str, work: Callable[[], object], read: int) -> None:
    work()
    spent = []
    for _ in range(7):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    middle = statistics.median(spent)
    print(f"{name:36} {1e3 * middle:7.2f} ms  {read / middle / 1e9:5.1f} GB/s", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")
    weights = [torch.randn(shape) * 0.02 for shape in SHAPES]
    x = {columns: torch.randn(1, columns) for columns in (768, 3072)}
    number = sum(weight.numel() for weight in weights)
    whole = [quantized(weight) for weight in weights]
    with torch.inference_mode():
        show("f32", lambda: [F.linear(x[w.size(1)], w) for w in weights], 4 * number)
        for kind in (torch.bfloat16, torch.float16, torch.float32):
            packed = [(q, s.to(kind), x[q.size(1)].to(kind)) for q, s in whole]
            work = torch.ops.aten._weight_int8pack_mm
            show(f"_weight_int8pack_mm, {kind}", lambda p=packed, w=work: [w(v, q, s) for q, s, v in p], number)
        for engine in ("fbgemm", "onednn", "qnnpack"):
            torch.backends.quantized.engine = engine
            made = [
                torch._make_per_channel_quantized_tensor(q, s.double(), torch.zeros(len(s), dtype=torch.long), 0)
                for q, s in whole
            ]
            packs = [(torch.ops.quantized.linear_prepack(each, None), x[each.size(1)]) for each in made]
            dynamic = torch.ops.quantized.linear_dynamic
            show(f"dynamic int8, {engine}", lambda p=packs, d=dynamic: [d(v, w, True) for w, v in p], number)
        torch.backends.quantized.engine = "fbgemm"
        halves = [(torch.ops.quantized.linear_prepack_fp16(w, None), x[w.size(1)]) for w in weights]
        half = torch.ops.quantized.linear_dynamic_fp16
        show("f16 weights, fbgemm", lambda: [half(v, w) for w, v in halves], 2 * number)
    many = torch.ones(2**27)
    show("reading memory alone", lambda: many.sum(), 4 * 2**27)


if __name__ == "__main__":
    main()
