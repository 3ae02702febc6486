"""Answers to many texts: in their order, and each as if it had been read alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from qkv.data.encode import EncodedRows, encode_texts, encode_words
from qkv.evaluation import decisions, unpadded_bert
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.image_cnn import PictureCNNConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.models.tagger import TaggerConfig
from small_tasks import sentences
from text.kinds import tokenizer

WORDS = tokenizer("wordpiece")
TEXTS = [text for text, _ in sentences(40)]
SHAPE: dict[str, Any] = {"vocabulary": WORDS.vocabulary, "width": 16, "context": 48}


def shaken(model: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(4)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def classifier(kind: str, **said: Any) -> torch.nn.Module:
    bert = {"bert": {}, "distilbert": {"segments": 0}, "pooler": {"pooler": "first"}}
    if kind in bert:
        encoder: Any = BertConfig(layers=2, heads=2, **SHAPE, **bert[kind])
    else:
        encoder = RecurrentEncoderConfig(**SHAPE)
    usual = "pooler" if kind == "pooler" else "mean"
    return shaken(ClassifierConfig(encoder=encoder, labels=("a", "b", "c"), **{"pooling": usual, **said}).build())


def rows(pairs: bool = False) -> EncodedRows:
    return encode_texts(WORDS, [(text, text[:20] if pairs else None) for text in TEXTS], 48, pairs=pairs)


def alone(model: torch.nn.Module, found: EncodedRows, number: int) -> torch.Tensor:
    """The scores of one text, without padding and without anything clever."""
    tokens = torch.from_numpy(found.row(number).astype(np.int64)).unsqueeze(0)
    segments = None
    if found.second_starts is not None:
        segments = (torch.arange(tokens.size(1)) >= int(found.second_starts[number])).long().unsqueeze(0)
    with torch.no_grad():
        return model(tokens, None, segments)[0]


@pytest.mark.parametrize("kind", ["bert", "distilbert", "pooler", "lstm"])
@pytest.mark.parametrize("pairs", [False, True])
def test_each_text_is_answered_as_if_alone(kind: str, pairs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = classifier(kind), rows(pairs)
    expected = torch.stack([alone(model, read, number) for number in range(len(TEXTS))])
    for together in (decisions.BATCH_TOKENS, 100):  # all at once, and a few at a time
        monkeypatch.setattr(decisions, "BATCH_TOKENS", together)
        single = decisions.predict(model, read, "single").values
        np.testing.assert_allclose(single, expected.softmax(-1).numpy(), atol=1e-5)
        several = decisions.predict(model, read, "multi").values
        np.testing.assert_allclose(several, expected.sigmoid().numpy(), atol=1e-5)
        number = decisions.predict(model, read, "regression").values
        np.testing.assert_allclose(number, expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("kind", ["bert", "pooler", "lstm"])
def test_half_the_bits_answer_alike(kind: str) -> None:
    model, read = classifier(kind), rows()
    exact, short = (
        decisions.predict(model, read, "single").values,
        decisions.predict(model, read, "single", precision="bf16").values,
    )
    assert short.dtype == np.float32
    assert np.abs(exact - short).max() < 0.05
    assert not np.array_equal(exact, short)


@pytest.mark.parametrize("pooling", ["mean", "first", "max", "last", "attention"])
def test_every_pooling(pooling: str) -> None:
    model, read = classifier("bert", pooling=pooling), rows()
    expected = torch.stack([alone(model, read, number) for number in range(len(TEXTS))])
    np.testing.assert_allclose(decisions.predict(model, read, "regression").values, expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("context", [48, 10])
def test_each_word_is_tagged_as_if_alone(context: int) -> None:
    read = encode_words(WORDS, [text.split() for text in TEXTS], context)
    encoder = BertConfig(layers=2, heads=2, **SHAPE)
    model = shaken(TaggerConfig(encoder=encoder, labels=("a", "b", "c")).build())
    found = decisions.predict(model, read, "single").values
    assert read.words is not None
    assert read.word_starts is not None
    for number in range(len(read)):
        begin, end = int(read.words[number]), int(read.words[number + 1])
        expected = alone(model, read, number).softmax(-1)[read.word_starts[begin:end]]
        np.testing.assert_allclose(found[begin:end], expected.numpy(), atol=1e-5)


def test_a_model_that_is_looked_into_is_asked_as_it_stands() -> None:
    """Hooks, adapted layers and training: the plain way, with the same answers."""
    model, read = classifier("pooler"), rows()
    expected = decisions.predict(model, read, "single").values
    encoder: Any = model.encoder
    assert unpadded_bert.fits(encoder)
    seen: list[torch.Tensor] = []
    hook = encoder.blocks[0].register_forward_hook(lambda module, given, made: seen.append(made))
    assert not unpadded_bert.fits(encoder)
    np.testing.assert_allclose(decisions.predict(model, read, "single").values, expected, atol=1e-5)
    assert seen
    hook.remove()
    model.train()
    np.testing.assert_allclose(decisions.predict(model, read, "single").values, expected, atol=1e-5)
    assert model.training
    assert encoder.training


def test_what_was_learned_since_counts() -> None:
    """Nothing of the weights is kept between two calls."""
    model, read = classifier("pooler"), rows()
    decisions.predict(model, read, "single")
    shaken(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    expected = torch.stack([alone(model, read, number) for number in range(len(TEXTS))]).softmax(-1)
    np.testing.assert_allclose(decisions.predict(model, read, "single").values, expected.numpy(), atol=1e-5)


def test_pictures_and_nothing() -> None:
    config = ClassifierConfig(encoder=PictureCNNConfig(height=12, width_pixels=12, channels=1), labels=("a", "b"))
    model = shaken(config.build())
    pixels = np.random.default_rng(0).integers(0, 255, (9, 12, 12), dtype=np.uint8)
    found = decisions.predict(model, pixels, "single").values
    with torch.no_grad():
        expected = model(torch.from_numpy(pixels).float()[..., None] / 255).softmax(-1)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)
    none = encode_texts(WORDS, [], 48, pairs=False)
    assert decisions.predict(classifier("bert"), none, "single").values.shape[0] == 0
    assert len(decisions.predict(classifier("bert"), encode_words(WORDS, [], 48), "single").values) == 0
