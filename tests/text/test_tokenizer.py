"""Text to ids and back: round trips, special tokens, strangers, and the same ids in transformers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library

from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer, TokenizerConfig
from qkv.text.vocabulary import train_tokenizer
from text.kinds import KINDS, TEXT, tokenizer

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
known_text = st.text(st.sampled_from(sorted(set(TEXT))), max_size=200)


@given(any_text)
def test_bytes_round_trip(text: str) -> None:
    bpe = tokenizer("bpe")
    assert bpe.decode(bpe.encode(text)) == text
    assert bpe.unknown is None
    assert not bpe.unknown_characters(text)


@given(known_text)
def test_characters_round_trip(text: str) -> None:
    characters = tokenizer("characters")
    assert characters.decode(characters.encode(text)) == text
    assert len(characters.encode(text)) == len(text)


@given(any_text)
def test_the_table_of_characters_is_the_library(text: str) -> None:
    characters = tokenizer("characters")
    library = Library.from_str(characters.json())
    library.encode_special_tokens = True
    assert characters.encode(text) == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_counted_from_zero(kind: str) -> None:
    ours = tokenizer(kind)
    ids = sorted(Library.from_str(ours.json()).get_vocab().values())
    assert ids == list(range(ours.vocabulary))
    assert max(ours.encode(TEXT)) < ours.vocabulary
    assert ours.separator not in ours.encode(TEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_spells_special_tokens_is_text(kind: str) -> None:
    ours = tokenizer(kind)
    spelled = "<|end|> [SEP] <|unk|> [CLS] [MASK] [PAD]"
    ids = ours.encode(spelled)
    special = {ours.separator, ours.start, ours.end, ours.padding} - {None}
    assert not special & set(ids)
    if kind == "bpe":
        assert ours.decode(ids) == spelled


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_leave_no_trace(kind: str) -> None:
    ours = tokenizer(kind)
    ids = ours.encode("The river")
    assert ours.decode([ours.separator, *ids, ours.separator]) == ours.decode(ids) == "The river"
    assert ours.decode([]) == ""


def test_words_join_as_people_write() -> None:
    words = tokenizer("words")
    text = "“Stay,” she said; (and the stone).\n\nDon't ask [of] {it}… 3 %\nThe end?"
    assert words.decode(words.encode(text)) == text.replace("3 %", "3%")
    assert words.encode("The\t  river") == words.encode("The river")


def test_strangers_are_named_in_order() -> None:
    assert tokenizer("characters").unknown_characters("Zxq zßxq") == ["Z", "x", "q", "z", "ß"]
    assert tokenizer("words").unknown_characters("The zebra river zebra yak") == ["zebra", "yak"]
    assert tokenizer("wordpiece").unknown_characters("The ✈ river") == ["✈"]
    characters = tokenizer("characters")
    assert characters.encode("Z") == [characters.unknown]
    assert characters.encode("\U0010ffff") == [characters.unknown]


def test_pieces_are_readable() -> None:
    bpe = tokenizer("bpe")
    assert "".join(bpe.piece(number) for number in bpe.encode("The river")) == "The river"
    assert [bpe.piece(number) for number in bpe.encode("🎈")] == ["\\xf0", "\\x9f", "\\x8e", "\\x88"]
    assert bpe.piece(bpe.separator) == "<|end|>"
    with pytest.raises(InputError, match="outside the vocabulary"):
        bpe.piece(10**6)


@pytest.mark.parametrize("kind", KINDS)
def test_half_a_character_is_explained(kind: str) -> None:
    with pytest.raises(InputError, match="not Unicode at character 1"):
        tokenizer(kind).encode("a\udcff")


@pytest.mark.parametrize("kind", KINDS)
def test_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    ours = tokenizer(kind)
    ours.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.kind == kind
    assert again.json() == ours.json()
    assert again.fingerprint == ours.fingerprint
    assert again.encode(TEXT) == ours.encode(TEXT)
    assert [path.name for path in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_opens_it_with_equal_ids(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="the extra [hf] is not installed")
    ours = tokenizer(kind)
    ours.save(tmp_path / "tokenizer.json")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    for text in (TEXT, "The river keeps", "strangers: ßẞ 🎈 кот", ""):
        assert theirs.encode(text, add_special_tokens=False) == ours.encode(text)
    assert theirs.decode(ours.encode("The stone keeps the river."), skip_special_tokens=True).replace(" .", ".") == (
        ours.decode(ours.encode("The stone keeps the river."))
    )


def test_wordpiece_has_berts_template(tmp_path: Path) -> None:
    library = Library.from_str(tokenizer("wordpiece").json())
    assert library.encode("The river", "keeps").tokens[0] == "[CLS]"
    assert json.loads(library.to_str())["post_processor"]["type"] == "TemplateProcessing"


def test_many_threads_share_one() -> None:
    """tokenizers#537: "Already borrowed" when settings change under another thread; ours never change."""
    bpe = tokenizer("bpe")
    expected = bpe.encode(TEXT)
    with ThreadPoolExecutor(8) as pool:
        assert all(ids == expected for ids in pool.map(bpe.encode, [TEXT] * 64))


def test_batches_equal_singles() -> None:
    texts = ["The river", "", "keeps\nthe stone", "世界 ß"]
    for kind in KINDS:
        ours = tokenizer(kind)
        assert ours.encode_batch(texts) == [ours.encode(text) for text in texts]
        assert [list(row) for row in ours.encode_array(texts)] == ours.encode_batch(texts)


def test_gpt2_as_others_write_it() -> None:
    """A byte-level tokenizer.json with GPT-2's separator and merges written as strings is welcome."""
    values = json.loads(tokenizer("bpe").json())
    values["model"]["vocab"]["<|endoftext|>"] = values["model"]["vocab"].pop("<|end|>")
    values["added_tokens"][0]["content"] = "<|endoftext|>"
    values["model"]["merges"] = [" ".join(pair) for pair in values["model"]["merges"]]
    values["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    foreign = Tokenizer.parse(json.dumps(values))
    assert foreign.encode(TEXT) == tokenizer("bpe").encode(TEXT)
    assert foreign.separator == 0


def test_file_kind(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer("words").save(path)
    assert train_tokenizer(TokenizerConfig(kind="file", file=str(path)), ()).json() == tokenizer("words").json()
