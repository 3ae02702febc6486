"""What a tokenizer.json puts around a text: special tokens of its vocabulary, or nothing. Anything else is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qkv.text.refusal import Refusal, essence, short

BYTE_LEVEL = {"type": "ByteLevel", "use_regex": True}


def template(value: Any, ids: Mapping[str, int], special: set[str], refuse: Refusal) -> None:
    """What is put around a text: nothing, or special tokens of the vocabulary around a text A (and a text B)."""
    if value is None or essence(value) == essence(BYTE_LEVEL | {"use_regex": value.get("use_regex")}):
        return
    field = "post_processor"
    if value.get("type") == "Sequence" and isinstance(steps := value.get("processors"), list) and len(steps) <= 2:
        for step in steps:
            if not isinstance(step, dict) or step.get("type") == "Sequence":
                raise refuse(field, f"{short(step)} is not supported")
            template(step, ids, special, refuse)
        return
    if value.get("type") == "BertProcessing" and set(value) == {"type", "sep", "cls"}:
        if [value["cls"], value["sep"]] != [[name, ids.get(name)] for name in ("[CLS]", "[SEP]")]:
            raise refuse(field, "expected [CLS] and [SEP] with their ids")
        return
    if value.get("type") != "TemplateProcessing" or set(value) != {"type", "single", "pair", "special_tokens"}:
        raise refuse(field, f"{short(value)} is not supported")
    known = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in special}
    tokens = value["special_tokens"]
    if not isinstance(tokens, dict) or any(known.get(name) != entry for name, entry in tokens.items()):
        raise refuse(field, "special_tokens are not those of the vocabulary")
    for part, texts in (("single", ["A"]), ("pair", ["A", "B"])):
        pieces = value[part]
        found = (
            [_piece(piece, tokens) for piece in pieces] if isinstance(pieces, list) and len(pieces) < 100 else [None]
        )
        if None in found or [name for kind, name in filter(None, found) if kind == "Sequence"] != texts:
            raise refuse(f"{field}.{part}", f"{short(pieces)} is not a row of special tokens around a text")


def _piece(piece: Any, tokens: Mapping[str, Any]) -> tuple[str, str] | None:
    """One step of a template: what it is and its name; None where it does not fit."""
    if not isinstance(piece, dict) or len(piece) != 1:
        return None
    kind, entry = next(iter(piece.items()))
    fits = isinstance(entry, dict) and set(entry) == {"id", "type_id"} and entry["type_id"] in (0, 1)
    if not fits or type(entry["type_id"]) is not int or not isinstance(entry["id"], str):
        return None
    known = entry["id"] in ("A", "B") if kind == "Sequence" else kind == "SpecialToken" and entry["id"] in tokens
    return (kind, entry["id"]) if known else None
