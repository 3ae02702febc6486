"""Name tables: which of our tensors is which of theirs, readable, and run, in both directions.

    TABLE = (
        Row("embedding.weight", "transformer.wte.weight"),                                    the same tensor
        Row("blocks.{i}…inner.weight", "transformer.h.{i}.mlp.c_fc.weight", TRANSPOSED),       {i} counts the layers
        Row("blocks.{i}…{query,key,value}.bias", "transformer.h.{i}.attn.c_attn.bias", THIRDS),    three of ours in one
    )

`import_weights` and `export_weights` are exact inverses: tensors are renamed, turned and cut, never computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from qkv.errors import InputError

Weights = Mapping[str, Tensor]
Settings = Mapping[str, Any]  # a config.json as it is parsed
Values = dict[str, Any]  # some of its values, or of a config of ours


@dataclass(frozen=True)
class Transform:
    """How one tensor of theirs becomes one or several of ours, and back."""

    read: Callable[[Tensor], Sequence[Tensor]]
    write: Callable[[Sequence[Tensor]], Tensor]


PLAIN = Transform(read=lambda theirs: [theirs], write=lambda ours: ours[0])
TRANSPOSED = Transform(read=lambda theirs: [theirs.T], write=lambda ours: ours[0].T)
THIRDS = Transform(read=lambda theirs: theirs.chunk(3), write=lambda ours: torch.cat(list(ours)))
AS_A_ROW = Transform(read=lambda theirs: [theirs.squeeze(0)], write=lambda ours: ours[0].unsqueeze(0))
TRANSPOSED_THIRDS = Transform(read=lambda theirs: theirs.T.chunk(3), write=lambda ours: torch.cat(list(ours)).T)


def interleaved(heads: int) -> Transform:
    """Rows of queries or keys: theirs turn neighbours (0, 1), (2, 3) ..., ours (0, K/2), (1, K/2 + 1) ..."""

    def moved(tensor: Tensor, *inside: int) -> Tensor:
        return tensor.view(heads, *inside, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)

    return Transform(read=lambda theirs: [moved(theirs, -1, 2)], write=lambda ours: moved(ours[0], 2, -1))


@dataclass(frozen=True)
class Row:
    """One line of a table. `{i}` stands for the layer, `{query,key,value}` for one name after the other."""

    ours: str
    theirs: str
    transform: Transform = PLAIN

    def at(self, layer: int) -> tuple[list[str], str]:
        """The names in one layer."""
        ours, theirs = (name.replace("{i}", str(layer)) for name in (self.ours, self.theirs))
        before, brace, rest = ours.partition("{")
        if not brace:
            return [ours], theirs
        parts, _, after = rest.partition("}")
        return [before + part + after for part in parts.split(",")], theirs


Table = tuple[Row, ...]


def pairs(*names: tuple[str, str]) -> Table:
    """Weight and bias of each layer, by its name here and there."""
    return tuple(Row(f"{ours}.{part}", f"{theirs}.{part}") for ours, theirs in names for part in ("weight", "bias"))


def import_weights(table: Table, theirs: Weights) -> dict[str, Tensor]:
    """Their tensors under our names. Nothing may be missing, nothing may be left over."""
    lines = _lines(table, theirs)
    _complete({name for _, _, name in lines}, theirs)
    ours: dict[str, Tensor] = {}
    for transform, names, name in lines:
        tensor = theirs[name]  # once: it may be read from a file only now
        ours |= {own: _unshared(part, tensor) for own, part in zip(names, transform.read(tensor), strict=True)}
    return ours


def export_weights(table: Table, ours: Weights) -> dict[str, Tensor]:
    """Our tensors under their names. Nothing may be missing, nothing may be left over."""
    lines = _lines(table, ours)
    _complete({name for _, names, _ in lines for name in names}, ours)
    theirs: dict[str, Tensor] = {}
    for transform, names, name in lines:
        theirs[name] = _unshared(transform.write([ours[own] for own in names]), ours[names[0]])
    return theirs


def _lines(table: Table, weights: Weights) -> list[tuple[Transform, list[str], str]]:
    """The table written out, layer by layer, for as many layers as the names of `weights` count in each stack."""
    stacks: dict[str, set[str]] = {}
    for name in weights:
        parts = name.split(".")
        for at, part in enumerate(parts):
            if part.isdecimal():
                stacks.setdefault(".".join(parts[:at]), set()).add(part)

    def layers(row: Row) -> int:
        """The names are ours or theirs: one of the two stacks is there."""
        if "{i}" not in row.theirs:
            return 1
        return max(len(stacks.get(name.partition(".{i}")[0], ())) for name in (row.ours, row.theirs))

    return [(row.transform, *row.at(layer)) for row in table for layer in range(layers(row))]


def _complete(expected: set[str], weights: Weights) -> None:
    missing, unknown = sorted(expected - set(weights)), sorted(set(weights) - expected)
    kinds = (("missing", missing), ("unknown", unknown))
    if problems := [f"{len(names)} {what} ({names[0]})" for what, names in kinds if names]:
        raise InputError(f"these are not the tensors of this architecture: {', '.join(problems)}.")


def _unshared(tensor: Tensor, source: Tensor) -> Tensor:
    """A part that shares its memory with others gets its own, as safetensors asks; a plain one stays as it is."""
    return tensor if tensor is source else tensor.clone(memory_format=torch.contiguous_format)
