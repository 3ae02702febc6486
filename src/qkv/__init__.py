"""qkv trains, looks inside and ships Transformers, and the models they replaced, on your own text.

`import qkv` is cheap: torch is imported by the first call that needs it.
"""

from __future__ import annotations

from qkv.version import __version__

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

__all__ = ["__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    if name in ("load", "train"):
        from qkv import api

        return getattr(api, name)
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")
