"""What a model of a table of numbers takes from its training rows before the first step."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from qkv.data.labelled.examples import NumberExamples

SOLVED = 1e-7  # the rate of a model that is solved already


def solved(kind: str, problem: str) -> bool:
    """Whether a model is a linear regression, which needs no steps."""
    return kind == "linear-table" and problem == "regression"


def fit(model: Any, config: Any, train: NumberExamples, device: str) -> None:
    """The columns come on one scale, and numbers to predict on theirs; a linear regression is solved at once."""
    x = torch.from_numpy(train.numbers).to(device)
    if config.problem != "regression":
        model.fit_scale(x)
        return
    y = torch.from_numpy(train.targets.astype(np.float32)).unsqueeze(-1).to(device)
    model.solve(x, y) if solved(config.kind, config.problem) else model.fit_scale(x, y)
