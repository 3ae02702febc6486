"""Tensors of other projects: name tables, which say which of our tensors is which of theirs, and files of tensors.

    TABLE = (
        Row("embedding.weight", "transformer.wte.weight"),                                    the same tensor
        Row("blocks.{i}…inner.weight", "transformer.h.{i}.mlp.c_fc.weight", TRANSPOSED),       {i} counts the layers
        Row("blocks.{i}…{query,key,value}.bias", "transformer.h.{i}.attn.c_attn.bias", THIRDS),    three of ours in one
    )

`import_weights` and `export_weights` are exact inverses: tensors are renamed, turned and cut, never computed with.

The tensors of safetensors files are read as f32, each when it is asked for. A file is mapped: what is used as it stands
is never copied, and what is turned or widened leaves nothing behind. The safetensors library checks that offsets and
shapes fit the file; here names, ranks and kinds of numbers are checked, and `shapes` gives them all before a number is
read. `Imported` is what a reader of any format returns.
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


NUMBERS = ("F32", "F16", "BF16", "F64")
MAX_TENSORS = 100_000
LARGEST_HEADER = 2**23  # of one file; a name, a kind, a shape and two places take about a hundred bytes


class LazyTensors(Mapping[str, Tensor]):
    """Names to tensors, each read when it is asked for."""

    names: Mapping[str, Any]  # a name and what the file has under it

    @abstractmethod
    def shapes(self) -> dict[str, Tensor]:
        """Every tensor without its numbers, on torch's meta device."""

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class TensorFiles(LazyTensors):
    """The tensors of all files of a model."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.places: dict[str, Path] = {}
        self.facts: dict[str, Any] = {}  # as the headers say them: dtype, shape, data_offsets
        for path in files:
            for name, facts in _header(path).items():
                if name in self.places:
                    raise RefusedError(f"{path}: tensor {name[:80]} is in {self.places[name].name} as well.")
                self.places[name], self.facts[name] = path, facts
        if len(self.places) > MAX_TENSORS:
            raise RefusedError(f"{files[0]}: {len(self.places):,} tensors; at most {MAX_TENSORS:,} are read.")
        self.names = {name: name for name in self.places}  # as they are asked for -> as the file has them

    def renamed(self, names: Mapping[str, str]) -> TensorFiles:
        """Only the tensors that `names` lists, as it calls them: file's name -> name."""
        files = object.__new__(TensorFiles)
        files.places, files.facts, files.names = self.places, self.facts, {}
        for old, new in names.items():
            if files.names.setdefault(new, old) != old:
                raise RefusedError(f"{self.places[old]}: tensor {old[:80]} is {files.names[new][:80]} as well.")
        return files

    def __getitem__(self, name: str) -> Tensor:
        held = self.names[name]
        path = self.places[held]

        # a file opened for one tensor is let go with it
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
    """What a file says about its tensors, by name; nothing else of it is touched."""
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


LARGEST_TABLE = 2**25  # places x width, of rotary positions and waves: they are computed, not read


@dataclass(frozen=True)
class Imported:
    config: Any  # of one of our models, with build()
    weights: Mapping[str, Tensor]  # f32; exactly the names and shapes of the built model
    tokenizer: Tokenizer
    name: str  # of the model, as its files say it
    notes: tuple[str, ...] = ()  # what was left out or decided, in words
    target: Tokenizer | None = None  # what cuts a translator's targets, where that is another


def with_weights(
    imported: Imported, table: Table, files: LazyTensors, where: str, largest: int = LARGEST_TABLE
) -> Imported:
    """With the files' tensors under our names, once config, tokenizer and every shape are known to fit together.

    No number is read before that: a file of a few bytes may speak of a terabyte.
    """
    config = getattr(imported.config, "encoder", imported.config)
    if imported.tokenizer.vocabulary > config.vocabulary:
        raise RefusedError(
            f"{where}: the tokenizer has {imported.tokenizer.vocabulary:,} tokens, the model {config.vocabulary:,}. "
            "The files belong to different models."
        )
    waves = getattr(config, "positions", None) == "sinusoidal"  # they are as wide as the model
    width = config.width if waves else getattr(config, "head_width", 0) or config.width // max(1, config.heads)
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
    """The model of a config around these tensors, which may lie in a mapped file: they are used as they are."""
    with no_start():  # memory that is never written is never taken
        model: nn.Module = config.build()
    model.load_state_dict(dict(weights), strict=True, assign=True)
    return model.to(device).eval().requires_grad_(True)
