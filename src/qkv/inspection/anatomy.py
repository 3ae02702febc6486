"""Anatomy: the tree of a model's parts, with shapes for this text, parameters, FLOPs, memory and the line of source.

FLOPs are counted by torch while the text passes with open attention, two for a product and its sum; recurrent kernels
that torch does not count have two for each weight and token. Looking up rows of a table costs nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from qkv.blocks.attention import open_attention
from qkv.blocks.dropout import Dropout
from qkv.blocks.positions import NoPositions
from qkv.blocks.tap import Tap
from qkv.inspection.subject import Subject, forward, hooked

PACKAGE = Path(__file__).resolve().parents[1]
LEFT_OUT = (Tap, nn.Identity, Dropout, nn.Dropout, NoPositions)


@dataclass(frozen=True)
class Part:
    """One module: what it gives for this text, and what it costs. `memory` is that of its weights and its output."""

    path: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    flops: int
    memory: int
    source: str

    @property
    def depth(self) -> int:
        return self.path.count(".") + 1 if self.path else 0

    def values(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}


@torch.no_grad()
def anatomy(subject: Subject) -> list[Part]:
    """Every part in the order of the figure; the first is the whole model. Parts that do nothing are left out."""
    model, shapes, kernels = subject.model, dict[str, tuple[int, ...]](), dict[str, int]()
    paths = {module: path for path, module in model.named_modules()}

    def look(module: nn.Module, given: Any, made: Any) -> None:
        first = made[0] if isinstance(made, tuple) else made
        if isinstance(first, Tensor):
            shapes[paths[module]] = tuple(first.shape)
        if isinstance(module, nn.RNNBase):
            weights = sum(each.numel() for name, each in module.named_parameters() if "weight" in name)
            kernels[paths[module]] = 2 * weights * given[0].size(1)

    hooks = [module.register_forward_hook(look) for module in paths]
    with hooked(hooks), open_attention(model), _without_gradients(model), FlopCounterMode(display=False) as counter:
        forward(model, subject.inputs)
    counted = {_path(name, model): sum(each.values()) for name, each in counter.get_flop_counts().items()}
    kernels = {path: flops for path, flops in kernels.items() if not counted.get(path)}  # some torch does take apart
    return [_part(path, module, shapes, counted, kernels) for path, module in _shown(model)]


@contextmanager
def _without_gradients(model: nn.Module) -> Iterator[None]:
    """torch's counter follows whatever wants a gradient, and fails at a part that hands out its own parameter."""
    learning = [each for each in model.parameters() if each.requires_grad]
    try:
        for each in learning:
            each.requires_grad_(False)
        yield
    finally:
        for each in learning:
            each.requires_grad_(True)


def _path(name: str, model: nn.Module) -> str:
    """torch names parts from the model's class on: GPT.blocks.0."""
    own = type(model).__name__
    return "" if name in (own, "Global") else name.removeprefix(own + ".")


def _shown(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((path, module) for path, module in model.named_modules() if not (path and isinstance(module, LEFT_OUT)))


def _part(
    path: str,
    module: nn.Module,
    shapes: dict[str, tuple[int, ...]],
    counted: dict[str, int],
    kernels: dict[str, int],
) -> Part:
    parameters = list(module.parameters())
    inside = sum(flops for name, flops in kernels.items() if not path or name == path or name.startswith(path + "."))
    shape = shapes.get(path, ())
    given = torch.Size(shape).numel() if shape else 0
    weights = sum(each.numel() * each.element_size() for each in parameters)
    return Part(
        path=path,
        kind=type(module).__name__,
        shape=shape,
        parameters=sum(each.numel() for each in parameters),
        flops=counted.get(path, 0) + inside,
        memory=weights + 4 * given,
        source=source_of(type(module)),
    )


def source_of(kind: type) -> str:
    """File and line of a class, as qkv/blocks/attention.py:137; of another package from its own name on."""
    file, line = Path(inspect.getsourcefile(kind) or ""), inspect.getsourcelines(kind)[1]
    if file.resolve().is_relative_to(PACKAGE):
        return f"qkv/{file.resolve().relative_to(PACKAGE).as_posix()}:{line}"
    package = kind.__module__.partition(".")[0]
    parts = file.parts[file.parts.index(package) :] if package in file.parts else file.parts[-1:]
    return f"{'/'.join(parts)}:{line}"
