"""A model as a folder: model.safetensors, config.json ("format": "qkv/1"), tokenizer.json, manifest.json. And back.

Nothing in a model folder is run: weights are plain tensors, the rest is JSON that is checked before it is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from qkv.blocks.initialization import outline
from qkv.config import plain
from qkv.errors import ConfigError, InputError, RefusedError
from qkv.evaluation.formats import FormatCheck
from qkv.models.language_model import LanguageModel
from qkv.recipe.recipe import ModelConfig, parse_model
from qkv.storage import before, new_folder, point, read_json, remove_folder, verify
from qkv.text.tokenizer import Tokenizer
from qkv.training.checkpoints import load_weights, write_tensors
from qkv.version import __version__

FORMAT = "qkv/1"
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"


@dataclass(frozen=True)
class Bundle:
    """A model with what it needs to be used."""

    model: LanguageModel
    config: ModelConfig
    tokenizer: Tokenizer
    documents: int  # how many the training text had: with several, writing can start from the separator
    step: int = 0
    folder: Path | None = None
    checked: FormatCheck | None = None  # how well it writes with int8 weights, where that was looked at


def save(folder: Path, bundle: Bundle) -> None:
    """Write `folder` as a whole. It must not exist."""
    assert isinstance(bundle.model, torch.nn.Module)
    weights = {name: tensor.contiguous().cpu() for name, tensor in bundle.model.state_dict().items()}
    values = {
        "format": FORMAT,
        "qkv": __version__,
        "model": plain(bundle.config),
        "documents": bundle.documents,
        "step": bundle.step,
    }
    if bundle.checked is not None:
        values["int8"] = bundle.checked.values()
    with new_folder(folder, sum(tensor.nbytes for tensor in weights.values()) + 65536) as aside:
        write_tensors(aside / WEIGHTS, weights)
        (aside / CONFIG).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        (aside / TOKENIZER).write_text(bundle.tokenizer.json(), encoding="utf-8")


def keep_best(run: Path, bundle: Bundle) -> None:
    """Make `bundle` the run's best model: written aside, then `best` points to it, then the old one goes."""
    target = next(path for number in range(10_000) if not (path := run / f".best-{bundle.step:06d}-{number}").exists())
    save(target, bundle)
    point(run / "best", target)
    for old in run.glob(".best-*"):
        if old != target and old.is_dir():
            remove_folder(old)


def find(name: str | Path) -> Path:
    """The model folder that a run folder or a model folder names."""
    folder = Path(name)
    try:
        for candidate in (folder / "best", before(folder / "best"), folder):
            if (candidate / CONFIG).is_file():
                return candidate
        there = folder.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be opened: {getattr(error, 'strerror', error)}. Check the name.") from None
    if not there:
        raise InputError(f"{folder}: no such model. Give a run folder (as runs/NAME) or a model folder.")
    if (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: this run has no model yet; continue it with: qkv train --run {folder} --resume")
    raise InputError(f"{folder}: not a model; expected a run folder (with best/) or a folder with {CONFIG}.")


def load(name: str | Path, device: str = "cpu") -> Bundle:
    """Open a model for use; a folder that is damaged, altered or not ours is refused."""
    folder = find(name)
    values = read_json(folder / CONFIG)
    if values.get("format") != FORMAT:
        found = values.get("format")
        what = f"its format is {found!r}" if found else "it has no 'format'; Hugging Face folders cannot be opened yet"
        raise RefusedError(f"{folder / CONFIG}: expected a model of format {FORMAT!r}, but {what}.")
    verify(folder, WEIGHTS, CONFIG, TOKENIZER)
    config = _config(values, folder)
    tokenizer = Tokenizer.load(folder / TOKENIZER)
    if tokenizer.vocabulary != config.vocabulary:
        raise RefusedError(
            f"{folder / TOKENIZER}: {tokenizer.vocabulary} pieces, but the model of {CONFIG} has {config.vocabulary}. "
            "The files belong to different models."
        )
    _fits(config, folder / WEIGHTS)
    model = config.build()
    load_weights(folder / WEIGHTS, model)
    return Bundle(
        model.to(device).eval(),
        config,
        tokenizer,
        values["documents"],
        values["step"],
        folder,
        _checked(values, folder),
    )


def _config(values: dict[str, Any], folder: Path) -> Any:
    where = str(folder / CONFIG)
    try:
        config = parse_model(values.get("model", {}), where)
    except ConfigError as error:
        raise RefusedError(str(error)) from None
    for name in ("documents", "step"):
        if not isinstance(values.get(name), int) or values[name] < 0:
            raise RefusedError(f"{where}: {name} = {values.get(name)!r} does not fit; expected a whole number.")
    return config


def _checked(values: dict[str, Any], folder: Path) -> FormatCheck | None:
    if (found := values.get("int8")) is None:
        return None
    numbers = isinstance(found, dict) and all(isinstance(each, int | float) for each in found.values())
    if not numbers or found.keys() != {"plain", "loss", "tokens"}:
        raise RefusedError(f"{folder / CONFIG}: int8 = {found!r} does not fit; expected plain, loss and tokens.")
    return FormatCheck(float(found["plain"]), float(found["loss"]), int(found["tokens"]))


def _fits(config: ModelConfig, weights: Path) -> None:
    """Compare the size that the config asks for with the file's, before any memory is taken."""
    size = weights.stat().st_size
    if config.layers > 10_000 or config.width > 2**20 or config.context > 2**24 or config.vocabulary > 2**28:
        raise RefusedError(f"{weights.parent / CONFIG}: a model of this size cannot be real.")
    with outline():
        needed = sum(tensor.nbytes for tensor in config.build().state_dict().values())
    if not needed <= size <= needed + 2**20 + needed // 10:
        raise RefusedError(f"{weights}: {size:,} bytes, but the model of {CONFIG} needs {needed:,}. Use another copy.")
