"""The normalizer, pre-tokenizer and decoder of each kind of tokenizer, in the form of a tokenizer.json.

    characters     every character is a token                                  deck 003, the character model
    words          words, single punctuation marks and line ends are tokens    deck 001
    bpe            merges learned over bytes: Sennrich et al. 2016, with GPT-2's pre-tokenizer
    wordpiece      parts of words, continued with ##: Schuster & Nakajima 2012, as BERT uses it (deck 002)
    sentencepiece  BPE of sentencepiece, as in Llama 2                         only read (foreign.py)
    unigram        unigram model of sentencepiece, as in Marian                only read (unigram.py)
    own            defined by a Python file of the user                        own_tokenizer.py

Byte-level vocabularies of other projects have one of these pre-tokenizers, named as in GGUF's `tokenizer.ggml.pre`:

    gpt-2      words with their leading space, numbers, punctuation (Radford et al. 2019)
    smollm     the same, with every digit separate
    qwen2      like GPT-4's, but with every digit separate; text is normalized to NFC first
    llama-bpe  Llama 3: digits in groups of up to three

Other pre-tokenizers are refused. The regular expressions of a file are compared with these, and never run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tokenizers

Kind = Literal["characters", "words", "bpe", "wordpiece", "sentencepiece", "unigram", "own"]
ONLY_READ = ("sentencepiece", "unigram")  # kinds that qkv reads but cannot train
Part = dict[str, Any]  # a part of a tokenizer.json

END, UNKNOWN, PADDING, START = "<|end|>", "<|unk|>", "<|pad|>", "<|start|>"
SPECIAL: dict[str, list[str]] = {
    "characters": [END, UNKNOWN],
    "words": [END, UNKNOWN],
    "bpe": [END],  # every byte is in the alphabet, so nothing is unknown
    "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "sentencepiece": [],
    "unigram": [],
    "own": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
}

# separators of documents in qkv and in other projects
SEPARATORS = (END, "<|endoftext|>", "[SEP]", "<|end_of_text|>", "</s>", "<|im_end|>")
# names of the mask token
MASKS = ("[MASK]", "<mask>")

ANY_CHARACTER = r"[\s\S]"
# a word includes its apostrophe (don't); a line end is a token; other white space only separates words
WORD = r"\n|\w+(?:['’]\w+)*|[^\w\s]"
# when words are joined: no space before closing punctuation and line ends, none after opening punctuation and line ends
NEEDLESS_SPACE = r" (?=[.,;:!?…)\]}”’%\n])|(?<=[\n(\[{“‘]) "

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = _WORDS + r"\p{N}" + _MARKS
LLAMA3 = _WORDS + r"\p{N}{1,3}" + _MARKS

SPACE = "▁"  # what sentencepiece writes for a space


def _byte_level(prefix_space: bool, regex: bool) -> Part:
    return {"type": "ByteLevel", "add_prefix_space": prefix_space, "trim_offsets": True, "use_regex": regex}


def _split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> Part:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def _sequence(name: str, *steps: Part) -> Part:
    return {"type": "Sequence", name: list(steps)}


def _replace(pattern: Mapping[str, str], content: str) -> Part:
    return {"type": "Replace", "pattern": pattern, "content": content}


_FUSE = {"type": "Fuse"}
PRE_TOKENIZERS: dict[str, Part] = {
    "gpt-2": _byte_level(False, True),
    "smollm": _sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, _byte_level(False, True)),
    "qwen2": _sequence("pretokenizers", _split(QWEN2), _byte_level(False, False)),
    "llama-bpe": _sequence("pretokenizers", _split(LLAMA3), _byte_level(False, False)),
}
NFC_NORMALIZER = {"type": "NFC"}

# sentencepiece: a space is an ordinary character, and every text begins with one
METASPACE = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
# the same with a table of characters, for unigram models (unigram.py) such as Marian's
_SINGLE_SPACES = (
    {"type": "Strip", "strip_left": True, "strip_right": True},
    _replace({"Regex": " {2,}"}, " "),
)
_TABLE = {"type": "Precompiled"}
WORDS_BEGIN = METASPACE | {"prepend_scheme": "always"}
_METASPACES = (WORDS_BEGIN, WORDS_BEGIN | {"split": True}, {"type": "Metaspace", "replacement": SPACE})

_BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
_WORDPIECE_JOIN = {"type": "WordPiece", "prefix": "##"}

PIPELINES: dict[str, dict[str, list[Part | None]]] = {
    "characters": {"normalizer": [None], "pre_tokenizer": [_split(ANY_CHARACTER)], "decoder": [_FUSE]},
    "words": {
        "normalizer": [None, {"type": "Lowercase"}],
        "pre_tokenizer": [_split(WORD, "Removed", invert=True)],
        "decoder": [
            _sequence("decoders", _WORDPIECE_JOIN | {"cleanup": False}, _FUSE, _replace({"Regex": NEEDLESS_SPACE}, ""))
        ],
    },
    "bpe": {
        "normalizer": [None, NFC_NORMALIZER],
        "pre_tokenizer": list(PRE_TOKENIZERS.values()),
        "decoder": [_byte_level(True, True), _byte_level(True, False)],
    },
    "wordpiece": {
        "normalizer": [
            None,
            _BERT | {"strip_accents": False, "lowercase": True},  # accents are letters
            *(
                _BERT | {"strip_accents": strip, "lowercase": low}
                for strip in (None, True, False)
                for low in (True, False)
            ),
        ],
        "pre_tokenizer": [{"type": "BertPreTokenizer"}],
        "decoder": [_WORDPIECE_JOIN | {"cleanup": True}],
    },
    "sentencepiece": {
        "normalizer": [
            _sequence("normalizers", {"type": "Prepend", "prepend": SPACE}, _replace({"String": " "}, SPACE)),
            None,
        ],
        "pre_tokenizer": [None, METASPACE],
        "decoder": [
            _sequence(
                "decoders",
                _replace({"String": SPACE}, " "),
                {"type": "ByteFallback"},
                _FUSE,
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            )
        ],
    },
    "unigram": {
        "normalizer": [None, _TABLE, _sequence("normalizers", _TABLE, *_SINGLE_SPACES)],
        "pre_tokenizer": [
            way
            for begin in _METASPACES
            for way in (begin, _sequence("pretokenizers", {"type": "WhitespaceSplit"}, begin))
        ],
        "decoder": list(_METASPACES),
    },
}
"""The parts that a tokenizer.json of each kind may have; qkv writes the first of each, and for lower case the second
normalizer of words and wordpiece."""


def charsmap_normalizer(table: str) -> Part:
    """The normalizer with a sentencepiece table of characters, in base64. It also strips white space at both ends, and
    replaces several spaces by one."""
    return _sequence("normalizers", _TABLE | {"precompiled_charsmap": table}, *_SINGLE_SPACES)


def pipeline_of(kind: Kind) -> Part:
    """The parts that qkv writes for this kind."""
    return {field: options[0] for field, options in PIPELINES[kind].items()}


def tokenizer_json(model: Part, pipeline: Part, special: Mapping[str, int]) -> str:
    """The text of a tokenizer.json with these special tokens."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": number, "content": name, **flags} for name, number in special.items()]
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None}
    return json.dumps({**whole, **pipeline, "model": model}, ensure_ascii=False)


_MODELS: dict[Kind, Part] = {
    "characters": {"type": "WordLevel", "unk_token": UNKNOWN},
    "words": {"type": "WordLevel", "unk_token": UNKNOWN},
    "bpe": {"type": "BPE", "merges": []},
    "wordpiece": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##"}
    | {"max_input_chars_per_word": 100},
}


def model_of(kind: Kind, vocabulary: Mapping[str, int]) -> Part:
    return _MODELS[kind] | {"vocab": dict(vocabulary)}


def build(kind: Kind, vocabulary: Mapping[str, int], case: str = "kept") -> tokenizers.Tokenizer:
    """A tokenizer of a kind that qkv trains. The vocabulary begins with the kind's special tokens, or is empty."""
    special = {name: number for number, name in enumerate(SPECIAL[kind])}
    pipeline = pipeline_of(kind)
    if case == "lower":
        pipeline["normalizer"] = PIPELINES[kind]["normalizer"][1]
    if kind == "wordpiece":
        pipeline["post_processor"] = _bert_template(special)
    return tokenizers.Tokenizer.from_str(tokenizer_json(model_of(kind, vocabulary), pipeline, special))


SpecialTokens = Sequence[tuple[int, str]]  # special tokens, ids and names


def template(opening: SpecialTokens, closing: SpecialTokens = (), between: SpecialTokens = ()) -> Part:
    """The post-processor that adds these special tokens before and after every text.

    A pair is two such texts, one after the other. With `between`, it is `opening` A `between` B `closing` instead.
    """
    before, after, middle = ([_step("SpecialToken", name) for _, name in part] for part in (opening, closing, between))
    text, other = (_step("Sequence", name) for name in "AB")
    single = [*before, text, *after]
    pair = [*before, text, *middle, other, *after] if middle else [*single, *before, other, *after]
    return _template(single, pair, {name: number for number, name in (*opening, *closing, *between)})


def _bert_template(special: Mapping[str, int]) -> Part:
    single = [_step("SpecialToken", "[CLS]"), _step("Sequence", "A"), _step("SpecialToken", "[SEP]")]
    pair = [*single, _step("Sequence", "B", 1), _step("SpecialToken", "[SEP]", 1)]
    return _template(single, pair, {name: special[name] for name in ("[CLS]", "[SEP]")})


def _step(kind: str, name: str, segment: int = 0) -> Part:
    return {kind: {"id": name, "type_id": segment}}


def _template(single: list[Part], pair: list[Part], ids: Mapping[str, int]) -> Part:
    tokens = {name: {"id": name, "ids": [number], "tokens": [name]} for name, number in ids.items()}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


def byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet of bytes: the byte that each of its 256 printable characters encodes."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    alphabet = {chr(byte): byte for byte in printable}
    alphabet.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return alphabet
