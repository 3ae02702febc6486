"""Anatomy: the tree of a model's parts, with shapes for this text, parameters, FLOPs, memory and the line of source.

FLOPs are counted in a forward pass of the text with open attention (training/loop.py).
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.blocks.dropout import Dropout
from qkv.blocks.positions import NoPositions
from qkv.blocks.tap import Tap, hooked
from qkv.inspection.subject import Subject, forward
from qkv.training.loop import forward_flops

PACKAGE = Path(__file__).resolve().parents[1]
LEFT_OUT = (Tap, nn.Identity, Dropout, nn.Dropout, NoPositions)


@dataclass(frozen=True)
class Part:
    """One module: the shape of its output for this text, and its costs. `memory` counts its weights and its output."""

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


def anatomy(subject: Subject) -> list[Part]:
    """Every part, in the order of the forward pass; the first is the whole model. Parts that do nothing are left
    out."""
    model, shapes = subject.model, dict[str, tuple[int, ...]]()
    paths = {module: path for path, module in model.named_modules()}

    def record(module: nn.Module, inputs: object, output: object) -> None:
        first = output[0] if isinstance(output, tuple) else output
        if isinstance(first, Tensor):
            shapes[paths[module]] = tuple(first.shape)

    with hooked([module.register_forward_hook(record) for module in paths]):
        flops = forward_flops(model, lambda: forward(model, subject.inputs))
    shown = {path: module for module, path in paths.items() if not (path and isinstance(module, LEFT_OUT))}
    return [_part(path, module, shapes.get(path, ()), flops[path]) for path, module in shown.items()]


def _part(path: str, module: nn.Module, shape: tuple[int, ...], flops: int) -> Part:
    parameters = list(module.parameters())
    weights = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    output = 4 * torch.Size(shape).numel() if shape else 0
    number, source = sum(parameter.numel() for parameter in parameters), source_of(type(module))
    return Part(path, type(module).__name__, shape, number, flops, weights + output, source)


def source_of(kind: type) -> str:
    """File and line of a class, such as qkv/blocks/attention.py:137; of another package from its own name on."""
    file, line = Path(inspect.getsourcefile(kind) or ""), inspect.getsourcelines(kind)[1]
    if file.resolve().is_relative_to(PACKAGE):
        return f"qkv/{file.resolve().relative_to(PACKAGE).as_posix()}:{line}"
    package = kind.__module__.partition(".")[0]
    parts = file.parts[file.parts.index(package) :] if package in file.parts else file.parts[-1:]
    return f"{'/'.join(parts)}:{line}"
