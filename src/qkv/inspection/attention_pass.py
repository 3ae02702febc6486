"""One forward pass that reports the intermediate values of the attention layers asked for, and keeps none of them.

    q·k · scale  →  mask  →  softmax  →  weighted values        Vaswani et al. 2017, eq. 1; deck 002, steps 1 to 4

Other layers use the fused kernel, and of an open layer only the heads asked for are reported, so memory grows with the
request and not with the model. The output equals that of the untraced model within rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.blocks.attention import Mix, MultiHeadAttention, fused, opened
from qkv.blocks.decoder import GlobalAttention
from qkv.blocks.masks import Band
from qkv.blocks.tap import hooked
from qkv.inspection.subject import Attention, StackName, Subject, chosen, forward, heads_of, stacks
from qkv.visible import ShortRepr, html_table


@dataclass(frozen=True, repr=False)
class AttentionValues(ShortRepr):
    """What one attention computed for one text, of the heads in `heads`; scores are scaled and not yet masked."""

    stack: StackName
    layer: int
    path: str
    heads: tuple[int, ...]
    scale: float
    queries: Float[Tensor, "H T K"]
    keys: Float[Tensor, "H S K"]
    values: Float[Tensor, "H S V"]
    scores: Float[Tensor, "H T S"]
    allowed: Bool[Tensor, "T S"]
    weights: Float[Tensor, "H T S"]
    mixed: Float[Tensor, "H T V"]

    @property
    def masked(self) -> Float[Tensor, "H T S"]:
        """The scores as softmax gets them: minus infinity where the mask forbids attention."""
        return self.scores.masked_fill(~self.allowed, float("-inf"))

    @property
    def causal(self) -> bool:
        """Whether no token attends to later ones."""
        return self.stack != "cross" and self.allowed.size(1) > 1 and not bool(self.allowed.triu(1).any())

    def _repr_html_(self) -> str:
        """For notebooks: the layer, and the shapes of its values."""
        held = ("queries", "keys", "values", "scores", "allowed", "weights", "mixed")
        rows = [(name, str(tuple(getattr(self, name).shape))) for name in held]
        return html_table([("stack", self.stack), ("layer", str(self.layer)), ("heads", str(self.heads)), *rows])


Callback = Callable[[AttentionValues], None]


@torch.no_grad()
def trace_attention(
    subject: Subject,
    callback: Callback,
    *,
    layers: Mapping[StackName, Sequence[int] | None] | None = None,
    heads: Sequence[int] | None = None,
) -> Float[Tensor, "1 ..."]:
    """One pass over the subject's text; `callback` gets the values of each wanted layer as soon as they are known.
    Stacks that `layers` does not name are left out; None is all."""
    hooks: list[Any] = []
    before: list[tuple[MultiHeadAttention, Mix]] = []
    try:
        for name, stack in stacks(subject.model).items():
            asked = None if layers is None else layers.get(name, ())
            for layer in chosen(asked, len(stack.layers), f"{name} layer"):
                module, path = stack.layers[layer], stack.paths[layer]
                wanted = chosen(heads, heads_of(module), "head")
                if isinstance(module, MultiHeadAttention):
                    before.append((module, module.mix))
                hooks += AttentionHooks(name, layer, path, wanted, callback).attach(module)
        with hooked(hooks):
            return forward(subject.model, subject.inputs)
    finally:
        for module, mix in before:
            module.mix = mix


class AttentionHooks:
    """The hooks of one attention layer, and what they have seen until it is done."""

    def __init__(self, stack: StackName, layer: int, path: str, heads: tuple[int, ...], callback: Callback) -> None:
        self.stack, self.layer, self.path, self.heads, self.callback = stack, layer, path, heads, callback
        self.seen: dict[str, Tensor] = {}

    def attach(self, module: Attention) -> list[Any]:
        names = ("queries", "keys", "values", "scores", "weights", "mixed")
        if isinstance(module, GlobalAttention):
            hooks = [getattr(module, name).register_forward_hook(self._keep(name)) for name in names[3:]]
            return [*hooks, module.register_forward_hook(self._of_recurrence, with_kwargs=True)]
        module.mix = self._mix
        hooks = [getattr(module, name).register_forward_hook(self._keep(name)) for name in names[:5]]
        return [*hooks, module.mixed.register_forward_hook(self._done(module))]

    def _keep(self, name: str) -> Any:
        return lambda module, given, output: self.seen.__setitem__(name, output)

    def _mix(self, module: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | Band | None) -> Tensor:
        """Step by step for the wanted heads, fused for the others."""
        written = mask.mask(q.size(2), q.device) if isinstance(mask, Band) else mask
        self.seen["mask"] = q.new_ones(1, k.size(2), dtype=torch.bool) if written is None else written
        if len(self.heads) == module.heads:
            return opened(module, q, k, v, mask)
        where = torch.tensor(self.heads, device=q.device)
        part = opened(module, q[:, where], k[:, where], v[:, where], mask)
        return fused(module, q, k, v, mask).index_copy(1, where, part)

    def _done(self, module: MultiHeadAttention) -> Any:
        def hook(tap: nn.Module, given: Any, output: Tensor) -> None:
            where = torch.tensor(self.heads, device=output.device)
            shared = where // (module.heads // module.key_heads)  # a group of query heads shares its keys
            seen = self.seen
            picked = {"queries": where, "keys": shared, "values": shared}
            values = {name: seen[name][0, index] for name, index in picked.items()}
            self._report(module.scale, seen["scores"][0], seen["weights"][0], mixed=output[0, where], **values)

        return hook

    def _of_recurrence(self, module: GlobalAttention, given: Any, named: Any, output: Tensor) -> None:
        x, memory = given[:2]
        seen, self.seen["mask"] = self.seen, named["mask"]
        values = {"queries": x, "keys": module.key(memory), "values": memory, "mixed": seen["mixed"]}
        self._report(1.0, seen["scores"], seen["weights"], **values)

    def _report(self, scale: float, scores: Tensor, weights: Tensor, **values: Tensor) -> None:
        mask = self.seen["mask"]
        allowed = mask.reshape(-1, *mask.shape[-2:])[0].expand(scores.shape[-2:])
        self.seen = {}
        values = {"scores": scores, "weights": weights, **values}
        plain: Any = {name: value.detach().float() for name, value in values.items()}
        self.callback(AttentionValues(self.stack, self.layer, self.path, self.heads, scale, allowed=allowed, **plain))
