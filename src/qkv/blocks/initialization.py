"""Where training starts. A model file calls one of these once, after its parts are put together."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import nn


def normal_(modules: Iterable[nn.Module], deviation: float) -> None:
    """Weights from a normal distribution, biases zero: GPT-2's start (Radford et al. 2019) with 0.02."""
    for module in modules:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=deviation)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def fan_in_(modules: Iterable[nn.Module], gain: float) -> None:
    """Linear weights of deviation gain / sqrt(inputs): outputs keep their size whatever the width."""
    for module in modules:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=gain / math.sqrt(module.in_features))
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def zero_(modules: Iterable[nn.Linear]) -> None:
    """Outputs of sublayers start at zero: every block starts as the identity, and the first steps are calm."""
    for module in modules:
        nn.init.zeros_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
