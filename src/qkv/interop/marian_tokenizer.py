"""The vocabularies of Marian's folders: source.spm and target.spm cut the two languages, vocab.json numbers the pieces.

Both become a tokenizer.json of kind "unigram" (text/unigram.py) with the same numbers; and back: a folder that
`transformers` opens with its own MarianTokenizer, which needs the sentencepiece package. Tokens as >>fra<< ask for a
language.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qkv.errors import RefusedError
from qkv.interop import sentencepiece
from qkv.reading import plain_file
from qkv.text import foreign
from qkv.text.tags import is_tag
from qkv.text.tokenizer import Tokenizer

SOURCE, TARGET, NUMBERS = "source.spm", "target.spm", "vocab.json"
FILES = (SOURCE, TARGET, NUMBERS)
CLASS = "MarianTokenizer"
# what theirs calls them where tokenizer_config.json says nothing
USUAL = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def read(folder: Path, said: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """What cuts sources and what cuts targets; `said` is tokenizer_config.json."""
    where = folder / "tokenizer_config.json"
    for key in ("separate_vocabs", "target_vocab_file", "sp_model_kwargs"):
        if said.get(key):
            raise RefusedError(
                f"{where}: {key} = {said[key]!a:.80} has no twin here; expected one vocab.json for both languages and "
                "pieces that are always cut the same way. Use another model."
            )
    ids = foreign.numbered(plain_file(folder, NUMBERS))
    names = {key: _name(said.get(key), usual) for key, usual in USUAL.items()}
    for key in ("eos_token", "unk_token"):
        if names[key] not in ids:
            raise RefusedError(f"{folder / NUMBERS}: {key} {names[key]!a:.80} is not in it. The files do not fit.")
    special = {name for name in ids if name in names.values() or is_tag(name)}
    made = []
    for name in (SOURCE, TARGET):
        path = plain_file(folder, name)
        found = sentencepiece.read(path)
        made.append(foreign.unigram(ids, found.scores, found.table, special, names["unk_token"], str(path)))
    return made[0], made[1]


def _name(value: Any, usual: str) -> str:
    found = value.get("content") if isinstance(value, dict) else value
    return found if isinstance(found, str) else usual


def files(source: Tokenizer, target: Tokenizer) -> dict[str, bytes]:
    """The three files of two such vocabularies."""
    assert source.unknown is not None
    unknown = source.token(source.unknown)
    made = {
        name: sentencepiece.written(each.likely.scores(), base64.b64decode(each.likely.table), unknown)
        for name, each in ((SOURCE, source), (TARGET, target))
    }
    numbers = {source.token(number): number for number in range(source.vocabulary)}
    return {**made, NUMBERS: (json.dumps(numbers, ensure_ascii=False, indent=1) + "\n").encode()}
