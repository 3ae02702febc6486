"""How other projects cut text before the vocabulary is asked, as their tokenizer.json spells it. No other cut is taken.

    gpt-2      GPT-2's own: words with their leading space, numbers, marks (Radford et al. 2019)
    smollm     the same, every digit by itself
    qwen2      after GPT-4's: every digit by itself, line ends apart; text is put into Unicode's form C first
    llama-bpe  Llama 3: digits in groups of up to three

The names are those of GGUF's `tokenizer.ggml.pre`. Regular expressions are compared, never taken from a file.

The four pipelines qkv writes, as the `tokenizers` library spells them (decks 001-003: how text becomes tokens).

    characters  every character is a token                                     deck 003, the character model
    words       words, single punctuation marks and line ends are tokens       deck 001
    bpe         merges learned over bytes: Sennrich et al. 2016, and GPT-2's way of cutting words
    wordpiece   pieces of words, continued with ##: Schuster & Nakajima 2012, as BERT uses it (deck 002)

Two are read and never learned, both of sentencepiece: its merges, as Llama 2 has them ("sentencepiece": dialects.py,
foreign.py), and its likely pieces, as Marian's models have them ("unigram": unigram.py). A pipeline is what surrounds
the vocabulary: how text is cut before the lookup, and how pieces are joined again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from qkv.errors import RefusedError

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_MARKS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = _WORDS + r"\p{N}" + _MARKS
LLAMA3 = _WORDS + r"\p{N}{1,3}" + _MARKS

SPACE = "▁"  # what sentencepiece writes for a space


def _byte_level(regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def _in_a_row(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


CUTS: dict[str, dict[str, Any]] = {
    "gpt-2": _byte_level(True),
    "smollm": _in_a_row({"type": "Digits", "individual_digits": True}, _byte_level(True)),
    "qwen2": _in_a_row(_split(QWEN2), _byte_level(False)),
    "llama-bpe": _in_a_row(_split(LLAMA3), _byte_level(False)),
}
FORM_C = {"type": "NFC"}
BYTES = _byte_level(True)

# sentencepiece: a space is a letter, and every text begins with one
_REPLACED = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
SPACES_AS_LETTERS = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": SPACE}, _REPLACED]}
METASPACE = {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "first", "split": False}
LETTERS_AS_SPACES = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}

# the same with a table of characters (charsmap.py) and likely pieces (unigram.py), as Marian's models have it
_SINGLE_SPACES = (
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
)
_TABLE = {"type": "Precompiled"}
WORDS_BEGIN = METASPACE | {"prepend_scheme": "always"}
_OLDER = {"type": "Metaspace", "replacement": SPACE}
UNIGRAM: dict[str, list[Any]] = {
    "normalizer": [None, _TABLE, {"type": "Sequence", "normalizers": [_TABLE, *_SINGLE_SPACES]}],
    "pre_tokenizer": [
        way
        for begin in (WORDS_BEGIN, WORDS_BEGIN | {"split": True}, _OLDER)
        for way in (begin, _in_a_row({"type": "WhitespaceSplit"}, begin))
    ],
    "decoder": [WORDS_BEGIN, WORDS_BEGIN | {"split": True}, _OLDER],
}


def rewritten(table: str) -> dict[str, Any]:
    """Characters by a table of sentencepiece's, in base64; white space single, and none around a text."""
    return {"type": "Sequence", "normalizers": [_TABLE | {"precompiled_charsmap": table}, *_SINGLE_SPACES]}


def cut(name: str, where: str) -> dict[str, Any]:
    """The cut that a file asks for by name."""
    found = CUTS.get({"default": "gpt-2", "gpt2": "gpt-2", "smollm2": "smollm"}.get(name, name))
    if found is None:
        raise RefusedError(f"{where}: texts are cut as {name!r}; known here: {', '.join(CUTS)}. Use another model.")
    return found


Kind = Literal["characters", "words", "bpe", "wordpiece", "sentencepiece", "unigram"]
ONLY_READ = ("sentencepiece", "unigram")  # kinds that nothing here learns

END, UNKNOWN, PADDING, START = "<|end|>", "<|unk|>", "<|pad|>", "<|start|>"
SPECIAL: dict[str, list[str]] = {
    "characters": [END, UNKNOWN],
    "words": [END, UNKNOWN],
    "bpe": [END],  # every byte is in the alphabet, so nothing is unknown
    "wordpiece": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "sentencepiece": [],
    "unigram": [],
}

# what may mark the border between two documents, other projects' names included
SEPARATORS = (END, "<|endoftext|>", "[SEP]", "<|end_of_text|>", "</s>", "<|im_end|>")
# what may stand for a hidden piece
MASKS = ("[MASK]", "<mask>")

ANY_CHARACTER = r"[\s\S]"
# a word keeps its apostrophe (don't); a line end is a token; other white space only separates
WORD = r"\n|\w+(?:['’]\w+)*|[^\w\s]"
# joining words again: no space before closing marks and line ends, none after opening marks and line ends
NEEDLESS_SPACE = r" (?=[.,;:!?…)\]}”’%\n])|(?<=[\n(\[{“‘]) "


def build(
    kind: Kind, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = (), case: str = "kept"
) -> tokenizers.Tokenizer:
    """A tokenizer of one kind around a vocabulary that begins with the kind's special tokens."""
    tokenizer = tokenizers.Tokenizer(_model(kind, dict(vocabulary), list(merges)))
    if case == "lower":
        tokenizer.normalizer = normalizers.Lowercase() if kind == "words" else normalizers.BertNormalizer()
    match kind:
        case "characters":
            tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(ANY_CHARACTER), "isolated")
            tokenizer.decoder = decoders.Fuse()
        case "words":
            tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), "removed", invert=True)
            joined = decoders.WordPiece(prefix="##", cleanup=False)
            spaces = decoders.Replace(Regex(NEEDLESS_SPACE), "")
            tokenizer.decoder = decoders.Sequence([joined, decoders.Fuse(), spaces])
        case "bpe":
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
        case "wordpiece":
            tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
            tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
            tokenizer.post_processor = _bert_template(vocabulary)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL[kind]])
    return tokenizer


def _bert_template(vocabulary: Mapping[str, int]) -> processors.TemplateProcessing:
    return processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )


Marks = Sequence[tuple[int, str]]  # special tokens, ids and names


def template(opening: Marks, closing: Marks = (), between: Marks = ()) -> dict[str, Any]:
    """As tokenizer.json spells it: these special tokens before and after every text.

    A pair is two such texts; with something `between`, it is opened once, divided by that, and closed once.
    """
    given = (opening, closing, between)
    before, after, middle = ([{"SpecialToken": {"id": name, "type_id": 0}} for _, name in part] for part in given)
    text, other = ({"Sequence": {"id": each, "type_id": 0}} for each in "AB")
    single = [*before, text, *after]
    pair = [*before, text, *middle, other, *after] if middle else [*single, *before, other, *after]
    tokens = {name: {"id": name, "ids": [number], "tokens": [name]} for part in given for number, name in part}
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens}


def _model(kind: Kind, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> models.Model:
    match kind:
        case "characters" | "words":
            return models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN)
        case "bpe":
            return models.BPE(vocab=vocabulary, merges=merges)
        case "wordpiece":
            return models.WordPiece(vocab=vocabulary, unk_token="[UNK]", continuing_subword_prefix="##")
        case "sentencepiece" | "unigram":
            raise ValueError(f"a {kind} vocabulary is read, never learned: foreign.py")


def byte_of_character() -> dict[str, int]:
    """GPT-2's picture alphabet: which byte each of its 256 printable characters stands for."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    pictures = {chr(byte): byte for byte in printable}
    pictures.update({chr(256 + index): byte for index, byte in enumerate(others)})
    return pictures
