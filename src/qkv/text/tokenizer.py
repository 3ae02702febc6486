"""Text to token ids and back, and which tokens have a part to play: start and end of a text, padding, the unknown.

One class for all kinds; `vocabulary.py` learns a vocabulary, `decoding.py` decodes token by token.
Encoding never adds special tokens and never recognises them inside a text: a corpus that happens to spell "<|end|>"
is text like any other, so that no document can end another.
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
    """Ids by their part. A file of qkv needs none: its special tokens have known names."""

    start: int | None
    ends: tuple[int, ...]  # a text is over at any of these; the first divides documents where nothing better is known
    unknown: int | None = None
    padding: int | None = None
    opening: tuple[int, ...] = ()  # put before every text
    closing: tuple[int, ...] = ()  # put after every text that is read as a whole

    def values(self) -> Part:
        """As config.json holds them."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}

    @classmethod
    def parse(cls, values: object, vocabulary: int) -> Roles | None:
        """From config.json; None where they do not fit."""
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
    """The parts that special tokens play by their names; `around` is what the file itself puts before and after."""

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
    """How text becomes tokens."""

    kind: Literal["characters", "words", "bpe", "wordpiece", "file", "own"] | None = None
    """None: open, the corpus or the model decides; file takes the tokenizer.json named by `file`; own the class of the
    Python file that `file` names."""
    size: Annotated[int, Field(ge=1, le=int(VOCABULARY.high))] | None = None
    """How many tokens the vocabulary may have; by default the kind decides."""
    file: str | None = None
    """A tokenizer.json that is already there, for kind "file"; the Python file, for kind "own"."""
    sha256: str | None = None
    """Of the Python file, for kind "own"."""
    settings: str | None = None
    """The fields of the tokenizer of kind "own", as JSON."""
    case: Literal["kept", "lower"] = "kept"
    """lower: "The" is read as "the", as BERT's uncased models do; for words and wordpiece, which need not spell."""


class Tokenizer:
    """A vocabulary and the two ways through it. Safe to share between threads: nothing is set after it is built."""

    def __init__(self, backend: Backend, kind: Kind, roles: Roles | None = None) -> None:
        around = _around(backend)
        # a text that spells a special token is encoded as text
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
        """A tokenizer from the text of a tokenizer.json; RefusedError, naming the field, when it does not fit.

        `tried` may refuse what the checks let pass, before the library has it here.
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
        except BaseException as error:  # the library's panics are no Exceptions
            raise checks.refusal(where)("file", f"the tokenizers library refuses it: {error}") from None

    @classmethod
    def load(cls, path: str | Path, roles: Roles | None = None) -> Tokenizer:
        path = Path(path)
        if not path.is_file():
            raise InputError(f"{path}: no such tokenizer file. Expected a tokenizer.json.")
        return cls.parse(read_text(path, checks.LARGEST_FILE, InputError), str(path), roles)

    def playing(self, roles: Roles) -> Tokenizer:
        """The same vocabulary with other parts given to its tokens."""
        return Tokenizer(self._backend, self.kind, roles)

    def save(self, path: str | Path) -> None:
        """Write tokenizer.json, whole or not at all; `transformers` opens it with equal ids."""
        write_file(Path(path), self.json())

    def json(self) -> str:
        """The text of tokenizer.json: the same vocabulary gives the same text, byte for byte."""
        text: str = self._backend.to_str(pretty=True)
        return text + "\n"

    def published(
        self, opening: Sequence[int], closing: Sequence[int] | None = None, between: Sequence[int] | None = None
    ) -> str:
        """The text of tokenizer.json for others, whose readers put `opening` before every text by themselves, and
        `closing` after it; None: what the file itself closes with, where it opens so too. `between` divides the two
        texts of a pair; None: as the file has it."""
        before, after = _around(self._backend)
        if tuple(opening) == before and (closing is None or tuple(closing) == after) and between is None:
            return self.json()
        values = json.loads(self.json())
        parts = (opening, closing or (), between) if between else (opening, closing or ())
        around = ([(number, self.token(number)) for number in part] for part in parts)
        values["post_processor"] = pipelines.template(*around)
        return json.dumps(values, ensure_ascii=False, indent=2) + "\n"

    @property
    def likely(self) -> Unigram:
        """The pieces of a unigram vocabulary, with their scores."""
        assert isinstance(self._backend, Unigram), self.kind
        return self._backend

    @property
    def filler(self) -> int:
        """The id that fills rows of unequal length: the padding, or what ends a text where there is none."""
        return self.ends[0] if self.padding is None else self.padding

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.json().encode()).hexdigest()

    @property
    def lossless(self) -> bool:
        """decode(encode(text)) == text: for bpe always, for characters where every character is in the vocabulary."""
        return self.kind in ("bpe", "characters") and self._backend.normalizer is None and not self._lacking

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Several texts at once, in parallel where the kind asks for it."""
        return [self._look_up(text).tolist() for text in texts] if self.kind == "characters" else self._encode(texts)

    def encode_array(self, texts: Sequence[str]) -> list[npt.NDArray[np.uint32]]:
        """As encode_batch, as arrays: what a corpus is encoded with."""
        if self.kind == "characters":
            return [self._look_up(text) for text in texts]
        return [np.array(ids, dtype=np.uint32) for ids in self._encode(texts)]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        time_limit.check()
        try:
            return [row.ids for row in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        except (TypeError, UnicodeError):  # how the library meets a lone surrogate
            for text in texts:
                require_unicode(text)
            raise

    def _look_up(self, text: str) -> npt.NDArray[np.uint32]:
        """A character tokenizer is one table lookup: the library's answer, some fifty times faster."""
        require_unicode(text)
        table = self._table
        points = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
        return table[np.minimum(points, len(table) - 1)]

    @cached_property
    def _table(self) -> npt.NDArray[np.uint32]:
        characters = {ord(token): number for token, number in self._ids.items() if len(token) == 1}
        assert self.unknown is not None
        # the last row answers for every character beyond the vocabulary's largest
        table = np.full(max(characters, default=0) + 2, self.unknown, dtype=np.uint32)
        table[list(characters)] = list(characters.values())
        return table

    @cached_property
    def _ids(self) -> dict[str, int]:
        ids: dict[str, int] = self._backend.get_vocab(with_added_tokens=True)
        return ids

    @cached_property
    def _lacking(self) -> frozenset[int]:
        """Bytes that a vocabulary over bytes has no token for; a text loses them."""
        pictures = _BYTE.items() if self.kind == "bpe" else ()
        return frozenset(byte for picture, byte in pictures if picture not in self._ids)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; special tokens leave no trace."""
        text: str = self._backend.decode([int(number) for number in ids], skip_special_tokens=True)
        return text

    def is_special(self, number: int) -> bool:
        return number in self._special

    def token(self, number: int) -> str:
        """The token as the vocabulary spells it."""
        token: str | None = self._backend.id_to_token(number)
        if token is None:
            raise InputError(f"token id {number} is outside the vocabulary of {self.vocabulary:,}.")
        return token

    def piece(self, number: int) -> str:
        """The token as people read it: bytes as the text they spell, or as \\x.. where they are part of a character."""
        token = self.token(number)
        if self.kind not in ("bpe", "sentencepiece", "unigram") or number in self._special:
            return token
        return self.spelled(number).decode("utf-8", errors="backslashreplace")

    def spelled(self, number: int) -> bytes:
        """The bytes that a token of a vocabulary over bytes stands for."""
        token = self.token(number)
        if self.kind == "bpe":
            return token_bytes(token)
        if self.kind == "sentencepiece" and len(token) == 6 and token.startswith("<0x"):
            return bytes([int(token[3:5], 16)])  # <0x0A>: a byte that no piece spells
        return token.replace(SPACE, " ").encode()

    def unknown_characters(self, text: str) -> list[str]:
        """What in the text has no token (characters, or words where words are the tokens), each once, in order."""
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
    """What the file's own template puts before and after a text."""
    if isinstance(backend, OwnBackend):
        return backend.around
    if backend.post_processor is None:
        return (), ()
    plain = backend.encode("a", add_special_tokens=False).ids
    whole = backend.encode("a", add_special_tokens=True).ids
    before = next((at for at in range(len(whole) + 1) if whole[at : at + len(plain)] == plain), 0)
    return tuple(whole[:before]), tuple(whole[before + len(plain) :])


def token_bytes(token: str) -> bytes:
    """The bytes a byte-level token stands for."""
    try:
        return bytes(_BYTE[character] for character in token)
    except KeyError:  # not written in the byte alphabet: it stands for itself, as the library has it
        return token.encode()


def require_unicode(text: str) -> None:
    """Refuse a text with half a surrogate pair: what a stray byte on the command line becomes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text is not Unicode at character {error.start} ({text[error.start]!a}). "
            "Give it as UTF-8, or put it into a file and name its encoding."
        ) from None
