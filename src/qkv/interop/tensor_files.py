"""The tensors of safetensors files, each read when it is asked for, as f32.

A file is mapped: what is used as it stands is never copied, and what is turned or widened leaves nothing behind. The
safetensors library checks that offsets and shapes fit the file; here names, ranks and kinds of numbers are checked, and
`shapes` tells them all before a number is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from qkv.errors import RefusedError, out_of_memory

NUMBERS = ("F32", "F16", "BF16", "F64")
MOST_TENSORS = 100_000
LARGEST_HEADER = 2**23  # of one file; a name, a kind, a shape and two places take about a hundred bytes


class TensorFiles(Mapping[str, Tensor]):
    """Names to tensors, over all files of a model."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.places: dict[str, Path] = {}
        for path in files:
            for name in self._open(path, lambda opened: list(opened.keys())):
                if name in self.places:
                    raise RefusedError(f"{path}: tensor {name[:80]} is in {self.places[name].name} as well.")
                self.places[name] = path
        if len(self.places) > MOST_TENSORS:
            raise RefusedError(f"{files[0]}: {len(self.places):,} tensors; at most {MOST_TENSORS:,} are read.")
        self.names = {name: name for name in self.places}  # as they are asked for -> as the file has them

    def renamed(self, names: Mapping[str, str]) -> TensorFiles:
        """Only the tensors that `names` lists, as it calls them: file's name -> name."""
        made = object.__new__(TensorFiles)
        made.places, made.names = self.places, {}
        for old, new in names.items():
            if made.names.setdefault(new, old) != old:
                raise RefusedError(f"{self.places[old]}: tensor {old[:80]} is {made.names[new][:80]} as well.")
        return made

    def __getitem__(self, name: str) -> Tensor:
        held = self.names[name]
        path = self.places[held]

        # a file opened for one tensor is let go with it
        found: Tensor = self._open(path, lambda opened: opened.get_tensor(held))
        return found.to(torch.float32)

    def shapes(self) -> dict[str, Tensor]:
        """Every tensor without its numbers, on torch's meta device."""
        made: dict[str, Tensor] = {}
        wanted = {held: name for name, held in self.names.items()}
        for path in dict.fromkeys(self.places.values()):

            def look(opened: Any, path: Path = path) -> None:
                for held in opened.keys():  # noqa: SIM118  (not a mapping)
                    if held in wanted:
                        made[wanted[held]] = _shape(opened.get_slice(held), f"{path}: tensor {held[:80]}")

            self._open(path, look)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def _open(path: Path, use: Any) -> Any:
        try:
            with path.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise ValueError(f"a header of {length:,} bytes; at most {LARGEST_HEADER:,} are read")
            with safe_open(path, framework="pt") as opened:
                return use(opened)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            if out_of_memory(error):
                raise
            raise RefusedError(f"{path}: not a whole safetensors file ({error}). Use another copy.") from None


def _shape(part: Any, where: str) -> Tensor:
    kind, shape = part.get_dtype(), part.get_shape()
    if kind not in NUMBERS:
        raise RefusedError(f"{where} is of {kind}; expected one of {', '.join(NUMBERS)}.")
    if not 1 <= len(shape) <= 2:
        raise RefusedError(f"{where} has the shape {shape!s:.80}; expected one or two sizes.")
    return torch.empty(shape, dtype=torch.float32, device="meta")
