"""Parity with tiny random MarianMT models, both ways: scores, greedy and beamed translations, folders. No download."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import marian as made
import qkv
import translators
from qkv.generation.beam import Search, translate
from qkv.interop.marian import BIAS, marian
from qkv.interop.tensors import export_weights, import_weights
from qkv.recipe.bundle import Bundle, save

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

SHAPE: dict[str, Any] = {
    "vocab_size": translators.VOCABULARY, "d_model": 30, "encoder_layers": 2, "decoder_layers": 3,
    "encoder_attention_heads": 5, "decoder_attention_heads": 5, "encoder_ffn_dim": 44, "decoder_ffn_dim": 44,
    "max_position_embeddings": 24, "scale_embedding": True, "eos_token_id": 0, "pad_token_id": 18,
    "decoder_start_token_id": 18, "forced_eos_token_id": None,
}  # fmt: skip
LENGTH = 50


def theirs_of(**changes: Any) -> Any:
    """Every parameter random, norms and biases too: a start of ones and zeros would hide an exchange."""
    torch.manual_seed(7)
    model = MarianMTModel(MarianConfig(**{**SHAPE, **changes})).eval()
    for parameter in model.parameters():
        if parameter.requires_grad:  # not the waves
            nn.init.normal_(parameter, mean=0.5 if parameter.dim() == 1 else 0.0, std=0.3)
    nn.init.normal_(model.final_logits_bias)
    return model


def opened(model: Any, folder: Path) -> tuple[Any, Any]:
    """Our config and our model, from what their folder holds."""
    model.save_pretrained(folder)
    config = marian.import_config(json.loads((folder / "config.json").read_text()))
    weights = load_file(folder / "model.safetensors")
    kept = marian.tidy(config, weights)
    ours = config.build()
    ours.load_state_dict(import_weights(marian.table(config), {new: weights[old] for old, new in kept.items()}))
    return config, ours.eval()


def scores(model: Any, source: Tensor, present: Tensor, tokens: Tensor) -> Tensor:
    made: Tensor = model(source, attention_mask=present.long(), decoder_input_ids=tokens).logits
    return made


@pytest.mark.parametrize("activation", ["relu", "swish", "silu", "gelu"])
@torch.no_grad()
def test_the_same_scores(activation: str, tmp_path: Path) -> None:
    """All targets given, sources of unequal length; and the encoder's own vectors."""
    theirs = theirs_of(activation_function=activation)
    _, ours = opened(theirs, tmp_path)
    source, present, tokens = translators.batch()
    expected = scores(theirs, source, present, tokens)
    assert expected.abs().max() > 0.3, "a comparison of zeros says nothing"
    torch.testing.assert_close(ours(source, present, tokens), expected, atol=1e-5, rtol=1e-5)
    memory = theirs.get_encoder()(source, attention_mask=present.long()).last_hidden_state
    torch.testing.assert_close(ours.encode(source, present)[present], memory[present], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_same_scores_far_from_the_start(tmp_path: Path) -> None:
    """The waves are computed, not read: of an odd width, and at place 2,000 no worse than at the first."""
    theirs = theirs_of(max_position_embeddings=2048, d_model=25)
    _, ours = opened(theirs, tmp_path)
    torch.testing.assert_close(ours.positions.table, theirs.model.encoder.embed_positions.weight, atol=2e-7, rtol=0.0)
    drawn = torch.Generator().manual_seed(3)
    source, tokens = (torch.randint(19, (1, length), generator=drawn) for length in (2048, 300))
    present = torch.ones_like(source).bool()
    torch.testing.assert_close(
        ours(source, present, tokens), scores(theirs, source, present, tokens), atol=2e-5, rtol=1e-5
    )


def test_there_and_back(tmp_path: Path) -> None:
    """Bit for bit."""
    theirs = theirs_of()
    config, ours = opened(theirs, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    back = export_weights(marian.table(config), ours.state_dict())
    assert back.keys() == marian.tidy(config, weights).keys()
    assert all(torch.equal(back[key], weights[key]) for key in back)
    ids = ("eos_token_id", "pad_token_id", "decoder_start_token_id")
    assert marian.import_config({**marian.export_config(config), **{key: SHAPE[key] for key in ids}}) == config


def test_the_same_gradients(tmp_path: Path) -> None:
    theirs = theirs_of(dropout=0.0)
    config, ours = opened(theirs, tmp_path)
    source, present, tokens = translators.batch()
    source, tokens = source.clamp(max=17), tokens.clamp(max=17)  # theirs keeps the embedding of padding, 18, as it is
    for logits in (scores(theirs, source, present, tokens), ours(source, present, tokens)):
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    expected = {name: p.grad for name, p in theirs.named_parameters()}
    found = {name: p.grad for name, p in ours.named_parameters()}
    for key, gradient in export_weights(marian.table(config), found).items():
        if key == BIAS:  # theirs does not learn it
            continue
        torch.testing.assert_close(gradient, expected[key], atol=2e-5, rtol=1e-4, msg=lambda m, k=key: f"{k}: {m}")


def saved(folder: Path, ending: float = 0.0) -> Any:
    """A random model of theirs with a tokenizer, as people keep them: padding starts the decoder and is not written."""
    words = made.padded_words()
    end, padding = words.separator, words.padding
    ids = {"eos_token_id": end, "pad_token_id": padding, "decoder_start_token_id": padding}
    theirs = theirs_of(vocab_size=words.vocabulary, max_position_embeddings=64, **ids)
    theirs.final_logits_bias[0, end] += ending
    theirs.generation_config.bad_words_ids = [[padding]]
    theirs.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(words.published((), (end,)), encoding="utf-8")
    named = {"eos_token": "<|end|>", "pad_token": "<|pad|>"}
    PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **named).save_pretrained(folder)
    return theirs


def by_theirs(model: Any, rows: list[list[int]], **options: Any) -> list[list[int]]:
    """Translations by their own search, together, without what starts and fills them."""
    start, end = model.generation_config.decoder_start_token_id, model.generation_config.eos_token_id
    longest = max(len(row) for row in rows)
    source = torch.tensor([[*row, *[end] * (longest - len(row))] for row in rows])
    present = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    written = model.generate(source, attention_mask=present, max_new_tokens=LENGTH, **options).tolist()
    assert all(row[0] == start for row in written)
    return [row[1 : row.index(end, 1) if end in row[1:] else None] for row in written]


def by_ours(bundle: Bundle, rows: list[list[int]], beams: int) -> list[list[int]]:
    start, end = bundle.start_and_end
    search = Search(beams=beams, ratio=0.0, room=LENGTH, never=bundle.forbidden_ids)
    model: Any = bundle.model
    return [each[0].tokens for each in translate(model, rows, search, start=start, end=end)]


def rows_of(bundle: Bundle) -> list[list[int]]:
    return [[*bundle.tokenizer.encode(text), *bundle.tokenizer.closing] for text in made.SENTENCES]


@pytest.mark.parametrize("ending", [0.0, 6.0])
@pytest.mark.parametrize("beams", [1, 5])
def test_a_folder_of_theirs_translates_the_same(beams: int, ending: float, tmp_path: Path) -> None:
    theirs = saved(tmp_path / "in", ending)
    model = qkv.load(tmp_path / "in")
    rows = rows_of(model.bundle)
    assert rows == AutoTokenizer.from_pretrained(tmp_path / "in", local_files_only=True)(made.SENTENCES)["input_ids"]
    found = by_ours(model.bundle, rows, beams)
    assert found == by_theirs(theirs, rows, num_beams=beams)
    assert any(found)


def test_a_folder_of_theirs_in_and_out(tmp_path: Path) -> None:
    """Equal scores at 1e-5; after export and a second reading the weights are the same bits; theirs opens it again."""
    saved(tmp_path / "in")
    model = qkv.load(tmp_path / "in")
    compared = model.export(tmp_path / "out")
    assert len(compared) == 2
    assert all(each.passed and each.largest < 1e-5 for each in compared), [str(each) for each in compared]
    assert all(each.written == each.agreed > 20 for each in compared)
    before, after = load_file(tmp_path / "in" / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(after[key], tensor) for key, tensor in before.items())
    again = qkv.load(tmp_path / "out")
    assert again.bundle.config == model.bundle.config
    assert again.tokenizer.roles == model.tokenizer.roles
    copy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", local_files_only=True)
    assert copy.generation_config.bad_words_ids == [[model.tokenizer.padding]]


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "words", "characters"])
def test_what_we_made_translates_the_same_there(kind: str, tmp_path: Path) -> None:
    """The same ids, tags and special tokens, the same scores, 50 greedy tokens and beams, by theirs alone."""
    save(tmp_path / "ours", made.bundle(kind, ["de", "fr"]))
    model = qkv.load(tmp_path / "ours")
    compared = model.export(tmp_path / "out")
    assert all(each.passed and each.largest < 2e-5 for each in compared), [str(each) for each in compared]
    words = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    copy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", local_files_only=True).eval()
    assert type(copy) is MarianMTModel
    tag, (start, end) = model.tokenizer.named["<2fr>"], model.bundle.start_and_end
    closing = model.tokenizer.closing or (end,)
    rows = [[*model.tokenizer.opening, tag, *model.tokenizer.encode(text), *closing] for text in made.SENTENCES]
    given = words([f"<2fr>{text}" for text in made.SENTENCES], padding=True, return_tensors="pt")
    real = given["attention_mask"].bool()
    assert [ids[there].tolist() for ids, there in zip(given["input_ids"], real, strict=True)] == rows
    assert words.eos_token_id == copy.generation_config.eos_token_id == end
    assert copy.generation_config.decoder_start_token_id == start
    assert words.convert_tokens_to_ids("<2de>") == model.tokenizer.named["<2de>"]
    assert words.decode([tag, *rows[0][-3:]], skip_special_tokens=True).count("<2") == 0
    own: Any = model.bundle.model
    tokens = torch.randint(model.tokenizer.vocabulary, (3, 30), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        found, expected = own(given["input_ids"], real, tokens), scores(copy, given["input_ids"], real, tokens)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for beams in (1, 5):
        assert by_ours(model.bundle, rows, beams) == by_theirs(copy, rows, num_beams=beams)


@pytest.mark.parametrize("ending", [4.0, 8.0, 12.0])
def test_the_settings_search_as_we_do(ending: float, tmp_path: Path) -> None:
    """Nothing said to their `generate`: five beams, as `qkv translate`; texts that end by themselves are the same."""
    save(tmp_path / "ours", made.bundle(ending=ending))
    model = qkv.load(tmp_path / "ours")
    model.export(tmp_path / "out")
    words = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    copy = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out", local_files_only=True).eval()
    given = words(made.SENTENCES, padding=True, return_tensors="pt")
    theirs = [text.strip() for text in words.batch_decode(copy.generate(**given), skip_special_tokens=True)]
    ours = [best[0].text for best in model.translate(made.SENTENCES)]
    own, (start, end) = model.bundle.model, model.bundle.start_and_end
    rows = [[*model.tokenizer.encode(text), end] for text in made.SENTENCES]
    ended = [best[0].ended for best in translate(own, rows, Search(beams=5), start=start, end=end)]  # type: ignore[arg-type]
    assert any(ended)
    for one, other, done in zip(theirs, ours, ended, strict=True):
        assert one == other or not done  # lengths are bounded by other rules


def test_more_rows_than_tokens(tmp_path: Path) -> None:
    """Rows without a token are never written."""
    words = made.padded_words()
    config = made.config(words.vocabulary + 20)
    model = translators.built(config)
    with torch.no_grad():
        model.head.bias[words.vocabulary :] += 100.0
    bundle = Bundle(model, config, words, 0, source="elsewhere")
    save(tmp_path / "own", bundle)
    opened = qkv.load(tmp_path / "own")
    assert all(token < words.vocabulary for row in by_ours(opened.bundle, rows_of(opened.bundle), 1) for token in row)
    assert all(each.passed for each in opened.export(tmp_path / "out"))
