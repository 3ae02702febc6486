"""The vocabulary inside a GGUF file: byte-level merges ("gpt2") or sentencepiece's scores ("llama")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from qkv.interop.gguf_file import Refuse
from qkv.text.foreign import byte_bpe, sentencepiece
from qkv.text.special_tokens import Roles
from qkv.text.tokenizer import Tokenizer

SECTION = "tokenizer.ggml."
CUTS = {
    "gpt-2": "gpt-2",
    "default": "gpt-2",
    "smollm": "smollm",
    "qwen2": "qwen2",
    "deepseek-r1-qwen": "qwen2",
    "llama-bpe": "llama-bpe",
    "llama-v3": "llama-bpe",
    "llama3": "llama-bpe",
}
UNKNOWN, CONTROL = 2, 3  # types of tokens
ENDS = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "</s>")


def read_tokenizer(values: Mapping[str, Any], vocabulary: int, refuse: Refuse) -> tuple[Tokenizer, tuple[str, ...]]:
    """The tokenizer, and what was decided, in words."""
    own = {key.removeprefix(SECTION): value for key, value in values.items() if key.startswith(SECTION)}
    model = own.get("model")
    if model not in ("gpt2", "llama"):
        raise refuse(SECTION + "model", f"{str(model)[:80]!a} has no twin here; expected 'gpt2' or 'llama'")
    tokens = _listed(own, "tokens", str, vocabulary, refuse)
    types = _listed(own, "token_type", int, vocabulary, refuse) if "token_type" in own else [1] * vocabulary
    special = {number for number, kind in enumerate(types) if kind in (UNKNOWN, CONTROL)}
    cut = own.get("pre", "default")
    opens = model == "llama" or cut in ("llama-bpe", "llama-v3", "llama3")  # where the file does not say
    roles = _roles(own, tokens, special, opens, refuse)
    special |= {n for n in (roles.start, *roles.ends) if n is not None}
    where = str(refuse.where)
    if model == "llama":
        if own.get("add_space_prefix", True) is not True:
            raise refuse(SECTION + "add_space_prefix", "false has no twin here; expected true")
        scores = _listed(own, "scores", float, vocabulary, refuse)
        if not all(map(math.isfinite, scores)):
            raise refuse(SECTION + "scores", "holds values that are not numbers")
        return sentencepiece(tokens, scores, special, roles, where), ()
    if not isinstance(cut, str) or cut not in CUTS:
        known = ", ".join(CUTS)
        raise refuse(SECTION + "pre", f"{str(cut)[:80]!a}: this way of cutting words is not known; expected {known}")
    notes = ("the file does not say how words are cut: GPT-2's way is taken",) if cut == "default" else ()
    return byte_bpe(tokens, _merges(own, refuse), CUTS[cut], special, roles, where), notes


def _listed(own: Mapping[str, Any], name: str, kind: type, length: int, refuse: Refuse) -> list[Any]:
    found = own.get(name)
    if not isinstance(found, list) or len(found) != length or not all(type(each) is kind for each in found):
        size = f"{len(found):,} values" if isinstance(found, list) else "not a list"
        raise refuse(SECTION + name, f"{size}; expected {length:,} of {kind.__name__}, one for each row of token_embd")
    return found


def _merges(own: Mapping[str, Any], refuse: Refuse) -> list[tuple[str, str]]:
    found = own.get("merges")
    if not isinstance(found, list):
        raise refuse(SECTION + "merges", "missing")
    pairs = [tuple(each.split(" ")) if isinstance(each, str) else () for each in found]
    for number, pair in enumerate(pairs):
        if len(pair) != 2:
            raise refuse(f"{SECTION}merges[{number}]", f"{str(found[number])[:80]!a}, expected two tokens and a space")
    return [(pair[0], pair[1]) for pair in pairs]


def _roles(own: Mapping[str, Any], tokens: list[str], special: set[int], opens: bool, refuse: Refuse) -> Roles:
    def number(name: str) -> int | None:
        found = own.get(name)
        if found is not None and (type(found) is not int or not 0 <= found < len(tokens)):
            raise refuse(SECTION + name, f"{str(found)[:80]}, expected an id below {len(tokens):,}")
        return found

    start, end = number("bos_token_id"), number("eos_token_id")
    named = [each for each in sorted(special) if tokens[each] in ENDS]
    ends = [n for n in (end, number("eot_token_id"), number("eom_token_id"), *named) if n is not None]
    adds = own.get("add_bos_token", opens)
    if adds is not True and adds is not False:
        raise refuse(SECTION + "add_bos_token", f"{str(adds)[:80]}, expected true or false")
    opening = (start,) if adds and start is not None else ()
    unknown, padding = number("unknown_token_id"), number("padding_token_id")
    if not ends:
        raise refuse(SECTION + "eos_token_id", "missing: no token ends a text")
    return Roles(start, tuple(dict.fromkeys(ends)), unknown, padding, opening)
