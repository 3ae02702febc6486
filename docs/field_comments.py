"""Descriptions of fields: the docstring below a field, or the comment on its line or right above it.

qkv's configs and results describe many fields by a comment. `FieldComments` gives these to mkdocstrings, and
`recipe_keys.py` puts them into the reference of recipe keys.
"""

from __future__ import annotations

import ast
import io
import tokenize
from functools import cache
from pathlib import Path
from typing import Any

import griffe


@cache
def comments(path: Path) -> tuple[dict[int, str], dict[int, str]]:
    """The comments of a file by their lines: those after code, and those on lines of their own."""
    after: dict[int, str] = {}
    alone: dict[int, str] = {}
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            place = alone if token.line.lstrip().startswith("#") else after
            place[token.start[0]] = token.string.lstrip("# ").strip()
    return after, alone


def comment(path: Path, first: int, last: int) -> str:
    """The comment that describes the field on these lines; "" where there is none."""
    after, alone = comments(path)
    if text := after.get(last) or after.get(first):
        return "" if text.startswith(("type:", "noqa", "fmt:")) else text
    lines = []
    while (first := first - 1) in alone:
        lines.insert(0, alone[first])
    return " ".join(lines)


def described(path: Path, name: str) -> dict[str, str]:
    """The fields of a class with their descriptions."""
    found: dict[str, str] = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = next(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name)
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match following:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found[node.target.id] = " ".join(text.split())
                case _:
                    found[node.target.id] = comment(path, node.lineno, node.end_lineno or node.lineno)
    return found


class FieldComments(griffe.Extension):
    """A field of a class without a docstring is described by its comment."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring or not attr.parent or not attr.parent.is_class or not attr.lineno:
            return
        if isinstance(node, ast.AnnAssign) and isinstance(attr.filepath, Path):
            text = comment(attr.filepath, attr.lineno, attr.endlineno or attr.lineno)
            if text:
                attr.docstring = griffe.Docstring(text[0].upper() + text[1:] + ".", parent=attr)
