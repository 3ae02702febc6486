"""Optional packages: which extra brings each, and refusing early where one is missing."""

from __future__ import annotations

from importlib import import_module

from qkv.errors import MissingExtraError

EXTRAS = {
    "pyarrow": "data",
    "zstandard": "data",
    "PIL": "images",
    "tensorboard": "track",
    "transformers": "hf",
    "gguf": "gguf",
    "sklearn": "compare",
    "optuna": "tune",
    "sacrebleu": "translate",
    "sentencex": "translate",
}


def installed(package: str) -> bool:
    """Whether a package can be imported; one that is there but broken cannot."""
    try:
        import_module(package)
    except ImportError:
        return False
    return True


def require(package: str, need: str) -> None:
    """Refuse, before any work, what needs a package that is not installed."""
    if not installed(package):
        raise MissingExtraError(need, EXTRAS[package])


def advice(package: str) -> str:
    return f"pip install 'qkv[{EXTRAS[package]}]' adds it"
