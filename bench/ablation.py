"""The fast recipes with one ingredient left out or exchanged at a time: the loss after the same steps, and the time.

    python bench/ablation.py TEXT shakespeare-quick --seeds 3      (a line of JSON for each run)
    python bench/ablation.py --table                                            (what was measured, as a table)

A run computes on one thread and counts its processor's seconds, so that several may run side by side.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.blocks import initialization
from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import FeedForward, GatedFeedForward, SquaredReLU, TanhGELU
from qkv.blocks.embeddings import NgramEmbedding, TokenShift
from qkv.blocks.heads import TiedHead
from qkv.blocks.norms import LayerNorm, RMSNorm
from qkv.recipe.recipe import read_sections
from qkv.session import evaluate
from qkv.session import start as begin
from qkv.training.loop import initial_state, train
from qkv.training.optimizers import Muon

RESULTS = Path(__file__).parent.parent / "docs" / "ablation.jsonl"
ADAMW = {"optimizer": "adamw", "betas": (0.9, 0.95)}


def exchange(model: nn.Module, kind: type[nn.Module], make: Callable[[Any], nn.Module]) -> None:
    """Another module in the place of every one of a kind."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, kind):
                setattr(parent, name, make(child))


def outputs(model: nn.Module) -> list[nn.Linear]:
    ends = (".output", ".down", ".outer", "head")
    return [m for name, m in model.named_modules() if name.endswith(ends) and isinstance(m, nn.Linear)]


def unnormed(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.query_norm = module.key_norm = nn.Identity()


def plain(gated: GatedFeedForward) -> FeedForward:
    """As many weights in two matrices as it had in three."""
    width, hidden = gated.gate.in_features, gated.gate.out_features * 3 // 2
    made = FeedForward(nn.Linear(width, hidden, bias=False), TanhGELU(), nn.Linear(hidden, width, bias=False))
    initialization.fan_in_([made.inner], 0.5)
    initialization.zero_([made.outer])
    return made


def tied(model: Any) -> None:
    nn.init.normal_(model.embedding.weight, std=0.02)
    model.head = TiedHead(model.embedding)


def no_ngrams(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, NgramEmbedding):
            module.ngrams.weight.requires_grad_(False)  # they start at zero and stay there


def no_shift(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, TokenShift):
            module.mix.requires_grad_(False)


class OneByOne(Muon):
    """Muon without stacking matrices of one shape."""

    def _update(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        for parameter in parameters:
            super()._update([parameter], group)


# name: what is done to the model, and which settings change. The first is the recipe as it is.
Change = tuple[Callable[[Any], None] | None, dict[str, Any]]
CHANGES: dict[str, Change] = {
    "as it is": (None, {}),
    "AdamW for all, rate 0.004": (None, {**ADAMW, "learning_rate": 0.004}),
    "AdamW for all, rate 0.01": (None, {**ADAMW, "learning_rate": 0.01}),
    "Muon, matrices one by one": (None, {}),
    "outputs not zero at the start": (lambda model: initialization.fan_in_(outputs(model), 0.5), {}),
    "no norm on queries and keys": (unnormed, {}),
    "LayerNorm": (lambda m: exchange(m, RMSNorm, lambda norm: LayerNorm(norm.weight.numel())), {}),
    "no warm-up": (None, {"warmup": 0}),
    "rate stays constant": (None, {"final_fraction": 1.0}),
    "cosine": (None, {"schedule": "cosine"}),
    "constant, then a fall": (None, {"schedule": "constant-decay", "decay": 0.5}),
    "rate falls to 0.2": (None, {"final_fraction": 0.2}),
    "half the rates": (None, {"half": True}),
    "beta1 0.9": (None, {"betas": (0.9, 0.95)}),
    "momentum 0.95": (None, {"momentum": 0.95}),
}
MODERN: dict[str, Change] = {
    "plain feed-forward, GELU": (lambda m: exchange(m, GatedFeedForward, plain), {}),
    "tied head": (tied, {}),
    "four heads of keys": (None, {"model": {"key_heads": 4}}),
    "feed-forward of 8/3 the width": (None, {"model": {"hidden": 0}}),
}
FAST: dict[str, Change] = {
    "no n-grams": (no_ngrams, {}),
    "bigrams": (None, {"model": {"order": 2}}),
    "trigrams": (None, {"model": {"order": 3}}),
    "a table of 8,192 rows": (None, {"model": {"table": 8192}}),
    "no token shift": (no_shift, {}),
    "two layers": (None, {"model": {"layers": 2}}),
    "GELU": (lambda m: exchange(m, SquaredReLU, lambda _: TanhGELU()), {}),
}


def measure(text: str, recipe: Path, name: str, change: Change, seed: int) -> dict[str, Any]:
    alter, settings = change
    settings = copy.deepcopy(settings)
    values = read_sections(recipe)
    values["corpus"] = {"files": [text]}
    values["model"].update(settings.pop("model", {}))
    values["training"].update(seed=seed, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        session = begin(values, Path(folder) / "run", numbered=False, minutes=5.0)
    training = session.recipe.training
    if settings.pop("half", False):
        settings = {
            "learning_rate": training.learning_rate / 2,
            "matrix_learning_rate": training.matrix_learning_rate / 2,
        }
    training = replace(training, **settings)
    if alter:
        alter(session.model)
    model: Any = session.model
    state = initial_state(model, training)
    if "one by one" in name:
        state.optimizers["muon"].__class__ = OneByOne
    began = time.process_time()
    for _ in train(state, session.objective, training):
        pass
    spent = time.process_time() - began
    found = evaluate(session.recipe, session.task.prepared, None, session.model)
    row = {"recipe": recipe.stem, "change": name, "seed": seed, "loss": round(found.loss, 4)}
    return {**row, "seconds": round(spent, 2), "steps": training.steps}


def table(results: Path) -> None:
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for recipe in dict.fromkeys(row["recipe"] for row in rows):
        print(f"| {recipe} | loss: median of seeds (range) | against the recipe | seconds |")
        print("|---|---|---|---|")
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["recipe"] == recipe:
                groups.setdefault(row["change"], []).append(row)
        usual = {row["seed"]: row["loss"] for row in groups["as it is"]}
        for change, found in groups.items():
            losses = sorted(row["loss"] for row in found)
            more = statistics.median(row["loss"] - usual[row["seed"]] for row in found)
            seconds = statistics.median(row["seconds"] for row in found)
            spread = f"{statistics.median(losses):.3f} ({losses[0]:.3f}-{losses[-1]:.3f})"
            print(f"| {change} | {spread} | {more:+.3f} | {seconds:.1f} |")
        print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", nargs="?")
    parser.add_argument("recipe", nargs="?", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_intermixed_args()
    if chosen.table:
        table(chosen.results)
        return
    torch.set_num_threads(1)
    kind = read_sections(chosen.recipe)["model"]["kind"]
    for seed in range(chosen.seeds):
        for name, change in {**CHANGES, **(FAST if kind == "modern-fast" else MODERN)}.items():
            row = measure(chosen.text, chosen.recipe, name, change, seed)
            with chosen.results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
