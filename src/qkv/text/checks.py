"""Checks that a tokenizer.json is safe to load with the `tokenizers` library.

The library is written in Rust, and panics on some malicious files; a panic is a BaseException and prints a backtrace.
So a file is first read as plain JSON. Only these are accepted: known kinds of tokenizers, the regular expressions that
qkv itself writes, ids without gaps, merges of tokens in the vocabulary, and templates that add only special tokens of
the vocabulary. Errors name the file and the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from qkv.safe_json import Refusals, RejectedJson, parse_bounded_json
from qkv.text.pipelines import PIPELINES, SEPARATORS, SPECIAL, UNKNOWN, Kind, Part, byte_of_character
from qkv.text.unigram import BEYOND, NEVER, BadTable, charsmap, rewriting
from qkv.visible import encodable

LARGEST_FILE = 64 * 2**20
LONGEST_TOKEN = 4096
# bytes that a byte-level vocabulary must have: printable ASCII, and continuation bytes of UTF-8. SmolLM2 lacks others.
NEEDED_BYTES = {*b"\t\n", *range(0x20, 0x7F), *range(0x80, 0xC0)}
# keys that are not compared: they do not affect ids, or, like the table of characters, are checked separately
UNCOMPARED_KEYS = {"trim_offsets", "add_prefix_space", "cleanup", "precompiled_charsmap"}

_MODEL_KEYS: dict[str, dict[str, list[object]]] = {
    "BPE": {
        "dropout": [None],
        "unk_token": [None, "<unk>", "<|endoftext|>"],
        "continuing_subword_prefix": [None, ""],
        "end_of_word_suffix": [None, ""],
        "fuse_unk": [False, True],
        "byte_fallback": [False, True],
        "ignore_merges": [False, True],
    },
    "WordPiece": {"unk_token": ["[UNK]"], "continuing_subword_prefix": ["##"], "max_input_chars_per_word": [100]},
    "WordLevel": {"unk_token": ["<|unk|>"]},
    "Unigram": {"byte_fallback": [False]},
}
_KINDS: dict[str, Kind] = {"WordPiece": "wordpiece", "Unigram": "unigram", "BPE": "bpe"}


def refusal(where: str) -> Refusals:
    return Refusals(where, "Use another copy of the tokenizer, or train a new one with `qkv tokenize --train`.")


def without_uncompared_keys(value: object) -> object:
    """A part of a tokenizer.json without the keys that are not compared."""
    if isinstance(value, dict):
        return {key: without_uncompared_keys(item) for key, item in value.items() if key not in UNCOMPARED_KEYS}
    if isinstance(value, list):
        return [without_uncompared_keys(item) for item in value]
    return value


def short(value: object) -> str:
    """A value of a file, shortened for a message."""
    shown = ascii(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def read(text: str, where: str) -> tuple[Kind, str]:
    """Check the text of a tokenizer.json; return its kind and the text to load with the library."""
    refuse = refusal(where)
    if len(text) > LARGEST_FILE:
        raise refuse("file", f"{len(text):,} characters, at most {LARGEST_FILE:,} are read")
    try:
        values = parse_bounded_json(text)
    except RecursionError:
        raise refuse("file", "the JSON is nested too deeply") from None
    except ValueError as error:
        raise refuse("file", str(error) if isinstance(error, RejectedJson) else f"not JSON: {error}") from None
    if not isinstance(values, dict) or not isinstance(values.get("model"), dict):
        raise refuse("model", "missing: this JSON is not a tokenizer")
    if values.get("version") != "1.0":
        raise refuse("version", f"{short(values.get('version'))}, expected '1.0'")
    kind = _kind(values, refuse)
    ids = _vocabulary(values["model"], refuse)
    ids = _added_tokens(values, ids, refuse)
    _require_tokens(kind, values, ids, refuse)
    if kind == "unigram":
        _check_unigram(values, ids, refuse)
    if kind in ("bpe", "sentencepiece"):
        values["model"]["merges"] = _merges(values, ids, refuse)
    # texts are truncated and padded when batches are made, never by the tokenizer
    values["truncation"] = values["padding"] = None
    return kind, json.dumps(values, ensure_ascii=False)


def _kind(values: Part, refuse: Refusals) -> Kind:
    model = values["model"]
    name = model.get("type")
    if not isinstance(name, str) or name not in _MODEL_KEYS:
        raise refuse("model.type", f"{short(name)}, expected one of {', '.join(_MODEL_KEYS)}")
    for key, value in model.items():
        if key in ("type", "vocab", "merges") or (name == "Unigram" and key == "unk_id"):
            continue
        allowed = _MODEL_KEYS[name].get(key)
        if allowed is None or not any(value is option or value == option for option in allowed):
            raise refuse(f"model.{key}", f"{short(value)} is not supported")
    if name == "WordLevel":
        behaviour = values.get("pre_tokenizer")
        words = isinstance(behaviour, dict) and behaviour.get("behavior") == "Removed"
        kind: Kind = "words" if words else "characters"
    else:
        byte_fallback = model.get("byte_fallback") is True  # only sentencepiece has bytes for unknown characters
        kind = "sentencepiece" if byte_fallback else _KINDS[name]
    for field, options in PIPELINES[kind].items():
        value = without_uncompared_keys(values.get(field))
        if not any(value == without_uncompared_keys(option) for option in options):
            raise refuse(field, f"{short(values.get(field))} is not supported for a {kind} tokenizer")
    return kind


def _vocabulary(model: Part, refuse: Refusals) -> dict[str, int]:
    ids = model.get("vocab")
    if model["type"] == "Unigram":
        ids = _scored(ids, refuse)
    if not isinstance(ids, dict) or not ids:
        raise refuse("model.vocab", "expected an object of tokens and ids")
    for token, number in ids.items():
        if type(number) is not int or not 0 <= number < 2**31:
            raise refuse("model.vocab", f"the id of {short(token)} is {short(number)}, expected a whole number")
        if not 0 < len(token) <= LONGEST_TOKEN or not encodable(token):
            raise refuse("model.vocab", f"the token {short(token)} is empty, too long or not Unicode")
    return ids


def _scored(vocabulary: object, refuse: Refusals) -> dict[str, int]:
    """The ids of a vocabulary that is a list of pieces with scores."""
    ids: dict[str, int] = {}
    for number, entry in enumerate(vocabulary if isinstance(vocabulary, list) else ()):
        field = f"model.vocab[{number}]"
        if not isinstance(entry, list) or len(entry) != 2 or not isinstance(entry[0], str):
            raise refuse(field, f"{short(entry)} is not a piece and its score")
        piece, score = entry
        if type(score) not in (int, float) or not NEVER <= score <= -NEVER:
            raise refuse(field, f"the score of {short(piece)} is {short(score)}, expected a logarithm")
        if ids.setdefault(piece, number) != number:
            raise refuse(field, f"{short(piece)} is listed twice")
    return ids


def _added_tokens(values: Part, vocabulary: dict[str, int], refuse: Refusals) -> dict[str, int]:
    added = values.get("added_tokens")
    if not isinstance(added, list):
        raise refuse("added_tokens", "expected a list")
    ids = dict(vocabulary)
    for entry in added:
        if not isinstance(entry, dict) or not isinstance(entry.get("content"), str) or type(entry.get("id")) is not int:
            raise refuse("added_tokens", f"{short(entry)} is not an added token")
        flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
        if any(type(entry.get(flag)) is not bool for flag in flags) or set(entry) != {"id", "content", *flags}:
            raise refuse("added_tokens", f"{short(entry)} has missing or unknown fields")
        content = entry["content"]
        if not content or len(content) > LONGEST_TOKEN or not encodable(content):
            raise refuse("added_tokens", f"{short(content)} is empty, too long or not Unicode")
        if ids.setdefault(content, entry["id"]) != entry["id"]:
            raise refuse("added_tokens", f"{short(content)} has two ids, {ids[content]} and {entry['id']}")
    if sorted(ids.values()) != list(range(len(ids))):
        raise refuse("model.vocab", f"the {len(ids):,} ids are not 0 to {len(ids) - 1:,}, each once")
    return ids


def _require_tokens(kind: Kind, values: Part, ids: Mapping[str, int], refuse: Refusals) -> None:
    special = {entry["content"] for entry in values["added_tokens"] if entry["special"]}
    for name in sorted({UNKNOWN, "[UNK]", "[CLS]", "[SEP]"} & set(SPECIAL[kind]) - special):
        raise refuse("added_tokens", f"the special token {name} is missing")
    unknown = values["model"].get("unk_token")
    for name in sorted(({UNKNOWN, "[UNK]"} & special | ({unknown} - {None})) - _listed(values["model"])):
        raise refuse("model.vocab", f"{name} is not in it")
    if not special & set(SEPARATORS):
        raise refuse("added_tokens", f"no document separator; expected one of {', '.join(SEPARATORS)}")
    if kind == "bpe" and any(
        byte in NEEDED_BYTES for picture, byte in byte_of_character().items() if picture not in ids
    ):
        raise refuse("model.vocab", "it lacks tokens for some bytes that every text needs")
    if kind == "sentencepiece" and any(f"<0x{byte:02X}>" not in ids for byte in range(256)):
        raise refuse("model.vocab", "it lacks tokens for some of the 256 bytes")
    _template(values.get("post_processor"), ids, special, refuse)


def _listed(model: Part) -> set[str]:
    """The tokens of the vocabulary, without added tokens."""
    return {piece for piece, _ in model["vocab"]} if model["type"] == "Unigram" else set(model["vocab"])


def _check_unigram(values: Part, ids: Mapping[str, int], refuse: Refusals) -> None:
    """Further checks of a unigram vocabulary: it needs an unknown token, scored pieces, and a valid table of
    characters."""
    added = {entry["content"]: entry for entry in values["added_tokens"]}
    if not all(entry["special"] for entry in added.values()) or added.keys() - _listed(values["model"]):
        raise refuse("added_tokens", "expected special tokens that are also in model.vocab")
    unknown = values["model"].get("unk_id")
    if type(unknown) is not int or unknown not in {entry["id"] for entry in added.values()} - {ids.get(BEYOND)}:
        raise refuse("model.unk_id", f"{short(unknown)}, expected the id of a special token")
    beyond = ids.get(BEYOND, len(ids))
    if any(entry["id"] > beyond for entry in added.values()) or (BEYOND in ids and BEYOND not in added):
        raise refuse("added_tokens", f"expected {BEYOND} after all others")
    if not any(score != NEVER for piece, score in values["model"]["vocab"] if piece not in added):
        raise refuse("model.vocab", "no piece has a score, so no text can be tokenized")
    processor = values.setdefault("post_processor", None)
    if processor is not None and processor.get("type") != "TemplateProcessing":
        raise refuse("post_processor", f"{short(processor)} is not supported for a unigram tokenizer")
    try:
        rewriting(charsmap(values.setdefault("normalizer", None)))
    except BadTable as error:
        raise refuse("normalizer.precompiled_charsmap", str(error)) from None


def _merges(values: Part, ids: Mapping[str, int], refuse: Refusals) -> list[object]:
    """The merges without those that give a special token: a text that contains its name must not become this token."""
    special = {entry["content"] for entry in values["added_tokens"] if entry["special"]}
    merges, kept = values["model"].get("merges"), []
    if not isinstance(merges, list):
        raise refuse("model.merges", "expected a list")
    for number, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise refuse(f"model.merges[{number}]", f"{short(merge)} is not a pair of tokens")
        left, right = pair
        if left not in ids or right not in ids or left + right not in ids:
            raise refuse(f"model.merges[{number}]", f"{short(merge)} is not in the vocabulary")
        if left + right not in special:
            kept.append(merge)
    return kept


def _template(value: object, ids: Mapping[str, int], special: set[str], refuse: Refusals) -> None:
    """Check the template: it may add only special tokens of the vocabulary, to a text A or to a pair of texts A and
    B."""
    field = "post_processor"
    if value is None:
        return
    if not isinstance(value, dict):
        raise refuse(field, f"{short(value)} is not supported")
    if without_uncompared_keys(value) == {"type": "ByteLevel", "use_regex": value.get("use_regex")}:
        return
    if value.get("type") == "Sequence" and isinstance(steps := value.get("processors"), list) and len(steps) <= 2:
        for step in steps:
            if not isinstance(step, dict) or step.get("type") == "Sequence":
                raise refuse(field, f"{short(step)} is not supported")
            _template(step, ids, special, refuse)
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
        steps = value[part]
        parsed = [_step(step, tokens) for step in steps] if isinstance(steps, list) and len(steps) < 100 else [None]
        if None in parsed or [step[1] for step in parsed if step and step[0] == "Sequence"] != texts:
            raise refuse(f"{field}.{part}", f"{short(steps)} is not a row of special tokens around a text")


def _step(step: object, tokens: Part) -> tuple[str, str] | None:
    """One step of a template: its kind and its name; None if it is not valid."""
    if not isinstance(step, dict) or len(step) != 1:
        return None
    kind, entry = next(iter(step.items()))
    fits = isinstance(entry, dict) and set(entry) == {"id", "type_id"} and entry["type_id"] in (0, 1)
    if not fits or type(entry["type_id"]) is not int or not isinstance(entry["id"], str):
        return None
    known = entry["id"] in ("A", "B") if kind == "Sequence" else kind == "SpecialToken" and entry["id"] in tokens
    return (kind, entry["id"]) if known else None
