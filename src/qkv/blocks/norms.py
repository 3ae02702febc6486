"""Norms keep the size of what flows through a deep stack even. They are torch's own; here stand their formulas.

    LayerNorm   y = (x - mean) / sqrt(variance + ε) · γ + β      Ba et al. 2016; deck 004, "Layer Normalization"
    RMSNorm     y = x / sqrt(mean(x²) + ε) · γ                   Zhang and Sennrich 2019: no mean, no β, cheaper

A new norm is a class of this file, called with the width and, if it has one, an epsilon; a model file picks it.
"""

from __future__ import annotations

from torch import nn

LayerNorm = nn.LayerNorm
RMSNorm = nn.RMSNorm
