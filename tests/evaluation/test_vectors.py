"""Vectors of texts: any layer of any model, the fast path and the plain one, order, padding, truncation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import minilm
from models.suite import CONFIGS, CONTEXT, VOCABULARY, built
from qkv.errors import InputError
from qkv.evaluation import unpadded_bert, vectors
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.objectives.objective import padded
from text.kinds import tokenizer

BERT = BertConfig(vocabulary=VOCABULARY, layers=5, heads=3, width=24, context=CONTEXT)
SMALL = BertConfig(vocabulary=VOCABULARY, layers=1, heads=3, width=24, context=CONTEXT, segments=0)
ALL: dict[str, Any] = {
    **CONFIGS,
    "bert": BERT,
    "bert, one layer": SMALL,
    "classifier": ClassifierConfig(encoder=BERT, labels=("a", "b")),
}
EVERY = pytest.mark.parametrize("name", ALL)
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def rows(number: int = 17) -> list[list[int]]:
    """Texts of every length, none alike, in no order."""
    drawn = torch.Generator().manual_seed(1)
    lengths = [1 + (7 * row) % CONTEXT for row in range(number)]
    return [torch.randint(VOCABULARY, (length,), generator=drawn).tolist() for length in lengths]


def alone(model: nn.Module, row: list[int], layer: int) -> torch.Tensor:
    """The text by itself, through a hook on the part that gives the layer."""
    seen: list[torch.Tensor] = []
    inside = getattr(model, "encoder", model)
    hook = vectors.layer_modules(inside)[layer].register_forward_hook(lambda module, given, made: seen.append(made))
    with torch.no_grad():
        inside(torch.tensor([row]))
    hook.remove()
    return seen[0][0]


@EVERY
def test_each_text_has_the_vectors_it_has_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "BATCH_TOKENS", 40)  # several batches
    model = built(ALL[name])
    for layer in (0, 1, vectors.last_layer(model)):
        found = vectors.token_vectors(model, rows(), layer=layer)
        for row, each in zip(rows(), found, strict=True):
            torch.testing.assert_close(each, alone(model, row, layer), **CLOSE)


@pytest.mark.parametrize("name", ["bert", "bert, one layer", "classifier", "gpt", "modern-tied", "lstm"])
def test_half_the_bits_point_the_same_way(name: str) -> None:
    model = built(ALL[name])
    exact, short = vectors.text_vectors(model, rows()), vectors.text_vectors(model, rows(), precision="bf16")
    assert short.dtype == torch.float32
    assert torch.cosine_similarity(exact, short).min() > 0.999


@pytest.mark.parametrize("name", ["bert", "bert, one layer", "classifier", "gpt", "modern-tied", "lstm"])
def test_poolings(name: str) -> None:
    model = built(ALL[name])
    each = vectors.token_vectors(model, rows())
    by_hand = {
        "mean": [x.mean(0) for x in each],
        "first": [x[0] for x in each],
        "last": [x[-1] for x in each],
        "max": [x.amax(0) for x in each],
    }
    for pool, expected in by_hand.items():
        torch.testing.assert_close(vectors.text_vectors(model, rows(), pool=pool), torch.stack(expected), **CLOSE)


def test_layers_are_joined() -> None:
    model = built(BERT)
    last = [vectors.text_vectors(model, rows(), layer=layer) for layer in (2, 3, 4, 5)]
    stacked = torch.stack(last)
    torch.testing.assert_close(vectors.text_vectors(model, rows(), layer="mean"), stacked.mean(0), **CLOSE)
    torch.testing.assert_close(vectors.text_vectors(model, rows(), layer="sum"), stacked.sum(0), **CLOSE)
    torch.testing.assert_close(vectors.text_vectors(model, rows(), layer="concat"), torch.cat(last, -1), **CLOSE)
    assert torch.equal(vectors.text_vectors(model, rows(), layer=-2), last[-2])
    few = vectors.text_vectors(built(SMALL), rows(), layer="concat")
    assert few.shape == (17, 48), "two layers, where there are no four"


def test_a_decoders_last_layer_is_behind_its_norm() -> None:
    """As Hugging Face has it; and no head is computed."""
    model = built(ALL["modern"])
    model.head = nn.Identity()  # would give another width
    last = vectors.token_vectors(model, rows())
    torch.testing.assert_close(last[0], alone(model, rows()[0], -1), **CLOSE)
    assert last[0].shape[-1] == 24


@pytest.mark.parametrize("lengths", [[12] * 5, [12, 12, 7, 7, 7, 1], [3], [1, 1]])
@pytest.mark.parametrize("config", [BERT, SMALL, BertConfig(**{**vars(BERT), "hidden": 36, "heads": 2})])
def test_the_fast_path_is_the_plain_one(config: BertConfig, lengths: list[int]) -> None:
    model = built(config)
    assert unpadded_bert.fits(model)
    texts = [[(3 * place + row) % VOCABULARY for place in range(length)] for row, length in enumerate(lengths)]
    tokens, present = padded(texts)
    wanted = list(range(config.layers + 1))
    with torch.inference_mode():
        found = unpadded_bert.UnpaddedBert(model)(tokens, present, wanted)
        expected = vectors.hidden_states(model, tokens, present, wanted)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine[present], other[present], **CLOSE)


@pytest.mark.parametrize("size", [1, 13, 512])
def test_threads_share_the_texts(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are dealt out; and afterwards there are as many threads as before."""
    monkeypatch.setattr(unpadded_bert, "PORTION_TOKENS", size)
    model = built(BERT)
    expected = vectors.text_vectors(model, rows())
    torch.set_num_threads(3)
    try:
        torch.testing.assert_close(vectors.text_vectors(model, rows()), expected, **CLOSE)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(("lengths", "threads"), [([5], 2), ([600, 3, 3], 2), ([100] * 20, 2), ([7, 1, 1], 8)])
def test_every_text_is_dealt_out_once(lengths: list[int], threads: int) -> None:
    dealt = [row for portion in unpadded_bert._portions(lengths, threads) for row in range(len(lengths))[portion]]
    assert dealt == list(range(len(lengths)))


def test_who_looks_inside_gets_the_plain_path() -> None:
    model = built(BERT)
    seen = []
    model.blocks[1].attention.sublayer.mixed.register_forward_hook(lambda module, given, made: seen.append(made))
    assert not unpadded_bert.fits(model)
    vectors.text_vectors(model, rows())
    assert seen
    assert not unpadded_bert.fits(built(BERT).train())
    assert not unpadded_bert.fits(built(BERT).double())
    assert not unpadded_bert.fits(built(ALL["gpt"]))


def test_layers_that_are_not_there() -> None:
    model = built(BERT)
    for layer in (6, -7, 99):
        with pytest.raises(InputError, match=rf"layer {layer}: this model has 0 .* to 5, or -1 .* back to -6"):
            vectors.text_vectors(model, rows(), layer=layer)


def test_widths_that_differ() -> None:
    model = built(ALL["mlp-one-layer"])
    assert vectors.text_vectors(model, rows(), layer="concat").shape == (17, 29)
    with pytest.raises(InputError, match=r"widths differ \(5, 24\); take one layer, or concat"):
        vectors.text_vectors(model, rows(), layer="mean")


def test_no_texts() -> None:
    assert len(vectors.text_vectors(built(BERT), [])) == 0
    assert vectors.token_vectors(built(BERT), []) == []


def test_hooks_are_taken_away_and_nothing_is_left_in_inference() -> None:
    model = built(ALL["gpt"])
    found = vectors.text_vectors(model, rows())
    assert not any(module._forward_hooks for module in model.modules())
    assert not found.is_inference()
    assert not vectors.token_vectors(built(BERT), rows())[0].is_inference()
    assert not torch.is_inference_mode_enabled()


def test_texts_become_rows() -> None:
    words = tokenizer("words")
    found, _ = vectors.encode(words, ["", "a dog"], 512)
    assert found[0] == [words.separator]
    assert found[1] == words.encode("a dog")
    assert len(vectors.encode(words, ["a dog " * 50], 10)[0][0]) == 10


def test_a_long_text_keeps_what_closes_it() -> None:
    _, reader = minilm.opened()
    found, notes = vectors.encode(reader, ["a dog", "a dog " * 400, ""], 512)
    assert [len(row) for row in found] == [4, 512, 2]
    assert found[1][0] == 101
    assert found[1][-1] == 102
    assert notes == ["1 of 3 texts are longer than the context of 512 tokens; truncated."]
    with pytest.raises(InputError, match="a context of 2 has no room for a text"):
        vectors.encode(reader, ["a"], 2)
