"""Metrics of your own: every function of the file. `qkv train reviews.csv --metric kappa.py`

One argument: the model, as `qkv.load` gives it. Two: what is right and what the model predicted, for all examples.
"""

from __future__ import annotations

import qkv


def kappa(true: list[str], predicted: list[str]) -> float:
    """Cohen's kappa: how far labels agree beyond chance."""
    names, number = {*true, *predicted}, len(true)
    agreed = sum(a == b for a, b in zip(true, predicted, strict=True)) / number
    chance = sum(true.count(name) * predicted.count(name) for name in names) / number**2
    return 1.0 if chance == 1.0 else (agreed - chance) / (1 - chance)


def megabytes(model: qkv.Model) -> float:
    """How large the weights are, as 32-bit numbers."""
    return 4 * model.parameters / 1e6
