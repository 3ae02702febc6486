"""Where training starts. A model file calls one of these once, after its parts are put together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

OUTPUTS = (".output", ".outer", ".down")
_FILLS = (torch.Tensor.fill_, torch.Tensor.zero_)


class no_start(TorchFunctionMode):  # noqa: N801
    """Within it, parameters stay as they are: where values do not matter, a draw of random numbers only costs time."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", "") == "torch.nn.init" and func.__name__.endswith("_"):
            return args[0] if args else kwargs["tensor"]
        if func in _FILLS and isinstance(args[0], nn.Parameter):  # zeros_ and ones_ say so only here
            return args[0]
        return func(*args, **(kwargs or {}))


@contextmanager
def outline() -> Iterator[None]:
    """Within it, modules are built with their shapes and nothing else: to count before memory is taken."""
    with torch.device("meta"), no_start():
        yield


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


def recurrent_(modules: Iterable[nn.Module]) -> None:
    """Turning matrices between steps (Saxe et al. 2014), and LSTM gates that remember at first (Gers et al. 2000)."""
    for module in modules:
        if not isinstance(module, nn.RNNBase):
            continue
        size = module.hidden_size
        for name, parameter in module.named_parameters():
            if name.startswith("weight_hh"):
                for gate in torch.split(parameter.detach(), size):
                    nn.init.orthogonal_(gate)
            elif name.startswith("weight_ih"):
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
                if isinstance(module, nn.LSTM) and name.startswith("bias_ih"):
                    nn.init.ones_(parameter.detach()[size : 2 * size])


def zero_(modules: Iterable[nn.Linear]) -> None:
    """Outputs of sublayers start at zero: every block starts as the identity, and the first steps are calm."""
    for module in modules:
        nn.init.zeros_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)


def calm_(model: nn.Module, gain: float) -> None:
    """`fan_in_`, and the outputs of all sublayers and an untied head, by their names, at zero."""
    fan_in_(model.modules(), gain)
    outputs = [module for name, module in model.named_modules() if name.endswith(OUTPUTS) or name == "head"]
    zero_([module for module in outputs if isinstance(module, nn.Linear)])
