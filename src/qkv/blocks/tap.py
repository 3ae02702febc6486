"""A tap: a named place to look inside. It is an `nn.Identity`: it changes nothing, and a forward hook sees the value.

model.blocks[2].attention.sublayer.weights.register_forward_hook(look)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import nn
from torch.utils.hooks import RemovableHandle


class Tap(nn.Identity):
    """A place to look. Its name is its path in the model, as `named_modules()` gives it."""


def taps(model: nn.Module) -> dict[str, Tap]:
    """Every tap of a model by name, in the order in which the parts were put together."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Tap)}


@contextmanager
def hooked(hooks: Sequence[RemovableHandle]) -> Iterator[None]:
    """Within it the hooks stay; after it they are gone, whatever happened."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
