"""Weights in the formats of other projects: tables that map tensor names of qkv to foreign ones, and files of tensors.

    TABLE = (
        Row("embedding.weight", "transformer.wte.weight"),                                    the same tensor
        Row("blocks.{i}…inner.weight", "transformer.h.{i}.mlp.c_fc.weight", TRANSPOSED),       {i} counts the layers
        Row("blocks.{i}…{query,key,value}.bias", "transformer.h.{i}.attn.c_attn.bias", THIRDS),    one tensor for three
    )

`import_weights` and `export_weights` are exact inverses: tensors are renamed, transposed and split; no number changes.

The tensors of safetensors files are converted to f32, and each is read only when it is used. Files are memory-mapped: a
tensor that needs no conversion is not copied. The safetensors library checks that offsets and shapes fit the file; this
module checks names, ranks and number formats, and `shapes` returns all shapes before any number is read. The reader of
every format returns `Imported`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from qkv.blocks.initialization import no_start, outline
from qkv.errors import InputError, RefusedError, is_out_of_memory
from qkv.safe_json import RejectedJson, parse_bounded_json
from qkv.text.tokenizer import Tokenizer

Weights = Mapping[str, Tensor]
Settings = Mapping[str, Any]  # a parsed config.json
Values = dict[str, Any]  # some values of a config.json, or of a config of qkv


@dataclass(frozen=True)
class Transform:
    """Converts one foreign tensor into one or several tensors of qkv (`read`), and back (`write`)."""

    read: Callable[[Tensor], Sequence[Tensor]]
    write: Callable[[Sequence[Tensor]], Tensor]


PLAIN = Transform(read=lambda foreign: [foreign], write=lambda parts: parts[0])
TRANSPOSED = Transform(read=lambda foreign: [foreign.T], write=lambda parts: parts[0].T)
THIRDS = Transform(read=lambda foreign: foreign.chunk(3), write=lambda parts: torch.cat(list(parts)))
AS_A_ROW = Transform(read=lambda foreign: [foreign.squeeze(0)], write=lambda parts: parts[0].unsqueeze(0))
TRANSPOSED_THIRDS = Transform(read=lambda foreign: foreign.T.chunk(3), write=lambda parts: torch.cat(list(parts)).T)


def interleaved(heads: int) -> Transform:
    """Reorders rows of queries or keys: rotary positions rotate the pairs (0, 1), (2, 3) ... in the foreign format, and
    (0, K/2), (1, K/2 + 1) ... in qkv."""

    def reorder(tensor: Tensor, *inside: int) -> Tensor:
        return tensor.view(heads, *inside, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)

    return Transform(read=lambda foreign: [reorder(foreign, -1, 2)], write=lambda parts: reorder(parts[0], 2, -1))


@dataclass(frozen=True)
class Row:
    """One row of a table. `{i}` is replaced by the layer, `{query,key,value}` by each of these names in turn."""

    name: str
    foreign_name: str
    transform: Transform = PLAIN

    def at(self, layer: int) -> tuple[list[str], str]:
        """The names of qkv's tensors and of the foreign tensor in one layer."""
        name, foreign_name = (name.replace("{i}", str(layer)) for name in (self.name, self.foreign_name))
        before, brace, rest = name.partition("{")
        if not brace:
            return [name], foreign_name
        parts, _, after = rest.partition("}")
        return [before + part + after for part in parts.split(",")], foreign_name


Table = tuple[Row, ...]


def pairs(*names: tuple[str, str]) -> Table:
    """The rows for weight and bias of each layer, from its name in qkv and its foreign name."""
    return tuple(Row(f"{name}.{part}", f"{foreign}.{part}") for name, foreign in names for part in ("weight", "bias"))


def import_weights(table: Table, foreign: Weights) -> dict[str, Tensor]:
    """Convert foreign tensors into qkv's. Missing and unknown tensors are errors."""
    lines = _lines(table, foreign)
    _require_same_names({name for _, _, name in lines}, foreign)
    weights: dict[str, Tensor] = {}
    for transform, names, name in lines:
        tensor = foreign[name]  # looked up once, because this may read it from a file
        weights |= {new: _unshared(part, tensor) for new, part in zip(names, transform.read(tensor), strict=True)}
    return weights


def export_weights(table: Table, weights: Weights) -> dict[str, Tensor]:
    """Convert qkv's tensors into foreign ones. Missing and unknown tensors are errors."""
    lines = _lines(table, weights)
    _require_same_names({name for _, names, _ in lines for name in names}, weights)
    foreign: dict[str, Tensor] = {}
    for transform, names, name in lines:
        foreign[name] = _unshared(transform.write([weights[part] for part in names]), weights[names[0]])
    return foreign


def _lines(table: Table, weights: Weights) -> list[tuple[Transform, list[str], str]]:
    """The table with a row for every layer. The names of `weights` show how many layers each stack has."""
    stacks: dict[str, set[str]] = {}
    for name in weights:
        parts = name.split(".")
        for at, part in enumerate(parts):
            if part.isdecimal():
                stacks.setdefault(".".join(parts[:at]), set()).add(part)

    def layers(row: Row) -> int:
        """The number of layers of a row. `weights` has either qkv's names or the foreign ones."""
        if "{i}" not in row.foreign_name:
            return 1
        return max(len(stacks.get(name.partition(".{i}")[0], ())) for name in (row.name, row.foreign_name))

    return [(row.transform, *row.at(layer)) for row in table for layer in range(layers(row))]


def _require_same_names(expected: set[str], weights: Weights) -> None:
    missing, unknown = sorted(expected - set(weights)), sorted(set(weights) - expected)
    kinds = (("missing", missing), ("unknown", unknown))
    if problems := [f"{len(names)} {what} ({names[0]})" for what, names in kinds if names]:
        raise InputError(f"these are not the tensors of this architecture: {', '.join(problems)}.")


def _unshared(tensor: Tensor, source: Tensor) -> Tensor:
    """A copy of a tensor that shares its memory with others, because safetensors cannot write such tensors; an
    unchanged tensor is returned without a copy."""
    return tensor if tensor is source else tensor.clone(memory_format=torch.contiguous_format)


NUMBERS = ("F32", "F16", "BF16", "F64")
MAX_TENSORS = 100_000
LARGEST_HEADER = 2**23  # bytes, of one file; a name, a number format, a shape and two offsets take about a hundred


class LazyTensors(Mapping[str, Tensor]):
    """A mapping from names to tensors. Each tensor is read only when it is looked up."""

    names: Mapping[str, Any]  # the name of a tensor, and how its file stores it

    @abstractmethod
    def shapes(self) -> dict[str, Tensor]:
        """Every tensor as a shape without numbers, on torch's meta device."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class TensorFiles(LazyTensors):
    """The tensors of all files of a model."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.places: dict[str, Path] = {}
        self.facts: dict[str, Any] = {}  # the entries of the headers: dtype, shape, data_offsets
        for path in files:
            for name, facts in _header(path).items():
                if name in self.places:
                    raise RefusedError(f"{path}: tensor {name[:80]} is in {self.places[name].name} as well.")
                self.places[name], self.facts[name] = path, facts
        if len(self.places) > MAX_TENSORS:
            raise RefusedError(f"{files[0]}: {len(self.places):,} tensors; at most {MAX_TENSORS:,} are read.")
        self.names = {name: name for name in self.places}  # the name for a lookup -> the name in the file

    def renamed(self, names: Mapping[str, str]) -> TensorFiles:
        """Only the tensors in `names`, which maps names in the files to new names."""
        files = object.__new__(TensorFiles)
        files.places, files.facts, files.names = self.places, self.facts, {}
        for old, new in names.items():
            if files.names.setdefault(new, old) != old:
                raise RefusedError(f"{self.places[old]}: tensor {old[:80]} is {files.names[new][:80]} as well.")
        return files

    def __getitem__(self, name: str) -> Tensor:
        held = self.names[name]
        path = self.places[held]

        # the file is opened for each tensor, so that its memory map is released with the tensor
        try:
            with safe_open(path, framework="pt") as opened:
                tensor: Tensor = opened.get_tensor(held)
        except (SafetensorError, OSError, RuntimeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise RefusedError(f"{path}: not a whole safetensors file ({error}). Use another copy.") from None
        return tensor.to(torch.float32)

    def shapes(self) -> dict[str, Tensor]:
        places = {name: f"{self.places[held]}: tensor {held[:80]}" for name, held in self.names.items()}
        return {name: _shape(self.facts[held], places[name]) for name, held in self.names.items()}


def _header(path: Path) -> dict[str, Any]:
    """The entries of a file's header by tensor name; the rest of the file is not read."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > LARGEST_HEADER:
                raise RejectedJson(f"a header of {length:,} bytes; at most {LARGEST_HEADER:,} are read")
            text = file.read(length)
        if len(text) != length:
            raise RejectedJson("it ends within its header")
        values = parse_bounded_json(text.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error if isinstance(error, RejectedJson | OSError) else "its header is not JSON"
        raise RefusedError(f"{path}: not a whole safetensors file ({reason}). Use another copy.") from None
    if not isinstance(values, dict) or not all(isinstance(facts, dict) for facts in values.values()):
        raise RefusedError(f"{path}: not a whole safetensors file (its header names no tensors). Use another copy.")
    return {name: facts for name, facts in values.items() if name != "__metadata__"}


def _shape(facts: dict[str, Any], where: str) -> Tensor:
    kind, shape = facts.get("dtype"), facts.get("shape")
    if kind not in NUMBERS:
        raise RefusedError(f"{where} is of {kind!s:.20}; expected one of {', '.join(NUMBERS)}.")
    if not isinstance(shape, list) or not 1 <= len(shape) <= 2:
        raise RefusedError(f"{where} has the shape {shape!s:.80}; expected one or two sizes.")
    if any(type(size) is not int or not 0 <= size < 2**31 for size in shape):
        raise RefusedError(f"{where} has the shape {shape!s:.80}; no machine holds it.")
    return torch.empty(shape, dtype=torch.float32, device="meta")


LARGEST_TABLE = 2**25  # positions x width, of rotary and sinusoidal positions: they are computed, not read


@dataclass(frozen=True)
class Imported:
    config: Any  # the config of a model of qkv, with build()
    weights: Mapping[str, Tensor]  # f32; exactly the names and shapes of the built model
    tokenizer: Tokenizer
    name: str  # of the model, from its files
    notes: tuple[str, ...] = ()  # sentences for the user: what was left out, and what was assumed
    target: Tokenizer | None = None  # a translator's tokenizer for targets, if it is not the one for sources


def with_weights(
    imported: Imported, table: Table, files: LazyTensors, where: str, largest: int = LARGEST_TABLE
) -> Imported:
    """Add the files' weights, converted to qkv's tensors. Config, tokenizer and all shapes must fit together.

    They are compared before any number is read, because a file of a few bytes may claim to contain a terabyte.
    """
    config = getattr(imported.config, "encoder", imported.config)
    if imported.tokenizer.vocabulary > config.vocabulary:
        raise RefusedError(
            f"{where}: the tokenizer has {imported.tokenizer.vocabulary:,} tokens, the model {config.vocabulary:,}. "
            "The files belong to different models."
        )
    sinusoidal = getattr(config, "positions", None) == "sinusoidal"  # such positions are as wide as the model
    width = config.width if sinusoidal else getattr(config, "head_width", 0) or config.width // max(1, config.heads)
    layers = config.layers + getattr(config, "decoder_layers", 0)
    if layers > len(files) or config.context * width > largest:
        raise RefusedError(
            f"{where}: {layers:,} layers, a context of {config.context:,}: more than the {len(files):,} tensors "
            "and the memory of any machine allow."
        )
    stored = files.shapes()
    try:
        shapes = import_weights(table, stored)
        with outline():
            own = imported.config.build().state_dict()
    except (InputError, ValueError, RuntimeError) as error:
        raise RefusedError(f"{where}: {error}") from None
    for name in [*own, *shapes]:
        if name not in shapes or name not in own or shapes[name].shape != own[name].shape:
            there, needed = (tuple(shape_of[name].shape) if name in shape_of else None for shape_of in (shapes, own))
            raise RefusedError(f"{where}: tensor {name} is {there}, the model needs {needed}. The files do not fit.")
    return replace(imported, weights=import_weights(table, files))


def build_model(config: Any, weights: Mapping[str, Tensor], device: str) -> nn.Module:
    """The model of a config with these tensors as its weights. They are not copied, and may lie in a mapped file."""
    with no_start():  # without initialization, the memory of the first weights is never touched
        model: nn.Module = config.build()
    model.load_state_dict(dict(weights), strict=True, assign=True)
    return model.to(device).eval().requires_grad_(True)
