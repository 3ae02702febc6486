"""The tensors of safetensors files, each read when it is asked for, as f32.

A file is mapped: what is used as it stands is never copied, and what is turned or widened leaves nothing behind. The
safetensors library checks that offsets and shapes fit the file; here names, ranks and kinds of numbers are checked.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from qkv.errors import RefusedError, out_of_memory

NUMBERS = ("F32", "F16", "BF16", "F64")
MOST_TENSORS = 100_000


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
        made.places, made.names = self.places, {new: old for old, new in names.items()}
        return made

    def __getitem__(self, name: str) -> Tensor:
        held = self.names[name]
        path = self.places[held]

        def take(opened: Any) -> Tensor:
            part = opened.get_slice(held)
            kind, shape = part.get_dtype(), part.get_shape()
            if kind not in NUMBERS:
                raise RefusedError(f"{path}: tensor {held[:80]} is of {kind}; expected one of {', '.join(NUMBERS)}.")
            if not 1 <= len(shape) <= 2:
                raise RefusedError(f"{path}: tensor {held[:80]} has the shape {shape}; expected one or two sizes.")
            return opened.get_tensor(held)

        # a file opened for one tensor is let go with it
        found: Tensor = self._open(path, take)
        return found.to(torch.float32)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @staticmethod
    def _open(path: Path, use: Any) -> Any:
        try:
            with safe_open(path, framework="pt") as opened:
                return use(opened)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            if out_of_memory(error):
                raise
            raise RefusedError(f"{path}: not a whole safetensors file ({error}). Use another copy.") from None


def plain_file(folder: Path, name: str, most: int = 2**63) -> Path:
    """A regular file of the folder by its plain name. Links that lead out of the folder are refused.

    Hugging Face's own cache is made of such links: from snapshots/COMMIT/NAME to blobs/HASH. Those are followed.
    """
    path = folder / name
    if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\0" in name:
        raise RefusedError(f"{folder}: {name!a} is not a plain file name. A model's files lie in its own folder.")
    try:
        real, home = path.resolve(strict=True), folder.resolve(strict=True)
        found = real.stat()
    except FileNotFoundError:
        raise RefusedError(f"{path}: missing. The folder is not whole; use another copy.") from None
    except (OSError, RuntimeError) as error:
        raise RefusedError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}.") from None
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    if real.parent not in (home, blobs):
        raise RefusedError(f"{path}: a link that leads out of the folder. Put the file itself there.")
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(f"{path}: not a regular file. Put the file itself there.")
    if found.st_size > most:
        raise RefusedError(f"{path}: {found.st_size:,} bytes; at most {most:,} are read.")
    return path
