"""A file never runs code: nothing in qkv may unpickle, evaluate, or hand a string to a shell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
ATTRIBUTES = {
    "torch.load",
    "torch.save",
    "torch.serialization.load",
    "torch.serialization.save",
    "yaml.load",
    "yaml.unsafe_load",
    "os.system",
    "os.popen",
    "builtins.eval",
    "builtins.exec",
}
BUILTINS = {"eval", "exec"}
SWITCHES = {"shell", "trust_remote_code", "allow_pickle"}


def forbidden(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of everything in `text` that this house does not use."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found = [name.name for name in names if name.name.split(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module), names=names):
                dotted = [f"{module}.{name.name}" for name in names]
                found = [name for name in dotted if name.split(".")[0] in MODULES or name in ATTRIBUTES]
            case ast.Attribute():
                found = [ast.unparse(node)] if ast.unparse(node) in ATTRIBUTES else []
            case ast.Name(id=name):
                found = [name] if name in BUILTINS else []
            case ast.keyword(arg=str(name), value=value):
                off = isinstance(value, ast.Constant) and value.value is False
                found = [f"{name}="] if name in SWITCHES and not off else []
            case ast.Constant(value="trust_remote_code"):
                found = ["trust_remote_code"]
            case _:
                found = []
        yield from ((getattr(node, "lineno", 0), name) for name in found)


def test_source_calls_nothing_forbidden(source: Path) -> None:
    hits = [
        f"{path.relative_to(source)}:{line}: {name}"
        for path in sorted(source.rglob("*.py"))
        for line, name in forbidden(path.read_text(encoding="utf-8"))
    ]
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import numpy, pickle",
        "from pickle import loads",
        "import torch\ntorch.load('x')",
        "from torch import save",
        "f = torch.save",
        "eval('1')",
        "f = exec",
        "import os\nos.system('ls')",
        "yaml.load(text)",
        "run('ls', shell=True)",
        "run('ls', shell=choice)",
        "load('x', trust_remote_code=True)",
        "load('x', **{'trust_remote_code': 1})",
        "numpy.load('x', allow_pickle=True)",
    ],
)
def test_the_check_sees(text: str) -> None:
    assert list(forbidden(text))


@pytest.mark.parametrize("text", ["model.eval()", "run(['ls'], shell=False)", "safetensors.torch.save_file(a, b)"])
def test_the_check_lets_pass(text: str) -> None:
    assert not list(forbidden(text))
