"""A model as a folder: model.safetensors, config.json ("format": "qkv/1"), tokenizer.json, manifest.json. And back.

Nothing in a model folder is run: weights are plain tensors, the rest is JSON that is checked before it is used. What
another project made is opened through `interop`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor, nn

from qkv.blocks.initialization import outline
from qkv.config import toml_values
from qkv.data.encode import end_of
from qkv.errors import ConfigError, InputError, RefusedError
from qkv.interop.tensors import Imported, filled
from qkv.models.language_model import LanguageModel
from qkv.models.registry import ModelConfig, input_of
from qkv.recipe import own_model
from qkv.recipe.recipe import NewSection, parse_model
from qkv.safe_json import plain_file, read_json, require_replaceable
from qkv.storage import atomic_folder, point_link, previous_path, remove_folder, replace_folder, verify_files
from qkv.text.tokenizer import Roles, Tokenizer
from qkv.training import devices
from qkv.training.checkpoints import read_tensors, require_fit, write_tensors
from qkv.version import __version__

if TYPE_CHECKING:
    from qkv.evaluation.perplexity import FormatCheck

FORMAT = "qkv/1"
WEIGHTS, CONFIG, TOKENIZER = "model.safetensors", "config.json", "tokenizer.json"
TARGET_TOKENIZER = "target_tokenizer.json"
FILES = {".gguf": "gguf", ".bin": "llama2c"}  # one file, one model: the modules of `interop` that read them


@dataclass(frozen=True)
class Bundle:
    """A model with what it needs to be used."""

    model: LanguageModel | nn.Module
    config: ModelConfig
    pieces: Tokenizer | None  # None: it reads images or numbers
    documents: int  # how many the training text had: with several, writing can start from the separator
    step: int = 0
    folder: Path | None = None
    checked: FormatCheck | None = None  # how well it writes with int8 weights, where that was measured
    source: str = ""  # the name of the model elsewhere, where it was not trained here
    notes: tuple[str, ...] = ()  # about how it was opened
    target_pieces: Tokenizer | None = None  # a translator's, where its languages have separate vocabularies

    @property
    def tokenizer(self) -> Tokenizer:
        if self.pieces is None:
            does = "reads rows of numbers" if input_of(self.config) == "numbers" else "reads images"
            raise InputError(f"this model {does} and does not read text. Evaluate it with: qkv evaluate MODEL DATA.")
        return self.pieces

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts that a translator writes; its ids mean the same tokens as those of `tokenizer`."""
        return self.target_pieces or self.tokenizer

    @property
    def opening(self) -> tuple[int, ...]:
        """What stands before every text: that is written on, or, by a model that only reads, that is read."""
        if self.source or not isinstance(self.model, LanguageModel):
            return self.tokenizer.opening
        return (self.tokenizer.separator,) if self.documents > 1 else ()

    @property
    def marks(self) -> tuple[int, int]:
        """What a translator begins to write with, and what it ends with: trained here, both are what closes a text."""
        if self.source:
            return self.tokenizer.start, self.tokenizer.ends[0]
        end = end_of(self.tokenizer)[-1]
        return end, end

    @property
    def unwritten(self) -> frozenset[int]:
        """Ids that no translation holds: special tokens, as padding and the tags of languages, but for the one that
        ends it, a start that is not the end, and rows without a token. Marian's models learned to write the unknown."""
        start, end = self.marks
        beyond = range(self.tokenizer.vocabulary, self.config.vocabulary)
        special = self.tokenizer.named.values()
        learned = self.tokenizer.unknown if self.tokenizer.kind == "unigram" else None
        return frozenset({start, self.tokenizer.padding, *special, *beyond} - {end, learned, None})


def publish(folder: Path, bundle: Bundle, *, force: bool = False) -> None:
    """Write a model folder for people: `force` replaces another model of this name, and nothing else."""
    if folder.exists() or folder.is_symlink():
        require_replaceable(folder, CONFIG, force)
    save(folder, bundle, replace_folder if folder.exists() else None)


def save(folder: Path, bundle: Bundle, place: Callable[[Path, Path], None] | None = None) -> None:
    """Write `folder` as a whole. It must not exist, unless `place` says how to take its name."""
    assert isinstance(bundle.model, nn.Module)
    weights = {name: tensor.contiguous().cpu() for name, tensor in bundle.model.state_dict().items()}
    values = {
        "format": FORMAT,
        "qkv": __version__,
        **own_model.saved_values(bundle.config),
        "model": toml_values(bundle.config),
        "documents": bundle.documents,
        "step": bundle.step,
    }
    if bundle.checked is not None:
        values["int8"] = bundle.checked.values()
    if bundle.source:
        values |= {"source": bundle.source, "roles": bundle.tokenizer.roles.values()}
    with atomic_folder(folder, sum(tensor.nbytes for tensor in weights.values()) + 65536, place) as aside:
        write_tensors(aside / WEIGHTS, weights)
        (aside / CONFIG).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        if bundle.pieces is not None:
            (aside / TOKENIZER).write_text(bundle.pieces.json(), encoding="utf-8")
        if bundle.target_pieces is not None:
            (aside / TARGET_TOKENIZER).write_text(bundle.target_pieces.json(), encoding="utf-8")


def keep_best(run: Path, bundle: Bundle) -> None:
    """Make `bundle` the run's best model: written aside, then `best` points to it, then the old one goes."""
    target = next(path for number in range(10_000) if not (path := run / f".best-{bundle.step:06d}-{number}").exists())
    save(target, bundle)
    point_link(run / "best", target)
    for old in run.glob(".best-*"):
        if old != target and old.is_dir():
            remove_folder(old)


def find(name: str | Path) -> Path:
    """The model folder that a run folder or a model folder names, or the file that is a model."""
    folder = Path(name)
    try:
        if folder.suffix in FILES and folder.is_file():
            return folder
        for candidate in (folder / "best", previous_path(folder / "best"), folder):
            if (candidate / CONFIG).is_file():
                return candidate
        there = folder.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be opened: {getattr(error, 'strerror', error)}. Check the name.") from None
    if not there:
        raise InputError(
            f"{folder}: no such model. Give a run folder (as runs/NAME), a model folder, a Hugging Face folder or a "
            ".gguf file."
        )
    if (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: this run has no model yet; continue it with: qkv train --run {folder} --resume")
    raise InputError(
        f"{folder}: not a model; expected a run folder (with best/), a folder with {CONFIG}, a .gguf file or a .bin "
        "of llama2.c."
    )


def load(name: str | Path, device: str = "cpu") -> Bundle:
    """Open a model for use; a folder that is damaged, altered or unsafe is refused."""
    place = find(name)
    if place.is_file():
        return _imported(FILES[place.suffix], place, device)
    values = read_json(plain_file(place, CONFIG))
    if "format" not in values and "model_type" in values:
        return _imported("huggingface", place, device)
    if values.get("format") != FORMAT:
        found = (
            f"its format is {values['format']!a:.80}" if "format" in values else "it has neither format nor model_type"
        )
        raise RefusedError(f"{place / CONFIG}: expected a model of format {FORMAT!r} or of Hugging Face, but {found}.")
    return _own(place, values, device)


def _own(folder: Path, values: NewSection, device: str) -> Bundle:
    config = _config(values, folder)
    text, source = input_of(config) == "text", values.get("source", "")
    verify_files(folder, WEIGHTS, CONFIG, *((TOKENIZER,) if text else ()))
    roles = Roles.parse(values.get("roles"), config.vocabulary) if source else None
    if not isinstance(source, str) or (source and roles is None):
        raise RefusedError(f"{folder / CONFIG}: roles = {values.get('roles')!a:.80} does not fit; expected token ids.")
    tokenizer = Tokenizer.load(folder / TOKENIZER, roles) if text else None
    target = None
    if text and (folder / TARGET_TOKENIZER).is_file():
        verify_files(folder, TARGET_TOKENIZER)
        target = Tokenizer.load(folder / TARGET_TOKENIZER, roles)
    if tokenizer is not None:
        _require_vocabulary(tokenizer, target, folder, config.vocabulary, padded=bool(source))
    model = filled(config, read_weights(folder / WEIGHTS, config), device)
    numbers, checked = (values["documents"], values["step"]), _checked(values, folder)
    return Bundle(model, config, tokenizer, *numbers, folder, checked, source, target_pieces=target)


def _require_vocabulary(
    tokenizer: Tokenizer, target: Tokenizer | None, folder: Path, rows: int, *, padded: bool
) -> None:
    """Refuse tokenizers of another model; `padded`: a model from elsewhere may have rows without a token."""
    other = "The files belong to different models."
    own = tokenizer.vocabulary
    if target is not None and target.vocabulary != own:
        raise RefusedError(
            f"{folder / TARGET_TOKENIZER}: {target.vocabulary} tokens, but {TOKENIZER} has {own}. {other}"
        )
    if own > rows or (own < rows and not padded):
        raise RefusedError(f"{folder / TOKENIZER}: {own} tokens, but the model of {CONFIG} has {rows}. {other}")


def _imported(reader: str, place: Path, device: str) -> Bundle:
    found: Imported = import_module(f"qkv.interop.{reader}").read(place)
    devices.give_back()  # what reading the vocabulary left behind, before the weights come into memory
    model = filled(found.config, found.weights, device)
    return Bundle(model, found.config, found.tokenizer, 0, 0, place, None, found.name, found.notes, found.target)


def _config(values: NewSection, folder: Path) -> ModelConfig:
    where = str(folder / CONFIG)
    if own_model.KEY in values:
        own_model.require(values.get("model"), values[own_model.KEY], where)
    try:
        config = parse_model(values.get("model", {}), where)
    except ConfigError as error:
        raise RefusedError(str(error)) from None
    for name in ("documents", "step"):
        if not isinstance(values.get(name), int) or values[name] < 0:
            raise RefusedError(f"{where}: {name} = {values.get(name)!r} does not fit; expected a whole number.")
    return config


def read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    """The tensors of a file; its size is compared with what the config asks for before any memory is taken."""
    size = path.stat().st_size
    if config.layers > 10_000 or config.width > 2**20 or config.context > 2**24 or config.vocabulary > 2**28:
        raise RefusedError(f"{path.parent / CONFIG}: a model of this size cannot be real.")
    with outline():
        expected = config.build().state_dict()
    needed = sum(tensor.nbytes for tensor in expected.values())
    if not needed <= size <= needed + 2**20 + needed // 10:
        raise RefusedError(f"{path}: {size:,} bytes, but the model of {CONFIG} needs {needed:,}. Use another copy.")
    tensors = read_tensors(path)
    require_fit(path, tensors, expected)
    return tensors


def _checked(values: NewSection, folder: Path) -> FormatCheck | None:
    if (found := values.get("int8")) is None:
        return None
    from qkv.evaluation.perplexity import FormatCheck

    numbers = isinstance(found, dict) and all(isinstance(each, int | float) for each in found.values())
    if not numbers or found.keys() != {"plain", "loss", "tokens"}:
        raise RefusedError(f"{folder / CONFIG}: int8 = {found!r} does not fit; expected plain, loss and tokens.")
    return FormatCheck(float(found["plain"]), float(found["loss"]), int(found["tokens"]))
