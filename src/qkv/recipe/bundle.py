"""Saves and loads models. A model folder has model.safetensors, config.json, tokenizer.json and manifest.json.

Nothing in a model folder is executed: weights are plain tensors, and the other files are JSON that is checked before it
is used. The models of other projects are read by `interop`.
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
from qkv.interop.tensors import Imported, build_model
from qkv.models.language_model import LanguageModel
from qkv.models.registry import ModelConfig, input_of
from qkv.recipe import own_model
from qkv.recipe.recipe import MutableSection, parse_model
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
FILE_READERS = {".gguf": "gguf", ".bin": "llama2c"}  # for models in one file: the modules of `interop`, by suffix


@dataclass(frozen=True)
class Bundle:
    """A model with everything that is needed to use it."""

    model: LanguageModel | nn.Module
    config: ModelConfig
    optional_tokenizer: Tokenizer | None  # None for a model of images or numbers
    documents: int  # in the training text; if there were several, generation starts with the separator
    step: int = 0  # of training, after which it was saved
    folder: Path | None = None
    int8_check: FormatCheck | None = None  # its loss with int8 weights, if that was measured
    source: str = ""  # the original name of a model that was not trained by qkv
    notes: tuple[str, ...] = ()  # about how it was opened
    separate_target_tokenizer: Tokenizer | None = None  # of a translator whose languages have separate vocabularies

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a model that reads text; other models are refused."""
        if self.optional_tokenizer is None:
            reads = "rows of numbers" if input_of(self.config) == "numbers" else "images"
            raise InputError(f"this model reads {reads} and not text. Classify {reads} with it, or name another model.")
        return self.optional_tokenizer

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the texts that a translator writes; an id means the same token in both tokenizers."""
        return self.separate_target_tokenizer or self.tokenizer

    @property
    def opening(self) -> tuple[int, ...]:
        """The special tokens that go before every text."""
        if self.source or not isinstance(self.model, LanguageModel):
            return self.tokenizer.opening
        return (self.tokenizer.separator,) if self.documents > 1 else ()

    @property
    def start_and_end(self) -> tuple[int, int]:
        """The start token and the end token of translations; for a translator that qkv trained they are the same."""
        if self.source:
            return self.tokenizer.start, self.tokenizer.ends[0]
        end = end_of(self.tokenizer)[-1]
        return end, end

    @property
    def forbidden_ids(self) -> frozenset[int]:
        """Ids that a translation must not contain: special tokens other than the end, and ids without a token.

        The unknown token of a unigram tokenizer is allowed, because Marian's models were trained to write it.
        """
        start, end = self.start_and_end
        without_token = range(self.tokenizer.vocabulary, self.config.vocabulary)
        special = self.tokenizer.named.values()
        allowed_unknown = self.tokenizer.unknown if self.tokenizer.kind == "unigram" else None
        return frozenset({start, self.tokenizer.padding, *special, *without_token} - {end, allowed_unknown, None})


def publish(folder: Path, bundle: Bundle, *, force: bool = False) -> None:
    """Save a model under a name that the user chose. `force` lets it replace a model folder, but no other folder."""
    if folder.exists() or folder.is_symlink():
        require_replaceable(folder, CONFIG, force)
    save(folder, bundle, replace_folder if folder.exists() else None)


def save(folder: Path, bundle: Bundle, move: Callable[[Path, Path], None] | None = None) -> None:
    """Write a model folder atomically. It must not exist yet, unless `move` is a function that replaces it."""
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
    if bundle.int8_check is not None:
        values["int8"] = bundle.int8_check.values()
    if bundle.source:
        values |= {"source": bundle.source, "roles": bundle.tokenizer.roles.values()}
    with atomic_folder(folder, sum(tensor.nbytes for tensor in weights.values()) + 65536, move) as temporary:
        write_tensors(temporary / WEIGHTS, weights)
        (temporary / CONFIG).write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
        if bundle.optional_tokenizer is not None:
            (temporary / TOKENIZER).write_text(bundle.optional_tokenizer.json(), encoding="utf-8")
        if bundle.separate_target_tokenizer is not None:
            (temporary / TARGET_TOKENIZER).write_text(bundle.separate_target_tokenizer.json(), encoding="utf-8")


def keep_best(run: Path, bundle: Bundle) -> None:
    """Save `bundle` as the run's best model: write it to a new folder, point `best` to it, remove the old one."""
    target = next(path for number in range(10_000) if not (path := run / f".best-{bundle.step:06d}-{number}").exists())
    save(target, bundle)
    point_link(run / "best", target)
    for old in run.glob(".best-*"):
        if old != target and old.is_dir():
            remove_folder(old)


def find(name: str | Path) -> Path:
    """The model folder or model file at this path; of a run folder, that of its best model."""
    folder = Path(name)
    try:
        if folder.suffix in FILE_READERS and folder.is_file():
            return folder
        for candidate in (folder / "best", previous_path(folder / "best"), folder):
            if (candidate / CONFIG).is_file():
                return candidate
        exists = folder.exists()
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be opened: {getattr(error, 'strerror', error)}. Check the name.") from None
    if not exists:
        raise InputError(
            f"{folder}: no such model. Give a run folder (such as runs/NAME), a model folder, a Hugging Face folder or "
            "a .gguf file."
        )
    if (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: this run has no model yet; continue it with: qkv train --run {folder} --resume")
    raise InputError(
        f"{folder}: not a model; expected a run folder (with best/), a folder with {CONFIG}, a .gguf file or a .bin "
        "of llama2.c."
    )


def load(name: str | Path, device: str = "cpu") -> Bundle:
    """Open a model; a folder that is damaged, altered or unsafe is refused."""
    path = find(name)
    if path.is_file():
        return _load_imported(FILE_READERS[path.suffix], path, device)
    values = read_json(plain_file(path, CONFIG))
    if "format" not in values and "model_type" in values:
        return _load_imported("huggingface", path, device)
    if values.get("format") != FORMAT:
        actual = (
            f"its format is {values['format']!a:.80}" if "format" in values else "it has neither format nor model_type"
        )
        raise RefusedError(f"{path / CONFIG}: expected a model of format {FORMAT!r} or of Hugging Face, but {actual}.")
    return _load_own(path, values, device)


def _load_own(folder: Path, values: MutableSection, device: str) -> Bundle:
    config = _parse_config(values, folder)
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
    model = build_model(config, read_weights(folder / WEIGHTS, config), device)
    check = _parse_int8_check(values, folder)
    documents, step = values["documents"], values["step"]
    return Bundle(model, config, tokenizer, documents, step, folder, check, source, separate_target_tokenizer=target)


def _require_vocabulary(
    tokenizer: Tokenizer, target: Tokenizer | None, folder: Path, rows: int, *, padded: bool
) -> None:
    """Refuse tokenizers that do not fit the `rows` of the embedding; in a `padded` one, rows may have no token."""
    remedy = "The files belong to different models."
    tokens = tokenizer.vocabulary
    if target is not None and target.vocabulary != tokens:
        raise RefusedError(
            f"{folder / TARGET_TOKENIZER}: {target.vocabulary} tokens, but {TOKENIZER} has {tokens}. {remedy}"
        )
    if tokens > rows or (tokens < rows and not padded):
        raise RefusedError(f"{folder / TOKENIZER}: {tokens} tokens, but the model of {CONFIG} has {rows}. {remedy}")


def _load_imported(reader: str, path: Path, device: str) -> Bundle:
    imported: Imported = import_module(f"qkv.interop.{reader}").read(path)
    devices.trim_heap()  # free what reading the vocabulary took, before the weights are loaded
    model = build_model(imported.config, imported.weights, device)
    return Bundle(
        model,
        imported.config,
        imported.tokenizer,
        documents=0,
        folder=path,
        source=imported.name,
        notes=imported.notes,
        separate_target_tokenizer=imported.target,
    )


def _parse_config(values: MutableSection, folder: Path) -> ModelConfig:
    """The model's config from the values of config.json, whose counts are checked as well."""
    where = str(folder / CONFIG)
    if own_model.KEY in values:
        own_model.require_same_file(values.get("model"), values[own_model.KEY], where)
    try:
        config = parse_model(values.get("model", {}), where)
    except ConfigError as error:
        raise RefusedError(str(error)) from None
    for name in ("documents", "step"):
        if not isinstance(values.get(name), int) or values[name] < 0:
            raise RefusedError(f"{where}: {name} = {values.get(name)!r} does not fit; expected a whole number.")
    return config


def read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    """The tensors of a file. Its size must fit the config; this is checked before memory is allocated."""
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


def _parse_int8_check(values: MutableSection, folder: Path) -> FormatCheck | None:
    if (saved := values.get("int8")) is None:
        return None
    from qkv.evaluation.perplexity import FormatCheck

    numbers = isinstance(saved, dict) and all(isinstance(number, int | float) for number in saved.values())
    if not numbers or saved.keys() != {"plain", "loss", "tokens"}:
        raise RefusedError(f"{folder / CONFIG}: int8 = {saved!r} does not fit; expected plain, loss and tokens.")
    return FormatCheck(float(saved["plain"]), float(saved["loss"]), int(saved["tokens"]))
