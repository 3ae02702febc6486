"""qkv trains, looks inside and ships Transformers, and the models they replaced, on your own text.

`import qkv` is cheap: torch is imported by the first call that needs it.
"""

from __future__ import annotations

import os

from qkv.version import __version__

# Before torch loads libgomp: threads that wait for another one of their step soon sleep. By default they keep the
# processor for 300,000 turns, which the other one may need; beside other programs, steps took up to 30 times longer.
# libgomp itself takes this number where there are more threads than processors (decision 0007).
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

TYPE_CHECKING = False  # type checkers take it as `typing.TYPE_CHECKING`; importing `typing` would be slow
if TYPE_CHECKING:
    from qkv.api import Model, load
    from qkv.errors import QkvError
    from qkv.library.runs import finetune, resume, train
    from qkv.library.sklearn_classifier import QkvClassifier as QkvClassifier
    from qkv.library.verbs import compare, describe, export, import_model, tune, verify

__all__ = [
    "Model",
    "QkvError",
    "__version__",
    "compare",
    "describe",
    "export",
    "finetune",
    "import_model",
    "load",
    "resume",
    "train",
    "tune",
    "verify",
]
_MODULES = {
    "QkvClassifier": "qkv.library.sklearn_classifier",  # not in __all__: it needs scikit-learn
    "QkvError": "qkv.errors",
    **dict.fromkeys(("Model", "load"), "qkv.api"),
    **dict.fromkeys(("finetune", "resume", "train"), "qkv.library.runs"),
    **dict.fromkeys(("compare", "describe", "export", "import_model", "tune", "verify"), "qkv.library.verbs"),
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'qkv' has no attribute {name!r}")


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return [*__all__, *(["QkvClassifier"] if find_spec("sklearn") else [])]
