"""Checkpoints: the full state of a run in one folder, so that a resumed run reaches the same bits.

    checkpoints/000500/   weights.safetensors  optimizer.safetensors  random.safetensors  state.json  manifest.json

Folders are written aside and renamed (storage.py), named and rotated by number; an old one goes only after the new one
is in place. One that is found damaged is put aside as 000500.damaged, out of the numbers. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from qkv.errors import RefusedError, is_out_of_memory
from qkv.safe_json import read_json
from qkv.storage import atomic_folder, flush, remove_folder, storage_errors, verify_files
from qkv.training.devices import random_state, restore_random_state
from qkv.training.loop import TrainingState

WEIGHTS, OPTIMIZER, RANDOM, STATE = "weights.safetensors", "optimizer.safetensors", "random.safetensors", "state.json"
DAMAGED = ".damaged"


def numbered(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first, by number: 9 comes before 10."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def save(
    folder: Path, state: TrainingState, memory: dict[str, Any], device: str, keep: int, spare: Collection[int] = ()
) -> Path:
    """Write the state after `state.step` steps; `memory` is what else the run remembers. Of older checkpoints the
    last `keep` stay, and those of the steps `spare`."""
    final = folder / f"{state.step:06d}"
    weights = {name: tensor.contiguous() for name, tensor in state.model.state_dict().items()}
    optimizer = {name: tensor.contiguous() for name, tensor in _optimizer_tensors(state).items()}
    needed = sum(tensor.nbytes for tensors in (weights, optimizer) for tensor in tensors.values()) + 65536
    values = {"step": state.step, "samples": state.samples, "memory": memory}
    with atomic_folder(final, needed) as aside:
        write_tensors(aside / WEIGHTS, weights)
        write_tensors(aside / OPTIMIZER, optimizer)
        write_tensors(aside / RANDOM, random_state(device))
        (aside / STATE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    written = [path for path in numbered(folder) if int(path.name) <= state.step]
    for old in written[: -max(1, keep)]:
        if int(old.name) not in spare:
            remove_folder(old)
    return final


def put_aside(damaged: Path) -> Path:
    """Take a checkpoint out of the numbers: its number will be written anew, and rotation must not count it."""
    names = (f"{damaged.name}{DAMAGED}{'' if number == 1 else f'-{number}'}" for number in range(1, 10_000))
    aside = next(path for name in names if not (path := damaged.with_name(name)).exists())
    with storage_errors(damaged):
        damaged.rename(aside)
        flush(aside.parent)
    return aside


def load(folder: Path, state: TrainingState, device: str) -> dict[str, Any]:
    """Put a checkpoint back into `state`; what it lacks or has too much is an error, never a warning."""
    verify_files(folder, WEIGHTS, OPTIMIZER, RANDOM, STATE)
    values = read_json(folder / STATE)
    for name, kind in (("step", int), ("samples", int), ("memory", dict)):
        if not isinstance(values.get(name), kind):
            raise RefusedError(f"{folder / STATE}: {name} = {values.get(name)!r} does not fit. The file was altered.")
    load_weights(folder / WEIGHTS, state.model)
    _load_optimizer(folder / OPTIMIZER, state)
    random = {name: tensor.cpu() for name, tensor in read_tensors(folder / RANDOM).items()}
    try:
        restore_random_state(device, random)
    except (KeyError, RuntimeError, TypeError) as error:
        raise RefusedError(f"{folder / RANDOM}: no random state of {device} ({error}). The file was altered.") from None
    state.step, state.samples = values["step"], values["samples"]
    return dict(values["memory"])


def _optimizer_tensors(state: TrainingState) -> dict[str, Tensor]:
    names: dict[Tensor, str] = {parameter: name for name, parameter in state.model.named_parameters()}
    return {
        f"{kind}/{names[parameter]}/{key}": value
        for kind, optimizer in state.optimizers.items()
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def _load_optimizer(path: Path, state: TrainingState) -> None:
    parameters = dict(state.model.named_parameters())
    tensors = read_tensors(path)
    held = {place.split("/")[1] for place in tensors if place.count("/") == 2}
    wanted = {name for name, parameter in parameters.items() if parameter.requires_grad}
    if lacking := sorted(wanted - held):
        raise RefusedError(f"{path}: nothing about {lacking[0]}. Use the run's own checkpoint.")
    for place, tensor in tensors.items():
        kind, _, rest = place.partition("/")
        name, _, key = rest.partition("/")
        fits = name in parameters and (tensor.ndim == 0 or tensor.shape == parameters[name].shape)
        if kind not in state.optimizers or not key or not fits:
            raise RefusedError(f"{path}: {place} belongs to another recipe. Use the run's own checkpoint.")
        # AdamW counts its steps in a CPU tensor unless it is fused on a device
        state.optimizers[kind].state[parameters[name]][key] = tensor.to(parameters[name].device)


def write_tensors(path: Path, tensors: dict[str, Tensor], remarks: dict[str, str] | None = None) -> None:
    try:
        save_file({name: tensor.detach() for name, tensor in tensors.items()}, path, remarks)
    except SafetensorError as error:
        # safetensors reports the disk's refusal as text only
        number = re.search(r"os error (\d+)", str(error))
        if not number:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    # safetensors writes for the owner alone; a file of ours is as readable as any other that this person makes
    os.chmod(path, 0o666 & ~_umask())


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, struct.error) as error:
        if is_out_of_memory(error):
            raise
        raise RefusedError(f"{path}: not a whole safetensors file ({error}). Use another copy.") from None


def load_weights(path: Path, model: nn.Module) -> None:
    """Copy the tensors of a file into a model; names and shapes must be exactly the model's."""
    tensors, own = read_tensors(path), model.state_dict()
    require_fit(path, tensors, own)
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of what checkpoints hold, tensor by tensor; of whole numbers the last."""
    total: dict[str, Tensor] = {}
    for folder in folders:
        verify_files(folder, WEIGHTS)
        last = read_tensors(folder / WEIGHTS)
        for name, tensor in last.items():
            if tensor.is_floating_point():
                total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {
        name: (total[name] / len(folders)).to(tensor.dtype) if name in total else tensor
        for name, tensor in last.items()
    }


def require_fit(path: Path, tensors: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Refuse tensors whose names, shapes or kinds are not exactly a model's."""
    for name in [*own, *tensors]:
        if name not in tensors or name not in own:
            raise RefusedError(f"{path}: tensor {name} is {'missing' if name in own else 'not part of the model'}.")
        if tensors[name].shape != own[name].shape or tensors[name].dtype != own[name].dtype:
            raise RefusedError(
                f"{path}: tensor {name} is {tuple(tensors[name].shape)} {tensors[name].dtype}, "
                f"the model needs {tuple(own[name].shape)} {own[name].dtype}."
            )
