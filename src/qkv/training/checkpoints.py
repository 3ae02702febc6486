"""Checkpoints: the complete state of a run, so that a resumed run ends with exactly the same weights.

    checkpoints/000500/   weights.safetensors  optimizer.safetensors  random.safetensors  state.json  manifest.json

A folder is written under a temporary name and then renamed to its step (`storage.py`); older checkpoints are removed
only after that. A damaged checkpoint is renamed to 000500.damaged. Nothing is pickled.
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


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run in the order of their steps."""
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))


def save(
    folder: Path, state: TrainingState, memory: dict[str, Any], device: str, keep: int, protected: Collection[int] = ()
) -> Path:
    """Write a checkpoint of `state` and of the run's `memory`; its path is returned.

    The newest `keep` checkpoints stay, and those of the `protected` steps; older ones are removed.
    """
    final = folder / f"{state.step:06d}"
    weights = {name: tensor.contiguous() for name, tensor in state.model.state_dict().items()}
    optimizer = {name: tensor.contiguous() for name, tensor in _optimizer_tensors(state).items()}
    needed = sum(tensor.nbytes for tensors in (weights, optimizer) for tensor in tensors.values()) + 65536
    values = {"step": state.step, "samples": state.samples, "memory": memory}
    with atomic_folder(final, needed) as temporary:
        write_tensors(temporary / WEIGHTS, weights)
        write_tensors(temporary / OPTIMIZER, optimizer)
        write_tensors(temporary / RANDOM, random_state(device))
        (temporary / STATE).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    written = [path for path in list_checkpoints(folder) if int(path.name) <= state.step]
    for old in written[: -max(1, keep)]:
        if int(old.name) not in protected:
            remove_folder(old)
    return final


def rename_damaged(checkpoint: Path) -> Path:
    """Rename a damaged checkpoint, so that it is no longer listed and its step can be written again."""
    names = (f"{checkpoint.name}{DAMAGED}{'' if number == 1 else f'-{number}'}" for number in range(1, 10_000))
    renamed = next(path for name in names if not (path := checkpoint.with_name(name)).exists())
    with storage_errors(checkpoint):
        checkpoint.rename(renamed)
        flush(renamed.parent)
    return renamed


def load(folder: Path, state: TrainingState, device: str) -> dict[str, Any]:
    """Load a checkpoint into `state`, and return the run's memory. Missing and unknown tensors are errors."""
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
    held = {full_name.split("/")[1] for full_name in tensors if full_name.count("/") == 2}
    wanted = {name for name, parameter in parameters.items() if parameter.requires_grad}
    if lacking := sorted(wanted - held):
        raise RefusedError(f"{path}: nothing about {lacking[0]}. Use the run's own checkpoint.")
    for full_name, tensor in tensors.items():  # such as adamw/head.weight/exp_avg
        optimizer, _, rest = full_name.partition("/")
        name, _, key = rest.partition("/")
        fits = name in parameters and (tensor.ndim == 0 or tensor.shape == parameters[name].shape)
        if optimizer not in state.optimizers or not key or not fits:
            raise RefusedError(f"{path}: {full_name} belongs to another recipe. Use the run's own checkpoint.")
        # AdamW counts its steps in a CPU tensor unless it is fused on a device
        state.optimizers[optimizer].state[parameters[name]][key] = tensor.to(parameters[name].device)


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    try:
        save_file({name: tensor.detach() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:
        # safetensors gives the number of a system error only in its message
        number = re.search(r"os error (\d+)", str(error))
        if not number:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
    # safetensors lets only the owner read its files; give them the permissions that all other files get
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
    """Copy the tensors of a file into a model, whose names and shapes they must have."""
    tensors, own = read_tensors(path), model.state_dict()
    require_fit(path, tensors, own)
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def mean_weights(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the checkpoints' weights, tensor by tensor; of integer tensors, the last checkpoint's."""
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
    """Refuse tensors whose names, shapes or types are not exactly those of the model's `own` tensors."""
    for name in [*own, *tensors]:
        if name not in tensors or name not in own:
            raise RefusedError(f"{path}: tensor {name} is {'missing' if name in own else 'not part of the model'}.")
        if tensors[name].shape != own[name].shape or tensors[name].dtype != own[name].dtype:
            raise RefusedError(
                f"{path}: tensor {name} is {tuple(tensors[name].shape)} {tensors[name].dtype}, "
                f"the model needs {tuple(own[name].shape)} {own[name].dtype}."
            )
