"""A user-defined tokenizer: a Python file with one class. The user names it again to use the model (`own_files.py`).

The class is a dataclass, and its fields are saved in tokenizer.json: `kind`, a name; `tokens`, the vocabulary, which
`learn` fills from the training text; and any settings. Its ids count from 0; qkv inserts its special tokens before
them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args, get_type_hints, runtime_checkable

from tokenizers import AddedToken

from qkv import own_files
from qkv.config import parse
from qkv.errors import ConfigError, InputError, RefusedError
from qkv.own_files import OwnFile
from qkv.text.pipelines import SPECIAL
from qkv.text.unigram import ListedTokens, TokenIds

GROUP = "qkv.tokenizers"
METHODS = ("learn", "encode", "decode")
EXPECTED = f"a dataclass with kind and tokens, and with the methods {', '.join(METHODS)}"
KEY = "own_tokenizer"


@runtime_checkable
class OwnTokenizer(Protocol):
    """The interface of the class."""

    @property
    def kind(self) -> str: ...

    @property
    def tokens(self) -> tuple[str, ...]: ...  # by id, in readable form

    def learn(
        self, texts: Iterable[str]
    ) -> OwnTokenizer: ...  # a copy with tokens; the texts are parts of the training text

    def encode(self, text: str) -> list[int]: ...  # -1 for a part without a token

    def decode(self, ids: list[int]) -> str: ...


@dataclass(frozen=True)
class KnownTokenizer:
    """A user-defined class, and its file."""

    cls: type[Any]
    kind: str
    source: OwnFile


LOADED: dict[str, KnownTokenizer] = {}


def load_file(name: str | Path) -> KnownTokenizer:
    """Execute a Python file of the user, and return the tokenizer class that it defines."""
    source = own_files.execute(name, "a tokenizer")
    module = source.module
    assert module is not None
    classes = [value for value in vars(module).values() if _is_tokenizer(value) and value.__module__ == module.__name__]
    if len(classes) != 1:
        names = ", ".join(cls.__name__ for cls in classes) or "none"
        raise InputError(f"{source.file}: expected one tokenizer, {EXPECTED}; there are: {names}.")
    return _registered(classes[0], source)


def of_object(tokenizer: object) -> KnownTokenizer:
    """The class of a tokenizer object that the user created in Python."""
    if not _is_tokenizer(type(tokenizer)):
        raise InputError(f"tokenizer: {type(tokenizer).__name__}: expected a name, a file, or {EXPECTED}.")
    return _registered(type(tokenizer), own_files.source_of(type(tokenizer)))


def plugin_tokenizer(kind: str) -> KnownTokenizer | None:
    """The tokenizer class with this kind from an installed package, found by its entry point."""
    plugin: Any = own_files.load_plugin(GROUP, kind)
    return None if plugin is None else of_object(plugin())


def _is_tokenizer(value: object) -> bool:
    return (
        isinstance(value, type)
        and dataclasses.is_dataclass(value)
        and {"kind", "tokens"} <= {field.name for field in dataclasses.fields(value)}
        and all(callable(getattr(value, method, None)) for method in METHODS)
    )


def _registered(cls: type[Any], source: OwnFile) -> KnownTokenizer:
    kinds = get_args(get_type_hints(cls)["kind"])
    if len(kinds) != 1 or kinds[0] in SPECIAL:
        raise InputError(f'{source.file}: {cls.__name__}.kind: expected a new name, as kind: Literal["mine"] = "mine".')
    kind = str(kinds[0])
    if kind not in LOADED or LOADED[kind].cls is not cls or LOADED[kind].source.sha256 != source.sha256:
        LOADED[kind] = KnownTokenizer(cls, kind, source)
    return LOADED[kind]


def settings_of(tokenizer: object) -> str:
    """The fields of a tokenizer as JSON, for the recipe."""
    return json.dumps(dataclasses.asdict(tokenizer), ensure_ascii=False)  # type: ignore[call-overload]


def restore(saved: object, values: object, where: str) -> tuple[OwnTokenizer, OwnFile]:
    """A tokenizer from its saved fields. Its class must have been loaded from the same file as when it was saved."""
    kind = str(values.get("kind")) if isinstance(values, dict) else ""
    known = LOADED.get(kind) or plugin_tokenizer(kind)
    own_files.require_same(None if known is None else known.source, saved, where, "a tokenizer", "tokenizer")
    assert known is not None
    assert isinstance(values, dict)
    try:
        tokenizer: OwnTokenizer = parse(known.cls, values, where)
    except ConfigError as error:
        raise RefusedError(str(error)) from None
    return tokenizer, known.source


class OwnBackend(ListedTokens):
    """A user-defined tokenizer with the interface of the `tokenizers` library; qkv's special tokens come first."""

    normalizer = None
    encode_special_tokens = True

    def __init__(self, own: OwnTokenizer, source: OwnFile) -> None:
        self.own, self.source = own, source
        self._special = SPECIAL["own"]
        self._first = len(self._special)
        self._tokens = [*self._special, *own.tokens]
        self._added = {number: AddedToken(name, special=True) for number, name in enumerate(self._special)}
        if not own.tokens:
            raise InputError(f"{source.name}: the tokenizer has no tokens. `learn` must return one that has tokens.")
        if any(not isinstance(token, str) for token in own.tokens):
            raise InputError(f"{source.name}: tokens: expected texts.")

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The special tokens before and after a whole text, as in WordPiece."""
        return (self._special.index("[CLS]"),), (self._special.index("[SEP]"),)

    @classmethod
    def parse(cls, text: str, where: str) -> OwnBackend | None:
        """A tokenizer from the text of a tokenizer.json; None if it is not user-defined."""
        if KEY not in text[:200]:  # `to_str` writes this key first
            return None
        try:
            saved = json.loads(text)
        except ValueError:
            return None
        if not isinstance(saved, dict) or saved.keys() != {KEY, "values"}:
            return None
        return cls(*restore(saved[KEY], saved["values"], where))

    def to_str(self, pretty: bool = False) -> str:
        values = {KEY: self.source.values, "values": dataclasses.asdict(self.own)}  # type: ignore[call-overload]
        return json.dumps(values, ensure_ascii=False, indent=2 if pretty else None)

    def encode(self, text: str, add_special_tokens: bool = True) -> TokenIds:
        ids = self.own.encode(text)
        last = len(self._tokens) - self._first
        if any(not isinstance(number, int) or not -1 <= number < last for number in ids):
            raise InputError(
                f"{self.source.name}: encode({text!r:.60}) gave {ids!r:.80}; expected a list of ids from 0 to "
                f"{last - 1}, and -1 for a part without a token."
            )
        unknown = self._special.index("[UNK]")
        return TokenIds([unknown if number < 0 else number + self._first for number in ids])

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[TokenIds]:
        return [self.encode(text) for text in texts]

    def unknown(self, text: str) -> list[str]:
        """The characters without a token, each once, in order."""
        if -1 not in self.own.encode(text):
            return []
        return [character for character in dict.fromkeys(text) if -1 in self.own.encode(character)]

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        return self.own.decode([number - self._first for number in ids if self._first <= number < len(self._tokens)])


def train_own(settings: str, size: int | None, saved: object, texts: Iterator[str], where: str) -> OwnBackend:
    """The user-defined tokenizer of a recipe. If it has no tokens yet, it learns them from the training text."""
    values = json.loads(settings)
    own, source = restore(saved, values if size is None else {**values, "size": size}, where)
    return OwnBackend(own if own.tokens else own.learn(texts), source)
