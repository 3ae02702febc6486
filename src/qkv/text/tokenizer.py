"""Text to token ids and back, and the roles of special tokens: start and end of a text, padding, unknown, mask.

There is one class for all kinds; `vocabulary.py` learns a vocabulary, `decoding.py` decodes token by token.
Encoding never adds special tokens and never recognises them inside a text: "<|end|>" in a corpus is encoded as ordinary
text, so it cannot end a document.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import tokenizers
from pydantic import Field

from qkv import time_limit
from qkv.config import strict
from qkv.errors import InputError
from qkv.ranges import VOCABULARY
from qkv.safe_json import read_text
from qkv.storage import write_file
from qkv.text import checks, pipelines
from qkv.text.own_tokenizer import OwnBackend
from qkv.text.pipelines import SEPARATORS, SPACE, Kind, Part
from qkv.text.unigram import Unigram

Backend = tokenizers.Tokenizer | Unigram | OwnBackend


@dataclass(frozen=True)
class Roles:
    """The ids of special tokens by role. Files of qkv need not list them, because their special tokens have known
    names."""

    start: int | None
    ends: tuple[int, ...]  # each of these ends a text; the first separates documents if there is no other separator
    unknown: int | None = None
    padding: int | None = None
    opening: tuple[int, ...] = ()  # added before every text
    closing: tuple[int, ...] = ()  # added after every text that is encoded as a whole

    def values(self) -> Part:
        """The roles as values of config.json."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @classmethod
    def parse(cls, values: object, vocabulary: int) -> Roles | None:
        """The roles from values of config.json; None if these are not valid."""
        if not isinstance(values, dict) or values.keys() != set(cls.__dataclass_fields__):
            return None
        single = [values[name] for name in ("start", "unknown", "padding") if values[name] is not None]
        several = [values[name] for name in ("ends", "opening", "closing")]
        if not values["ends"] or not all(isinstance(ids, list) and len(ids) < 100 for ids in several):
            return None
        if any(type(n) is not int or not 0 <= n < vocabulary for n in [*single, *(n for ids in several for n in ids)]):
            return None
        parts: Part = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**parts)


def by_name(named: Mapping[str, int], around: tuple[tuple[int, ...], tuple[int, ...]]) -> Roles:
    """The roles that follow from the names of special tokens. `around` are the ids that the tokenizer.json adds before
    and after a text."""

    def first(*names: str) -> int | None:
        return next((named[name] for name in names if name in named), None)

    separator = first(*SEPARATORS)
    assert separator is not None, "a tokenizer without a document separator"
    start = first(pipelines.START, "[CLS]", "<s>", "<|begin_of_text|>")
    return Roles(
        start=separator if start is None else start,
        ends=(separator,),
        unknown=first(pipelines.UNKNOWN, "[UNK]", "<unk>"),
        padding=first(pipelines.PADDING, "[PAD]", "<pad>"),
        opening=around[0],
        closing=around[1],
    )


@strict
class TokenizerConfig:
    """The section [tokenizer] of a recipe."""

    kind: Literal["characters", "words", "bpe", "wordpiece", "file", "own"] | None = None
    """None: open, the corpus or the model decides; file: the tokenizer.json named by `file`; own: the class in the
    Python file named by `file`."""
    size: Annotated[int, Field(ge=1, le=int(VOCABULARY.high))] | None = None
    """The largest number of tokens in the vocabulary. Default: it depends on the kind."""
    file: str | None = None
    """For kind "file", an existing tokenizer.json; for kind "own", the Python file."""
    sha256: str | None = None
    """For kind "own", the sha256 of the Python file."""
    settings: str | None = None
    """For kind "own", the fields of the tokenizer as JSON."""
    case: Literal["kept", "lower"] = "kept"
    """lower: "The" is read as "the", as in BERT's uncased models; for words and wordpiece, which need not restore
    texts."""


class Tokenizer:
    """Encodes and decodes texts. It is safe to share between threads, because it does not change after it is built."""

    def __init__(self, backend: Backend, kind: Kind, roles: Roles | None = None) -> None:
        around = _around(backend)
        # the name of a special token inside a text is encoded as text
        backend.encode_special_tokens = True
        self._backend = backend
        self.kind: Kind = kind
        self._special = {
            number: str(token.content) for number, token in backend.get_added_tokens_decoder().items() if token.special
        }
        self.named = {name: number for number, name in self._special.items()}
        self.vocabulary: int = backend.get_vocab_size(with_added_tokens=True)
        self.roles = by_name(self.named, around) if roles is None else roles
        self.unknown, self.padding = self.roles.unknown, self.roles.padding
        self.opening, self.closing, self.ends = self.roles.opening, self.roles.closing, self.roles.ends
        self.mask: int | None = next((self.named[name] for name in pipelines.MASKS if name in self.named), None)
        separator = next((self.named[name] for name in SEPARATORS if name in self.named), None)
        self.separator: int = self.ends[0] if separator is None else separator
        self.start: int = self.separator if self.roles.start is None else self.roles.start
        self.end: int = self.separator

    @classmethod
    def parse(
        cls,
        text: str,
        where: str = "tokenizer.json",
        roles: Roles | None = None,
        tried: Callable[[str, str], None] | None = None,
    ) -> Tokenizer:
        """A tokenizer from the text of a tokenizer.json. If it is not valid, a RefusedError names the field.

        `tried` is called after the checks and before the library loads the text, and may refuse it.
        """
        if (own := OwnBackend.parse(text, where)) is not None:
            return cls(own, "own", roles)
        kind, safe = checks.read(text, where)
        if tried is not None:
            tried(safe, where)
        try:
            return cls(Unigram(safe) if kind == "unigram" else tokenizers.Tokenizer.from_str(safe), kind, roles)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library's panics are not of class Exception
            raise checks.refusal(where)("file", f"the tokenizers library refuses it: {error}") from None

    @classmethod
    def load(cls, path: str | Path, roles: Roles | None = None) -> Tokenizer:
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path}: no such tokenizer file. Expected a tokenizer.json.")
        return cls.parse(read_text(path, checks.LARGEST_FILE, InputError), str(path), roles)

    def with_roles(self, roles: Roles) -> Tokenizer:
        """The same vocabulary with other roles of its tokens."""
        return Tokenizer(self._backend, self.kind, roles)

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json atomically; `transformers` gives the same ids with it."""
        write_file(Path(path), self.json())

    def json(self) -> str:
        """The text of tokenizer.json; it is byte for byte the same for the same vocabulary."""
        text: str = self._backend.to_str(pretty=True)
        return text + "\n"

    def published(
        self, opening: Sequence[int], closing: Sequence[int] | None = None, between: Sequence[int] | None = None
    ) -> str:
        """The text of a tokenizer.json whose template adds `opening` and `closing` to every text, for other programs.

        Without `closing` and `between`, the template of this tokenizer stays if it already adds `opening`. `between`
        separates the two texts of a pair; without it, a pair is two texts of this form.
        """
        before, after = _around(self._backend)
        if tuple(opening) == before and (closing is None or tuple(closing) == after) and between is None:
            return self.json()
        values = json.loads(self.json())
        parts = (opening, closing or (), between) if between else (opening, closing or ())
        around = ([(number, self.token(number)) for number in part] for part in parts)
        values["post_processor"] = pipelines.template(*around)
        return json.dumps(values, ensure_ascii=False, indent=2) + "\n"

    @property
    def unigram(self) -> Unigram:
        """The backend of a unigram vocabulary, which has the scores of its pieces."""
        assert isinstance(self._backend, Unigram), self.kind
        return self._backend

    @property
    def filler(self) -> int:
        """The id that pads shorter rows of a batch: the padding, or without one the end of a text."""
        return self.ends[0] if self.padding is None else self.padding

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.json().encode()).hexdigest()

    @property
    def lossless(self) -> bool:
        """Whether decode(encode(text)) == text, for characters as long as the vocabulary has all characters of the
        text."""
        return self.kind in ("bpe", "characters") and self._backend.normalizer is None and not self._lacking

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode several texts, in parallel if the kind of tokenizer supports it."""
        return [self._look_up(text).tolist() for text in texts] if self.kind == "characters" else self._encode(texts)

    def encode_array(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint32]]:
        """Encode several texts, such as parts of a corpus, as arrays."""
        if self.kind == "characters":
            return [self._look_up(text) for text in texts]
        return [np.array(ids, dtype=np.uint32) for ids in self._encode(texts)]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        time_limit.check()
        try:
            return [row.ids for row in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        except (TypeError, UnicodeError):  # raised by the library for a lone surrogate
            for text in texts:
                require_unicode(text)
            raise

    def _look_up(self, text: str) -> npt.NDArray[np.uint32]:
        """Encode characters with one table lookup, which is about fifty times as fast as the library."""
        require_unicode(text)
        table = self._table
        points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        return table[np.minimum(points, len(table) - 1)]

    @cached_property
    def _table(self) -> npt.NDArray[np.uint32]:
        characters = {ord(token): number for token, number in self._ids.items() if len(token) == 1}
        assert self.unknown is not None
        # the last row is for all characters above the vocabulary's largest
        table = np.full(max(characters, default=0) + 2, self.unknown, dtype=np.uint32)
        table[list(characters)] = list(characters.values())
        return table

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return ids

    @cached_property
    def _lacking(self) -> frozenset[int]:
        """The bytes for which a byte-level vocabulary has no token; they are lost in encoding."""
        pictures = _BYTE.items() if self.kind == "bpe" else ()
        return frozenset(byte for picture, byte in pictures if picture not in self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without special tokens."""
        text: str = self._backend.decode([int(number) for number in ids], skip_special_tokens=True)
        return text

    def is_special(self, number: int) -> bool:
        return number in self._special

    def token(self, number: int) -> str:
        """The token as it is written in the vocabulary."""
        token: str | None = self._backend.id_to_token(number)
        if token is None:
            raise InputError(f"token id {number} is outside the vocabulary of {self.vocabulary:,}.")
        return token

    def piece(self, number: int) -> str:
        """The token in readable form: its bytes as text, or as \\x.. if they are only a part of a character."""
        token = self.token(number)
        if self.kind not in ("bpe", "sentencepiece", "unigram") or number in self._special:
            return token
        return self.spelled(number).decode("utf-8", errors="backslashreplace")

    def spelled(self, number: int) -> bytes:
        """The bytes of a token of a byte-level vocabulary."""
        token = self.token(number)
        if self.kind == "bpe":
            return token_bytes(token)
        if self.kind == "sentencepiece" and len(token) == 6 and token.startswith("<0x"):
            return bytes([int(token[3:5], 16)])  # <0x0A>: the token of a single byte
        return token.replace(SPACE, " ").encode()

    def unknown_characters(self, text: str) -> list[str]:
        """The parts of a text that have no token (words for a tokenizer of words, else characters), each once, in
        order."""
        require_unicode(text)
        if self.kind in ("bpe", "sentencepiece"):
            lacking = self._lacking
            return (
                [character for character in dict.fromkeys(text) if not lacking.isdisjoint(character.encode())]
                if lacking
                else []
            )
        if self.kind == "characters":
            return [character for character in dict.fromkeys(text) if character not in self._ids]
        if isinstance(self._backend, Unigram | OwnBackend):
            return self._backend.unknown(text)
        normal = self._backend.normalizer.normalize_str(text) if self._backend.normalizer else text
        words = dict.fromkeys(word for word, _ in self._backend.pre_tokenizer.pre_tokenize_str(normal))
        if self.kind == "words":
            return [word for word in words if word not in self._ids]
        return [word for word, ids in zip(words, self._encode(list(words)), strict=True) if self.unknown in ids]


_BYTE = pipelines.byte_of_character()


def _around(backend: Backend) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids that the template of a tokenizer.json adds before and after a text."""
    if isinstance(backend, OwnBackend):
        return backend.around
    if backend.post_processor is None:
        return (), ()
    plain = backend.encode("a", add_special_tokens=False).ids
    whole = backend.encode("a", add_special_tokens=True).ids
    before = next((at for at in range(len(whole) + 1) if whole[at : at + len(plain)] == plain), 0)
    return tuple(whole[:before]), tuple(whole[before + len(plain) :])


def token_bytes(token: str) -> bytes:
    """The bytes of a byte-level token."""
    try:
        return bytes(_BYTE[character] for character in token)
    except KeyError:  # not in the byte alphabet: like the library, decode it as text
        return token.encode()


def require_unicode(text: str) -> None:
    """Refuse a text with half a surrogate pair, to which Python converts an invalid byte on the command line."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text is not Unicode at character {error.start} ({text[error.start]!a}). "
            "Give it as UTF-8, or put it into a file and name its encoding."
        ) from None
