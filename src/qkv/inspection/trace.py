"""A trace: every value that a model computes for a text, by name, equal to that of the untraced model.

    trace = qkv.load("runs/book").trace("The animal didn't cross the street because it was too tired")
    trace.attention                       # (layers, heads, T, S)
    trace.layer(2).scores                 # (heads, T, S), scaled, before the mask

It always has the embeddings and residual streams of all layers; q, k, v, scores, weights, head outputs and the hidden
values of the feed-forward for the layers and heads asked for. Decks 000-004, one name for each arrow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.positions import RotaryPositions
from qkv.blocks.tap import hooked, taps
from qkv.errors import InputError
from qkv.inspection import notebook
from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.subject import StackName, Subject, chosen, main_stack, stacks
from qkv.visible import ShortRepr, html_table

MAX_TRACE_BYTES = 2 * 2**30  # bytes that a trace may hold
ALWAYS = ("embedded", "stream", "logits", "pooled", "vectors")  # taps that are kept of every layer
FIRST: tuple[StackName, ...] = ("self", "cross", "encoder", "decoder")
BLOCK_OUTPUT = re.compile(r"\.\d+\.(feedforward\.)?stream$")  # what a block returns, in qkv's and in others
SOURCE = "source."  # prefix of the values of a translator's source


@dataclass(frozen=True)
class Token:
    id: int
    text: str


@dataclass(frozen=True, repr=False)
class Trace(ShortRepr):
    """The values of one text: `values` has every tap by its path, `layers` every attention layer that was asked for."""

    tokens: list[Token]
    source_tokens: list[Token]  # empty unless the model translates
    values: dict[str, Tensor]
    layers: dict[StackName, list[AttentionValues]]
    embeddings: Float[Tensor, "T _"] | None
    positions: Float[Tensor, "T _"] | None
    output: Tensor  # logits (T, V), scores of labels (L), or vectors (T, D)

    @property
    def logits(self) -> Tensor:
        return self.values.get("logits", self.output)

    @property
    def attention(self) -> Float[Tensor, "L H T S"]:
        """The weights of self-attention, or of a translator's attention to the source."""
        return self.maps(self.main)

    @property
    def main(self) -> StackName:
        """The stack to show first."""
        for name in FIRST:
            if name in self.layers:
                return name
        raise InputError("this trace holds no attention: the model has none, or no layer was asked for.")

    def maps(self, stack: StackName) -> Float[Tensor, "L H T S"]:
        """The weights of one stack, of the layers and heads that were asked for."""
        return torch.stack([layer.weights for layer in self.layers[stack]])

    def layer(self, number: int, stack: StackName | None = None) -> AttentionValues:
        """One layer's attention, by its number in the model."""
        name = stack or self.main
        for candidate in self.layers[name]:
            if candidate.layer == number:
                return candidate
        held = ", ".join(str(layer.layer) for layer in self.layers[name])
        raise InputError(
            f"layer {number} is not in this trace, which holds {held}. Ask for it: trace(..., layers=...)."
        )

    def residual(self, stack: StackName = "self") -> list[Float[Tensor, "T D"]]:
        """The input of the first block of a stack, then the output of each block."""
        first = SOURCE + "embedded" if stack == "encoder" and SOURCE + "embedded" in self.values else "embedded"
        prefix = {"encoder": "encoder.", "decoder": "decoder.", "cross": "decoder."}.get(stack, "blocks.")
        embedded = [self._ending(first)] if self._ending(first) is not None else []
        streams = [name for name in self.values if prefix in name and BLOCK_OUTPUT.search(name)]
        return [values for values in [*embedded, *(self.values[name] for name in streams)] if values is not None]

    def _ending(self, name: str) -> Tensor | None:
        if name in self.values:
            return self.values[name]
        return next((value for key, value in self.values.items() if key.endswith("." + name)), None)

    def _repr_html_(self) -> str:
        """For notebooks: the tokens, the first head of the last layer that was asked for, and the shapes of
        everything."""
        tokens = [token.text for token in self.tokens]
        html = html_table([tokens])
        if any(self.layers.values()):
            last = self.layers[self.main][-1]
            answering = [token.text for token in self.source_tokens] if last.stack == "cross" else tokens
            html += f"<p>{last.stack}, layer {last.layer}, head {last.heads[0]}, both from 0</p>"
            html += notebook.matrix(last.weights[0], tokens, answering)
        return html + html_table((name, str(tuple(value.shape))) for name, value in self.values.items())


@torch.no_grad()
def trace(
    subject: Subject,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    max_bytes: int = MAX_TRACE_BYTES,
) -> Trace:
    """The subject's text through its model. Layers and heads count from 0; None is all, [] is none."""
    model, by_name = subject.model, stacks(subject.model)
    if not by_name:
        chosen(layers, 1, "layer")
    deepest = max((len(stack.layers) for stack in by_name.values()), default=1)
    wanted = chosen(layers, deepest, "layer")
    layers_by_stack: dict[StackName, list[int]] = {
        name: [layer for layer in wanted if layer < len(stack.layers)] for name, stack in by_name.items()
    }
    require_room(subject, layers_by_stack, heads, max_bytes)
    kept: dict[StackName, list[AttentionValues]] = {name: [] for name, asked in layers_by_stack.items() if asked}
    values: dict[str, Tensor] = {}
    table: list[Tensor] = []
    opened = {_block(by_name[name].paths[layer]) for name, asked in layers_by_stack.items() for layer in asked}
    inside = subject.inside
    hooks = [tap.register_forward_hook(_keep(values, name)) for name, tap in taps(model).items() if _held(name, opened)]
    for part in _tables(inside):
        hooks.append(part.register_forward_hook(lambda module, given, output: table.append(output[0].float())))
    with hooked(hooks):
        output = trace_attention(
            subject, lambda layer: kept[layer.stack].append(layer), layers=layers_by_stack, heads=heads
        )
    return Trace(
        tokens=_tokens(subject, subject.inputs.tokens),
        source_tokens=_tokens(subject, subject.inputs.source or ()),
        values=values,
        layers=kept,
        embeddings=table[-1] if table else None,
        positions=positions(inside, len(subject.inputs.tokens)),
        output=output[0].float(),
    )


def _block(path: str) -> str:
    """The block that an attention is part of."""
    return path.split(".attention")[0].split(".crossing")[0]


def _tokens(subject: Subject, ids: Sequence[int]) -> list[Token]:
    return [Token(*token) for token in zip(ids, subject.pieces(ids), strict=True)]


def _held(name: str, opened: set[str]) -> bool:
    """Taps of attention are reported by `trace_attention`; other values are kept for the layers that were asked for."""
    last = name.rsplit(".", 1)[-1]
    if last in ALWAYS:
        return True
    block = next((path for path in opened if path and name.startswith(path + ".")), None)
    return block is not None and last in ("update", "hidden")


def _keep(values: dict[str, Tensor], name: str) -> Any:
    def hook(module: nn.Module, given: Any, output: Tensor) -> None:
        if name in values:  # a translator embeds its source first
            values[SOURCE + name] = values.pop(name)
        values[name] = output[0].detach().float()

    return hook


def _tables(inside: Any) -> list[nn.Module]:
    """The embedding, or both of a translator with two vocabularies."""
    table = getattr(inside, "embedding", None)
    if isinstance(table, nn.ModuleList):
        return list(dict.fromkeys(table))
    return [table] if isinstance(table, nn.Module) else []


def positions(inside: Any, length: int) -> Float[Tensor, "T _"] | None:
    """The encoding of each position: vectors that are added, or cosines and sines that rotate queries and keys."""
    places = torch.arange(length, device=next(inside.parameters()).device)
    added = getattr(inside, "positions", None)
    first = next(iter(stacks(inside).values()), None)
    rotary = getattr(first.layers[0], "positions", None) if first else None
    if isinstance(rotary, RotaryPositions):
        return torch.cat([rotary.cosines[places], rotary.sines[places]], -1).float()
    if isinstance(added, nn.Module):
        width = inside.embedding.embedding_dim
        vectors: Tensor = added(torch.zeros(1, length, width, device=places.device), places)[0]
        return vectors.float() if bool(vectors.any()) else None
    return None


def require_room(
    subject: Subject, asked: dict[StackName, list[int]], heads: Sequence[int] | None, max_bytes: int = MAX_TRACE_BYTES
) -> None:
    """Refuse a trace that would hold more than `max_bytes` bytes, before anything is computed."""
    by_name = stacks(subject.model)
    numbers = 0
    for name, layers in asked.items():
        rows, columns = subject.map_sizes[name]
        taken = len(chosen(heads, by_name[name].heads, "head"))
        numbers += len(layers) * taken * 2 * rows * columns  # scores and weights
    if 4 * numbers > max_bytes:
        main, tokens = main_stack(by_name), len(subject.inputs.tokens)
        raise InputError(
            f"a trace of {tokens:,} tokens, {len(asked.get(main.name, ())):,} layers and {main.heads} heads would hold "
            f"{4 * numbers / 2**30:.1f} GB, more than {max_bytes / 2**30:.1f} GB. Ask for less: layers=[0], heads=[0]."
        )
