"""Parity with MarianTokenizer and MarianMTModel on folders as Helsinki-NLP's: ids, texts, scores, searches, exports.

The vocabularies are learned from Multi30k by sentencepiece, the folders saved by transformers. No download.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch

import opus
import qkv
import qkv.errors
from qkv.interop import sentencepiece as files
from qkv.recipe.bundle import save
from qkv.text.tokenizer import Tokenizer
from reference.test_marian import by_ours, by_theirs

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")
    pytest.importorskip("sentencepiece", reason="the oracle for its own files: pip install sentencepiece")

import sentencepiece
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
TAGS = (">>fra<<", ">>deu_Latn<<")
SIDES = ("source", "target")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vocabularies of which every piece has a number."""
    return opus.vocabularies(tmp_path_factory.mktemp("whole") / "words")


@pytest.fixture(scope="module")
def partial(whole: Path) -> Path:
    """One piece in seven has no number, single letters among them; two languages can be asked for."""
    place = whole.with_name("partial")
    shutil.copytree(whole, place)
    drawn = random.Random(5)
    opus.number(place, TAGS, lambda piece: drawn.random() > 1 / 7)
    return place


@pytest.fixture(scope="module", params=["whole", "partial"])
def theirs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """A folder, and what opens it there."""
    place = tmp_path_factory.mktemp("theirs") / request.param
    vocabulary = request.getfixturevalue(request.param)
    return place, *opus.folder(place, vocabulary, ending=3.0)


def sentences() -> list[str]:
    return [*opus.lines("test_2016_flickr.en"), *opus.lines("test_2016_flickr.de"), *opus.HARD]


def require_same_cuts(model: Any, words: Any) -> None:
    """Ids of both sides and the texts that they spell."""
    texts = sentences()
    for tokenizer, how in ((model.tokenizer, "text"), (model.bundle.target_tokenizer, "text_target")):
        expected = words(**{how: texts})["input_ids"]
        found = [[*ids, *model.tokenizer.closing] for ids in tokenizer.encode_batch(texts)]
        assert found == expected
        assert [tokenizer.decode(ids) for ids in found] == words.batch_decode(expected, skip_special_tokens=True)


def test_the_same_ids_and_texts(theirs: tuple[Path, Any, Any], tmp_path: Path) -> None:
    """2,000 real sentences and hard strings, both sides; then from a folder of ours."""
    place, words, _ = theirs
    model = qkv.load(place)
    assert model.tokenizer.kind == "unigram"
    require_same_cuts(model, words)
    ids = {"eos": model.bundle.start_and_end[1], "pad": model.tokenizer.padding, "unk": model.tokenizer.unknown}
    assert ids == {key: getattr(words, f"{key}_token_id") for key in ids}
    assert model.bundle.start_and_end[0] == words.pad_token_id
    save(tmp_path / "own", model.bundle)
    again = qkv.load(tmp_path / "own")
    require_same_cuts(again, words)
    assert again.tokenizer.roles == model.tokenizer.roles
    assert again.bundle.forbidden_ids == model.bundle.forbidden_ids


def test_where_we_differ_on_purpose(theirs: tuple[Path, Any, Any]) -> None:
    """A text that spells a special token is text; theirs makes the token of it."""
    place, words, _ = theirs
    model = qkv.load(place)
    for text in ("a </s> b", "<pad>", "x<unk>y"):
        assert not {0, model.tokenizer.padding} & set(model.tokenizer.encode(text))
        assert words(text)["input_ids"] != [*model.tokenizer.encode(text), 0]


def test_languages_that_a_text_asks_for(partial: Path, tmp_path: Path) -> None:
    words, _ = opus.folder(tmp_path / "in", partial)
    model = qkv.load(tmp_path / "in")
    texts = [f"{tag}{between}A man is here." for tag in TAGS for between in (" ", "", "  ")]
    sources = [said[0].sentences[0][0] for said in model.translate(texts, beams=1)]
    assert sources == words(texts)["input_ids"]
    assert sources[0][0] == words.convert_tokens_to_ids(TAGS[0])
    assert model.translate(["A man is here."], beams=1, to="fra")[0][0].sentences[0][0] == sources[0]
    plain = model.translate(["A man is here."], beams=1)[0][0].sentences[0][0]
    assert plain == sources[0][1:]
    assert "no language was asked for" in model.notes[0]


def rows(model: Any, most: int = 40) -> list[list[int]]:
    texts = [*opus.lines("test_2016_flickr.en", most), *filter(str.strip, opus.HARD)]
    return [[*ids, *model.tokenizer.closing] for ids in model.tokenizer.encode_batch(texts)]


@torch.no_grad()
def test_the_same_scores(theirs: tuple[Path, Any, Any]) -> None:
    place, _, model = theirs
    ours = qkv.load(place)
    given = rows(ours)
    longest = max(map(len, given))
    source = torch.tensor([[*row, *[0] * (longest - len(row))] for row in given])
    present = torch.tensor([[place < len(row) for place in range(longest)] for row in given])
    drawn = torch.Generator().manual_seed(3)
    tokens = torch.randint(ours.tokenizer.vocabulary, (len(given), 30), generator=drawn)
    expected = model(source, attention_mask=present.long(), decoder_input_ids=tokens).logits
    own: Any = ours.bundle.model
    torch.testing.assert_close(own(source, present, tokens), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_translations(beams: int, theirs: tuple[Path, Any, Any]) -> None:
    """Token for token, by their `generate` and our search; pieces for the unknown too."""
    place, words, model = theirs
    ours = qkv.load(place)
    given = rows(ours, 12)[:12]
    found = by_ours(ours.bundle, given, beams)
    never = [
        [number] for number in sorted(ours.bundle.forbidden_ids)
    ]  # tags too, which a model that learned does not write
    options = {"num_beams": beams, "bad_words_ids": never, "forced_eos_token_id": None}
    assert found == by_theirs(model, given, **options)
    assert any(found)
    texts = [ours.tokenizer.decode(ids) for ids in found]
    assert texts == words.batch_decode(found, skip_special_tokens=True)


def test_an_export_opens_there(theirs: tuple[Path, Any, Any], tmp_path: Path) -> None:
    """With the same ids on both sides, and the same files when it comes back and goes out again."""
    place, _, _ = theirs
    model = qkv.load(place)
    compared = model.export(tmp_path / "out")
    assert len(compared) == 2
    assert all(each.passed and each.largest < 1e-5 for each in compared), [str(each) for each in compared]
    words = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    assert type(words).__name__ == "MarianTokenizer"
    assert words.get_vocab() == json.loads((place / "vocab.json").read_text())
    again = qkv.load(tmp_path / "out")
    require_same_cuts(again, words)
    assert again.tokenizer.json() == model.tokenizer.json()
    assert again.tokenizer.roles == model.tokenizer.roles
    for side in SIDES:
        before, after = (
            sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
            for folder in (place, tmp_path / "out")
        )
        for text in sentences()[::20]:
            assert before.encode(text, out_type=str) == after.encode(text, out_type=str)
    copy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", local_files_only=True)
    assert [model.tokenizer.padding] in copy.generation_config.bad_words_ids


def test_a_vocabulary_kept_as_tokenizer_json(whole: Path, tmp_path: Path) -> None:
    """As others convert such folders: one Unigram for both sides, </s> put behind texts by the file."""
    place = tmp_path / "theirs"
    opus.folder(place, whole)
    tree = json.loads(qkv.load(place).tokenizer.json())
    size = len(json.loads((place / "vocab.json").read_text()))
    tree["model"]["vocab"] = [[piece, max(score, -100.0)] for piece, score in tree["model"]["vocab"][:size]]
    tree["added_tokens"] = [entry for entry in tree["added_tokens"] if entry["id"] < size]
    tree["normalizer"] = tree["normalizer"]["normalizers"][0]
    space = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
    tree["decoder"] = space
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, space]}
    text, end = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}
    other = {"Sequence": {"id": "B", "type_id": 0}}
    special = {"</s>": {"id": "</s>", "ids": [0], "tokens": ["</s>"]}}
    tree["post_processor"] = {"type": "TemplateProcessing", "single": [text, end], "pair": [text, other, end]}
    tree["post_processor"]["special_tokens"] = special
    shutil.copytree(place, tmp_path / "in", ignore=shutil.ignore_patterns("*.spm", "vocab.json"))
    (tmp_path / "in" / "tokenizer.json").write_text(json.dumps(tree))
    model = qkv.load(tmp_path / "in")
    assert model.tokenizer.closing == (0,)
    library = tokenizers.Tokenizer.from_str(json.dumps(tree))
    for sentence in opus.lines("test_2016_flickr.en"):
        assert [*model.tokenizer.encode(sentence), 0] == library.encode(sentence).ids
    assert all(each.passed for each in model.export(tmp_path / "out"))


def test_both_forms_in_one_folder(theirs: tuple[Path, Any, Any], tmp_path: Path) -> None:
    """Marian's own files are taken."""
    place, words, _ = theirs
    shutil.copytree(place, tmp_path / "in")
    (tmp_path / "in" / "tokenizer.json").write_text("{}")
    require_same_cuts(qkv.load(tmp_path / "in"), words)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "identity"])
def test_other_tables_of_characters(rule: str, tmp_path: Path) -> None:
    """Rewritten and cut as sentencepiece does, capitals to small letters too; random strings besides the hard ones."""
    place = opus.learn(tmp_path / "a.spm", opus.lines("train.en", 2000), vocab_size=800, normalization_rule_name=rule)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(place))
    own = files.read(place)
    names = ["</s>", "<unk>", *own.scores]
    ids = {name: number for number, name in enumerate(names)}
    words: Tokenizer = files_of(ids, own)
    drawn = random.Random(1)
    letters = [
        *map(chr, range(0xD7FF)),
        *"abc DEF  \t\n\u3000",
        *map(chr, range(0x300, 0x370)),
        *map(chr, range(0xFF00, 0x10000)),
    ]
    strange = ["".join(drawn.choices(letters, k=drawn.randint(1, 12))) for _ in range(1000)]
    for text in [*opus.HARD, *strange, *opus.lines("test_2016_flickr.en", 200)]:
        expected = [ids.get(piece, 1) for piece in theirs.encode(text, out_type=str)]
        assert words.encode(text) == expected, ascii(text)


def files_of(ids: dict[str, int], own: files.SentencePieces) -> Tokenizer:
    from qkv.text.foreign import unigram

    return unigram(ids, own.scores, own.table, {"</s>", "<unk>"}, "<unk>", "here")


@pytest.mark.parametrize("kind", ["bpe", "char", "word"])
def test_other_kinds_are_refused(kind: str, tmp_path: Path) -> None:
    changes = {"vocab_size": 300} if kind == "bpe" else {"vocab_size": 50, "hard_vocab_limit": False}
    place = opus.learn(tmp_path / "a.spm", opus.lines("train.en", 500), model_type=kind, **changes)
    with pytest.raises(qkv.errors.RefusedError, match=f"model_type: {kind} is not supported; expected unigram"):
        files.read(place)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"byte_fallback": True}, "byte pieces are not supported"),
        ({"user_defined_symbols": ["<sep>"]}, "user-defined pieces are not supported"),
        ({"add_dummy_prefix": False}, "add_dummy_prefix: false is not supported"),
        ({"remove_extra_whitespaces": False}, "remove_extra_whitespaces: false is not supported"),
        ({"treat_whitespace_as_suffix": True}, "treat_whitespace_as_suffix: true is not supported"),
    ],
    ids=["bytes", "user-defined", "no first space", "all spaces", "spaces behind"],
)
def test_other_settings_are_refused(changes: dict[str, Any], said: str, tmp_path: Path) -> None:
    place = opus.learn(tmp_path / "a.spm", opus.lines("train.en", 1000), vocab_size=700, **changes)
    with pytest.raises(qkv.errors.RefusedError, match=said):
        files.read(place)
