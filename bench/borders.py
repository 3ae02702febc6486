"""A real imported model beside `transformers` with the same weights: SmolLM2-135M-Instruct from its GGUF file.

    python bench/borders.py SmolLM2-135M-Instruct.Q4_1.gguf --page wikitext_1000.json.gz

Writing at batch 1 in turns (a prompt, then 64 tokens, greedy), perplexity of one page, and what comes after "The
capital of France is". Theirs reads the folder that `qkv export` writes of it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import qkv
from peers import ratios, spread

NEW = 64
PROMPT = "The capital of France is Paris, and the capital of Italy is Rome. A short history of both cities begins with"


def writers(model: Any, folder: str) -> dict[str, Callable[[], object]]:
    from transformers import AutoModelForCausalLM

    ids = torch.tensor([model.tokenizer.encode(PROMPT)])

    def theirs(kind: torch.dtype) -> Callable[[], object]:
        copy = AutoModelForCausalLM.from_pretrained(folder, dtype=kind).eval()
        options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False}

        def write() -> object:
            with torch.inference_mode():
                return copy.generate(ids, attention_mask=torch.ones_like(ids), **options)

        return write

    def ours(precision: str) -> Callable[[], object]:
        return lambda: model.samples(PROMPT, length=NEW, temperature=0.0, precision=precision, ends=())

    return {
        "transformers f32": theirs(torch.float32), "transformers bf16": theirs(torch.bfloat16),
        "qkv auto": ours("auto"), "qkv f32": ours("f32"), "qkv int8": ours("int8"),
    }  # fmt: skip


def perplexity(model: Any, folder: str, page: Path) -> dict[str, float]:
    from transformers import AutoModelForCausalLM

    with gzip.open(page, "rt", encoding="utf-8") as file:
        text = "".join(json.load(file))[:6000]
    ids = torch.tensor([model.tokenizer.encode(text)[:1024]])
    copy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        found = {"qkv": model.module(ids), "transformers": copy(ids).logits}
    return {name: F.cross_entropy(logits[0, :-1], ids[0, 1:]).exp().item() for name, logits in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--page", type=Path, help="WikiText passages as a .json.gz list")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    model = qkv.load(chosen.model)
    print(
        "after 'The capital of France is':", repr(model.generate("The capital of France is", length=3, temperature=0.0))
    )
    with tempfile.TemporaryDirectory() as place:
        folder = f"{place}/copy"
        for each in model.export(folder):
            print(each)
        if chosen.page:
            print("perplexity of a page:", perplexity(model, folder, chosen.page))
        found = writers(model, folder)
        spent: dict[str, list[float]] = {name: [] for name in found}
        for number in range(chosen.rounds + 1):
            for name, write in found.items():
                began = time.perf_counter()
                write()
                if number:  # the first round warms up
                    spent[name].append(time.perf_counter() - began)
    for name, times in spent.items():
        rate = spread([NEW / each for each in times])
        beside = {other: ratios(spent[other], times) for other in ("transformers f32", "transformers bf16")}
        print(name, rate, {other: each for other, each in beside.items() if name.startswith("qkv")})


if __name__ == "__main__":
    main()
