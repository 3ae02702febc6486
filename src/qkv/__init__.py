"""qkv trains, looks inside and ships Transformers, and the models they replaced, on your own text.

`import qkv` is cheap: torch is imported by the first call that needs it.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["load", "train"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from qkv import api

        return getattr(api, name)
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")
