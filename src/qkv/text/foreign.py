"""Vocabularies of other projects: a tokenizer.json, or a list of tokens with merges or scores.

They are converted to the text of a tokenizer.json, which is checked (checks.py) and then tried in a child process
before it is loaded. The `tokenizers` library panics on some files, and a panic may end the whole program. The checks
refuse files that are known to cause this; for others, the child process loads and uses the file, with limits on time
and memory.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from qkv.errors import RefusedError
from qkv.safe_json import RejectedJson, parse_bounded_json, read_text
from qkv.text import pipelines
from qkv.text.checks import LARGEST_FILE, LONGEST_TOKEN, refusal
from qkv.text.pipelines import SPECIAL, Part
from qkv.text.tokenizer import Roles, Tokenizer
from qkv.text.unigram import BEYOND, NEVER

SECONDS = 20
BYTES = 4 * 2**30
_CHILD = """
import sys
seconds, size = (int(word) for word in sys.argv[1:3])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
except (ImportError, ValueError, OSError):
    pass
import tokenizers
tokenizer = tokenizers.Tokenizer.from_str(sys.stdin.buffer.read().decode("utf-8"))
words = "The dog's 12,345 bones.\\n\\n\\tWo? \\u00e9\\u4e2d\\U0001f600 "
for text in ("", "a", words, " " * 300, "^" * 300, "\\u0301" * 300):
    tokenizer.decode(tokenizer.encode(text, add_special_tokens=True).ids)
"""


def try_in_subprocess(text: str, where: str) -> None:
    """Refuse a tokenizer.json that the library cannot load and use."""
    refuse = refusal(where)
    try:
        command = [sys.executable, "-I", "-c", _CHILD, str(SECONDS), str(BYTES)]
        done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise refuse("file", f"the tokenizers library did not finish with it in {SECONDS} s") from None
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise refuse("file", f"the tokenizers library fails on it: {output[-1][:200]}")


def read(path: Path) -> Tokenizer:
    """Read a tokenizer.json of another project."""
    return Tokenizer.parse(read_text(path, LARGEST_FILE), str(path), tried=try_in_subprocess)


def byte_bpe(
    tokens: Sequence[str], merges: object, pre_tokenizer: str, special: Collection[int], roles: Roles, where: str
) -> Tokenizer:
    """A tokenizer from a byte-level vocabulary: tokens by id, in GPT-2's alphabet for bytes; merges ("t he") in
    order."""
    model = {"type": "BPE", "vocab": _ids(tokens, where), "merges": merges}
    around = {
        "normalizer": pipelines.NFC_NORMALIZER if pre_tokenizer == "qwen2" else None,
        "pre_tokenizer": pipelines.PRE_TOKENIZERS[pre_tokenizer],
        "decoder": pipelines.PRE_TOKENIZERS["gpt-2"],
    }
    return _checked(model, around, tokens, special, roles, where)


def sentencepiece(
    pieces: Sequence[str], scores: Sequence[float], special: Collection[int], roles: Roles, where: str
) -> Tokenizer:
    """A tokenizer from sentencepiece's BPE vocabulary: pieces by id ("▁the", "<0x0A>"); higher scores are merged
    first."""
    ids = _ids(pieces, where)
    apart = set(special) | {number for number, piece in enumerate(pieces) if piece.startswith("<0x")}
    ranked: list[tuple[float, int, int, tuple[str, str]]] = []
    for number, piece in enumerate(pieces):
        for middle in range(1, len(piece) if number not in apart else 0):
            left, right = piece[:middle], piece[middle:]
            if left in ids and right in ids:
                ranked.append((-scores[number], ids[left], ids[right], (left, right)))
    unknown = None if roles.unknown is None else pieces[roles.unknown]
    model: Part = {"type": "BPE", "unk_token": unknown, "fuse_unk": True, "byte_fallback": True}
    model |= {"vocab": ids, "merges": [list(pair) for *_, pair in sorted(ranked)]}
    return _checked(model, pipelines.pipeline_of("sentencepiece"), pieces, special, roles, where)


def wordpiece(path: Path, lowercase: bool) -> Tokenizer:
    """Read BERT's vocab.txt, with one token in each line."""
    tokens = [line.removesuffix("\r") for line in read_text(path, LARGEST_FILE).removesuffix("\n").split("\n")]
    ids = _ids(tokens, str(path))
    special = [ids[name] for name in SPECIAL["wordpiece"] if name in ids]
    _, _, uncased, cased, *_ = pipelines.PIPELINES["wordpiece"]["normalizer"]
    around = pipelines.pipeline_of("wordpiece") | {"normalizer": uncased if lowercase else cased}
    around["post_processor"] = {
        "type": "BertProcessing",
        "sep": ["[SEP]", ids.get("[SEP]")],
        "cls": ["[CLS]", ids.get("[CLS]")],
    }
    return _checked(pipelines.model_of("wordpiece", ids), around, tokens, special, None, str(path))


def gpt2(vocabulary: Path, merges: Path) -> Tokenizer:
    """Read GPT-2's two files: vocab.json (or encoder.json) and merges.txt (or vocab.bpe)."""
    ids = numbered(vocabulary)
    lines = read_text(merges, LARGEST_FILE).split("\n")
    pairs = [line for line in lines if line and not line.startswith("#version")]
    special = [ids["<|endoftext|>"]] if "<|endoftext|>" in ids else []
    roles = Roles(start=special[0] if special else None, ends=tuple(special))
    return byte_bpe(sorted(ids, key=ids.__getitem__), pairs, "gpt-2", special, roles, f"{vocabulary} and {merges.name}")


def unigram(
    ids: Mapping[str, int],
    scores: Mapping[str, float],
    table: bytes,
    special: Collection[str],
    unknown: str,
    where: str,
) -> Tokenizer:
    """A tokenizer from sentencepiece's unigram pieces of one language and its table of characters. `ids` may have more
    pieces, or fewer."""
    tokens = sorted(ids, key=ids.__getitem__)
    listed = [[piece, 0.0 if piece in special else scores.get(piece, NEVER)] for piece in tokens]
    apart = {ids[name] for name in special}
    if more := [[piece, score] for piece, score in scores.items() if piece not in ids]:
        apart.add(len(tokens))
        tokens.append(BEYOND)
        listed += [[BEYOND, 0.0], *more]
    model = {"type": "Unigram", "unk_id": ids[unknown], "vocab": listed}
    around = pipelines.pipeline_of("unigram")
    if table:
        around["normalizer"] = pipelines.charsmap_normalizer(base64.b64encode(table).decode())
    return _checked(model, around, tokens, apart, None, where)


def numbered(path: Path) -> dict[str, int]:
    """Read a vocab.json: tokens and their ids, without gaps."""
    try:
        ids = parse_bounded_json(read_text(path, LARGEST_FILE))
    except (ValueError, RecursionError) as error:
        problem = error if isinstance(error, RejectedJson) else "not JSON"
        raise RefusedError(f"{path}: {problem}. Expected an object of tokens and ids.") from None
    if not isinstance(ids, dict) or not ids or any(type(number) is not int for number in ids.values()):
        raise RefusedError(f"{path}: expected a JSON object of tokens and ids.")
    if sorted(ids.values()) != list(range(len(ids))):
        raise RefusedError(f"{path}: the {len(ids):,} ids are not 0 to {len(ids) - 1:,}, each once. Use another copy.")
    return ids


def _checked(
    model: Part, around: Part, tokens: Sequence[str], special: Collection[int], roles: Roles | None, where: str
) -> Tokenizer:
    named = {tokens[number]: number for number in sorted(special)}
    return Tokenizer.parse(pipelines.tokenizer_json(model, around, named), where, roles, try_in_subprocess)


def _ids(tokens: Sequence[str], where: str) -> dict[str, int]:
    longest = max(tokens, key=len, default="")
    if len(longest) > LONGEST_TOKEN:
        raise RefusedError(f"{where}: the token {longest[:40]!a}... is {len(longest):,} characters long. No token is.")
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for number, token in enumerate(tokens) if ids[token] != number)
        raise RefusedError(f"{where}: the token {twice!a} is listed twice; expected each once. Use another copy.")
    return ids


def token_name(value: object) -> str | None:
    """The name of a token in tokenizer_config.json, which is a string or an object."""
    name = value.get("content") if isinstance(value, dict) else value
    return name if isinstance(name, str) else None
