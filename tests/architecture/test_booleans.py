"""Sharing by flags ends in soup: a boolean parameter in blocks/ or models/ carries its reason on its line."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest


def reasons(text: str) -> set[int]:
    """Lines with a comment that says something: three words at least, no shape, no order to a tool."""
    comments = (
        token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT
    )
    said = ((token.start[0], token.string.lstrip("# ")) for token in comments)
    return {line for line, words in said if len(words.split()) > 2 and not words.startswith(("(", "noqa", "type:"))}


def is_boolean(annotation: ast.expr | None, default: ast.expr | None) -> bool:
    if annotation is not None and any(isinstance(n, ast.Name) and n.id == "bool" for n in ast.walk(annotation)):
        # Bool tensors and callables that take or return a bool are data and objects, not switches
        return not any(isinstance(n, ast.Subscript) for n in ast.walk(annotation))
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    positional = [*function.args.posonlyargs, *function.args.args]
    defaults = [None] * (len(positional) - len(function.args.defaults)) + list(function.args.defaults)
    yield from zip(positional, defaults, strict=True)
    yield from zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)


def public(node: ast.AST) -> bool:
    name = getattr(node, "name", "_")
    return not name.startswith("_") or name in ("__init__", "__call__")


def switches(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Line and name of every boolean in the public signatures of `body`, fields of dataclasses included."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and public(node):
            yield from ((arg.lineno, arg.arg) for arg, value in parameters(node) if is_boolean(arg.annotation, value))
        elif isinstance(node, ast.ClassDef) and public(node):
            for field in node.body:
                if (
                    node.decorator_list
                    and isinstance(field, ast.AnnAssign)
                    and is_boolean(field.annotation, field.value)
                ):
                    yield field.lineno, ast.unparse(field.target)
            yield from switches(node.body)


def unexplained(text: str) -> list[tuple[int, str]]:
    explained = reasons(text)
    return [(line, name) for line, name in switches(ast.parse(text).body) if line not in explained]


@pytest.mark.parametrize("room", ["blocks", "models"])
def test_booleans_have_reasons(source: Path, room: str) -> None:
    hits = [
        f"{path.relative_to(source)}:{line}: {name} needs a comment with its reason on this line"
        for path in sorted((source / room).rglob("*.py"))
        for line, name in unexplained(path.read_text(encoding="utf-8"))
    ]
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, causal=False): pass",
        "def f(x, *, causal: bool): pass",
        "class A:\n    def __init__(self, bias: bool | None = None): pass",
        "@dataclass\nclass A:\n    tied: bool = True",
        "def f(causal: bool): pass  # noqa: FBT001",
    ],
)
def test_the_check_sees(text: str) -> None:
    assert unexplained(text)


@pytest.mark.parametrize(
    "text",
    [
        "def f(causal: bool): pass  # GPT-2 has it, Qwen3 has not",
        "def f(mask: Bool[Tensor, 'T S']): pass",
        "def _f(x, causal=False): pass",
        "class A:\n    inside: bool = False",
    ],
)
def test_the_check_lets_pass(text: str) -> None:
    assert not unexplained(text)
