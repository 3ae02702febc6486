"""Every method of a model, asked of every kind of model: what it cannot do is refused, and no command is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import qkv
from cli.test_every_option import SHAPES, corpus
from qkv import session as sessions
from qkv.errors import QkvError
from qkv.recipe import bundle
from qkv.text.chat_formats import Message
from reliability import families

METHODS: dict[str, Callable[[qkv.Model], object]] = {
    "generate": lambda model: model.generate("The river", length=2),
    "next": lambda model: model.next("The river"),
    "chat": lambda model: model.chat([Message("user", "The river")], length=2),
    "classify": lambda model: model.classify("The river"),
    "tag": lambda model: model.tag("The river"),
    "translate": lambda model: model.translate("The river"),
    "fill": lambda model: model.fill("The [MASK]"),
    "embed": lambda model: model.embed("The river"),
    "contexts": lambda model: model.contexts("bank"),
    "evaluate": lambda model: model.evaluate("The river " * 40),
    "trace": lambda model: model.trace("The river"),
}
COMMAND = re.compile(r"qkv (?!\.)[a-z]+|(?<![\w-])--[a-z]")


def refusal(method: Callable[[qkv.Model], object], model: qkv.Model) -> str:
    try:
        method(model)
    except QkvError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", sorted(SHAPES))
def test_messages_name_no_commands(kind: str, tmp_path: Path) -> None:
    data = families.write(tmp_path / "data", "text" if kind == "masked" else kind)
    values = {"corpus": corpus(data), "model": SHAPES[kind], "training": {"steps": 1, "threads": 1}}
    session = sessions.start(values, tmp_path / "run", numbered=False, minutes=1.0)
    bundle.keep_best(session.run.folder, session.task.bundle(session.recipe, session.model, 0))
    model = qkv.load(session.run.folder)
    messages = {name: refusal(method, model) for name, method in METHODS.items()}
    assert not {name: message for name, message in messages.items() if COMMAND.search(message)}
    assert sum(map(bool, messages.values())) >= 3  # no kind of model does everything
