"""qkv trains, looks inside and ships Transformers, and the models they replaced, on your own text.

`import qkv` is cheap: torch is imported by the first call that needs it.
"""

from __future__ import annotations

from typing import Any

from qkv.version import __version__

__all__ = ["__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    if name in ("load", "train"):
        from qkv import api

        return getattr(api, name)
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")
